//! The shell of the volume label controller: queue, look-ups, writes, events.

use std::sync::Arc;

use cloud_provider::PersistentVolume;
use runtime::cache::{Cache, Resync};
use runtime::events::EventRecorder;
use runtime::limiter::RateLimiter;
use runtime::queue::{Queue, QueueMetrics};
use runtime::workers::run_workers;
use tokio_util::sync::CancellationToken;

use crate::context::{ConstructionError, ControllerContext};

/// Queue name in the work-queue metrics.
const QUEUE: &str = "pvlabel";

/// persistent-volume-label-controller.
pub struct VolumeLabelController {
    #[expect(dead_code, reason = "the decision follows")]
    context: ControllerContext,
    volumes: Cache<PersistentVolume>,
    #[expect(dead_code, reason = "the decision follows")]
    events: EventRecorder,
}

impl VolumeLabelController {
    /// Makes the controller.
    ///
    /// # Errors
    /// If the cloud has no volumes to offer.
    pub fn new(
        context: ControllerContext,
        volumes: Cache<PersistentVolume>,
        events: EventRecorder,
    ) -> Result<Self, ConstructionError> {
        match context.provider.volumes() {
            None => Err(ConstructionError::NoVolumes),
            Some(_) => Ok(Self { context, volumes, events }),
        }
    }

    /// Runs until `shutdown`: waits for the cache, then works off the queue.
    pub async fn run(
        self: Arc<Self>,
        queue_metrics: Arc<dyn QueueMetrics>,
        resync: Resync,
        shutdown: CancellationToken,
    ) {
        let queue: Queue<String> = Queue::new(QUEUE, RateLimiter::standard(), queue_metrics);
        self.volumes.subscribe(resync, |_| ());
        run_workers(&queue, 1, shutdown, |claim| async move { claim.succeed() }).await;
    }
}
