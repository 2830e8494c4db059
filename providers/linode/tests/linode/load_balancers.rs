//! NodeBalancers over their life.

use std::collections::BTreeMap;

use cloud_provider::{Caches, LoadBalancerStatus, Node};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, service, service_of};
use linode_fake::SUBNET;

pub(crate) const PEM: &str = "-----BEGIN CERTIFICATE-----\nAQIDBA==\n-----END CERTIFICATE-----\n";
const OTHER_PEM: &str = "-----BEGIN CERTIFICATE-----\nBQYHCA==\n-----END CERTIFICATE-----\n";

fn shown(status: &LoadBalancerStatus) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    status
        .ingress
        .iter()
        .flatten()
        .map(|ingress| {
            format!(
                "{} {} {}",
                text(&ingress.ip),
                text(&ingress.hostname),
                text(&ingress.ip_mode)
            )
        })
        .collect()
}

fn config(configs: &[Value], port: u64) -> &Value {
    configs
        .iter()
        .find(|config| config["port"] == port)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn nodebalancer_is_created_with_one_request_and_not_changed_afterwards() {
    let harness = Harness::new().set("--nodebalancer-tags", "global");
    let provider = harness.started().await;
    let mut service = service(&[("tags", "mine"), ("throttle", "30")]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let (made, configs) = harness.nodebalancer();
    let tags = [
        "kubernetes",
        "global",
        "mine",
        "ccmrs-cluster:5c1d",
        "ccmrs-service:0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11",
    ];
    assert_eq!(
        (&made["tags"], &made["client_conn_throttle"], configs.len()),
        (&json!(tags), &json!(20), 2)
    );
    let [ip, host] = ["ipv4", "hostname"].map(|key| made[key].as_str().unwrap());
    assert_eq!(shown(&status), [format!("{ip} {host} ")]);
    let nodes = config(&configs, 80)["nodes"].clone();
    assert_eq!(
        (&nodes[0]["address"], &nodes[1]["label"]),
        (&json!("192.168.0.1:30080"), &json!("worker-2"))
    );
    assert_eq!(harness.changes().len(), 1);

    // The program starts again.
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().nodebalancers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn rebuild_keeps_the_ids_of_backends() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let ids = || {
        let nodes = config(&harness.nodebalancer().1, 80)["nodes"].clone();
        let id = |object: &Value| {
            (
                object["address"].to_string(),
                object["id"].as_u64().unwrap(),
            )
        };
        nodes
            .as_array()
            .unwrap()
            .iter()
            .map(id)
            .collect::<BTreeMap<_, _>>()
    };
    let before = ids();
    harness.add_node("worker-3");
    harness.ensure(&provider, &mut service).await.unwrap();
    let after = ids();
    assert_eq!(after.len(), 3);
    assert!(
        before
            .iter()
            .all(|(address, id)| after.get(address) == Some(id)),
        "{before:?} {after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodebalancer_of_the_go_program_is_taken_over_without_a_change() {
    for by in ["ip", "hostname"] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[]);
        harness.ensure(&provider, &mut service).await.unwrap();
        {
            let mut cloud = harness.fake.lock();
            cloud.nodebalancers[0]["label"] = "ccm-4a5b6c7d8e9f".into();
            cloud.nodebalancers[0]["tags"] = json!(["kubernetes"]);
        }
        let made = harness.nodebalancer().0;
        let entry = if by == "ip" {
            json!({"ip": made["ipv4"]})
        } else {
            json!({"hostname": made["hostname"]})
        };
        service.status =
            Some(serde_json::from_value(json!({"loadBalancer": {"ingress": [entry]}})).unwrap());
        let provider = harness.started().await;
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "found by {by}");
        annotate(&mut service, "throttle", "5");
        harness.ensure(&provider, &mut service).await.unwrap();
        let tags = harness.nodebalancer().0["tags"].as_array().unwrap().len();
        assert_eq!(tags, 3, "owner tags come with the first change");
    }
}

#[tokio::test(start_paused = true)]
async fn status_shows_what_the_annotations_ask_for() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[
        ("enable-ipv6-ingress", "true"),
        ("default-proxy-protocol", "v2"),
    ]);
    let both = harness.ensure(&provider, &mut service).await.unwrap();
    let shown_both = shown(&both);
    assert!(
        shown_both.len() == 2 && shown_both.iter().all(|text| text.ends_with(" Proxy")),
        "{shown_both:?}"
    );
    assert!(shown_both[1].starts_with("2600:"), "{shown_both:?}");
    annotate(&mut service, "hostname-only-ingress", "true");
    let name = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(name.ingress.unwrap()[0].ip, None);
}

#[tokio::test(start_paused = true)]
async fn certificate_is_sent_and_compared_by_its_fingerprint() {
    let harness = Harness::new();
    harness.set_certificate(Some(PEM));
    let provider = harness.started().await;
    let mut service = service(&[(
        "port-443",
        r#"{"protocol": "https", "tls-secret-name": "web-tls"}"#,
    )]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let configs = harness.nodebalancer().1;
    assert_eq!(
        (
            &config(&configs, 443)["protocol"],
            &config(&configs, 443)["stickiness"]
        ),
        (&json!("https"), &json!("table"))
    );
    harness.fake.fault_injector().forget_requests();
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.set_certificate(Some(OTHER_PEM));
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes().len(), 1, "one rebuild");
    harness.set_certificate(None);
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Secret default/web-tls does not exist"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn tcp_and_udp_share_a_port() {
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "nodePort": 30053, "protocol": protocol});
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service_of(&[], json!({"ports": [port("t", "TCP"), port("u", "UDP")]}));
    harness.ensure(&provider, &mut service).await.unwrap();
    let configs = harness.nodebalancer().1;
    let udp = configs
        .iter()
        .find(|config| config["protocol"] == "udp")
        .unwrap();
    assert_eq!(
        (configs.len(), &udp["stickiness"], &udp["check"]),
        (2, &json!("session"), &json!("none"))
    );
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn wrong_annotations_name_value_and_choices() {
    let harness = Harness::new();
    let provider = harness.started().await;
    for (key, value, expected) in [
        ("default-proxy-protocol", "v3", "none, v1, v2"),
        (
            "default-algorithm",
            "ring_hash",
            "roundrobin, leastconn, source",
        ),
        ("port-80", "{", "JSON object"),
        (
            "port-80",
            r#"{"protocol": "sctp"}"#,
            "tcp, udp, http, https",
        ),
        ("port-80", r#"{"protocol": "https"}"#, "tls-secret-name"),
        (
            "port-80",
            r#"{"protocol": "udp", "proxy-protocol": "v1"}"#,
            "not possible with UDP",
        ),
        (
            "port-80",
            r#"{"protocol": "http", "stickiness": "session"}"#,
            "none, table, http_cookie",
        ),
        ("check-type", "http_body", "check-body"),
        ("check-interval", "x", "whole number"),
        ("firewall-id", "x", "whole number"),
        (
            "firewall-acl",
            r#"{"allowList": {}, "denyList": {}}"#,
            "one of allowList and denyList",
        ),
        ("frontend-ipv4-range", "10.0.0.0/30", "frontend-subnet-id"),
        ("frontend-vpc-name", "pods", "set both or neither"),
    ] {
        let error = harness
            .ensure(&provider, &mut service(&[(key, value)]))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{key}: {value}: {error}");
    }
    assert!(harness.fake.lock().nodebalancers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn preserved_nodebalancer_stays_and_a_reserved_address_is_released_on_demand() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut kept = service(&[("preserve", "true")]);
    harness.ensure(&provider, &mut kept).await.unwrap();
    harness.delete(&provider, &kept).await.unwrap();
    assert_eq!(
        harness.nodebalancer().0["tags"],
        json!(["kubernetes"]),
        "without owner tags"
    );

    let harness = Harness::new();
    let provider = harness.started().await;
    let mut released = service(&[
        ("reserved-ipv4", "203.0.113.99"),
        ("retain-reserved-ipv4", "false"),
    ]);
    harness.ensure(&provider, &mut released).await.unwrap();
    annotate(&mut released, "reserved-ipv4", "203.0.113.100");
    harness.ensure(&provider, &mut released).await.unwrap();
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("NodeBalancerIPChangeIgnored")),
        "{events:?}"
    );
    harness.delete(&provider, &released).await.unwrap();
    assert_eq!(harness.fake.lock().released, ["203.0.113.99"]);
}

#[tokio::test(start_paused = true)]
async fn backends_in_a_vpc_name_their_subnet() {
    let harness = Harness::new()
        .set("--vpc-names", "pods")
        .set("--nodebalancer-backend-ipv4-subnet", "10.100.0.0/16");
    let provider = harness.started().await;
    let error = harness
        .ensure(
            &provider,
            &mut service(&[("backend-ipv4-range", "10.9.0.0/30")]),
        )
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("--nodebalancer-backend-ipv4-subnet=10.100.0.0/16"),
        "{error}"
    );
    harness
        .ensure(
            &provider,
            &mut service(&[("backend-subnet-name", "backends")]),
        )
        .await
        .unwrap();
    let bodies = harness.fake.fault_injector().bodies("POST /nodebalancers");
    assert_eq!(bodies[0]["vpcs"], json!([{"subnet_id": 71}]));
    assert_eq!(bodies[0]["configs"][0]["nodes"][0]["subnet_id"], 71);

    let harness = Harness::new()
        .set("--vpc-ids", "7")
        .set("--subnet-ids", "70");
    let provider = harness.started().await;
    let mut service = service(&[
        ("frontend-subnet-id", "9"),
        ("frontend-ipv4-range", "10.7.0.0/28"),
    ]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let bodies = harness.fake.fault_injector().bodies("POST /nodebalancers");
    assert_eq!(bodies[0]["vpcs"], json!([{ "subnet_id": SUBNET }]));
    assert_eq!(
        bodies[0]["frontend_vpcs"],
        json!([{"subnet_id": 9, "ipv4_range": "10.7.0.0/28"}])
    );
}

#[tokio::test(start_paused = true)]
async fn ipv6_backends_are_the_annotated_addresses_and_others_are_left_out() {
    let harness = Harness::new();
    let annotations = [(
        "node.k8s.linode.com/public-ipv6".to_owned(),
        "2600:3c03::1/128".to_owned(),
    )];
    let worker = harness.cluster.node("worker-1").unwrap();
    harness.cluster.set_node(Node {
        annotations: annotations.into_iter().collect(),
        ..(*worker).clone()
    });
    let provider = harness.started().await;
    harness
        .ensure(&provider, &mut service(&[("enable-ipv6-backends", "true")]))
        .await
        .unwrap();
    let configs = harness.nodebalancer().1;
    let nodes = config(&configs, 80)["nodes"].as_array().unwrap();
    assert_eq!(
        (nodes.len(), &nodes[0]["address"]),
        (1, &json!("[2600:3c03::1]:30080"))
    );
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.starts_with("NoBackendAddress"))
    );
}
