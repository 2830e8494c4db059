//! Services and their load balancers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::scene::{Listener, Settings, play};
use crate::snapshot::Snapshot;

const PREFIX: &str = "loadbalancer.openstack.org/";

/// Configuration with all resources that a Service may have.
pub(crate) const EVERYTHING: &str =
    "create-monitor=true\nmonitor-delay=5s\nmonitor-timeout=3s\nmanage-security-groups=true";

fn annotations(pairs: &[(&str, Value)]) -> Value {
    let map: serde_json::Map<_, _> = pairs
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), value.clone()))
        .collect();
    json!({"metadata": {"annotations": map}})
}

fn members(names: &[&str], port: u64) -> Vec<(String, u64)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), port))
        .collect()
}

/// Returns the rules of our security group: port and range.
pub(crate) fn rules(now: &Snapshot) -> Vec<(u64, String)> {
    let ours = now
        .all("security group")
        .filter(|object| text(object, "name").starts_with("lb-sg-"));
    let rules = ours
        .filter_map(|object| object["security_group_rules"].as_array())
        .flatten();
    let rule = |object: &Value| {
        (
            object["port_range_min"].as_u64().unwrap_or_default(),
            text(object, "remote_ip_prefix").to_owned(),
        )
    };
    let mut rules: Vec<_> = rules.map(rule).collect();
    rules.sort();
    rules
}

/// Returns the number of ports with a security group of this program.
pub(crate) fn carriers(now: &Snapshot) -> usize {
    let ours: Vec<&str> = now
        .all("security group")
        .filter(|object| text(object, "name").starts_with("lb-sg-"))
        .map(|object| text(object, "id"))
        .collect();
    let carries = |port: &&Value| {
        port["security_groups"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|security_group| {
                security_group
                    .as_str()
                    .is_some_and(|text| ours.contains(&text))
            })
    };
    now.all("port").filter(carries).count()
}

pub(crate) async fn a_service_is_made_changed_and_taken_away(
    environment: &Environment,
) -> Result<()> {
    let settings = Settings {
        label: "services",
        balancers: EVERYTHING,
        ..Settings::default()
    };
    play(environment, settings, async |scene| {
        scene.join(&["worker-1", "worker-2"]).await?;
        let ranges = json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24", "198.51.100.0/24"]}});
        scene.create_service("web", &[(80, 30080), (443, 30443)], ranges).await;
        let address = scene.published("web").await?;
        let both = ["worker-1", "worker-2"];
        scene
            .balanced("web", "two listeners with two members each", |balanced| {
                balanced.len() == 2
                    && balanced[&80].members() == members(&both, 30080)
                    && balanced[&443].members() == members(&both, 30443)
                    && balanced.values().all(|listener| listener.listener["allowed_cidrs"] == json!(["192.0.2.0/24", "198.51.100.0/24"]))
                    && balanced.values().all(|listener| listener.monitor["type"] == "TCP" && listener.monitor["delay"] == 5)
            })
            .await?;
        let floating = scene.cloud.list(Api::Network, &format!("/floatingips?floating_ip_address={address}")).await?;
        ensure!(floating.len() == 1, "{address} is not the floating IP: {floating:?}");
        ensure!(
            floating[0]["description"]
                == "Floating IP for Kubernetes external service default/web from cluster services",
            "{}",
            floating[0]
        );
        let subnet = "10.6.0.0/16".to_owned();
        scene
            .holds("the security group opens the node ports and is on both servers' ports", |now| {
                rules(now) == [(30080, subnet.clone()), (30443, subnet.clone())] && carriers(now) == 2
            })
            .await?;
        scene.did(
            "a load balancer with two ports, monitors, source ranges, a floating IP and a security group was made",
        );

        scene.set_ports("web", &[(8080, 30081), (443, 30443)]).await?;
        scene
            .balanced("web", "the ports are others", |balanced| {
                balanced.keys().copied().eq([443, 8080]) && balanced[&8080].members() == members(&both, 30081)
            })
            .await?;
        scene.holds("so are the rules", |now| rules(now) == [(30081, subnet.clone()), (30443, subnet.clone())]).await?;
        scene.did("a port was replaced");

        scene.change_service("web", json!({"spec": {"loadBalancerSourceRanges": ["203.0.113.0/24"]}})).await?;
        scene
            .balanced("web", "the source ranges are others", |balanced| {
                balanced.values().all(|listener| listener.listener["allowed_cidrs"] == json!(["203.0.113.0/24"]))
            })
            .await?;
        scene.did("the source ranges were changed");

        let changed = annotations(&[
            ("connection-limit", json!("1000")),
            ("timeout-client-data", json!("60000")),
            ("lb-method", json!("LEAST_CONNECTIONS")),
            ("health-monitor-delay", json!("7")),
        ]);
        scene.change_service("web", changed).await?;
        scene.change_service("web", json!({"spec": {"sessionAffinity": "ClientIP"}})).await?;
        scene
            .balanced("web", "limits, timeouts, method, affinity and monitors are others", |balanced| {
                balanced.values().all(|listener| {
                    listener.listener["connection_limit"] == 1000
                        && listener.listener["timeout_client_data"] == 60000
                        && listener.pool["lb_algorithm"] == "LEAST_CONNECTIONS"
                        && listener.pool["session_persistence"]["type"] == "SOURCE_IP"
                        && listener.monitor["delay"] == 7
                })
            })
            .await?;
        scene.did("annotations and the session affinity were changed");

        scene.change_service("web", annotations(&[("enable-health-monitor", json!("false"))])).await?;
        scene.balanced("web", "no monitors", |balanced| balanced.values().all(|listener| listener.monitor.is_null())).await?;
        scene.did("the health monitors were switched off");

        scene.join(&["worker-3"]).await?;
        let all = ["worker-1", "worker-2", "worker-3"];
        let are = |entry: &BTreeMap<u64, Listener>, names: &[&str]| {
            entry[&443].members() == members(names, 30443) && entry[&8080].members() == members(names, 30081)
        };
        scene.balanced("web", "three members", |balanced| are(balanced, &all)).await?;
        scene.holds("its port carries the security group", |now| carriers(now) == 3).await?;
        scene.did("a Node joined");
        let excluded =
            json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}}});
        ensure!(scene.user.patch_node("worker-1", &excluded).await, "no Node worker-1");
        scene.balanced("web", "two members", |balanced| are(balanced, &all[1..])).await?;
        scene.holds("its port carries the security group no more", |now| carriers(now) == 2).await?;
        scene.did("a Node was excluded");

        scene.is_calm(Duration::from_secs(5)).await?;
        scene.restarts_without_a_change().await?;
        ensure!(scene.published("web").await? == address, "the address is another one");
        scene.did("nothing was changed in a steady state, nor by a restart");

        scene.delete_service("web").await?;
        scene.did("the Service and its load balancer were deleted");
        Ok(())
    })
    .await
}
