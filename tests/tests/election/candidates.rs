//! Processes that stand for one Lease.

use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::ApiServer;
use kube::Client;
use parking_lot::Mutex;
use runtime::client::{Limits, NoRequestMetrics, wrap};
use runtime::clock::{Clock, SystemClock};
use runtime::election::{ElectionConfig, ElectionMetrics, ElectionOutcome, Elector, Leadership};
use runtime::events::{EventRecorder, RecordedEvent};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// A candidate process of the election.
pub(crate) struct Candidate {
    pub(crate) leadership: Leadership,
    pub(crate) metrics: Arc<Told>,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
    stop: CancellationToken,
    task: JoinHandle<ElectionOutcome>,
}

/// Metrics that were reported.
#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<String>>);

impl ElectionMetrics for Told {
    fn leading(&self, lease: &str, leads: bool) {
        self.0.lock().push(format!("{lease} {leads}"));
    }
    fn slow_path(&self, lease: &str) {
        self.0.lock().push(format!("{lease} slow"));
    }
}

impl Told {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

pub(crate) fn config(identity: &str) -> ElectionConfig {
    ElectionConfig {
        identity: identity.to_owned(),
        ..ElectionConfig::new("kube-system", "ccm")
    }
}

impl Candidate {
    pub(crate) fn new(api: &ApiServer, identity: &str) -> Self {
        Self::with(api, config(identity), Arc::new(SystemClock))
    }

    /// Creates a candidate that sends its requests to `below`.
    pub(crate) fn of(below: &Client, config: ElectionConfig) -> Self {
        Self::over(below, config, Arc::new(SystemClock))
    }

    pub(crate) fn with(api: &ApiServer, config: ElectionConfig, clock: Arc<dyn Clock>) -> Self {
        Self::over(&Client::new(api.service(), "default"), config, clock)
    }

    fn over(below: &Client, config: ElectionConfig, clock: Arc<dyn Clock>) -> Self {
        let limits = Limits {
            request_timeout: Some(config.renew_deadline / 2),
            single_attempt: true,
            ..Limits::default()
        };
        let client = wrap(
            below,
            "embedded",
            &config.identity,
            &limits,
            Arc::new(NoRequestMetrics),
        );
        let (recorder, events) =
            EventRecorder::to_memory("cloud-controller-manager", Arc::new(SystemClock));
        let metrics = Arc::new(Told::default());
        let stop = CancellationToken::new();
        let elector = Elector::new(client, config, recorder, metrics.clone()).clock(clock);
        let leadership = elector.leadership();
        let task = tokio::spawn(elector.run(stop.clone()));
        Self {
            leadership,
            metrics,
            events,
            stop,
            task,
        }
    }

    /// Stops the candidate as on SIGTERM, when all work has ended.
    pub(crate) async fn stop(self) -> ElectionOutcome {
        self.stop.cancel();
        self.task.await.unwrap()
    }

    /// Kills the candidate as on SIGKILL.
    pub(crate) async fn kill(self) {
        self.task.abort();
        _ = self.task.await;
    }

    pub(crate) async fn outcome(&mut self) -> ElectionOutcome {
        (&mut self.task).await.unwrap()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        let text = |event: &RecordedEvent| {
            format!(
                "{} {} {} {}",
                event.regarding, event.type_, event.reason, event.message
            )
        };
        self.events.lock().iter().map(text).collect()
    }
}

/// Returns the Lease of the election.
pub(crate) fn lease(api: &ApiServer) -> Value {
    api.get("leases", Some("kube-system"), "ccm")
        .unwrap_or_default()
}

pub(crate) fn holder(api: &ApiServer) -> String {
    lease(api)["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Changes the Lease as a person does with `kubectl edit`.
pub(crate) fn edit(api: &ApiServer, change: impl FnOnce(&mut Value)) {
    let mut object = lease(api);
    change(&mut object);
    object["apiVersion"] = json!("coordination.k8s.io/v1");
    object["kind"] = json!("Lease");
    api.seed(object).unwrap();
}

/// Waits for it; how long that took.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !condition() {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "{what}: not within two minutes"
        );
        sleep(Duration::from_millis(1)).await;
    }
    begin.elapsed()
}

/// Requests for leases so far, as `verb status`, of one candidate.
pub(crate) fn requests(api: &ApiServer, identity: &str) -> Vec<String> {
    let all = api.requests().all().into_iter();
    let ours = all.filter(|request| request.resource == "leases" && request.user_agent == identity);
    ours.map(|request| format!("{} {}", request.verb, request.status))
        .collect()
}
