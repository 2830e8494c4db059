//! Keeps a [`Cache`] in sync with the API server by list and watch, like client-go's Reflector.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::hold::{HoldObserver, HoldOptions};
use super::store::Listed;
use super::{Cache, Cached};
use crate::api_error::{api_error, is_gone};
use crate::client::is_too_large;
use crate::cluster::{ClusterIdentity, Finding};

/// Interval of log lines while the API server cannot be read.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Pauses while the cluster of the API server cannot be read.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Options of the list and watch requests that fill a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchConfig {
    /// Number of objects per page of a paged list. Small pages reduce the peak of memory.
    pub page_size: u32,
    /// If set, objects are listed with a streaming list (`sendInitialEvents`), one object at a time. If the server
    /// refuses this, paged lists are used.
    pub streaming: bool,
    /// Label selector of the objects; all if `None`.
    pub label_selector: Option<String>,
    /// Field selector of the objects; all if `None`.
    pub field_selector: Option<String>,
}

impl Default for WatchConfig {
    /// Returns the options for all objects, streamed, in pages of 100.
    fn default() -> Self {
        Self {
            page_size: 100,
            streaming: true,
            label_selector: None,
            field_selector: None,
        }
    }
}

impl WatchConfig {
    fn watcher(&self, streaming: bool) -> Config {
        let config = Config {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            ..Config::default()
        };
        if streaming {
            config.streaming_lists()
        } else {
            config.page_size(self.page_size.max(1))
        }
    }
}

/// Fills `cache` from `api`, keeps the cache in sync until `shutdown`, and sends the subscribers' periodic resyncs.
///
/// A broken watch continues at the last resourceVersion, or with a new list if that version is too old (410 Gone),
/// after the back-off of client-go (0.8 to 30 s). [`Watch`] also protects the cache against incomplete lists and lists
/// of another cluster.
pub async fn watch<T: Cached>(
    api: Api<T::Wire>,
    config: WatchConfig,
    cache: Cache<T>,
    shutdown: CancellationToken,
) {
    Watch::new(api, config, cache).run(shutdown).await;
}

/// List-and-watch task of a [`Cache`], with optional protection against mass deletions and other clusters.
pub struct Watch<T: Cached> {
    api: Api<T::Wire>,
    config: WatchConfig,
    cache: Cache<T>,
    identity: Option<(ClusterIdentity, Client)>,
    observer: Option<Arc<dyn HoldObserver<T>>>,
}

impl<T: Cached> Clone for Watch<T> {
    fn clone(&self) -> Self {
        let api = self.api.clone();
        let config = self.config.clone();
        let cache = self.cache.clone();
        Self {
            api,
            config,
            cache,
            identity: self.identity.clone(),
            observer: self.observer.clone(),
        }
    }
}

impl<T: Cached> Watch<T> {
    /// Creates a watch without a hold and without a check of the cluster.
    #[must_use]
    pub fn new(api: Api<T::Wire>, config: WatchConfig, cache: Cache<T>) -> Self {
        Self {
            api,
            config,
            cache,
            identity: None,
            observer: None,
        }
    }

    /// Checks the cluster after a lost watch: objects are listed again only once `client` shows that its server still
    /// belongs to this cluster. If the server belongs to another cluster, the watch ends, and the cache stays
    /// unchanged.
    #[must_use]
    pub fn of_cluster(mut self, identity: ClusterIdentity, client: Client) -> Self {
        self.identity = Some((identity, client));
        self
    }

    /// Holds objects if a new list lacks many of them at once, and notifies `observer`.
    #[must_use]
    pub fn holding(mut self, options: HoldOptions, observer: Arc<dyn HoldObserver<T>>) -> Self {
        self.cache.hold(options);
        self.observer = Some(observer);
        self
    }

    /// Fills the cache and keeps it in sync until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self {
            api,
            mut config,
            cache,
            identity,
            observer,
        } = self;
        let kind = <T::Wire as kube::Resource>::kind(&()).into_owned();
        let held = cache.held();
        let reread = None;
        let failure = None;
        let mut watch_loop = WatchLoop {
            kind,
            cache,
            identity,
            observer,
            held,
            reread,
            failure,
            is_listing: true,
        };
        let mut pauses = DefaultBackoff::default();
        loop {
            let events = watcher(api.clone(), config.watcher(config.streaming)).default_backoff();
            match watch_loop.run(events, config.streaming, &shutdown).await {
                WatchEnd::Shutdown => return,
                WatchEnd::StreamingRefused => {
                    config.streaming = false;
                    continue;
                }
                WatchEnd::Expired => {}
                WatchEnd::TooLarge => {
                    if !config.streaming {
                        config.page_size = (config.page_size / 2).max(1);
                    }
                }
                WatchEnd::HoldIsOver => {
                    tracing::info!(kind = watch_loop.kind, "listing the held objects again");
                    continue;
                }
                WatchEnd::OtherCluster => {
                    shutdown.cancelled().await;
                    return;
                }
            }
            // A new watcher does not know how often its predecessor failed.
            let pause = pauses.next().unwrap_or_default();
            if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }
}

/// Reason why a watcher ended.
enum WatchEnd {
    Shutdown,
    StreamingRefused,
    /// The resourceVersion of the watch is too old (410 Gone), so the objects are listed again.
    Expired,
    /// A page of a list, or an object of a streaming list, is larger than the client accepts.
    TooLarge,
    /// The hold timeout has passed: the objects have to be listed again.
    HoldIsOver,
    /// The server is another cluster's.
    OtherCluster,
}

struct WatchLoop<T: Cached> {
    kind: String,
    cache: Cache<T>,
    identity: Option<(ClusterIdentity, Client)>,
    observer: Option<Arc<dyn HoldObserver<T>>>,
    /// Number of objects that were held after the last event.
    held: usize,
    /// Time of the next list to verify held objects; `None` during a list.
    reread: Option<Instant>,
    failure: Option<ReadFailure>,
    /// Set until a list is complete.
    is_listing: bool,
}

/// Time since when reads have failed, and time of the last log record about the failure.
struct ReadFailure {
    since: Instant,
    logged: Instant,
}

impl<T: Cached> WatchLoop<T> {
    async fn run(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<T::Wire>>>,
        streaming: bool,
        shutdown: &CancellationToken,
    ) -> WatchEnd {
        let mut events = pin!(events);
        loop {
            let next_resync = if self.cache.is_synced() {
                self.cache.resync_due(Instant::now())
            } else {
                None
            };
            let mut resync = pin!(sleep_until(next_resync));
            let mut reread = pin!(sleep_until(self.reread));
            loop {
                let event = tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return WatchEnd::Shutdown,
                    () = &mut resync => break,
                    () = &mut reread => {
                        self.reread = None;
                        return WatchEnd::HoldIsOver;
                    }
                    () = self.cache.subscribed() => break,
                    event = events.next() => event,
                };
                match event {
                    Some(Ok(event)) => {
                        if matches!(event, Event::Init) && !self.is_same_cluster(shutdown).await {
                            return WatchEnd::OtherCluster;
                        }
                        let is_listed = self.apply(event);
                        self.note_returns();
                        if is_listed {
                            break;
                        }
                    }
                    Some(Err(error)) if streaming && refuses_streaming(&error) => {
                        tracing::info!(
                            kind = self.kind,
                            error = error_text(&error),
                            "the API server refused a streaming list; using paged lists"
                        );
                        return WatchEnd::StreamingRefused;
                    }
                    Some(Err(error)) => {
                        self.log_failure(&error);
                        match cause_of(&error) {
                            Some(cause) if is_gone(cause) => return WatchEnd::Expired,
                            Some(cause) if self.is_listing && is_too_large(cause) => {
                                return WatchEnd::TooLarge;
                            }
                            _ => {}
                        }
                    }
                    // A watcher's stream has no end.
                    None => return WatchEnd::Shutdown,
                }
            }
        }
    }

    /// Applies an event. Returns `true` if the event completed a list.
    fn apply(&mut self, event: Event<T::Wire>) -> bool {
        match event {
            Event::Init => {
                if self.cache.is_synced() {
                    tracing::info!(
                        kind = self.kind,
                        objects = self.cache.len(),
                        "watch lost, listing again"
                    );
                }
                self.is_listing = true;
                self.cache.begin_list();
            }
            Event::InitApply(wire) => self.cache.insert(T::from_wire(wire)),
            Event::InitDone => {
                self.recover();
                self.is_listing = false;
                let listed = self.cache.end_list(Instant::now());
                tracing::debug!(kind = self.kind, objects = self.cache.len(), "listed");
                self.note_hold(&listed);
                return true;
            }
            Event::Apply(wire) => {
                self.recover();
                self.cache.insert(T::from_wire(wire));
            }
            Event::Delete(wire) => {
                self.recover();
                self.cache.remove_as(T::from_wire(wire));
            }
        }
        false
    }

    /// Returns `false` if the server belongs to another cluster. Waits until the server identifies its cluster, while
    /// the cached objects stay. Returns `true` at once if the cache was never filled.
    async fn is_same_cluster(&self, shutdown: &CancellationToken) -> bool {
        let Some((identity, client)) = self.identity.as_ref().filter(|_| self.cache.is_synced())
        else {
            return true;
        };
        let mut pause = FIRST_PAUSE;
        loop {
            match identity.check(client, "the API server").await {
                Finding::Same | Finding::Unknown => return true,
                Finding::Other(_) => return false,
                Finding::Unanswered(problem) => {
                    tracing::warn!(
                        kind = self.kind,
                        problem,
                        "cannot verify the cluster of the API server; listing again after that"
                    );
                }
            }
            if shutdown
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return true;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Logs the objects that a complete list put on hold or removed, and notifies the observer.
    fn note_hold(&mut self, listed: &Listed<T>) {
        let kind = &self.kind;
        let before = self.held;
        self.held = self.cache.held();
        self.reread = self.cache.hold_ends();
        if !listed.held.is_empty() {
            tracing::warn!(
                kind,
                missing = listed.held.len(),
                present = listed.present,
                "a new list lacks many objects without a deletion event; keeping them until a second list confirms \
                 the deletion"
            );
            self.notify_observer(|observer| observer.held(&listed.held, listed.present));
        }
        if !listed.confirmed.is_empty() {
            tracing::warn!(
                kind,
                gone = listed.confirmed.len(),
                "a second list lacks the held objects too; removing them from the cache"
            );
            self.notify_observer(|observer| observer.ended(&listed.confirmed));
        } else if before > 0 && self.held == 0 {
            self.note_end();
        }
    }

    /// Ends the hold if no object is held any more: objects that a list lacked may appear again, or be deleted, one by
    /// one.
    fn note_returns(&mut self) {
        if self.held > 0 && self.reread.is_some() && self.cache.held() == 0 {
            (self.held, self.reread) = (0, None);
            self.note_end();
        }
    }

    fn note_end(&self) {
        tracing::info!(kind = self.kind, "the held objects are listed again");
        self.notify_observer(|observer| observer.ended(&[]));
    }

    fn notify_observer(&self, notify: impl Fn(&dyn HoldObserver<T>)) {
        if let Some(observer) = &self.observer {
            notify(&**observer);
        }
    }

    fn recover(&mut self) {
        if let Some(failure) = self.failure.take() {
            tracing::debug!(kind = self.kind, after = ?failure.since.elapsed(), "watch recovered");
        }
    }

    /// Logs a warning once a minute while the watch makes no progress. A single broken watch is normal and logged at
    /// debug level.
    fn log_failure(&mut self, error: &watcher::Error) {
        let now = Instant::now();
        let text = error_text(error);
        match &mut self.failure {
            None => {
                if self.cache.is_synced() {
                    tracing::debug!(kind = self.kind, error = text, "watch interrupted");
                } else {
                    tracing::warn!(kind = self.kind, error = text, "cannot list, retrying");
                }
                self.failure = Some(ReadFailure {
                    since: now,
                    logged: now,
                });
            }
            Some(failure) if now - failure.logged >= FAILURE_LOG_INTERVAL => {
                failure.logged = now;
                tracing::warn!(kind = self.kind, error = text, since = ?(now - failure.since), "still cannot watch");
            }
            Some(_) => tracing::debug!(kind = self.kind, error = text, "still cannot watch"),
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}

/// Returns `true` if the server rejects the request as such, which it would not do for a paged list.
fn refuses_streaming(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            matches!(status.code, 400 | 405 | 406 | 422)
        }
        _ => false,
    }
}

/// Returns the client's error, if a request failed.
fn cause_of(error: &watcher::Error) -> Option<&kube::Error> {
    match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => Some(cause),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    }
}

fn error_text(error: &watcher::Error) -> String {
    match (error, cause_of(error)) {
        (_, Some(cause)) => api_error(cause).to_string(),
        (watcher::Error::WatchError(status), _) => status.message.clone(),
        _ => error.to_string(),
    }
}
