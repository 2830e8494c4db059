//! Queue of events from the recorder to the API server.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{excerpt, visible};
use futures::future::{join, join_all};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::correlator::{CorrelationOutcome, Correlator};
use super::record::{EventType, ObjectRef, RecordedEvent};
use super::sink::{ApiSink, EventSink, SinkError};
use crate::clock::Clock;

/// Length of the queue; further events are dropped (D-112; RT-25 has 1000: a client without a rate limit initialises
/// thousands of Nodes faster than the API server accepts their events, none of which should be lost).
const QUEUE: usize = 10_000;
/// Number of shards, each with one request in flight; events about one object are in one shard and keep their order.
/// Few, so that a burst of events does not delay more important writes.
const SHARDS: usize = 2;
/// Decided events that wait in each shard.
const SHARD_CAPACITY: usize = 16;
/// Tries to reach the API server (RT-27), and the pause between them.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
/// Longest time for sending the queued events when the process stops.
const FLUSH: Duration = Duration::from_secs(3);

/// Records events; cheap to clone, never waits.
#[derive(Clone)]
pub struct EventRecorder {
    component: Arc<str>,
    clock: Arc<dyn Clock>,
    target: Target,
}

#[derive(Clone)]
enum Target {
    Queue(mpsc::Sender<(RecordedEvent, Instant)>),
    Memory(Arc<Mutex<Vec<RecordedEvent>>>),
}

impl std::fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRecorder")
            .field("component", &self.component)
            .finish_non_exhaustive()
    }
}

impl EventRecorder {
    /// Records an event on an object, with invisible characters of the message escaped: its parts come from annotations
    /// and clouds, and clients print events to terminals. Returns `false` if the queue is full; the event is then dropped and logged.
    pub fn event(
        &self,
        regarding: &ObjectRef,
        type_: EventType,
        reason: &str,
        message: impl Into<String>,
    ) -> bool {
        let event = RecordedEvent {
            component: self.component.to_string(),
            regarding: regarding.clone(),
            type_,
            reason: reason.to_owned(),
            message: excerpt(visible(&message.into()).into_owned()),
            time: self.clock.now(),
        };
        tracing::debug!(object = %event.regarding, %type_, reason, message = event.message, "event");
        match &self.target {
            Target::Memory(events) => {
                events.lock().push(event);
                true
            }
            Target::Queue(queue) => match queue.try_send((event, Instant::now())) {
                Ok(()) => true,
                Err(error) => {
                    let why = match &error {
                        mpsc::error::TrySendError::Full(_) => "too many events wait",
                        mpsc::error::TrySendError::Closed(_) => "the process is stopping",
                    };
                    let (event, _) = error.into_inner();
                    tracing::warn!(object = %event.regarding, reason, message = event.message, why, "event dropped");
                    false
                }
            },
        }
    }

    /// Returns a recorder for another component, into the same queue.
    #[must_use]
    pub fn for_component(&self, component: &str) -> Self {
        Self {
            component: component.into(),
            ..self.clone()
        }
    }

    /// Returns a recorder that keeps everything, unmerged and unlimited; for tests. The events carry the times of
    /// `clock`.
    #[must_use]
    pub fn to_memory(
        component: &str,
        clock: Arc<dyn Clock>,
    ) -> (Self, Arc<Mutex<Vec<RecordedEvent>>>) {
        let events = Arc::default();
        (
            Self {
                component: component.into(),
                clock,
                target: Target::Memory(Arc::clone(&events)),
            },
            events,
        )
    }
}

/// Returns a recorder and the task that sends its events to the API server; run [`EventSender::run`].
///
/// The permission needed is `create`, `patch` and `update` on `events` of the core group.
#[must_use]
pub fn recorder(
    client: Client,
    component: &str,
    clock: Arc<dyn Clock>,
) -> (EventRecorder, EventSender) {
    recorder_into(Arc::new(ApiSink::new(client)), component, clock)
}

/// Returns a recorder and its sender like [`recorder`], with another destination of the events.
#[must_use]
pub fn recorder_into(
    sink: Arc<dyn EventSink>,
    component: &str,
    clock: Arc<dyn Clock>,
) -> (EventRecorder, EventSender) {
    let (queue, events) = mpsc::channel(QUEUE);
    (
        EventRecorder {
            component: component.into(),
            clock,
            target: Target::Queue(queue),
        },
        EventSender { sink, events },
    )
}

/// Merges, counts, limits and sends what recorders put into the queue.
pub struct EventSender {
    sink: Arc<dyn EventSink>,
    events: mpsc::Receiver<(RecordedEvent, Instant)>,
}

impl std::fmt::Debug for EventSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSender")
            .field("queued", &self.events.len())
            .finish_non_exhaustive()
    }
}

impl EventSender {
    /// Sends events until `shutdown` or until the last recorder is dropped. After `shutdown` no event is accepted, and
    /// the queued ones are sent for at most three seconds.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let (shards, receivers): (Vec<_>, Vec<_>) =
            (0..SHARDS).map(|_| mpsc::channel(SHARD_CAPACITY)).unzip();
        let workers = join_all(
            receivers
                .into_iter()
                .map(|shard| send_all(&*self.sink, shard)),
        );
        let dispatch = dispatch(&mut self.events, shards, &shutdown);
        let all = async { join(dispatch, workers).await };
        tokio::pin!(all);
        tokio::select! {
            _ = &mut all => return,
            () = shutdown.cancelled() => {}
        }
        if timeout_at(Instant::now() + FLUSH, all).await.is_err() {
            tracing::warn!(
                "the API server did not accept all events in time, the remaining ones are dropped"
            );
        }
    }
}

/// Decides about each event, in order, and hands it to the shard of its object.
async fn dispatch(
    events: &mut mpsc::Receiver<(RecordedEvent, Instant)>,
    shards: Vec<mpsc::Sender<(RecordedEvent, CorrelationOutcome)>>,
    shutdown: &CancellationToken,
) {
    let mut correlator = Correlator::new();
    loop {
        let next = tokio::select! {
            biased;
            next = events.recv() => next,
            () = shutdown.cancelled(), if !events.is_closed() => {
                events.close();
                continue;
            }
        };
        let Some((event, at)) = next else { return };
        let outcome = correlator.correlate(&event, at);
        if outcome == CorrelationOutcome::Drop {
            tracing::debug!(object = %event.regarding, reason = event.reason, "too many events about this object, dropped");
            continue;
        }
        let mut hasher = DefaultHasher::new();
        (
            &event.regarding.kind,
            &event.regarding.namespace,
            &event.regarding.name,
        )
            .hash(&mut hasher);
        let shard = usize::try_from(hasher.finish() % SHARDS as u64).unwrap_or_default();
        // Fails only if the workers have ended, and then this task ends as well.
        _ = shards[shard].send((event, outcome)).await;
    }
}

async fn send_all(
    sink: &dyn EventSink,
    mut shard: mpsc::Receiver<(RecordedEvent, CorrelationOutcome)>,
) {
    while let Some((event, outcome)) = shard.recv().await {
        if let Err(error) = send(sink, outcome).await {
            let RecordedEvent {
                regarding,
                reason,
                message,
                ..
            } = event;
            tracing::warn!(object = %regarding, reason, message, %error, "event lost");
        }
    }
}

async fn send(sink: &dyn EventSink, outcome: CorrelationOutcome) -> Result<(), SinkError> {
    let mut tries = 0;
    loop {
        let result = match &outcome {
            CorrelationOutcome::Drop => Ok(()),
            CorrelationOutcome::Create { namespace, event } => sink.create(namespace, event).await,
            CorrelationOutcome::Patch {
                namespace,
                name,
                patch,
                event,
            } => match sink.patch(namespace, name, patch).await {
                Err(SinkError::NotFound(_)) => sink.create(namespace, event).await,
                result => result,
            },
        };
        tries += 1;
        match result {
            Err(SinkError::Transport(error)) if tries < TRIES => {
                tracing::debug!(
                    error,
                    tries,
                    "the API server does not accept events, retrying"
                );
                // The first pause differs, so that a restarted API server is not met by all at once.
                sleep(if tries == 1 {
                    PAUSE.mul_f64(fastrand::f64())
                } else {
                    PAUSE
                })
                .await;
            }
            result => return result,
        }
    }
}
