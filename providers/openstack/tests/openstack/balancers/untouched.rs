//! Ownership: objects of others stay unchanged, and the Service's own are recognized even if they look different.

use openstack_fake::Fault;
use serde_json::json;

use super::scene::{CREATE, NAME, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";

fn internal() -> Scene {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene
}

/// Deletes the Service by force, and creates it again.
fn made_again(scene: &mut Scene) {
    scene.services.remove("web");
    scene.add_service("web");
    scene.service("web").metadata.uid = Some("99999999-2d1f-4b52-9d0c-000000000002".to_owned());
}

#[tokio::test(start_paused = true)]
async fn what_a_service_of_the_same_name_left_behind_is_taken_over_for_good_and_goes_with_its_successor()
 {
    let mut scene = Scene::new();
    let addresses = scene.ensure("web").await;
    made_again(&mut scene);
    assert_eq!(scene.ensure("web").await, addresses);
    assert_eq!(
        scene.balancer()["tags"].as_array().unwrap().len(),
        2,
        "{:#}",
        scene.balancer()["tags"]
    );
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_floating_ip_of_somebody_else_stays_on_a_port_that_outlives_the_load_balancer() {
    let mut scene = Scene::new();
    let port = scene.fake.add_port("vip", &scene.network.subnet);
    let public = scene.public.clone();
    scene.fake.add_floating_ip(&public, "mine", Some(&port));
    scene.annotate("web", "port-id", &port);
    scene.ensure("web").await;
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty());
    assert_eq!(
        scene
            .changes()
            .iter()
            .filter(|route| route.contains("floatingips"))
            .count(),
        0
    );
    assert_eq!(scene.fake.floating_ips()[0]["port_id"], json!(port));
}

#[tokio::test(start_paused = true)]
async fn a_listener_without_tags_that_has_a_name_of_its_own_is_somebody_elses() {
    let mut scene = internal();
    scene.ensure("web").await;
    let id = scene.balancer()["id"].as_str().unwrap().to_owned();
    scene.fake.add_listener(
        &id,
        &json!({"name": "by hand", "protocol": "TCP", "protocol_port": 9000}),
    );
    scene.start().await;
    scene.ensure("web").await;
    scene.delete("web").await;
    assert_eq!(scene.balancer()["listeners"][0]["name"], "by hand");
}

#[tokio::test(start_paused = true)]
async fn a_pool_without_listeners_is_ours_only_if_it_has_all_of_our_name() {
    for (name, stays) in [
        ("pool_0_k", true),
        ("pool_0_kube_service_kubernetes_default_web", false),
    ] {
        let mut scene = internal();
        scene.ensure("web").await;
        let id = scene.balancer()["id"].as_str().unwrap().to_owned();
        scene.fake.change_pool(&format!("pool_0_{NAME}"), |pool| {
            drop(pool.insert("name".into(), json!("first")));
        });
        let pool = json!({"name": name, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"});
        let listener = json!({"name": "by hand", "protocol": "TCP", "protocol_port": 9000, "default_pool": pool});
        scene.fake.add_listener(&id, &listener);
        scene.fake.change_listener("by hand", |listener| {
            drop(listener.insert("default_pool_id".into(), json!(null)));
        });
        scene.fake.remove_listener("by hand");
        scene.start().await;
        scene.ensure("web").await;
        let pools = scene.balancer()["pools"].clone();
        assert_eq!(
            pools
                .as_array()
                .unwrap()
                .iter()
                .any(|pool| pool["name"] == name),
            stays,
            "{pools:#}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_was_written_for_a_load_balancer_that_failed_blocks_nothing() {
    let mut scene = internal();
    scene.fake.fail(Fault::ends_in_error(CREATE, "").times(2));
    scene.refused("web").await;
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["provisioning_status"], "ACTIVE");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_of_another_type_for_a_while_gets_a_new_load_balancer() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.service("web").spec.get_or_insert_default().type_ = Some("ClusterIP".to_owned());
    scene.try_delete("web").await.unwrap();
    let service = scene.service("web");
    (
        service.status,
        service.metadata.deletion_timestamp,
        service.metadata.finalizers,
    ) = (None, None, None);
    service.spec.get_or_insert_default().type_ = Some("LoadBalancer".to_owned());
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(
        scene.annotation("web", "load-balancer-id"),
        scene.balancer()["id"].as_str()
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_goes_while_all_are_read_keeps_nobody_from_theirs() {
    let mut scene = internal();
    scene.ensure("web").await;
    let subnet = scene.network.subnet.clone();
    scene.fake.add_load_balancer(&json!({
        "name": "kube_service_elsewhere_default_web", "vip_subnet_id": subnet, "tags": ["kube_service_elsewhere_default_web"],
        "listeners": [{"name": "l", "protocol": "TCP", "protocol_port": 22, "default_pool": {
            "name": "leaving", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}}],
    }));
    scene.start().await;
    scene
        .fake
        .fail(Fault::refused("GET /lbaas/pools/{id}/members", 404).times(1));
    scene.ensure("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_asks_in_vain_for_another_load_balancer_leaves_nothing_of_its_own_behind() {
    let mut scene = Scene::new();
    let tags = [
        "kube_service_elsewhere_default_a",
        "kube_service_elsewhere_default_b",
    ];
    let subnet = scene.network.subnet.clone();
    let full = scene
        .fake
        .add_load_balancer(&json!({"name": tags[0], "vip_subnet_id": subnet, "tags": tags}));
    scene.ensure("web").await;
    scene.annotate("web", "load-balancer-id", &full);
    scene.start().await;
    scene.delete("web").await;
    assert_eq!(scene.balancer()["id"], json!(full));
    assert!(scene.fake.floating_ips().is_empty());
}
