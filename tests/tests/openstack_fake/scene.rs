//! A stage on OpenStack's fake.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use ccm_tests::openstack_cloud::OpenStackCloud;
use ccm_tests::stage::Stage;
use controllers::Options;
use openstack_fake::Fake;

/// Longer than anything may take to settle.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2 * 3600);

/// A stage on this cloud, without routes.
pub(crate) fn stage(cloud: &OpenStackCloud) -> Stage {
    Stage::new(Box::new(cloud.clone()), Options::default(), 1)
}

/// A stage on this cloud, with routes.
pub(crate) fn stage_with_routes(cloud: &OpenStackCloud) -> Stage {
    let mut options = Options::default();
    options.route.cluster_cidrs = vec!["10.244.0.0/16".parse().unwrap()];
    Stage::new(Box::new(cloud.clone()), options, 1)
}

/// So many machines and their Nodes, `worker-<from>` and so on, with a Pod CIDR each.
pub(crate) async fn join(stage: &Stage, numbers: RangeInclusive<usize>) {
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
    tokio::time::sleep(Duration::from_secs(30)).await;
}

/// The account of requests since it was last asked for: by route, without tokens.
pub(crate) struct Account {
    pub(crate) counts: BTreeMap<String, usize>,
    /// Those that asked for a change.
    pub(crate) changes: usize,
    /// Looks at one load balancer: whether it is ready.
    pub(crate) looks: usize,
    /// All others.
    pub(crate) reads: usize,
}

/// Takes the account, and begins a new one.
pub(crate) fn account(fake: &Fake) -> Account {
    let mut counts = fake.counts();
    counts.remove("POST /auth/tokens");
    let changes = fake.changes().len();
    let looks = counts.get("GET /lbaas/loadbalancers/{id}").copied().unwrap_or_default();
    let reads = counts.values().sum::<usize>() - changes - looks;
    fake.forget_requests();
    Account { counts, changes, looks, reads }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { counts, changes, looks, reads } = self;
        write!(f, "{changes} changes, {looks} looks, {reads} other reads: {counts:?}")
    }
}
