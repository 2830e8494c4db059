//! A stage with the simulated cloud at hand, and what all tests do on it.

use std::time::Duration;

use ccm_tests::cloud_under_test::SimulatedCloud;
use ccm_tests::stage::Stage;
use controllers::Options;
use provider_simulated::cloud::{self, Cloud};

/// Longer than anything may take to settle.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// A stage, and its cloud.
pub(crate) fn stage() -> (Stage, Cloud) {
    stage_with(Options::default())
}

/// A stage on which routes are made, and its cloud.
pub(crate) fn stage_with_routes() -> (Stage, Cloud) {
    let mut options = Options::default();
    options.route.cluster_cidrs = vec!["10.244.0.0/16".parse().unwrap()];
    stage_with(options)
}

/// A stage with these options, and its cloud.
pub(crate) fn stage_with(options: Options) -> (Stage, Cloud) {
    let cloud = Cloud::new(cloud::Options { operation_milliseconds: 1500, ..cloud::Options::default() });
    (Stage::new(Box::new(SimulatedCloud(cloud.clone())), options, 1), cloud)
}

/// So many machines and their Nodes, `worker-1` and so on, with a Pod CIDR each.
pub(crate) async fn join(stage: &Stage, count: usize) {
    for number in 1..=count {
        join_one(stage, number).await;
    }
}

/// One machine and its Node.
pub(crate) async fn join_one(stage: &Stage, number: usize) {
    let name = format!("worker-{number}");
    stage.cloud.add_machine(&name);
    let cidr = format!("10.244.{}.{}/28", number / 16, (number % 16) * 16);
    stage.user.register_node(&name, &[cidr]).await;
}

/// Waits until everything is settled.
pub(crate) async fn settle(stage: &Stage) {
    if let Err(unsettled) = stage.settle(PATIENCE).await {
        panic!("not settled: {unsettled:#?}\nwarnings: {:#?}", stage.warnings(5));
    }
    // What the cloud still does, and what is said about it, ends in this time.
    tokio::time::sleep(Duration::from_secs(10)).await;
}

/// `reason` of all events so far, with their number.
pub(crate) fn event_reasons(stage: &Stage) -> Vec<String> {
    let all = stage.api.list("events").into_iter();
    all.map(|it| format!("{} {}", it["involvedObject"]["name"], it["reason"]).replace('"', "")).collect()
}
