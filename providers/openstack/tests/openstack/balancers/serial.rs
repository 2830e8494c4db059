//! Providers that take one change at a time (`provider-requires-serial-api-calls`).

use openstack_fake::Options;
use serde_json::json;

use super::scene::{CREATE, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";

#[tokio::test(start_paused = true)]
async fn everything_is_made_piece_by_piece() {
    let mut scene = Scene::with(Options {
        bulk: false,
        ..Options::default()
    });
    scene.conf("provider-requires-serial-api-calls = true");
    scene.annotate("web", INTERNAL, "true");
    scene.annotate("web", "enable-health-monitor", "true");
    scene.ensure("web").await;
    let member = "POST /lbaas/pools/{id}/members";
    let expected = [
        CREATE,
        "POST /lbaas/pools",
        "POST /lbaas/healthmonitors",
        member,
        member,
        "POST /lbaas/listeners",
    ];
    assert!(scene.waits >= expected.len(), "{} waits", scene.waits);
    assert_eq!(scene.changes(), expected);
    let balancer = scene.balancer();
    let member = &balancer["pools"][0]["members"][0];
    assert_eq!(
        member["name"],
        format!(
            "member_worker-1_{}_30080",
            member["address"].as_str().unwrap()
        )
    );
    assert_eq!(member["subnet_id"], json!(scene.network.subnet));
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);

    // Another Node at the address of one that was there.
    let mut node = (*scene.nodes[1]).clone();
    node.name = "worker-9".into();
    scene.nodes[1] = std::sync::Arc::new(node);
    scene.ensure("web").await;
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
    let members = scene.balancer()["pools"][0]["members"].to_string();
    assert!(members.contains("member_worker-9_"), "{members}");

    scene.ports("web", json!([{"port": 80, "nodePort": 31080}]));
    scene.nodes.remove(0);
    scene.ensure("web").await;
    let members = scene.balancer()["pools"][0]["members"].clone();
    assert_eq!(
        (
            members.as_array().unwrap().len(),
            &members[0]["protocol_port"]
        ),
        (1, &json!(31080))
    );
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty());
}
