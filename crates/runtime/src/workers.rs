//! Worker tasks that process the keys of a queue.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim::Claim;
use crate::queue::Queue;
use crate::worker_permit::WorkerPermit;

/// Pause of a worker after a panic (RT-6).
const REST_AFTER_PANIC: Duration = Duration::from_secs(1);
/// Interval at which the ages of running keys are reported.
const REPORT_PERIOD: Duration = Duration::from_millis(500);

/// Maximum number of keys of one queue that may be in progress without a worker permit, because their work waits for
/// another system.
const MAX_WAITING: usize = 200;

/// Processes the keys of `queue`, at most `workers` at a time, until `shutdown` or until the queue is shut down and
/// empty. Returns when the last key has been processed.
///
/// `f` ends the claim with success or failure. While `f` waits for another system, it may release its [worker
/// permit](Claim::permit) to another key. If `f` panics, the panic is logged, the key is retried after its back-off,
/// and the permit is free after a second. After `shutdown`, keys in progress are finished, no further key is taken, and
/// the queue is shut down.
pub async fn run_workers<K, F, Fut>(
    queue: &Queue<K>,
    workers: usize,
    shutdown: CancellationToken,
    f: F,
) where
    K: Eq + Hash + Clone + Debug + Send + Sync + 'static,
    F: Fn(Claim<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let tracker = TaskTracker::new();
    let f = Arc::new(f);
    tracker.spawn(dispatch(
        queue.clone(),
        workers,
        shutdown.clone(),
        tracker.clone(),
        f,
    ));
    until_ended(queue, &tracker, &shutdown).await;
}

/// Takes keys from the queue, and spawns a task with a worker permit for each.
async fn dispatch<K, F, Fut>(
    queue: Queue<K>,
    workers: usize,
    shutdown: CancellationToken,
    tracker: TaskTracker,
    f: Arc<F>,
) where
    K: Eq + Hash + Clone + Debug + Send + Sync + 'static,
    F: Fn(Claim<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(workers));
    let all = Arc::new(Semaphore::new(workers + MAX_WAITING));
    let next = async || {
        let room = Arc::clone(&all).acquire_owned().await.ok()?;
        // A permit is acquired only when a key is ready, because reacquisitions need permits. A key is taken only with
        // a permit: its changes until then are merged into one piece of work.
        if !queue.is_ready().await {
            return None;
        }
        let permit = Arc::new(WorkerPermit::acquire(&permits).await);
        Some((queue.next().await?, permit, room))
    };
    loop {
        let next = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            next = next() => next,
        };
        let Some((key, permit, room)) = next else {
            return;
        };
        let claim = Claim::with_permit(Arc::clone(&permit), queue.clone(), key.clone());
        let queue = queue.clone();
        let shutdown = shutdown.clone();
        let f = Arc::clone(&f);
        tracker.spawn(async move {
            attempt(&queue, &[key], &shutdown, async { f(claim).await }).await;
            drop((permit, room));
        });
    }
}

/// Processes keys like [`run_workers`], with `workers` tasks that each take up to `max_batch` ready keys at once. A key
/// is returned to the queue when its [`Claim`] ends.
///
/// A panic drops the remaining claims, so their keys are retried after their back-off.
pub async fn run_batch_workers<K, F, Fut>(
    queue: &Queue<K>,
    workers: usize,
    max_batch: usize,
    shutdown: CancellationToken,
    f: F,
) where
    K: Eq + Hash + Clone + Debug + Send + Sync + 'static,
    F: Fn(Vec<Claim<K>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let tracker = TaskTracker::new();
    let f = Arc::new(f);
    for _ in 0..workers {
        tracker.spawn(work(
            queue.clone(),
            max_batch,
            shutdown.clone(),
            Arc::clone(&f),
        ));
    }
    until_ended(queue, &tracker, &shutdown).await;
}

/// Waits until all tasks have ended, and reports the ages of running keys meanwhile. Shuts the queue down at
/// `shutdown`.
async fn until_ended<K: Eq + Hash + Clone>(
    queue: &Queue<K>,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) {
    tracker.close();
    let mut ticks = tokio::time::interval(REPORT_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            () = tracker.wait() => break,
            () = shutdown.cancelled(), if !stopping => {
                stopping = true;
                queue.shut_down_now();
            }
            _ = ticks.tick() => queue.report_running(),
        }
    }
    queue.report_running();
}

async fn work<K, F, Fut>(queue: Queue<K>, max_batch: usize, shutdown: CancellationToken, f: Arc<F>)
where
    K: Eq + Hash + Clone + Debug,
    F: Fn(Vec<Claim<K>>) -> Fut,
    Fut: Future<Output = ()>,
{
    loop {
        let keys = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            keys = queue.next_batch(max_batch) => keys,
        };
        let Some(keys) = keys else { return };
        let claims = keys
            .iter()
            .map(|key| Claim::new(queue.clone(), key.clone()))
            .collect();
        attempt(&queue, &keys, &shutdown, async { f(claims).await }).await;
    }
}

/// Works on these keys. The call is inside of `work`, so that a panic before the first await is caught too.
async fn attempt<K: Eq + Hash + Clone + Debug>(
    queue: &Queue<K>,
    keys: &[K],
    shutdown: &CancellationToken,
    work: impl Future<Output = ()>,
) {
    let Err(panic) = AssertUnwindSafe(work).catch_unwind().await else {
        return;
    };
    let panic = panic_text(&*panic);
    tracing::error!(
        queue = queue.name(),
        ?keys,
        panic,
        "worker panicked, keys are retried"
    );
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(REST_AFTER_PANIC) => {}
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}
