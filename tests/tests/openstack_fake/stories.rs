//! Crash scenarios that only OpenStack has: a Service that moves to another one's load balancer, and one of two IP
//! families.

use std::time::Duration;

use ccm_conformance::CloudProfile;
use ccm_conformance::Harness;
use ccm_conformance::crash::{Scenario, Step, proof_of};
use ccm_tests::profiles::OpenStackCloud;
use futures::FutureExt;
use futures::future::BoxFuture;
use openstack_fake::Options;
use serde_json::json;

/// Sampling of crash points: one of so many is tried.
const EVERY: usize = 9;

const ID: &str = "loadbalancer.openstack.org/load-balancer-id";

const MOVES: Scenario = Scenario {
    name: "a Service moves to another one's load balancer",
    routes: false,
    set_up: Some(two_services),
    // The state is settled before the move, too: only time shows that it has ended.
    steps: &[Step::Then(web_moves, Duration::from_secs(120))],
};

const TWO_FAMILIES: Scenario = Scenario {
    name: "a Service of two IP families is created, changed and deleted",
    routes: false,
    set_up: Some(two_nodes),
    steps: &[
        Step::Settled(web_of_two_families_comes),
        Step::Settled(its_ports_change),
        Step::Settled(web_goes),
    ],
};

#[test]
fn killed_at_any_request_of_a_move_the_service_ends_at_the_other_load_balancer() {
    proof_of(|| Box::new(OpenStackCloud::default()), &[MOVES], EVERY);
}

#[test]
fn killed_at_any_request_a_service_of_two_families_ends_with_both_addresses_and_goes_with_them() {
    proof_of(cloud_of_two_families, &[TWO_FAMILIES], EVERY);
}

fn cloud_of_two_families() -> Box<dyn CloudProfile> {
    let cloud = OpenStackCloud::new(Options::default());
    cloud
        .fake
        .add_subnet(&cloud.network.id, "k8s-net-v6", "fd00:6::/64");
    Box::new(cloud)
}

fn two_nodes(harness: &Harness) -> BoxFuture<'_, ()> {
    async move {
        for name in ["worker-1", "worker-2"] {
            harness.cloud.add_machine(name);
            harness.user.register_node(name, &[]).await;
        }
    }
    .boxed()
}

fn two_services(harness: &Harness) -> BoxFuture<'_, ()> {
    async move {
        two_nodes(harness).await;
        harness.user.create_service("web", &[80, 443]).await;
        harness.user.create_service("mail", &[25]).await;
    }
    .boxed()
}

fn web_moves(harness: &Harness) -> BoxFuture<'_, ()> {
    async move {
        let mail = harness
            .api
            .get("services", Some("default"), "mail")
            .unwrap();
        let id = mail["metadata"]["annotations"][ID].as_str().unwrap();
        assert!(
            harness
                .user
                .patch_service("web", &json!({"metadata": {"annotations": {ID: id}}}))
                .await
        );
    }
    .boxed()
}

fn web_of_two_families_comes(harness: &Harness) -> BoxFuture<'_, ()> {
    async move {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {
                "type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
                "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}],
            },
        });
        harness.user.create("/api/v1/namespaces/default/services", &service).await;
    }
    .boxed()
}

fn its_ports_change(harness: &Harness) -> BoxFuture<'_, ()> {
    async move {
        let web = harness.api.get("services", Some("default"), "web").unwrap();
        let shown = &web["status"]["loadBalancer"]["ingress"];
        assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown}");
        assert!(harness.user.set_ports("web", &[443, 8443]).await);
    }
    .boxed()
}

fn web_goes(harness: &Harness) -> BoxFuture<'_, ()> {
    async move { assert!(harness.user.delete_service("web").await) }.boxed()
}
