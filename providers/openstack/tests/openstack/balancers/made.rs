//! Creation of load balancers, and the number of its requests.

use openstack_fake::Options;
use serde_json::{Value, json};

use super::scene::{CREATE, NAME, Scene, uid};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";

fn sorted(value: &Value) -> Vec<String> {
    let mut all: Vec<_> = value
        .as_array()
        .unwrap()
        .iter()
        .map(|object| object.as_str().unwrap().to_owned())
        .collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_made_with_one_request_and_then_nothing_changes() {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.ports("web", json!([{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]));
    scene.annotate("web", "enable-health-monitor", "true");
    let addresses = scene.ensure("web").await;
    assert_eq!(scene.fake.bodies(CREATE).len(), 1);
    let body = scene.fake.bodies(CREATE).remove(0);
    assert_eq!(scene.changes(), [CREATE]);
    let made = scene.balancer();
    assert_eq!(addresses, [made["vip_address"].as_str().unwrap()]);
    assert_eq!(
        (made["name"].as_str(), made["provider"].as_str()),
        (Some(NAME), Some("amphora"))
    );
    assert_eq!(
        made["description"],
        "Kubernetes external service default/web from cluster kubernetes"
    );
    assert_eq!(
        sorted(&made["tags"]),
        [
            format!("ccm-rs:5c1d:{}:{NAME}", uid("web")),
            NAME.to_owned()
        ]
    );
    let listeners = &body["loadbalancer"]["listeners"];
    let udp = listeners
        .as_array()
        .unwrap()
        .iter()
        .find(|listener| listener["protocol"] == "UDP")
        .unwrap();
    assert_eq!(udp["name"], format!("listener_1_{NAME}"));
    assert_eq!(sorted(&udp["tags"]), [NAME]);
    assert_eq!(udp["default_pool"]["name"], format!("pool_1_{NAME}"));
    assert_eq!(
        udp["default_pool"]["healthmonitor"]["name"],
        format!("monitor_1_{NAME}")
    );
    assert_eq!(udp["default_pool"]["healthmonitor"]["type"], "UDP-CONNECT");
    let members = udp["default_pool"]["members"].as_array().unwrap();
    assert_eq!(members.len(), 2);
    assert_eq!(
        (&members[0]["name"], &members[0]["protocol_port"]),
        (&json!("worker-1"), &json!(30053))
    );
    assert!(udp["default_pool"].get("session_persistence").is_none());

    scene.ensure("web").await;
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
    assert_eq!(
        scene.annotation("web", "load-balancer-id"),
        made["id"].as_str()
    );
    assert_eq!(
        scene.annotation("web", "load-balancer-address"),
        made["vip_address"].as_str()
    );
}

#[tokio::test(start_paused = true)]
async fn a_floating_ip_takes_one_request_more() {
    let mut scene = Scene::new();
    let addresses = scene.ensure("web").await;
    assert_eq!(scene.changes(), [CREATE, "POST /floatingips"]);
    let floating = scene.fake.floating_ips().remove(0);
    assert_eq!(
        addresses,
        [floating["floating_ip_address"].as_str().unwrap()]
    );
    assert_eq!(floating["port_id"], scene.balancer()["vip_port_id"]);
    scene.start().await;
    assert_eq!(scene.ensure("web").await, addresses);
    assert_eq!(scene.get("web").await, Some(addresses));
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_managed_security_group_is_made_before_it_and_put_on_the_ports_of_members() {
    let mut scene = Scene::new();
    scene.conf("manage-security-groups = true");
    scene.annotate("web", INTERNAL, "true");
    scene.ensure("web").await;
    let group = scene
        .fake
        .security_groups()
        .into_iter()
        .find(|security_group| security_group["name"] != "default")
        .unwrap();
    let changes = scene.changes();
    assert_eq!(
        changes.iter().position(|change| change == CREATE),
        changes.iter().rposition(|change| change == CREATE)
    );
    assert_eq!(
        changes
            .iter()
            .filter(|change| *change == "PUT /ports/{id}")
            .count(),
        2
    );
    for name in ["worker-1", "worker-2"] {
        let port = scene
            .fake
            .port(&scene.fake.server(name).unwrap().port)
            .unwrap();
        assert!(
            sorted(&port["security_groups"]).contains(&group["id"].as_str().unwrap().to_owned())
        );
    }
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_tags_the_name_says_whose_it_is() {
    let mut scene = Scene::with(Options {
        octavia: 4,
        ..Options::default()
    });
    scene.annotate("web", INTERNAL, "true");
    scene.ensure("web").await;
    let body = scene.fake.bodies(CREATE).remove(0);
    assert!(body["loadbalancer"].get("tags").is_none());
    assert!(body["loadbalancer"]["listeners"][0].get("tags").is_none());
    scene.changes();
    scene.forget("web", "load-balancer-id");
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.ports("web", json!([{"port": 81, "nodePort": 30081}]));
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["listeners"].as_array().unwrap().len(), 1);
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_port_without_a_node_port_has_no_members() {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.ports("web", json!([{"port": 80}]));
    scene.ensure("web").await;
    assert_eq!(
        scene.fake.bodies(CREATE)[0]["loadbalancer"]["listeners"][0]["default_pool"]["members"],
        json!([])
    );
    scene.changes();
    scene.ensure("web").await;
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}
