//! Rare clusters, Nodes and settings, which must work as well.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Node;
use openstack_fake::{Fault, Options};
use serde_json::{Value, json};

use super::scene::{CREATE, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";

fn internal() -> Scene {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene
}

/// Adds a Node with these addresses.
fn add(scene: &mut Scene, name: &str, server: &str, addresses: &[(&str, &str)]) {
    let addresses: Vec<Value> = addresses
        .iter()
        .map(|(kind, ip)| json!({"type": kind, "address": ip}))
        .collect();
    let node = json!({
        "metadata": {"name": name, "uid": name}, "spec": {"providerID": format!("openstack:///{server}")},
        "status": {"addresses": addresses},
    });
    scene
        .nodes
        .push(Arc::new(serde_json::from_value::<Node>(node).unwrap()));
}

fn members(scene: &Scene) -> Vec<String> {
    let balancer = scene.balancer();
    let members = balancer["pools"][0]["members"].as_array().unwrap();
    let text = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
    let mut all: Vec<_> = members
        .iter()
        .map(|member| format!("{} {}", text(member, "name"), text(member, "address")))
        .collect();
    all.sort();
    all
}

fn nothing_is_left(scene: &Scene) -> bool {
    let groups = scene.fake.security_groups();
    scene.fake.load_balancers().is_empty()
        && scene.fake.floating_ips().is_empty()
        && groups.iter().all(|group| group["name"] == "default")
}

async fn nothing_changes_after_a_restart(scene: &mut Scene) {
    scene.changes();
    scene.ensure("web").await;
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

/// Octavia and Neutron take 255 characters, also for descriptions.
#[tokio::test(start_paused = true)]
async fn a_cluster_of_a_long_or_foreign_name_has_load_balancers_and_leaves_nothing() {
    for name in [
        "c".repeat(100),
        "c".repeat(190),
        "größe ☃, zwei".to_owned(),
        "é".repeat(120),
    ] {
        let mut scene = Scene::new();
        scene.conf("manage-security-groups = true");
        scene.cluster.name = name;
        scene.ensure("web").await;
        nothing_changes_after_a_restart(&mut scene).await;
        scene.forget("web", "load-balancer-id");
        nothing_changes_after_a_restart(&mut scene).await;
        scene
            .fake
            .remove_load_balancer(scene.balancer()["name"].as_str().unwrap());
        scene.delete("web").await;
        assert!(nothing_is_left(&scene));
    }
}

/// A server has taken the address of a deleted server, whose Node still exists.
#[tokio::test(start_paused = true)]
async fn two_nodes_of_one_address_are_one_member() {
    for serial in [false, true] {
        let mut scene = internal();
        scene.conf(&format!("provider-requires-serial-api-calls = {serial}"));
        let (server, ip) = {
            let server = scene.fake.server("worker-2").unwrap();
            (server.id, server.ip)
        };
        scene.ensure("web").await;
        let before = members(&scene);
        add(&mut scene, "worker-0", &server, &[("InternalIP", &ip)]);
        scene.ensure("web").await;
        scene.update("web").await;
        assert_eq!(members(&scene).len(), 2, "{before:?}");
        nothing_changes_after_a_restart(&mut scene).await;
        scene.nodes.retain(|node| &*node.name != "worker-0");
        scene.ensure("web").await;
        assert_eq!(members(&scene), before);
        nothing_changes_after_a_restart(&mut scene).await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_first_nodes_server_is_gone_the_next_one_tells_the_subnet() {
    let mut scene = internal();
    scene.annotate("web", "subnet-id", "");
    scene.fake.terminate("worker-1");
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["vip_subnet_id"], scene.network.subnet);
    scene.fake.terminate("worker-2");
    scene.start().await;
    let error = scene.refused("web").await;
    assert!(
        error
            .to_string()
            .contains("no port of node worker-1 has its address"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_an_external_address_alone_is_reached_there_and_one_without_is_none() {
    let mut scene = internal();
    let server = scene.fake.server("worker-1").unwrap().id;
    add(
        &mut scene,
        "outside",
        &server,
        &[("ExternalIP", "203.0.113.7"), ("Hostname", "outside")],
    );
    add(
        &mut scene,
        "nowhere",
        &server,
        &[("Hostname", "nowhere"), ("InternalIP", "fd00::7")],
    );
    scene
        .service("web")
        .spec
        .get_or_insert_default()
        .ip_families = Some(vec!["IPv4".into()]);
    scene.ensure("web").await;
    assert!(
        members(&scene).contains(&"outside 203.0.113.7".to_owned()) && members(&scene).len() == 3
    );
    nothing_changes_after_a_restart(&mut scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_becomes_internal_and_back_as_often_as_somebody_likes() {
    for keep in ["true", "false"] {
        let mut scene = Scene::new();
        scene.annotate("web", "keep-floatingip", keep);
        let outside = scene.ensure("web").await;
        scene.annotate("web", INTERNAL, "true");
        let inside = scene.ensure("web").await;
        assert_eq!(inside, [scene.balancer()["vip_address"].as_str().unwrap()]);
        assert_eq!(scene.fake.floating_ips().len(), usize::from(keep == "true"));
        nothing_changes_after_a_restart(&mut scene).await;
        scene.annotate("web", INTERNAL, "false");
        let again = scene.ensure("web").await;
        assert_ne!(again, inside);
        nothing_changes_after_a_restart(&mut scene).await;
        let leading = |scene: &Scene| {
            scene
                .fake
                .floating_ips()
                .iter()
                .filter(|floating_ip| !floating_ip["port_id"].is_null())
                .count()
        };
        assert_eq!(leading(&scene), 1, "{outside:?} {again:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ports_of_one_number_go_from_one_protocol_to_another() {
    let mut scene = internal();
    scene.annotate("web", "enable-health-monitor", "true");
    let of = |protocol: &str| json!({"port": 53, "protocol": protocol, "nodePort": 30053, "name": protocol.to_lowercase()});
    let steps = [
        json!([of("TCP"), of("UDP")]),
        json!([of("UDP")]),
        json!([of("TCP")]),
        json!([of("SCTP"), of("TCP")]),
    ];
    for ports in steps {
        scene.ports("web", ports.clone());
        scene.ensure("web").await;
        let balancer = scene.balancer();
        let count = ports.as_array().unwrap().len();
        assert_eq!(balancer["listeners"].as_array().unwrap().len(), count);
        assert_eq!(balancer["pools"].as_array().unwrap().len(), count);
        nothing_changes_after_a_restart(&mut scene).await;
    }
}

#[tokio::test(start_paused = true)]
async fn ranges_of_the_other_family_are_left_out_where_some_are_of_ours() {
    let mut scene = internal();
    let spec = scene.service("web").spec.get_or_insert_default();
    spec.ip_families = Some(vec!["IPv4".into()]);
    spec.load_balancer_source_ranges = Some(vec![
        "10.1.2.3/8".into(),
        "fd00::/8".into(),
        " 10.0.0.0/8 ".into(),
    ]);
    scene.ensure("web").await;
    assert_eq!(
        scene.fake.bodies(CREATE)[0]["loadbalancer"]["listeners"][0]["allowed_cidrs"],
        json!(["10.0.0.0/8"])
    );
    nothing_changes_after_a_restart(&mut scene).await;
}

/// A Service's class, or its type, changes during the creation of its load balancer.
#[tokio::test(start_paused = true)]
async fn who_changes_his_mind_while_it_is_made_gets_one_or_none() {
    for tick in [1, 300, 900, 2_000] {
        let mut scene = Scene::new();
        scene.conf("manage-security-groups = true");
        let other = scene
            .fake
            .add_subnet(&scene.network.id.clone(), "other", "10.7.0.0/16");
        scene.conf(&format!(
            "[LoadBalancerClass \"other\"]\nsubnet-id = {other}"
        ));
        scene.lifetime = Some(Duration::from_millis(tick));
        let _ = scene.try_ensure("web").await;
        scene.annotate("web", "class", "other");
        scene.start().await;
        scene.ensure("web").await;
        scene.balancer();
        nothing_changes_after_a_restart(&mut scene).await;
        scene.lifetime = Some(Duration::from_millis(tick));
        scene.ports("web", json!([{"port": 81, "nodePort": 30081}]));
        let _ = scene.try_ensure("web").await;
        scene.service("web").spec.get_or_insert_default().type_ = Some("ClusterIP".into());
        scene.start().await;
        scene.try_remove("web").await.unwrap();
        assert!(nothing_is_left(&scene));
    }
}

#[tokio::test(start_paused = true)]
async fn each_quota_that_is_met_is_told_and_healed_by_more_of_it() {
    let kinds = [
        ("loadbalancer", 0),
        ("listener", 1),
        ("pool", 1),
        ("healthmonitor", 1),
        ("floatingip", 0),
        ("security_group", 0),
        ("security_group_rule", 2),
    ];
    for (kind, most) in kinds {
        let mut scene = Scene::new();
        scene.conf("manage-security-groups = true");
        scene.annotate("web", "enable-health-monitor", "true");
        scene.ports(
            "web",
            json!([{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30081}]),
        );
        scene.fake.set_quota(kind, most);
        for _ in 0..2 {
            let error = scene.try_ensure("web").await.expect_err(kind);
            assert!(error.is_quota(), "{kind}: {error}");
            scene.start().await;
        }
        scene.fake.set_quota(kind, 100);
        scene.ensure("web").await;
        nothing_changes_after_a_restart(&mut scene).await;
        scene.fake.set_quota(kind, most);
        scene.delete("web").await;
        assert!(nothing_is_left(&scene), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_api_is_too_old_for_is_left_out_and_comes_with_the_upgrade() {
    for octavia in [0, 4, 5, 11, 15] {
        let mut scene = Scene::with(Options {
            octavia,
            ..Options::default()
        });
        scene.annotate("web", INTERNAL, "true");
        scene.annotate("web", "timeout-client-data", "1000");
        scene
            .service("web")
            .spec
            .get_or_insert_default()
            .load_balancer_source_ranges = Some(vec!["10.0.0.0/8".into()]);
        scene.ensure("web").await;
        nothing_changes_after_a_restart(&mut scene).await;
        scene.fake.set_options(|options| options.octavia = 27);
        scene.start().await;
        scene.ensure("web").await;
        let listener = scene.balancer()["listeners"][0].clone();
        assert_eq!(
            (&listener["allowed_cidrs"], &listener["timeout_client_data"]),
            (&json!(["10.0.0.0/8"]), &json!(1000))
        );
        nothing_changes_after_a_restart(&mut scene).await;
        scene.delete("web").await;
        assert!(scene.fake.load_balancers().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_the_rest_keeps_no_node_from_being_a_member() {
    let mut scene = Scene::new();
    let reference = format!("http://keys/v1/containers/{}", scene.fake.add_container());
    scene.annotate("web", "default-tls-container-ref", &reference);
    scene.ensure("web").await;
    scene.add_node("worker-3");
    for route in ["GET /containers/{id}", "GET /networks"] {
        scene.fake.fail(Fault::status(route, 500));
    }
    scene.start().await;
    scene.refused("web").await;
    scene.update("web").await;
    assert_eq!(members(&scene).len(), 3);
    assert_eq!(scene.changes(), ["PUT /lbaas/pools/{id}/members"]);
}
