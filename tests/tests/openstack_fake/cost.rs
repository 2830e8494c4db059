//! INV-8 on OpenStack: reads grow with pages, writes with changes.

use std::time::Duration;

use ccm_tests::openstack_cloud::OpenStackCloud;
use openstack_fake::{Fault, FaultKind, Options};

use crate::scene::{self, account};

const NODES: usize = 1000;
/// Each with two ports.
const SERVICES: usize = 20;
/// Of servers and of ports, as long as pages may be.
const PAGE: usize = 250;
const PAGES: usize = NODES.div_ceil(PAGE) + 1;

fn cloud(plain: bool) -> OpenStackCloud {
    let options = Options { page_size: PAGE, ..Options::default() };
    if plain { OpenStackCloud::plain(options) } else { OpenStackCloud::new(options) }
}

#[tokio::test(start_paused = true)]
async fn reads_grow_with_pages_and_writes_with_changes() {
    let cloud = cloud(true);
    let stage = scene::stage(&cloud);
    scene::join(&stage, 1..=NODES).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage, &cloud.fake).await;
    let joined = account(&cloud.fake);
    println!("{NODES} Nodes were initialised: {joined}");
    assert!(joined.reads <= 6 * PAGES, "{joined}");
    assert_eq!(joined.changes, 0, "{joined}");

    for number in 0..SERVICES {
        stage.user.create_service(&format!("service-{number}"), &[80, 443]).await;
    }
    scene::settle(&stage, &cloud.fake).await;
    let made = account(&cloud.fake);
    println!("{SERVICES} internal load balancers with 2 ports were made: {made}");
    assert!(made.changes <= 3 * SERVICES, "{made}");
    assert!(made.reads <= 10 * SERVICES + 4 * PAGES, "{made}");

    for number in 0..SERVICES {
        let note = serde_json::json!({"metadata": {"annotations": {"example.com/note": "nothing"}}});
        stage.user.patch_service(&format!("service-{number}"), &note).await;
    }
    scene::settle(&stage, &cloud.fake).await;
    let unchanged = account(&cloud.fake);
    println!("nothing changed for {SERVICES} Services: {unchanged}");
    assert_eq!(unchanged.changes, 0, "{unchanged}");
    assert!(unchanged.reads <= 8 * SERVICES + 4 * PAGES, "{unchanged}");

    tokio::time::sleep(Duration::from_secs(600)).await;
    let steady = account(&cloud.fake);
    println!("ten steady minutes: {steady}");
    assert_eq!(steady.changes, 0, "{steady}");

    scene::join(&stage, NODES + 1..=NODES + 1).await;
    scene::settle(&stage, &cloud.fake).await;
    let one_more = account(&cloud.fake);
    println!("a Node joined {} pools: {one_more}", 2 * SERVICES);
    assert_eq!(one_more.changes, 2 * SERVICES, "one a pool: {one_more}");

    for number in 0..SERVICES {
        stage.user.delete_service(&format!("service-{number}")).await;
    }
    scene::settle(&stage, &cloud.fake).await;
    let deleted = account(&cloud.fake);
    println!("they were deleted: {deleted}");
    assert_eq!(deleted.changes, SERVICES, "one DELETE each: {deleted}");
    assert_eq!(cloud.fake.load_balancers(), [serde_json::Value::Null; 0]);
}

/// With everything: what the configuration asks for costs its share, and no more.
#[tokio::test(start_paused = true)]
async fn a_floating_ip_a_security_group_and_monitors_cost_their_share() {
    const FEW: usize = 10;
    let cloud = cloud(false);
    // What comes while a change is under way goes together with the next one.
    cloud.fake.fail(Fault::new("PUT", FaultKind::Latency(Duration::from_millis(100))));
    let stage = scene::stage_with_routes(&cloud);
    scene::join(&stage, 1..=FEW).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage, &cloud.fake).await;
    let joined = account(&cloud.fake);
    println!("{FEW} Nodes with routes: {joined}");
    // Each port lets its range through; the routes go together.
    assert!(joined.changes <= FEW + 4, "{joined}");

    stage.user.create_service("web", &[80, 443]).await;
    scene::settle(&stage, &cloud.fake).await;
    let made = account(&cloud.fake);
    println!("a load balancer with 2 ports, floating IP, monitors and security group was made: {made}");
    // The tree, the floating IP, the group and its rules (or one each), the group on each port.
    assert!(made.changes <= 2 + 1 + 4 + FEW, "{made}");

    tokio::time::sleep(Duration::from_secs(600)).await;
    let steady = account(&cloud.fake);
    println!("ten steady minutes: {steady}");
    assert_eq!(steady.changes, 0, "{steady}");
}
