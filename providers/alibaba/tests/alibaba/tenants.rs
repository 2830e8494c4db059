//! Limits of the author of a Service: settings of load balancers of users, and server groups of others.

use alibaba_fake::World;
use cloud_provider::{Caches, CloudProvider, LoadBalancerRequest};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, cluster, network};
use crate::reused::{add_balancer, of_user, service};

/// Adds a server group of another load balancer, or one that another cluster created, without backends.
fn add_group(cloud: &mut World, is_network: bool, [id, name, balancer]: [&str; 3]) {
    match is_network {
        false => cloud.add(
            "vgroup",
            json!({"VServerGroupId": id, "LoadBalancerId": balancer, "VServerGroupName": name,
                "BackendServers": {"BackendServer": []}}),
        ),
        true => {
            cloud.add(
                "group",
                json!({"ServerGroupId": id, "ServerGroupName": name, "Protocol": "TCP", "Tags": [], "HealthCheck": {},
                    "_servers": []}),
            );
            cloud.add(
                "listener",
                json!({"LoadBalancerId": balancer, "ListenerId": format!("lsn-{id}"), "ListenerPort": 9000,
                    "ListenerProtocol": "TCP", "ListenerStatus": "Running", "ListenerDescription": "x", "ServerGroupId": id}),
            );
        }
    };
}

#[tokio::test(start_paused = true)]
async fn settings_of_a_load_balancer_of_a_user_stay_and_are_reported() {
    let of_balancer: [&[(&str, &str)]; 2] = [
        &[
            ("name", "taken"),
            ("additional-resource-tags", "team=mine"),
            ("charge-type", "paybybandwidth"),
            ("bandwidth", "5"),
            ("instance-charge-type", "PayBySpec"),
            ("spec", "slb.s3.large"),
            ("delete-protection", "on"),
            ("modification-protection", "ConsoleProtection"),
        ],
        &[
            ("name", "taken"),
            ("additional-resource-tags", "team=mine"),
            ("ipv6-address-type", "internet"),
            ("security-group-ids", "sg-mine"),
            ("bandwidth-package-id", "cbwp-mine"),
            ("cross-zone-enabled", "on"),
        ],
    ];
    for (is_network, settings) in [false, true].into_iter().zip(of_balancer) {
        for overrides in ["false", "true"] {
            let harness = Harness::new().at_once();
            let id = add_balancer(&harness, is_network);
            let is_this_object = |object: &&Value| object["LoadBalancerName"] == "users";
            let found = || {
                of_user(&harness, is_network)
                    .iter()
                    .find(is_this_object)
                    .cloned()
            };
            let without_tags = |entry: Option<Value>| {
                let mut entry = entry.expect("the load balancer keeps its name");
                entry["Tags"] = Value::Null;
                entry
            };
            let before = without_tags(found());
            let annotations = [
                &[("id", &*id), ("force-override-listeners", overrides)],
                settings,
            ]
            .concat();
            let mut service = service(is_network, &annotations);
            harness
                .ensure(&harness.started().await, &mut service)
                .await
                .unwrap();
            assert_eq!(without_tags(found()), before, "{annotations:?}");
            let tags = found().unwrap()["Tags"].to_string();
            assert!(!tags.contains("mine"), "{tags}");
            let events: Vec<_> = harness
                .cluster
                .take_events()
                .iter()
                .map(ToString::to_string)
                .collect();
            for (key, _) in settings {
                let is_this_text = |text: &&String| {
                    text.contains(key) && text.contains("has no effect on a load balancer of yours")
                };
                assert!(
                    events.iter().any(|event| is_this_text(&event)),
                    "{key}: {events:?}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_group_of_another_load_balancer_or_cluster_gets_no_backends() {
    for (is_network, id, balancer, name) in [
        (false, "rsp-theirs", "lb-theirs", "theirs"),
        (
            false,
            "rsp-theirs",
            "lb-users",
            "k8s/30080/web/default/other",
        ),
        (true, "sgp-theirs", "nlb-theirs", "theirs"),
        (
            true,
            "sgp-theirs",
            "nlb-users",
            "k8s.80.TCP.web.default.other",
        ),
    ] {
        let harness = Harness::new().at_once();
        let own = add_balancer(&harness, is_network);
        add_group(&mut harness.fake.lock(), is_network, [id, name, balancer]);
        let group = || {
            let cloud = harness.fake.lock();
            let all = cloud
                .all(if is_network { "group" } else { "vgroup" })
                .to_vec();
            all.into_iter()
                .find(|object| object["VServerGroupId"] == id || object["ServerGroupId"] == id)
                .unwrap()
        };
        let before = group();
        let groups = format!("{id}:80");
        let mut service = service(is_network, &[("id", &*own), ("vgroup-port", &groups)]);
        let error = harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap_err()
            .to_string();
        let expected = if name == "theirs" {
            format!("is not of load balancer {own}")
        } else {
            "by Kubernetes".to_owned()
        };
        assert!(error.contains(&expected), "{name}: {error}");
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        assert_eq!(group(), before, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn name_that_is_generated_for_another_service_is_refused() {
    let name = "a0123456789abcdef0123456789abcde";
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let mut service = if is_network {
            network(&[])
        } else {
            service(false, &[])
        };
        annotate(&mut service, "name", name);
        let error = harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(name),
            "{error}"
        );
        assert_eq!(harness.changes(), [""; 0]);
        annotate(&mut service, "name", "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1");
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn answer_of_another_form_is_no_panic() {
    for odd in [json!("x"), json!(["x"]), json!(7), Value::Null] {
        let harness = Harness::new().at_once();
        let mut services = [service(false, &[]), network(&[])];
        services[1].metadata.uid = Some("1b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".to_owned());
        for service in &mut services {
            harness
                .ensure(&harness.started().await, service)
                .await
                .unwrap();
        }
        {
            let mut cloud = harness.fake.lock();
            cloud
                .each("classic listener")
                .iter_mut()
                .for_each(|classic_listener| classic_listener["TCPListenerConfig"] = odd.clone());
            cloud
                .each("group")
                .iter_mut()
                .for_each(|group| group["HealthCheck"] = odd.clone());
            cloud
                .each("network")
                .iter_mut()
                .for_each(|network| network["ZoneMappings"] = json!([odd]));
        }
        for service in &mut services {
            let provider = harness.started().await;
            let request = LoadBalancerRequest {
                cluster: &cluster(),
                service,
                nodes: &harness.cluster.nodes(),
                callbacks: &(),
            };
            let _ = provider.load_balancers().unwrap().ensure(request).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_the_required_tag_is_not_used() {
    for (tag, is_used) in [("team=web", false), ("team=x", true), ("team", true)] {
        let harness = Harness::new().at_once().requiring(tag);
        let id = add_balancer(&harness, false);
        let before = of_user(&harness, false);
        let mut service = service(false, &[("id", &id), ("force-override-listeners", "true")]);
        let outcome = harness.ensure(&harness.started().await, &mut service).await;
        assert_eq!(outcome.is_ok(), is_used, "{tag}: {outcome:?}");
        match outcome {
            Ok(_) => harness
                .delete(&harness.started().await, &service)
                .await
                .unwrap(),
            Err(error) => {
                assert!(
                    error.is_invalid() && error.to_string().contains("give it the tag team=web"),
                    "{error}"
                );
                assert_eq!(of_user(&harness, false), before);
            }
        }
    }
}
