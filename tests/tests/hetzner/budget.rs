//! Rate limit of requests (P-3): Nodes take precedence, and the program never exceeds the limit twice in a row.

use std::time::Duration;

use ccm_conformance::Harness;
use ccm_tests::profiles::HetznerCloud;
use cloud_provider::names::TAINT_UNINITIALIZED;
use hetzner_fake::{Options, Recorded};
use tokio::time::Instant;

const SERVICES: usize = 200;
const NODES: usize = 100;

fn initialised(harness: &Harness) -> usize {
    let is_initialised = |node: &serde_json::Value| {
        let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
        !taints.any(|taint| taint["key"] == TAINT_UNINITIALIZED)
    };
    harness
        .api
        .list("nodes")
        .iter()
        .filter(|node| is_initialised(node))
        .count()
}

fn in_a_row(requests: &[Recorded]) -> usize {
    let mut statuses: Vec<_> = requests
        .iter()
        .filter(|request| request.status != 0)
        .map(|request| (request.at, request.status))
        .collect();
    statuses.sort_by_key(|(at, _)| *at);
    statuses
        .windows(2)
        .filter(|window| window.iter().all(|(_, status)| *status == 429))
        .count()
}

/// Two hundred load balancers are to be created when the project's requests are nearly used up, and then a hundred
/// Nodes join.
#[tokio::test(start_paused = true)]
async fn nodes_come_first_when_requests_are_scarce_and_no_request_is_refused_twice_in_a_row() {
    let cloud = HetznerCloud::new(Options {
        limit: 3600,
        remaining: 60,
        ..Options::default()
    });
    let harness = Harness::on(&cloud);
    harness.join(1..=3).await;
    let _program = harness.start().await.unwrap();
    harness.settle().await;
    cloud.fake.set_remaining(20);
    cloud.fake.forget_requests();
    let begun = Instant::now();
    for number in 0..SERVICES {
        harness
            .user
            .create_service(&format!("service-{number}"), &[80])
            .await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let joined = Instant::now();
    for number in 4..4 + NODES {
        harness.join(number..=number).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while initialised(&harness) < 3 + NODES {
        assert!(
            joined.elapsed() < Duration::from_secs(60),
            "{} of {NODES} Nodes: {:#?}",
            initialised(&harness),
            cloud.fake.counts()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = joined.elapsed();
    let made = cloud.fake.load_balancers().len();
    println!(
        "{NODES} Nodes were initialised after {took:?}; {made} of {SERVICES} load balancers were there"
    );
    assert!(made < SERVICES, "requests were not scarce");
    // 25 targets each: what is more is left out.
    while cloud.fake.load_balancers().len() < SERVICES
        || cloud
            .fake
            .load_balancers()
            .iter()
            .any(|load_balancer| load_balancer.targets.len() < 25)
    {
        assert!(
            begun.elapsed() < ccm_conformance::PATIENCE,
            "{} load balancers: {:#?}",
            cloud.fake.load_balancers().len(),
            cloud.fake.counts()
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let requests = cloud.fake.requests();
    let refused = requests
        .iter()
        .filter(|request| request.status == 429)
        .count();
    let took = begun.elapsed();
    println!(
        "all of it took {took:?} and {} requests, of which {refused} were refused: {:#?}",
        requests.len(),
        cloud.fake.counts()
    );
    assert_eq!(
        in_a_row(&requests),
        0,
        "refused twice in a row; {refused} of {} in all",
        requests.len()
    );
}
