//! Stories that only OpenStack can tell, cut off at their requests: a Service that moves to another one's load balancer, and one
//! of two IP families.

use std::time::Duration;

use ccm_tests::cloud_under_test::CloudUnderTest;
use ccm_tests::crash::{Scenario, Step, proof_of};
use ccm_tests::openstack_cloud::{OpenStackCloud, openstack_cloud};
use ccm_tests::stage::Stage;
use futures::FutureExt;
use futures::future::BoxFuture;
use openstack_fake::Options;
use serde_json::json;

use crate::proofs::EVERY;

const ID: &str = "loadbalancer.openstack.org/load-balancer-id";

const MOVES: Scenario = Scenario {
    name: "a Service moves to another one's load balancer",
    routes: false,
    set_up: Some(two_services),
    // All is well with it before it moves, too: only time tells that it has.
    steps: &[Step::Then(web_moves, Duration::from_secs(120))],
};

const TWO_FAMILIES: Scenario = Scenario {
    name: "a Service of two IP families is created, changed and deleted",
    routes: false,
    set_up: Some(two_nodes),
    steps: &[Step::Settled(web_of_two_families_comes), Step::Settled(its_ports_change), Step::Settled(web_goes)],
};

#[test]
fn killed_at_any_request_of_a_move_the_service_ends_at_the_other_load_balancer() {
    proof_of(openstack_cloud, &[MOVES], EVERY);
}

#[test]
fn killed_at_any_request_a_service_of_two_families_ends_with_both_addresses_and_goes_with_them() {
    proof_of(cloud_of_two_families, &[TWO_FAMILIES], EVERY);
}

fn cloud_of_two_families() -> Box<dyn CloudUnderTest> {
    let cloud = OpenStackCloud::new(Options::default());
    cloud.fake.add_subnet(&cloud.network.id, "k8s-net-v6", "fd00:6::/64");
    Box::new(cloud)
}

fn two_nodes(stage: &Stage) -> BoxFuture<'_, ()> {
    async move {
        for name in ["worker-1", "worker-2"] {
            stage.cloud.add_machine(name);
            stage.user.register_node(name, &[]).await;
        }
    }
    .boxed()
}

fn two_services(stage: &Stage) -> BoxFuture<'_, ()> {
    async move {
        two_nodes(stage).await;
        stage.user.create_service("web", &[80, 443]).await;
        stage.user.create_service("mail", &[25]).await;
    }
    .boxed()
}

fn web_moves(stage: &Stage) -> BoxFuture<'_, ()> {
    async move {
        let mail = stage.api.get("services", Some("default"), "mail").unwrap();
        let id = mail["metadata"]["annotations"][ID].as_str().unwrap();
        assert!(stage.user.patch_service("web", &json!({"metadata": {"annotations": {ID: id}}})).await);
    }
    .boxed()
}

fn web_of_two_families_comes(stage: &Stage) -> BoxFuture<'_, ()> {
    async move {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {
                "type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
                "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}],
            },
        });
        stage.user.create("/api/v1/namespaces/default/services", &service).await;
    }
    .boxed()
}

fn its_ports_change(stage: &Stage) -> BoxFuture<'_, ()> {
    async move {
        let web = stage.api.get("services", Some("default"), "web").unwrap();
        let shown = &web["status"]["loadBalancer"]["ingress"];
        assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown}");
        assert!(stage.user.set_ports("web", &[443, 8443]).await);
    }
    .boxed()
}

fn web_goes(stage: &Stage) -> BoxFuture<'_, ()> {
    async move { assert!(stage.user.delete_service("web").await) }.boxed()
}
