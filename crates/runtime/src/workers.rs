//! The tasks that empty a queue.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim::Claim;
use crate::queue::Queue;

/// How long a worker rests after a panic (RT-6).
const REST_AFTER_PANIC: Duration = Duration::from_secs(1);
/// How often the ages of running keys are reported.
const REPORT_PERIOD: Duration = Duration::from_millis(500);

/// Empties `queue` with `workers` tasks, one key each at a time, until `shutdown` or until the queue is shut down and
/// empty; returns when the last worker has ended.
///
/// `f` ends the claim with success or failure. A panic of `f` is logged, its key comes again after its back-off, and the
/// worker goes on after a second. After `shutdown` each worker finishes its current key and takes no other; the queue is
/// shut down.
pub async fn run_workers<K, F, Fut>(queue: &Queue<K>, workers: usize, shutdown: CancellationToken, f: F)
where
    K: Eq + Hash + Clone + Debug + Send + Sync + 'static,
    F: Fn(Claim<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let one = move |mut claims: Vec<Claim<K>>| {
        let run = claims.pop().map(&f);
        async move {
            if let Some(run) = run {
                run.await;
            }
        }
    };
    run_batch_workers(queue, workers, 1, shutdown, one).await;
}

/// As [`run_workers`], but each worker takes all ready keys, up to `max_batch`, in one go, and gives each back when its
/// [`Claim`] ends.
///
/// A panic drops the claims that are left, so their keys come again after their back-off.
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
    let (tracker, f) = (TaskTracker::new(), Arc::new(f));
    for _ in 0..workers {
        tracker.spawn(work(queue.clone(), max_batch, shutdown.clone(), Arc::clone(&f)));
    }
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
        let claims = keys.iter().map(|key| Claim::new(queue.clone(), key.clone())).collect();
        // The call is inside, so that a panic before the first await is caught too.
        let run = AssertUnwindSafe(async { f(claims).await });
        let panicked = run.catch_unwind().await.err();
        if let Some(panic) = &panicked {
            tracing::error!(
                queue = queue.name(),
                ?keys,
                panic = panic_text(&**panic),
                "worker panicked, keys are tried again"
            );
        }
        if panicked.is_some() {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(REST_AFTER_PANIC) => {}
            }
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}
