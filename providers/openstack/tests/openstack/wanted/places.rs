//! Networks and subnets of VIPs and members.

use serde_json::{Value, json};

use crate::balancers::scene::{CREATE, Scene};

/// Returns a harness whose configuration names no networks.
fn anywhere() -> Scene {
    let mut scene = Scene::new();
    scene.annotate("web", "subnet-id", "");
    scene
}

fn made(scene: &Scene) -> Value {
    let bodies = scene.fake.bodies(CREATE);
    assert_eq!(bodies.len(), 1, "{bodies:#?}");
    bodies[0]["loadbalancer"].clone()
}

fn member(balancer: &Value) -> &Value {
    &balancer["listeners"][0]["default_pool"]["members"][0]
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_of_which_nobody_says_where_goes_where_the_first_node_is() {
    let mut scene = anywhere();
    scene.conf("subnet-id =");
    scene.ensure("web").await;
    let body = made(&scene);
    assert_eq!(
        (&body["vip_subnet_id"], &body["vip_network_id"]),
        (&json!(scene.network.subnet), &Value::Null)
    );
    assert_eq!(member(&body)["subnet_id"], json!(scene.network.subnet));
    let asked = scene.fake.count("GET /ports");
    for number in 0..3 {
        let name = format!("web-{number}");
        scene.add_service(&name);
        scene.annotate(&name, "subnet-id", "");
        scene.ensure(&name).await;
    }
    assert_eq!(
        scene.fake.count("GET /ports"),
        asked,
        "what was found out is remembered"
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_that_neutron_does_not_know_are_told() {
    let mut scene = anywhere();
    scene.conf("subnet-id =");
    for node in ["worker-1", "worker-2"] {
        let port = scene.fake.server(node).unwrap().port;
        scene.fake.change_port(&port, |port| {
            drop(port.insert("fixed_ips".into(), json!([])));
        });
    }
    let error = scene.refused("web").await;
    assert!(
        error.is_invalid()
            && error
                .to_string()
                .contains("no port of node worker-1 has its address"),
        "{error}"
    );
    assert!(scene.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn with_a_network_octavia_picks_the_subnet() {
    let mut scene = anywhere();
    scene.conf("subnet-id =");
    let network = scene.network.id.clone();
    scene.annotate("web", "network-id", &network);
    scene.ensure("web").await;
    let body = made(&scene);
    assert_eq!(
        (&body["vip_network_id"], body.get("vip_subnet_id")),
        (&json!(network), None)
    );
    assert_eq!(scene.fake.count("GET /ports"), 0, "nothing is looked for");
}

#[tokio::test(start_paused = true)]
async fn a_vip_on_a_given_port_is_sent_neither_subnet_nor_network() {
    let mut scene = Scene::new();
    let port = scene.fake.add_port("vip", &scene.network.subnet.clone());
    scene.annotate("web", "port-id", &port);
    scene.ensure("web").await;
    let body = made(&scene);
    assert_eq!(body["vip_port_id"], json!(port));
    assert!(
        body.get("vip_subnet_id").is_none() && body.get("vip_network_id").is_none(),
        "{body:#}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_class_says_where_and_an_unknown_one_is_refused() {
    let mut scene = Scene::new();
    let network = scene.network.id.clone();
    let vips = scene.fake.add_subnet(&network, "vips", "10.7.0.0/24");
    let members = scene.fake.add_subnet(&network, "members", "10.8.0.0/24");
    scene.conf(&format!(
        "[LoadBalancerClass \"gold\"]\nsubnet-id = {vips}\nmember-subnet-id = {members}"
    ));
    scene.annotate("web", "class", "silver");
    let error = scene.refused("web").await;
    assert!(
        error.is_invalid() && error.to_string().contains("it has gold"),
        "{error}"
    );
    scene.annotate("web", "class", "gold");
    // A floating IP would need a router there.
    scene.annotate(
        "web",
        "service.beta.kubernetes.io/openstack-internal-load-balancer",
        "true",
    );
    scene.ensure("web").await;
    let body = made(&scene);
    assert_eq!(
        (&body["vip_subnet_id"], &member(&body)["subnet_id"]),
        (&json!(vips), &json!(members))
    );
}

#[tokio::test(start_paused = true)]
async fn no_load_balancer_is_made_before_there_are_nodes_and_one_that_is_there_loses_its_members() {
    let mut scene = Scene::new();
    let nodes = std::mem::take(&mut scene.nodes);
    let error = scene.refused("web").await;
    assert!(
        error
            .to_string()
            .contains("before there is a Node to send traffic to"),
        "{error}"
    );
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.nodes = nodes;
    scene.ensure("web").await;
    scene.nodes.clear();
    scene.update("web").await;
    assert_eq!(scene.balancer()["pools"][0]["members"], json!([]));
}
