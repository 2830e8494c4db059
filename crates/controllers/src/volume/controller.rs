//! The I/O of the volume label controller: queue, look-ups, writes and events.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, PersistentVolume, Result};
use kube::Api;
use runtime::api_error::{api_error, is_conflict, is_not_found};
use runtime::cache::{Cache, CacheEvent, Resync};
use runtime::claim::Claim;
use runtime::events::{EventRecorder, EventType, ObjectRef};
use runtime::limiter::RateLimiter;
use runtime::queue::{Failure, Queue, QueueMetrics};
use runtime::retry::ConflictRetry;
use runtime::workers::run_workers;
use runtime::writes::{is_empty_patch, strategic_patch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::finished_volumes::{FinishedVolumes, name, uid};
use super::lookup::look_up;
use super::plan::{Conflict, Plan, is_open};
use super::topology::Topology;
use crate::context::{ConstructionError, ControllerContext};
use crate::event_limiter::EventLimiter;
use crate::grace::within_grace;

/// Name of the queue in work queue metrics.
const QUEUE: &str = "pvlabel";
/// Number of volumes that are looked up and written at the same time.
const WORKERS: usize = 8;
/// Timeout of a look-up.
const DEADLINE: Duration = Duration::from_secs(60);
/// First back-off of a failed volume. The retry calls the cloud, so the back-off is longer than that of work that only
/// calls the API.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);

/// Reason of the event about a label or affinity of a user that contradicts the cloud.
const CONFLICT: &str = "VolumeTopologyConflict";
/// Reason of the event about a value that a label cannot hold.
const INCOMPLETE: &str = "VolumeTopologyIncomplete";
/// Reason of the event about a failure to read the volume's location.
const FAILED: &str = "VolumeTopologyFailed";

/// The persistent-volume-label-controller, which sets zone, region and node affinity of volumes.
pub struct VolumeLabelController {
    context: ControllerContext,
    api: Api<PersistentVolume>,
    volumes: Cache<PersistentVolume>,
    events: EventRecorder,
    finished: FinishedVolumes,
    event_limiter: EventLimiter,
}

impl VolumeLabelController {
    /// Creates the controller.
    ///
    /// # Errors
    /// If the provider does not support volumes.
    pub fn new(
        context: ControllerContext,
        volumes: Cache<PersistentVolume>,
        events: EventRecorder,
    ) -> Result<Self, ConstructionError> {
        if context.provider.volumes().is_none() {
            return Err(ConstructionError::NoVolumes);
        }
        let api = Api::all(context.client.clone());
        Ok(Self {
            context,
            api,
            volumes,
            events,
            finished: FinishedVolumes::default(),
            event_limiter: EventLimiter::default(),
        })
    }

    /// Runs until `shutdown`: waits for the cache, then processes the queue. Work that does not end within seconds of
    /// the shutdown is cancelled.
    pub async fn run(
        self: Arc<Self>,
        queue_metrics: Arc<dyn QueueMetrics>,
        resync: Resync,
        shutdown: CancellationToken,
    ) {
        let queue = Queue::new(
            QUEUE,
            RateLimiter::exponential(FIRST_RETRY, LAST_RETRY),
            queue_metrics,
        );
        Arc::clone(&self).feed(queue.clone(), resync);
        tokio::select! {
            () = self.volumes.wait_synced() => {}
            () = shutdown.cancelled() => return,
        }
        let stop = shutdown.clone();
        run_workers(&queue, WORKERS, shutdown, move |claim| {
            let this = Arc::clone(&self);
            let stop = stop.clone();
            // The next run repeats work that was cancelled.
            async move {
                let _busy = this.context.pulse.begin(QUEUE);
                _ = within_grace(&stop, this.sync_claim(claim)).await;
            }
        })
        .await;
    }

    /// Adds volumes to the queue when the cache changes. Volumes without work, which are nearly all, are not added.
    fn feed(self: Arc<Self>, queue: Queue<String>, resync: Resync) {
        self.volumes
            .clone()
            .subscribe(resync, move |event| match event {
                CacheEvent::Added(volume) => self.add(&queue, volume),
                CacheEvent::Updated { old, new } => {
                    if uid(old) != uid(new) {
                        self.forget(old);
                    }
                    self.add(&queue, new);
                }
                CacheEvent::Deleted(volume) => self.forget(volume),
            });
    }

    fn add(&self, queue: &Queue<String>, volume: &PersistentVolume) {
        if is_open(volume) && !self.finished.contains(volume) {
            queue.add(name(volume).to_owned());
        }
    }

    fn forget(&self, volume: &PersistentVolume) {
        self.finished.forget(volume);
        self.event_limiter.forget(uid(volume));
    }

    async fn sync_claim(&self, claim: Claim<String>) {
        match self.sync(claim.key()).await {
            Ok(()) => claim.succeed(),
            Err(error) => {
                let volume = claim.key().clone();
                let cause = error.to_string();
                let failure = match error.retry_after() {
                    Some(delay) => claim.retry_after_by(delay, &cause),
                    None => claim.fail_by(&cause),
                };
                if let Some(Failure { attempt, retry_in }) = failure {
                    tracing::warn!(volume, %error, attempt, ?retry_in, "volume sync failed");
                }
            }
        }
    }

    /// Processes one volume, by name.
    ///
    /// # Errors
    /// The error of the cloud or the API server. The volume should be retried.
    pub async fn sync(&self, volume: &str) -> Result<()> {
        let Some(volume) = self.volumes.get(volume) else {
            return Ok(());
        };
        if !is_open(&volume) || self.finished.contains(&volume) {
            return Ok(());
        }
        let result = self.label(&volume).await;
        match &result {
            Ok(()) => self.event_limiter.forget(uid(&volume)),
            Err(error)
                if self
                    .event_limiter
                    .take_due(uid(&volume), error, Instant::now()) =>
            {
                self.record_event(&volume, FAILED, error.to_string());
            }
            Err(_) => {}
        }
        // A volume that was deleted meanwhile was forgotten already.
        if self
            .volumes
            .get(name(&volume))
            .is_none_or(|now| uid(&now) != uid(&volume))
        {
            self.forget(&volume);
        }
        result
    }

    async fn label(&self, volume: &PersistentVolume) -> Result<()> {
        let Some(labels) = look_up(&*self.context.provider, volume, DEADLINE).await? else {
            self.finished.foreign(volume);
            return Ok(());
        };
        let topology = Topology::from_labels(&labels)?;
        let result = ConflictRetry::LABELS
            .run(is_conflict, |attempt| {
                let topology = &topology;
                async move {
                    if attempt == 0 {
                        return self.carry_out(volume, topology).await;
                    }
                    let now = self.api.get(name(volume)).await?;
                    match uid(&now) == uid(volume) && is_open(&now) {
                        true => self.carry_out(&now, topology).await,
                        // The volume gets a sync of its own if work is left.
                        false => Ok(()),
                    }
                }
            })
            .await;
        match result {
            Err(error) if is_not_found(&error) => Ok(()),
            result => result.map_err(|error| {
                Error::other(format!("failed to label volume: {}", api_error(&error)))
            }),
        }
    }

    async fn carry_out(
        &self,
        volume: &PersistentVolume,
        topology: &Topology,
    ) -> Result<(), kube::Error> {
        let plan = match Plan::make(volume, topology) {
            Ok(plan) => plan,
            Err(conflicts) => {
                let texts: Vec<_> = conflicts.iter().map(Conflict::to_string).collect();
                self.record_event(
                    volume,
                    CONFLICT,
                    format!("{}. Nothing was changed", texts.join("; ")),
                );
                self.finished.settled(volume);
                return Ok(());
            }
        };
        let patch = plan.patch(volume);
        if is_empty_patch(&patch) {
            self.finished.settled(volume);
            return Ok(());
        }
        if let Some(written) = strategic_patch(&self.api, name(volume), None, &patch).await? {
            tracing::info!(volume = name(volume), %patch, "volume labelled");
            self.finished.settled(&written);
            if let Some(note) = plan.note() {
                self.record_event(&written, INCOMPLETE, note);
            }
        }
        Ok(())
    }

    fn record_event(&self, volume: &PersistentVolume, reason: &str, message: String) {
        self.events
            .event(&ObjectRef::of(volume), EventType::Warning, reason, message);
    }
}
