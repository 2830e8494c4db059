//! What most tests do on a stage: set it, let Nodes join, wait, take the account.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use controllers::Options;

use crate::cloud_under_test::CloudUnderTest;
use crate::faked_cloud::FakedCloud;
use crate::stage::Stage;

/// Longer than anything may take to settle.
pub const PATIENCE: Duration = Duration::from_secs(2 * 3600);

/// A stage on this cloud, without routes.
pub fn on(cloud: &(impl CloudUnderTest + Clone + 'static)) -> Stage {
    Stage::new(Box::new(cloud.clone()), Options::default(), 1)
}

/// A stage on this cloud, with routes.
pub fn on_with_routes(cloud: &(impl CloudUnderTest + Clone + 'static)) -> Stage {
    Stage::new(Box::new(cloud.clone()), with_routes(), 1)
}

/// Options under which routes are made.
///
/// # Panics
/// Never: the range is one.
#[must_use]
pub fn with_routes() -> Options {
    let mut options = Options::default();
    options.route.cluster_cidrs = vec!["10.244.0.0/16".parse().expect("a range")];
    options
}

/// So many machines and their Nodes, `worker-<from>` and so on, with a Pod CIDR each.
pub async fn join(stage: &Stage, numbers: RangeInclusive<usize>) {
    for number in numbers {
        let name = format!("worker-{number}");
        stage.cloud.add_machine(&name);
        let cidr = format!("10.244.{}.{}/28", number / 16, (number % 16) * 16);
        stage.user.register_node(&name, &[cidr]).await;
    }
}

/// Waits until everything is settled.
///
/// # Panics
/// If it is not in [`PATIENCE`]; the text says what is not.
pub async fn settle(stage: &Stage) {
    if let Err(unsettled) = stage.settle(PATIENCE).await {
        let (warnings, last) = (stage.warnings(5), stage.gate.last(20));
        panic!("not settled: {unsettled:#?}\nwarnings: {warnings:#?}\nlast requests: {last:#?}");
    }
    // What the cloud still does, and what is said about it, ends in this time.
    tokio::time::sleep(Duration::from_secs(30)).await;
}

/// `reason` of all events so far, with the object's name.
#[must_use]
pub fn event_reasons(stage: &Stage) -> Vec<String> {
    let all = stage.api.list("events").into_iter();
    all.map(|it| format!("{} {}", it["involvedObject"]["name"], it["reason"]).replace('"', "")).collect()
}

/// Requests to a cloud.
pub struct Account {
    /// By route.
    pub counts: BTreeMap<String, usize>,
    /// Those that asked for a change.
    pub changes: usize,
    /// [`FakedCloud::LOOKS`].
    pub looks: usize,
    /// All others.
    pub reads: usize,
}

/// Takes the account of the requests since it was last taken.
pub fn account<C: FakedCloud>(cloud: &C) -> Account {
    let gate = cloud.gate();
    let (counts, changes) = (gate.counts(), gate.changes().len());
    let looks = C::LOOKS.iter().filter_map(|route| counts.get(*route)).sum::<usize>();
    let reads = counts.values().sum::<usize>() - changes - looks;
    gate.forget_requests();
    Account { counts, changes, looks, reads }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counts, changes, looks, reads } = self;
        write!(f, "{changes} changes, {looks} looks, {reads} other reads: {counts:?}")
    }
}
