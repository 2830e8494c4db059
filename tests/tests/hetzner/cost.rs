//! INV-8 on Hetzner Cloud: reads grow with pages, writes with changes.

use std::time::Duration;

use ccm_tests::gate::{Passed, Side};
use hetzner_fake::{Fake, Options};

use crate::scene;

const NODES: usize = 240;
const SERVICES: usize = 40;
const PAGES: usize = NODES.div_ceil(50);

/// Load balancers take 25 targets: the others are left out, which is said, not tried.
fn few_targets(fake: &Fake) {
    fake.change_type("lb11", |it| it.max_targets = NODES);
}

#[tokio::test(start_paused = true)]
async fn reads_grow_with_pages_and_writes_with_changes() {
    let (stage, cloud) = scene::stage(Options { limit: 36_000, remaining: 36_000, ..Options::default() });
    few_targets(&cloud.fake);
    scene::join(&stage, 1..=NODES).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage, &cloud.fake).await;
    let initialised = cloud.fake.requests().len();
    assert!(initialised <= 4 * PAGES + 5, "{initialised} requests for {NODES} Nodes: {:#?}", cloud.fake.counts());

    cloud.fake.forget_requests();
    for number in 0..SERVICES {
        stage.user.create_service(&format!("service-{number}"), &[80, 443]).await;
    }
    scene::settle(&stage, &cloud.fake).await;
    let counts = cloud.fake.counts();
    println!("{SERVICES} load balancers were made: {counts:#?}");
    assert_eq!(cloud.fake.changes().len(), SERVICES, "one POST each: {counts:#?}");
    let polls = cloud.fake.count("GET /actions");
    let total = cloud.fake.requests().len() - polls;
    assert!(total <= 2 * SERVICES + PAGES + 5, "{total} requests for {SERVICES} load balancers: {counts:#?}");
    let writes: Vec<_> = stage.gate.passed().into_iter().filter(Passed::is_mutation).collect();
    let of = |resource: &str| {
        let writes = writes.iter().filter(|it| it.side == Side::Kubernetes);
        writes.filter(|it| it.target.split(['/', '?']).any(|segment| segment == resource)).count()
    };
    assert!(of("nodes") <= 2 * NODES, "{} writes for {NODES} Nodes", of("nodes"));
    assert!(of("services") <= 3 * SERVICES, "{} writes for {SERVICES} Services", of("services"));

    cloud.fake.forget_requests();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mutations = stage.gate.mutations();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let reads = cloud.fake.requests().len();
    assert!(reads <= 4 * PAGES, "{reads} reads in ten steady minutes: {:#?}", cloud.fake.counts());
    assert_eq!(stage.gate.mutations(), mutations, "steady");

    cloud.fake.forget_requests();
    scene::join(&stage, NODES + 1..=NODES + 1).await;
    cloud.fake.change_type("lb11", |it| it.max_targets = NODES + 1);
    scene::settle(&stage, &cloud.fake).await;
    println!("a Node joined: {:#?}", cloud.fake.counts());
    assert!(cloud.fake.changes().len() <= SERVICES + 1, "{:#?}", cloud.fake.counts());

    cloud.fake.forget_requests();
    for number in 0..SERVICES {
        stage.user.delete_service(&format!("service-{number}")).await;
    }
    scene::settle(&stage, &cloud.fake).await;
    let counts = cloud.fake.counts();
    println!("they were deleted: {counts:#?}");
    assert_eq!(cloud.fake.load_balancers(), []);
    assert_eq!(cloud.fake.changes().len(), SERVICES, "one DELETE each: {counts:#?}");
    let total = cloud.fake.requests().len();
    assert!(total <= 2 * SERVICES + PAGES + 5, "{total} requests for {SERVICES} deletions: {counts:#?}");
}
