//! A stage on Hetzner Cloud.

use std::time::Duration;

use ccm_tests::hetzner_cloud::HetznerCloud;
use ccm_tests::stage::Stage;
use controllers::Options;
use hetzner_fake::Fake;

/// Longer than anything may take to settle.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2 * 3600);

/// A stage without routes, and its cloud.
pub(crate) fn stage(options: hetzner_fake::Options) -> (Stage, HetznerCloud) {
    stage_with(options, Options::default())
}

/// A stage with these options of the controllers, and its cloud.
pub(crate) fn stage_with(options: hetzner_fake::Options, controllers: Options) -> (Stage, HetznerCloud) {
    let cloud = HetznerCloud::new(options);
    (Stage::new(Box::new(cloud.clone()), controllers, 1), cloud)
}

/// Options under which routes are made.
pub(crate) fn with_routes() -> Options {
    let mut options = Options::default();
    options.route.cluster_cidrs = vec!["10.244.0.0/16".parse().unwrap()];
    options
}

/// So many machines and their Nodes, `worker-<from>` and so on, with a Pod CIDR each.
pub(crate) async fn join(stage: &Stage, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        let name = format!("worker-{number}");
        stage.cloud.add_machine(&name);
        let cidr = format!("10.244.{}.{}/28", number / 16, (number % 16) * 16);
        stage.user.register_node(&name, &[cidr]).await;
    }
}

/// Waits until everything is settled.
pub(crate) async fn settle(stage: &Stage, fake: &Fake) {
    if let Err(unsettled) = stage.settle(PATIENCE).await {
        panic!("not settled: {unsettled:#?}\nwarnings: {:#?}\nrequests: {:#?}", stage.warnings(5), fake.counts());
    }
    // What the cloud still does, and what is said about it, ends in this time.
    tokio::time::sleep(Duration::from_secs(10)).await;
}
