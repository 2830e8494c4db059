//! INV-8: Cloud reads per pass grow with *pages*, not with Nodes; Kubernetes writes grow with *changes*.

use std::time::Duration;

use ccm_tests::gate::{Passed, Side};
use provider_simulated::cloud::{Cloud, PAGE_SIZE};

use crate::scene;

const NODES: usize = 240;
const SERVICES: usize = 40;

fn reads(cloud: &Cloud, of: &str) -> usize {
    let all = cloud.requests().into_iter().filter(|(route, _)| route.starts_with("GET ") && route.contains(of));
    usize::try_from(all.map(|(_, count)| count).sum::<u64>()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn inv_8_reads_grow_with_pages_and_writes_with_changes() {
    let (stage, cloud) = scene::stage();
    scene::join(&stage, 1..=NODES).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    for number in 0..SERVICES {
        stage.user.create_service(&format!("service-{number}"), &[80]).await;
    }
    scene::settle(&stage).await;
    let pages = NODES.div_ceil(PAGE_SIZE);
    let (machines, balancers) = (reads(&cloud, "/v1/machines"), reads(&cloud, "/v1/load-balancers"));
    assert!(machines <= 4 * pages, "{machines} reads of machines for {NODES} Nodes on {pages} pages");
    assert!(balancers <= SERVICES, "{balancers} reads of load balancers for {SERVICES} Services");
    let writes: Vec<_> = stage.gate.passed().into_iter().filter(Passed::is_mutation).collect();
    let of = |resource: &str| {
        let writes = writes.iter().filter(|it| it.side == Side::Kubernetes);
        writes.filter(|it| it.target.split(['/', '?']).any(|segment| segment == resource)).count()
    };
    assert!(of("nodes") <= 2 * NODES, "{} writes for {NODES} Nodes", of("nodes"));
    assert!(of("services") <= 3 * SERVICES, "{} writes for {SERVICES} Services", of("services"));
    let changes: u64 =
        cloud.requests().into_iter().filter(|(route, _)| !route.starts_with("GET ")).map(|(_, count)| count).sum();
    assert!(changes <= SERVICES as u64, "{changes} changes in the cloud for {SERVICES} new load balancers");

    // Passes over all Nodes, ready or not.
    for is_ready in [true, false] {
        for number in 1..=NODES / 2 {
            stage.user.set_ready(&format!("worker-{number}"), is_ready).await;
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        let (before, mutations) = (reads(&cloud, "/v1/"), stage.gate.mutations());
        tokio::time::sleep(Duration::from_secs(600)).await;
        // Every five seconds if Nodes are not ready, and two of addresses.
        let passes = if is_ready { 2 } else { 122 };
        let more = reads(&cloud, "/v1/") - before;
        assert!(more <= passes * pages, "{more} reads in {passes} passes over {pages} pages");
        assert_eq!(stage.gate.mutations(), mutations);
    }
}
