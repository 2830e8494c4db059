//! Invariants (ARCHITECTURE.md) with the faults that this cloud has. INV-2 is in `proofs`, INV-8 in `cost`.

use std::time::Duration;

use cloud_provider::Fence;
use hetzner_fake::{Fault, FaultKind, Options, TOKEN};
use serde_json::json;

use crate::scene;

#[tokio::test(start_paused = true)]
async fn inv_1_a_node_is_deleted_only_when_its_server_is_gone_for_certain() {
    let (stage, cloud) = scene::stage(Options::default());
    scene::join(&stage, 1..=60).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage, &cloud.fake).await;
    for number in 2..=60 {
        stage.user.set_ready(&format!("worker-{number}"), false).await;
    }
    let faults = [
        Fault::code("", "server_error"),
        Fault::status("", 404),
        Fault::code("", "rate_limit_exceeded"),
        Fault::code("", "maintenance"),
        Fault::code("", "unauthorized"),
        Fault::new("GET /servers", FaultKind::EmptyList),
        Fault::new("GET /servers", FaultKind::MissingPage(2)),
        Fault::new("GET /servers", FaultKind::EarlyEnd(1)),
        Fault::new("GET /servers", FaultKind::EndlessList),
        Fault::new("", FaultKind::LostAnswer),
        Fault::new("", FaultKind::Hang),
    ];
    for fault in faults {
        cloud.fake.fail(fault.clone());
        tokio::time::sleep(Duration::from_secs(400)).await;
        assert_eq!(stage.api.list("nodes").len(), 60, "{fault:?}");
        cloud.fake.clear_faults();
    }
    // Not even if the project of the token has servers, all of them somebody else's.
    for number in 0..70 {
        cloud.fake.add_server_to("somebody else", &format!("theirs-{number}"));
    }
    cloud.fake.set_token(TOKEN, "somebody else");
    tokio::time::sleep(Duration::from_secs(900)).await;
    cloud.fake.set_token(TOKEN, hetzner_fake::PROJECT);
    assert_eq!(stage.api.list("nodes").len(), 60, "the token was for another project");

    stage.cloud.terminate("worker-7");
    scene::settle(&stage, &cloud.fake).await;
    assert_eq!(stage.api.list("nodes").len(), 59, "gone for certain");
    assert!(stage.api.get("nodes", None, "worker-7").is_none());
    assert_eq!(stage.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn inv_3_a_steady_cluster_hears_nothing_nor_does_a_restart_or_a_flapping_node() {
    let (stage, cloud) = scene::stage_with(Options::default(), scene::with_routes());
    scene::join(&stage, 1..=5).await;
    for name in ["web", "mail", "api"] {
        stage.user.create_service(name, &[80, 443]).await;
    }
    let program = stage.start().await.unwrap();
    scene::settle(&stage, &cloud.fake).await;
    let (mutations, revision) = (stage.gate.mutations(), stage.api.revision());
    let expect_silence =
        |when: &str| assert_eq!(stage.gate.mutations(), mutations, "{when}: {:#?}", stage.gate.last(20));

    tokio::time::sleep(Duration::from_secs(26 * 3600)).await;
    expect_silence("in a day");
    assert_eq!(stage.api.revision(), revision, "not even an event");

    program.stop().await;
    let program = stage.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(900)).await;
    expect_silence("after a restart");
    for is_ready in [false, true] {
        stage.user.set_ready("worker-2", is_ready).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
    expect_silence("while a Node flaps");
    program.stop().await;
    expect_silence("while it stops");
}

#[tokio::test(start_paused = true)]
async fn inv_4_who_does_not_lead_changes_nothing() {
    let (mut stage, cloud) = scene::stage_with(Options::default(), scene::with_routes());
    stage.fence = Fence::new(|| false);
    scene::join(&stage, 1..=5).await;
    stage.user.create_service("web", &[80]).await;
    let _program = stage.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(cloud.fake.changes(), []);
    assert_eq!(stage.gate.mutations(), 0, "{:#?}", stage.gate.last(10));
}

/// Names and networks are the project's, not the cluster's: others use them as well.
#[tokio::test(start_paused = true)]
async fn inv_7_what_is_not_ours_stays_as_it_is_through_a_whole_life() {
    let (stage, cloud) = scene::stage_with(Options::default(), scene::with_routes());
    scene::join(&stage, 1..=3).await;
    let fake = &cloud.fake;
    let gateway = fake.server("worker-1").and_then(|it| it.ip_in(cloud.network)).unwrap().to_string();
    let foreign = ["192.0.2.0/24", "10.99.0.0/16"]
        .map(|destination| hetzner_fake::Route { destination: destination.to_owned(), gateway: gateway.clone() });
    fake.change_network(cloud.network, |it| it.routes.extend(foreign.clone()));
    fake.add_load_balancer("theirs");
    // A name that another Service's load balancer has.
    let name = json!({"metadata": {"annotations": {"load-balancer.hetzner.cloud/name": "shared"}}});
    stage.user.create_service("owner", &[80]).await;
    stage.user.patch_service("owner", &name).await;
    let program = stage.start().await.unwrap();
    scene::settle(&stage, fake).await;
    let before = (fake.load_balancer("theirs"), fake.load_balancer("shared"));
    assert!(before.1.is_some());

    stage.user.create_service("thief", &[80]).await;
    stage.user.patch_service("thief", &name).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!((fake.load_balancer("theirs"), fake.load_balancer("shared")), before);
    assert!(
        stage.warnings(50).iter().any(|it| it.contains("thief SyncLoadBalancerFailed")),
        "{:?}",
        stage.warnings(50)
    );
    stage.user.delete_service("thief").await;
    stage.user.delete_node("worker-3").await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    program.stop().await;
    assert_eq!(fake.load_balancer("theirs"), before.0);
    assert!(fake.load_balancer("shared").is_some());
    for route in foreign {
        assert!(fake.routes(cloud.network).contains(&route), "{route:?}");
    }
}
