//! The account of requests to the cloud, and what most tests do on a harness: let Nodes join, wait, read events.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fault_injector::{Intercepted, Passed, Side};
use crate::harness::Harness;

/// Longer than anything may take to settle.
pub const PATIENCE: Duration = Duration::from_secs(2 * 3600);

impl Harness {
    /// Adds machines and registers their Nodes, `worker-<from>` and so on, with a Pod CIDR each.
    pub async fn join(&self, numbers: RangeInclusive<usize>) {
        for number in numbers {
            let name = format!("worker-{number}");
            self.cloud.add_machine(&name);
            let cidr = format!("10.244.{}.{}/28", number / 16, (number % 16) * 16);
            self.user.register_node(&name, &[cidr]).await;
        }
    }

    /// Waits until everything is settled.
    ///
    /// # Panics
    /// If it does not settle within [`PATIENCE`]; the text names what is unsettled.
    pub async fn settle(&self) {
        if let Err(unsettled) = self.settle_within(PATIENCE).await {
            let warnings = self.warnings(5);
            let last = self.injector.last(20);
            panic!(
                "not settled: {unsettled:#?}\nwarnings: {warnings:#?}\nlast requests: {last:#?}"
            );
        }
        // Pending operations of the cloud, and reports about them, end in this time.
        tokio::time::sleep(Duration::from_secs(30)).await;
    }

    /// Returns the object's name and the `reason` of all events so far.
    #[must_use]
    pub fn event_reasons(&self) -> Vec<String> {
        let all = self.api.list("events").into_iter();
        all.map(|object| {
            format!("{} {}", object["involvedObject"]["name"], object["reason"]).replace('"', "")
        })
        .collect()
    }

    /// Returns the account of the requests to the cloud since it was last taken.
    pub fn account(&self) -> Account {
        let passed = self.injector.passed();
        let since = self.accounted.swap(passed.len(), Ordering::Relaxed);
        let polls = self.cloud.api().polls;
        let mut account = Account::default();
        for request in passed
            .iter()
            .skip(since)
            .filter(|request| request.side == Side::Cloud)
        {
            *account.counts.entry(request.without_query()).or_default() += 1;
            match request {
                entry if entry.is_mutation() => account.changes += 1,
                object if polls.iter().any(|route| object.is_on(route)) => account.polls += 1,
                _ => account.reads += 1,
            }
        }
        account
    }

    /// Returns the number of requests on this route of the cloud so far.
    #[must_use]
    pub fn count_on(&self, route: &str) -> usize {
        self.injector
            .passed()
            .iter()
            .filter(|request| request.side == Side::Cloud && request.is_on(route))
            .count()
    }

    /// Returns the UID of a Service of namespace `default`.
    ///
    /// # Panics
    /// If the Service does not exist.
    #[must_use]
    pub fn uid(&self, service: &str) -> String {
        let service = self
            .api
            .get("services", Some("default"), service)
            .expect("a Service of that name");
        service["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns the first address, or host name, in the status of a Service of namespace `default`.
    #[must_use]
    pub fn address(&self, service: &str) -> Option<String> {
        let service = self.api.get("services", Some("default"), service)?;
        let ingress = &service["status"]["loadBalancer"]["ingress"][0];
        ingress["ip"]
            .as_str()
            .or(ingress["hostname"].as_str())
            .map(str::to_owned)
    }
}

/// The API of a cloud behind the harness' fault injector.
pub type CloudApi = Intercepted<axum::Router>;

impl Passed {
    fn without_query(&self) -> String {
        format!(
            "{} {}",
            self.method,
            self.target.split('?').next().unwrap_or_default()
        )
    }
}

/// Requests to a cloud.
#[derive(Debug, Default)]
pub struct Account {
    /// Number of requests by method and path.
    pub counts: BTreeMap<String, usize>,
    /// Requests that ask for a change.
    pub changes: usize,
    /// Polls, as [`ApiRequests::polls`](crate::ApiRequests::polls) names them.
    pub polls: usize,
    /// Reads other than the polls.
    pub reads: usize,
}

impl Account {
    /// Returns the number of all requests.
    #[must_use]
    pub fn total(&self) -> usize {
        self.changes + self.polls + self.reads
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            counts,
            changes,
            polls,
            reads,
        } = self;
        let most: Vec<_> = counts
            .iter()
            .filter(|(_, count)| **count > 1)
            .take(20)
            .collect();
        write!(
            f,
            "{changes} changes, {polls} polls, {reads} other reads: {most:?}"
        )
    }
}
