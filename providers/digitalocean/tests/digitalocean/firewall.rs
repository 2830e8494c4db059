//! Tests of the worker firewall.

use std::time::Duration;

use cloud_provider::Service;
use digitalocean_fake::Fault;
use serde_json::{Value, json};

use crate::harness::{Harness, service_of};

/// IDs of load balancers.
const ONE: &str = "4de7ac8b-495b-4884-9a69-1050c6793cd6";
const TWO: &str = "56775c3f-04ab-4fb3-a7ed-40ef9bc8eece";

fn harness() -> Harness {
    Harness::new()
        .set("PUBLIC_ACCESS_FIREWALL_NAME", "workers")
        .set("PUBLIC_ACCESS_FIREWALL_TAGS", "k8s,k8s:worker")
}

fn set(harness: &Harness, services: Vec<Service>) {
    harness.cluster.set_services(services);
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(10)).await;
}

/// Returns the rules as `protocol ports sources`.
fn rules(harness: &Harness) -> Vec<String> {
    let firewalls = harness.fake.firewalls();
    assert_eq!(firewalls.len(), 1, "{firewalls:?}");
    let text = |object: &Value| object.as_str().unwrap_or_default().to_owned();
    let rule = |object: &Value| {
        let sources = object["sources"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|source| source.as_array().unwrap());
        let sources: Vec<_> = sources.map(text).collect();
        format!(
            "{} {} {}",
            text(&object["protocol"]),
            text(&object["ports"]),
            sources.join(",")
        )
    };
    let mut rules: Vec<_> = firewalls[0]["inbound_rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(rule)
        .collect();
    rules.sort();
    rules
}

#[tokio::test(start_paused = true)]
async fn it_admits_node_ports_and_what_network_load_balancers_need() {
    let harness = harness();
    let id = "kubernetes.digitalocean.com/load-balancer-id";
    let port =
        |port: u16, protocol: &str| json!([{"port": 90, "nodePort": port, "protocol": protocol}]);
    let node_port = |number, protocol| {
        service_of(
            &[],
            json!({"type": "NodePort", "ports": port(number, protocol)}),
        )
    };
    let managed = "kubernetes.digitalocean.com/firewall-managed";
    set(
        &harness,
        vec![
            node_port(31000, "TCP"),
            node_port(31001, "UDP"),
            node_port(31002, "SCTP"),
            service_of(
                &[(managed, "false")],
                json!({"type": "NodePort", "ports": port(31003, "TCP")}),
            ),
            service_of(&[], json!({"type": "ClusterIP"})),
            service_of(&[("type", "REGIONAL")], json!({})),
            service_of(
                &[(id, ONE)],
                json!({"loadBalancerSourceRanges": ["198.51.100.0/24"]}),
            ),
            service_of(
                &[(id, TWO)],
                json!({"ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}]}),
            ),
            service_of(&[("type", "GLOBAL")], json!({})),
        ],
    );
    let _provider = harness.started().await;
    settle().await;
    let any = "0.0.0.0/0,::/0";
    let expected = [
        format!("tcp 10256 {ONE},{TWO}"),
        format!("tcp 31000 {any}"),
        "tcp 443 198.51.100.0/24".to_owned(),
        "tcp 80 198.51.100.0/24".to_owned(),
        format!("udp 31001 {any}"),
        format!("udp 53 {any}"),
    ];
    assert_eq!(rules(&harness), expected);
    let firewall = &harness.fake.firewalls()[0];
    assert_eq!(
        (&firewall["name"], &firewall["tags"]),
        (&json!("workers"), &json!(["k8s", "k8s:worker"]))
    );
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.starts_with("FirewallConfigError")),
        "the wrong Service is told"
    );

    harness.fake.forget_requests();
    tokio::time::sleep(Duration::from_secs(16 * 60)).await;
    assert_eq!(harness.fake.changes(), []);
    assert_eq!(
        harness.fake.counts(),
        [("GET /firewalls/{id}".to_owned(), 3)].into(),
        "every five minutes, by ID"
    );
}

#[tokio::test(start_paused = true)]
async fn it_follows_services_and_mends_what_was_changed_by_hand() {
    let harness = harness();
    let _provider = harness.started().await;
    settle().await;
    assert_eq!(rules(&harness), Vec::<String>::new());
    harness
        .fake
        .fail(Fault::refused("PUT /firewalls/{id}", 500).times(9));
    set(&harness, vec![service_of(&[], json!({"type": "NodePort"}))]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        rules(&harness),
        ["tcp 30080 0.0.0.0/0,::/0", "tcp 30443 0.0.0.0/0,::/0"]
    );
    harness.fake.change_firewalls(|firewall| {
        firewall["inbound_rules"] = json!([]);
        firewall["droplet_ids"] = json!([7]);
    });
    tokio::time::sleep(Duration::from_secs(330)).await;
    assert_eq!(
        (
            rules(&harness).len(),
            &harness.fake.firewalls()[0]["droplet_ids"]
        ),
        (2, &json!([7]))
    );
}

#[tokio::test(start_paused = true)]
async fn it_admits_packets_as_long_as_a_network_load_balancer_passes_them_on() {
    let harness = harness();
    let provider = harness.started().await;
    let mut service = service_of(&[], json!({}));
    harness.ensure(&provider, &mut service).await.unwrap();
    set(&harness, vec![service.clone()]);
    settle().await;
    let before = rules(&harness);
    assert!(
        before.contains(&"tcp 80 0.0.0.0/0,::/0".to_owned()),
        "{before:?}"
    );
    // The replacement is not allowed, so that the load balancer stays in use.
    crate::harness::set(&mut service, "type", "REGIONAL");
    set(&harness, vec![service.clone()]);
    settle().await;
    assert_eq!(rules(&harness), before);
    harness.ensure(&provider, &mut service).await.unwrap_err();
    settle().await;
    assert_eq!(rules(&harness), before);

    crate::harness::set(&mut service, "allow-recreate", "true");
    harness.ensure(&provider, &mut service).await.unwrap();
    settle().await;
    assert_eq!(rules(&harness), Vec::<String>::new());
}
