//! Deletion of a Service: the order of the requests, and the objects that remain.

use openstack_fake::Fault;
use serde_json::json;

use super::scene::{NAME, Scene};

const ALL: &str = "DELETE /lbaas/loadbalancers/{id}";
const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";

#[tokio::test(start_paused = true)]
async fn all_of_it_goes_with_one_request_before_the_floating_ip() {
    let mut scene = Scene::new();
    scene.ensure("web").await;
    scene.changes();
    scene.delete("web").await;
    assert_eq!(scene.changes(), [ALL, "DELETE /floatingips/{id}"]);
    assert!(scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn load_balancer_whose_deletion_is_refused_keeps_its_floating_ip_and_its_security_group() {
    for (cascade, refused) in [(true, ALL), (false, "DELETE /lbaas/listeners/{id}")] {
        let mut scene = Scene::new();
        scene.conf(&format!(
            "manage-security-groups = true\ncascade-delete = {cascade}"
        ));
        let addresses = scene.ensure("web").await;
        let before = scene.fake.security_groups();
        scene.fake.fail(Fault::refused(refused, 403).times(99));
        scene.try_delete("web").await.unwrap_err();
        assert_eq!(scene.fake.security_groups(), before, "{refused}");
        let floating = scene.fake.floating_ips();
        assert_eq!(
            floating[0]["floating_ip_address"],
            json!(addresses[0]),
            "{refused}"
        );
        assert!(floating[0]["port_id"].is_string(), "{refused}");
        scene.fake.clear_faults();
        scene.delete("web").await;
        assert!(
            scene
                .fake
                .security_groups()
                .iter()
                .all(|security_group| security_group["name"] == "default")
        );
        assert!(scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn floating_ip_and_security_group_are_deleted_later_if_neutron_fails_after_octavia() {
    for route in ["DELETE /floatingips/{id}", "DELETE /security-groups/{id}"] {
        let mut scene = Scene::new();
        scene.conf("manage-security-groups = true");
        scene.ensure("web").await;
        scene.fake.fail(Fault::refused(route, 403).times(1));
        scene.try_delete("web").await.unwrap_err();
        scene.start().await;
        scene.delete("web").await;
        assert!(
            scene
                .fake
                .security_groups()
                .iter()
                .all(|security_group| security_group["name"] == "default"),
            "{route}"
        );
        assert!(
            scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty(),
            "{route}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_floating_ip_is_kept_where_that_is_asked_for() {
    let mut scene = Scene::new();
    scene.annotate("web", "keep-floatingip", "true");
    let addresses = scene.ensure("web").await;
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty());
    let left = scene.fake.floating_ips();
    assert_eq!(
        (left.len(), left[0]["floating_ip_address"].as_str()),
        (1, Some(&*addresses[0]))
    );
    assert!(left[0]["port_id"].is_null());
}

#[tokio::test(start_paused = true)]
async fn its_security_group_goes_too_also_when_such_are_not_managed_any_more() {
    let mut scene = Scene::new();
    scene.conf("manage-security-groups = true");
    scene.ensure("web").await;
    scene.conf("manage-security-groups = false");
    scene.ensure("web").await;
    assert!(
        scene
            .fake
            .security_groups()
            .iter()
            .all(|security_group| security_group["name"] == "default")
    );
    scene.conf("manage-security-groups = true");
    scene.ensure("web").await;
    scene.conf("manage-security-groups = false");
    scene.delete("web").await;
    assert!(
        scene
            .fake
            .security_groups()
            .iter()
            .all(|security_group| security_group["name"] == "default")
    );
    assert!(scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_outlives_a_load_balancer_that_somebody_deleted_goes_with_the_service() {
    let mut scene = Scene::new();
    scene.conf("manage-security-groups = true");
    scene.ensure("web").await;
    scene.fake.remove_load_balancer(NAME);
    scene.start().await;
    scene.delete("web").await;
    assert!(
        scene
            .fake
            .security_groups()
            .iter()
            .all(|security_group| security_group["name"] == "default")
    );
    assert!(
        scene.fake.floating_ips().is_empty(),
        "{:#?}",
        scene.fake.floating_ips()
    );
}

#[tokio::test(start_paused = true)]
async fn servers_that_cannot_be_read_do_not_prove_that_a_load_balancer_is_gone() {
    let mut scene = Scene::new();
    scene.ensure("web").await;
    // As the credential of another project shows it.
    scene.fake.remove_load_balancer(NAME);
    scene.fake.fail(Fault::refused("GET /servers/{id}", 400));
    scene.start().await;
    let error = scene.try_delete("web").await.unwrap_err().to_string();
    assert!(
        error.contains("cannot verify that load balancer") && error.contains("400"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_cascade_it_goes_part_by_part() {
    let mut scene = Scene::new();
    scene.conf("cascade-delete = false");
    scene.annotate("web", INTERNAL, "true");
    scene.annotate("web", "enable-health-monitor", "true");
    scene.ensure("web").await;
    scene.changes();
    scene.delete("web").await;
    assert_eq!(
        scene.changes(),
        [
            "DELETE /lbaas/listeners/{id}",
            "DELETE /lbaas/pools/{id}",
            ALL
        ]
    );
    assert!(scene.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_has_none_costs_no_change() {
    let mut scene = Scene::new();
    scene.delete("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_can_be_deleted() {
    let mut scene = Scene::new();
    scene.ensure("web").await;
    scene.fake.set_provisioning_status(NAME, "ERROR");
    scene.start().await;
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_listener_of_somebody_else_keeps_the_load_balancer() {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.ensure("web").await;
    let id = scene.balancer()["id"].as_str().unwrap().to_owned();
    let by_hand =
        json!({"name": "by hand", "protocol": "TCP", "protocol_port": 9000, "tags": ["mine"]});
    scene.fake.add_listener(&id, &by_hand);
    scene.start().await;
    scene.delete("web").await;
    let balancer = scene.balancer();
    assert_eq!(balancer["listeners"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&balancer["listeners"][0]["name"], &balancer["tags"]),
        (&json!("by hand"), &json!([]))
    );
}

#[tokio::test(start_paused = true)]
async fn event_says_why_load_balancer_and_floating_ip_stay() {
    let mut scene = Scene::new();
    let address = scene.ensure("web").await.remove(0);
    let id = scene.balancer()["id"].as_str().unwrap().to_owned();
    let by_hand =
        json!({"name": "by hand", "protocol": "TCP", "protocol_port": 9000, "tags": ["mine"]});
    scene.fake.add_listener(&id, &by_hand);
    scene.start().await;
    scene.events();
    scene.delete("web").await;
    let expected = format!(
        "web LoadBalancerKept: load balancer {NAME:?} ({id}) stays, and so does floating IP {address}: listener 9000/TCP is not \
         made for this Service. Delete it when nobody uses it any more"
    );
    assert_eq!(scene.events(), [expected]);
    assert_eq!(scene.fake.floating_ips().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_goes_along_with_it_is_not_read_before() {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.annotate("web", "enable-health-monitor", "true");
    scene.ensure("web").await;
    scene.start().await;
    scene.delete("web").await;
    let read = |route| scene.fake.count(route);
    assert_eq!(
        (
            read("GET /lbaas/pools/{id}/members"),
            read("GET /lbaas/healthmonitors/{id}")
        ),
        (0, 0)
    );
    assert!(
        read("GET /lbaas/listeners") > 0,
        "somebody else may have one there"
    );
    assert!(scene.fake.load_balancers().is_empty());
}
