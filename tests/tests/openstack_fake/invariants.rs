//! Invariants (ARCHITECTURE.md) with the faults that this cloud has. INV-2 is in `proofs`, INV-8 in `cost`.

use std::time::Duration;

use ccm_tests::openstack_cloud::OpenStackCloud;
use cloud_provider::Fence;
use openstack_fake::{Fault, FaultKind, Options};
use serde_json::{Value, json};

use crate::scene;

#[tokio::test(start_paused = true)]
async fn inv_1_a_node_is_deleted_only_when_its_server_is_gone_for_certain() {
    let cloud = OpenStackCloud::new(Options { page_size: 20, ..Options::default() });
    let stage = scene::stage(&cloud);
    scene::join(&stage, 1..=60).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage, &cloud.fake).await;
    for number in 2..=60 {
        stage.user.set_ready(&format!("worker-{number}"), false).await;
    }
    let faults = [
        Fault::refused("", 500),
        Fault::status("", 404),
        Fault::refused("GET /servers/detail", 404),
        Fault::new("", FaultKind::RetryAfter(429, 30)),
        Fault::new("", FaultKind::RetryAfter(503, 30)),
        Fault::refused("", 401),
        Fault::refused("", 403),
        Fault::new("GET /servers/detail", FaultKind::EmptyList),
        Fault::new("GET /servers/detail", FaultKind::MissingPage(2)),
        Fault::new("GET /servers/detail", FaultKind::EarlyEnd(1)),
        Fault::new("GET /servers/detail", FaultKind::EndlessList),
        Fault::new("", FaultKind::LostAnswer),
        Fault::new("", FaultKind::Hang),
    ];
    for fault in faults {
        cloud.fake.fail(fault.clone());
        tokio::time::sleep(Duration::from_secs(400)).await;
        assert_eq!(stage.api.list("nodes").len(), 60, "{fault:?}");
        cloud.fake.clear_faults();
    }
    // Not even if the token is for a project that has servers, all of them somebody else's.
    let theirs = "0123456789abcdef0123456789abcdef";
    for number in 0..70 {
        cloud.fake.add_server_to(theirs, &format!("theirs-{number}"), &cloud.network);
    }
    cloud.fake.confuse(Some(theirs));
    tokio::time::sleep(Duration::from_secs(900)).await;
    cloud.fake.confuse(None);
    assert_eq!(stage.api.list("nodes").len(), 60, "the token was for another project");
    tokio::time::sleep(Duration::from_secs(60)).await;

    stage.cloud.terminate("worker-7");
    scene::settle(&stage, &cloud.fake).await;
    assert_eq!(stage.api.list("nodes").len(), 59, "gone for certain");
    assert!(stage.api.get("nodes", None, "worker-7").is_none());
    assert_eq!(stage.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn inv_3_a_steady_cluster_hears_nothing_nor_does_a_restart_or_a_flapping_node() {
    let cloud = OpenStackCloud::new(Options::default());
    let stage = scene::stage_with_routes(&cloud);
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
    let cloud = OpenStackCloud::new(Options::default());
    let mut stage = scene::stage_with_routes(&cloud);
    stage.fence = Fence::new(|| false);
    scene::join(&stage, 1..=5).await;
    stage.user.create_service("web", &[80]).await;
    let _program = stage.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(cloud.fake.changes(), []);
    assert_eq!(stage.gate.mutations(), 0, "{:#?}", stage.gate.last(10));
}

/// Projects, routers and ports are not the cluster's alone: others use them as well.
#[tokio::test(start_paused = true)]
async fn inv_7_what_is_not_ours_stays_as_it_is_through_a_whole_life() {
    let cloud = OpenStackCloud::new(Options::default());
    let stage = scene::stage_with_routes(&cloud);
    scene::join(&stage, 1..=3).await;
    let fake = &cloud.fake;
    let hop = fake.server("worker-1").unwrap().ip;
    let foreign = ["192.0.2.0/24", "10.99.0.0/16"].map(|range| json!({"destination": range, "nexthop": hop}));
    fake.change_router(&cloud.router, |it| it.insert("routes".to_owned(), json!(foreign)));
    let port = fake.server("worker-2").unwrap().port;
    let group = fake.add_security_group("theirs");
    fake.change_port(&port, |it| {
        it.insert("security_groups".to_owned(), json!([group]));
        it.insert(
            "allowed_address_pairs".to_owned(),
            json!([{"ip_address": "192.0.2.7", "mac_address": "fa:16:3e:00:00:07"}]),
        );
    });
    fake.add_load_balancer(&json!({"name": "theirs", "vip_subnet_id": cloud.network.subnet, "listeners": [{
        "name": "theirs", "protocol": "TCP", "protocol_port": 80}]}));
    let floating = fake.add_floating_ip(&cloud.public, "theirs", None);
    let theirs = || {
        let groups = fake.security_groups().into_iter().filter(|it| it["name"] == "theirs");
        let floating = fake.floating_ips().into_iter().filter(|it| it["id"] == floating.as_str());
        groups.chain(floating).chain(fake.load_balancer("theirs")).collect::<Vec<Value>>()
    };
    let before = theirs();
    assert_eq!(before.len(), 3);

    let program = stage.start().await.unwrap();
    stage.user.create_service("web", &[80, 443]).await;
    scene::settle(&stage, fake).await;
    stage.user.set_ports("web", &[80]).await;
    scene::settle(&stage, fake).await;
    stage.user.delete_service("web").await;
    stage.user.delete_node("worker-3").await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    program.stop().await;
    assert_eq!(theirs(), before);
    for route in foreign {
        assert!(fake.routes(&cloud.router).contains(&route), "{route}");
    }
    let port = fake.port(&port).unwrap();
    assert_eq!(port["security_groups"], json!([group]));
    let pairs = port["allowed_address_pairs"].as_array().unwrap();
    assert!(pairs.iter().any(|it| it["ip_address"] == "192.0.2.7"), "{pairs:?}");
}
