//! Services of IPv6, alone, first and second.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::scene::{Scene, Settings, play};
use crate::snapshot::Snapshot;

/// Configuration without networks of load balancers: the provider determines the Nodes' subnet of the first family.
const NOWHERE: &str = "subnet-id=\nnetwork-id=\ncreate-monitor=true\nmanage-security-groups=true";
const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

fn families(families: &[&str]) -> Value {
    let policy = if families.len() > 1 {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    json!({"spec": {"ipFamilies": families, "ipFamilyPolicy": policy}})
}

/// Returns the addresses that a Service shows.
fn shown(scene: &Scene, name: &str) -> Result<Vec<String>> {
    let service = scene.service(name)?;
    let ingress = service["status"]["loadBalancer"]["ingress"]
        .as_array()
        .into_iter()
        .flatten();
    Ok(ingress
        .map(|ingress| text(ingress, "ip").to_owned())
        .collect())
}

/// Returns the address ranges that the Services' security groups admit, by family, each once.
fn senders(now: &Snapshot) -> Vec<(String, String)> {
    let ours = now
        .all("security group")
        .filter(|object| text(object, "name").starts_with("lb-sg-"));
    let rules = ours
        .filter_map(|object| object["security_group_rules"].as_array())
        .flatten();
    let mut senders: Vec<_> = rules
        .map(|rules| {
            (
                text(rules, "ethertype").to_owned(),
                text(rules, "remote_ip_prefix").to_owned(),
            )
        })
        .collect();
    senders.sort();
    senders.dedup();
    senders
}

/// Checks that a Service has its VIPs in these subnets, is open to these ranges, and has one member of the family whose
/// addresses contain `mark`.
async fn is_reached(
    scene: &Scene,
    name: &str,
    subnets: &[&str],
    everybody: &[&str],
    mark: char,
) -> Result<()> {
    scene
        .balanced(name, "it has its listener and member", |balanced| {
            balanced.get(&80).is_some_and(|listener| {
                listener.listener["allowed_cidrs"] == json!(everybody)
                    && listener.members.len() == 1
                    && listener
                        .members
                        .iter()
                        .all(|member| text(member, "address").contains(mark))
            })
        })
        .await?;
    let path = format!("/loadbalancers/{}", scene.balancer_id(name)?);
    let balancer = scene.cloud.get(Api::Balancer, &path).await?["loadbalancer"].take();
    let further = balancer["additional_vips"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let vips: Vec<&str> = std::iter::once(text(&balancer, "vip_subnet_id"))
        .chain(further.iter().map(|further| text(further, "subnet_id")))
        .collect();
    ensure!(
        vips == subnets,
        "{name} has VIPs in {vips:?}, not in {subnets:?}"
    );
    let shown = shown(scene, name)?;
    ensure!(
        shown.len() == vips.len(),
        "{name} shows {shown:?}, and has VIPs in {vips:?}"
    );
    if let Some(second) = further.first() {
        ensure!(
            shown[1] == text(second, "ip_address"),
            "{name} shows {shown:?}, not {second}"
        );
    }
    let floating = scene
        .cloud
        .list(
            Api::Network,
            &format!("/floatingips?floating_ip_address={}", shown[0]),
        )
        .await?;
    let is_floating = subnets[0] == scene.project.subnet;
    ensure!(
        floating.len() == usize::from(is_floating),
        "{name} shows {shown:?}; floating IPs: {floating:?}"
    );
    ensure!(
        is_floating || shown[0] == text(&balancer, "vip_address"),
        "{name} shows {shown:?}: {balancer}"
    );
    Ok(())
}

pub(crate) async fn services_are_reached_by_ipv6_alone_first_and_second(
    environment: &Environment,
) -> Result<()> {
    let settings = Settings {
        label: "families",
        balancers: NOWHERE,
        starts_later: true,
        ..Settings::default()
    };
    play(environment, settings, async |scene| {
        let six = json!({"subnet": {"name": "six", "network_id": scene.project.network, "ip_version": 6,
            "cidr": "fd06::/64"}});
        let six = text(&scene.cloud.post(Api::Network, "/subnets", six).await?, "id").to_owned();
        // New servers have an address of each family from now on.
        let fourth = scene.project.add_servers(&scene.cloud, &["worker-4".to_owned()]).await?;
        scene.start()?;
        scene.join(&["worker-4"]).await?;
        scene
            .becomes("worker-4", "an address of each family", |node| {
                let of = |part: &str| {
                    let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
                    addresses.any(|address| address["type"] == "InternalIP" && text(address, "address").starts_with(part))
                };
                of("10.6.") && of("fd06:")
            })
            .await?;
        scene.did("a Node has an address of each family");

        scene.create_service("alone", &[(80, 30080)], families(&["IPv6"])).await;
        scene.create_service("first", &[(80, 30081)], families(&["IPv6", "IPv4"])).await;
        scene.create_service("second", &[(80, 30082)], families(&["IPv4", "IPv6"])).await;
        for name in ["alone", "first", "second"] {
            scene.published(name).await?;
        }
        let four = scene.project.subnet.clone();
        is_reached(scene, "alone", &[&six], &EVERYBODY[1..], ':').await?;
        is_reached(scene, "first", &[&six, &four], &EVERYBODY, ':').await?;
        is_reached(scene, "second", &[&four, &six], &EVERYBODY, '.').await?;
        let pair = |family: &str, range: &str| (family.to_owned(), range.to_owned());
        let wanted = [pair("IPv4", "10.6.0.0/16"), pair("IPv6", "fd06::/64")];
        scene.holds("the security groups let both subnets in", |now| senders(now) == wanted).await?;
        let skipped = scene.events("LoadBalancerFloatingIPSkipped");
        scene.did(&format!("three Services are reached by IPv6: alone, first, second; {} events", skipped.len()));

        let only = json!({"spec": {"loadBalancerSourceRanges": ["2001:db8::/32"]}});
        scene.change_service("first", only).await?;
        scene
            .balanced("first", "only some may reach it", |balanced| {
                balanced[&80].listener["allowed_cidrs"] == json!(["2001:db8::/32"])
            })
            .await?;
        scene.restarts_without_a_change().await?;
        scene.did("the source ranges of one were changed, and nothing by a restart");

        scene.delete_services(&["alone", "first", "second"]).await?;
        scene.holds("no load balancer is left", |now| now.all("load balancer").next().is_none()).await?;
        scene.end().await?;
        let server = &fourth.first().context("no server")?.id;
        scene.project.delete_server(&scene.cloud, server).await?;
        scene.cloud.delete(Api::Network, &format!("/subnets/{six}")).await?;
        scene.did("they were deleted");
        Ok(())
    })
    .await
}
