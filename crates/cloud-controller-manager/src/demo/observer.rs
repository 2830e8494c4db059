//! The demo's observer: watches on Nodes, Services and Events, polls of the cloud's counters, and reads of the cloud
//! itself.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Service};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use provider_simulated::cloud::Cloud;
use runtime::cache::{Cache, CacheEvent, Cached, Resync, WatchConfig, watch};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::observed::{CloudState, ObservedEvent};

/// Interval of polls of the cloud's counters, which cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum age of the cloud's load balancers and routes, which cannot be watched either and are many.
const MAX_CACHE_AGE: Duration = Duration::from_millis(100);
/// Prefix of the requests that read machines.
const MACHINE_ROUTES: &str = "GET /v1/machines";

/// Watches the API server and counts passes over the cloud.
pub(super) struct Observer {
    nodes: Cache<Node>,
    services: Cache<Service>,
    cloud: Cloud,
    seen: Mutex<Option<(Instant, Arc<CloudState>)>>,
    observed_events: Arc<Mutex<Vec<Arc<ObservedEvent>>>>,
    passes: Arc<Mutex<Passes>>,
    changed: Arc<Notify>,
}

impl Observer {
    /// Starts the watches and returns when they are synced. Requests to the cloud that are more than `quiet` apart
    /// belong to different passes.
    pub(super) async fn start(
        client: Client,
        cloud: Cloud,
        quiet: Duration,
        shutdown: CancellationToken,
    ) -> Self {
        let observer = Self {
            nodes: Cache::new(),
            services: Cache::new(),
            cloud: cloud.clone(),
            seen: Mutex::default(),
            observed_events: Arc::default(),
            passes: Arc::new(Mutex::new(Passes::new(quiet))),
            changed: Arc::default(),
        };
        let changed = Arc::clone(&observer.changed);
        observer
            .nodes
            .subscribe(Resync::never(), move |_| changed.notify_one());
        let changed = Arc::clone(&observer.changed);
        observer
            .services
            .subscribe(Resync::never(), move |_| changed.notify_one());
        let events = Cache::<SeenEvent>::new();
        observer.record_events(&events);
        let config = WatchConfig::default;
        let watch_nodes = watch::<Node>(
            Api::all(client.clone()),
            config(),
            observer.nodes.clone(),
            shutdown.clone(),
        );
        let services = observer.services.clone();
        let watch_services = watch::<Service>(
            Api::all(client.clone()),
            config(),
            services,
            shutdown.clone(),
        );
        let watch_events =
            watch::<SeenEvent>(Api::all(client), config(), events.clone(), shutdown.clone());
        tokio::spawn(async move { tokio::join!(watch_nodes, watch_services, watch_events) });
        tokio::spawn(count(
            cloud,
            Arc::clone(&observer.passes),
            Arc::clone(&observer.changed),
            shutdown,
        ));
        observer.nodes.wait_synced().await;
        observer.services.wait_synced().await;
        events.wait_synced().await;
        observer
    }

    /// Keeps the events in the order in which they are received.
    fn record_events(&self, events: &Cache<SeenEvent>) {
        let observed_events = Arc::clone(&self.observed_events);
        let passes = Arc::clone(&self.passes);
        let changed = Arc::clone(&self.changed);
        events.subscribe(Resync::never(), move |event| {
            if event.is_resync() || matches!(event, CacheEvent::Deleted(_)) {
                return;
            }
            let seen = event.object();
            let passes = lock(&passes).passes;
            let kind = seen.kind.clone();
            let about = seen.about.clone();
            let reason = seen.reason.clone();
            let message = seen.message.clone();
            lock(&observed_events).push(Arc::new(ObservedEvent {
                kind,
                about,
                reason,
                message,
                passes,
            }));
            changed.notify_one();
        });
    }

    /// Returns the Nodes of the cluster.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.list()
    }

    /// Returns the Services of the cluster.
    pub(super) fn services(&self) -> Vec<Arc<Service>> {
        self.services.list()
    }

    /// Returns the events so far.
    pub(super) fn observed_events(&self) -> Vec<Arc<ObservedEvent>> {
        lock(&self.observed_events).clone()
    }

    /// Returns the number of passes so far in which machines were read from the cloud.
    pub(super) fn passes(&self) -> u32 {
        lock(&self.passes).passes
    }

    /// Returns the load balancers and routes in the cloud, at most `MAX_CACHE_AGE` old.
    pub(super) fn cloud(&self) -> Arc<CloudState> {
        let mut seen = lock(&self.seen);
        match &*seen {
            Some((at, state)) if at.elapsed() < MAX_CACHE_AGE => Arc::clone(state),
            _ => {
                let state = Arc::new(CloudState::of(&self.cloud));
                *seen = Some((Instant::now(), Arc::clone(&state)));
                state
            }
        }
    }

    /// Discards the cached state of the cloud, after the demo changed the cloud.
    pub(super) fn discard_cached_cloud(&self) {
        *lock(&self.seen) = None;
    }

    /// Returns between two passes over the cloud, the first of which began after this call. Some Node must not be
    /// ready, because machines of ready Nodes are not read.
    pub(super) async fn between_passes(&self) {
        let before = lock(&self.passes).passes;
        while !lock(&self.passes).is_between(before, Instant::now()) {
            tokio::time::sleep(POLL_INTERVAL / 2).await;
        }
    }

    /// Returns when something changed.
    pub(super) async fn changed(&self) {
        _ = tokio::time::timeout(2 * POLL_INTERVAL, self.changed.notified()).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

async fn count(
    cloud: Cloud,
    passes: Arc<Mutex<Passes>>,
    changed: Arc<Notify>,
    shutdown: CancellationToken,
) {
    while !shutdown.is_cancelled() {
        let requests = cloud.requests();
        let machines = requests
            .iter()
            .filter(|(route, _)| route.starts_with(MACHINE_ROUTES));
        if lock(&passes).note(machines.map(|(_, count)| count).sum(), Instant::now()) {
            changed.notify_one();
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Tells passes of the controllers apart by the pauses between requests.
#[derive(Debug)]
struct Passes {
    quiet: Duration,
    requests: u64,
    last: Option<Instant>,
    passes: u32,
}

impl Passes {
    fn new(quiet: Duration) -> Self {
        Self {
            quiet,
            requests: 0,
            last: None,
            passes: 0,
        }
    }

    /// Returns `true` if a pass after the first `before` passes has ended.
    fn is_between(&self, before: u32, now: Instant) -> bool {
        self.passes > before
            && self
                .last
                .is_some_and(|last| now.duration_since(last) >= self.quiet)
    }

    /// Records the number of requests so far. Returns `true` if a pass began.
    fn note(&mut self, requests: u64, now: Instant) -> bool {
        if requests <= self.requests {
            return false;
        }
        self.requests = requests;
        let before = self.last.replace(now);
        let begins = before.is_none_or(|before| now.duration_since(before) >= self.quiet);
        self.passes += u32::from(begins);
        begins
    }
}

/// An event in the form in which it is watched.
#[derive(Debug)]
struct SeenEvent {
    key: String,
    resource_version: String,
    kind: String,
    about: String,
    reason: String,
    message: String,
}

impl Cached for SeenEvent {
    type Wire = Event;

    fn from_wire(event: Event) -> Self {
        let text = Option::unwrap_or_default;
        let metadata = event.metadata;
        Self {
            key: format!("{}/{}", text(metadata.namespace), text(metadata.name)),
            resource_version: text(metadata.resource_version),
            kind: text(event.involved_object.kind),
            about: text(event.involved_object.name),
            reason: text(event.reason),
            message: text(event.message),
        }
    }

    fn key(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.key)
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_quick_succession_are_one_pass() {
        let mut passes = Passes::new(Duration::from_millis(200));
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let begins: Vec<bool> = [
            (0, 0),
            (10, 50),
            (60, 100),
            (110, 250),
            (110, 300),
            (111, 460),
        ]
        .map(|(requests, millis)| passes.note(requests, at(millis)))
        .into();
        assert_eq!(begins, [false, true, false, false, false, true]);
        assert_eq!(passes.passes, 2);
        assert!(!passes.is_between(1, at(500)), "the second one may go on");
        assert!(passes.is_between(1, at(660)));
        assert!(
            !passes.is_between(2, at(660)),
            "the third one has not begun"
        );
    }
}
