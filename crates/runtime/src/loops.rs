//! Periodic loops, and bounded concurrency over many items.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::workers::panic_text;

/// Pauses before a loop is restarted after a panic. A loop that ran for longer than the longest pause begins with the
/// first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Runs `f` at once, and then `period` after the *end* of each run (RT-15), until `shutdown`, like client-go's sliding
/// `wait.JitterUntil`.
///
/// A run that has begun is finished; no run begins after `shutdown`. `f` may watch the token to stop earlier. A panic
/// of `f` is logged, and the next run begins as usual (RT-6).
pub async fn sliding<F, Fut>(period: Duration, shutdown: CancellationToken, mut f: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    while !shutdown.is_cancelled() {
        run_catching_panics(&mut f).await;
        pause_until(Instant::now().checked_add(period), &shutdown).await;
    }
}

/// Runs `f` at once, and then `period` after the *start* of each run (RT-15), until `shutdown`.
///
/// If a run takes longer than the period, the next one follows at once; missed runs are skipped.
pub async fn fixed<F, Fut>(period: Duration, shutdown: CancellationToken, mut f: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    while !shutdown.is_cancelled() {
        let next = Instant::now().checked_add(period);
        run_catching_panics(&mut f).await;
        pause_until(next, &shutdown).await;
    }
}

async fn run_catching_panics<F, Fut>(f: &mut F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    // The call is inside, so that a panic before the first await is caught too.
    if let Err(panic) = AssertUnwindSafe(async { f().await }).catch_unwind().await {
        tracing::error!(
            panic = panic_text(&*panic),
            "periodic pass panicked, the next one runs on schedule"
        );
    }
}

/// Runs a future of `component` and turns a panic into an error, which is logged.
///
/// # Errors
/// The text of the panic.
pub async fn catch_panic<T>(component: &str, run: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(run).catch_unwind().await.map_err(|panic| {
        let panic = panic_text(&*panic);
        tracing::error!(component, panic, "a panic was caught");
        Panicked {
            component: component.to_owned(),
        }
    })
}

/// A panic in a part of the process. Its message is in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a defect: {component} panicked, and the log says where; report it")]
pub struct Panicked {
    component: String,
}

/// Runs `f`, a loop that ends by itself only when it has nothing more to do, and runs it again each time that it
/// panics: after one second, and twice as long after each further panic, up to a minute.
pub async fn restarting<F, Fut>(component: &str, shutdown: &CancellationToken, mut f: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let begin = Instant::now();
        if catch_panic(component, async { f().await }).await.is_ok() {
            return;
        }
        if begin.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::warn!(component, ?pause, "restarting component");
        if shutdown
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_none()
        {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn pause_until(at: Option<Instant>, shutdown: &CancellationToken) {
    match at {
        Some(at) => {
            // Also a period of zero lets other tasks run.
            tokio::task::yield_now().await;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep_until(at) => {}
            }
        }
        None => shutdown.cancelled().await,
    }
}

/// Calls `f` for each item, in order, at most `workers` at a time, and returns when all are done (RT-16).
///
/// After `shutdown`, no further item is begun. With 0 workers, no item is begun. All calls run on the calling task, so
/// `f` may borrow; use this for work that waits (requests), not for work that computes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let sum = AtomicU32::new(0);
/// runtime::loops::parallel_for(1..=100, 8, &Default::default(), |n| {
///     let sum = &sum;
///     async move { _ = sum.fetch_add(n, Ordering::Relaxed) }
/// })
/// .await;
/// assert_eq!(sum.into_inner(), 5050);
/// # }
/// ```
pub async fn parallel_for<I, F, Fut>(items: I, workers: usize, shutdown: &CancellationToken, f: F)
where
    I: IntoIterator,
    F: Fn(I::Item) -> Fut,
    Fut: Future<Output = ()>,
{
    let items = Mutex::new(items.into_iter());
    // No more workers than items where the number of items is known.
    let most = items.lock().size_hint().1.unwrap_or(workers);
    let worker = || async {
        while !shutdown.is_cancelled() {
            let next = items.lock().next();
            let Some(item) = next else { break };
            f(item).await;
        }
    };
    join_all((0..workers.min(most)).map(|_| worker())).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    async fn starts(fixed_rate: bool, period: u64, works: &[u64]) -> Vec<u64> {
        let begin = Instant::now();
        let starts = RefCell::new(Vec::new());
        let shutdown = CancellationToken::new();
        let run = || {
            let i = starts.borrow().len();
            starts.borrow_mut().push(begin.elapsed().as_secs());
            let work = works[i];
            let shutdown = shutdown.clone();
            let last = i + 1 == works.len();
            async move {
                tokio::time::sleep(s(work)).await;
                if last {
                    shutdown.cancel();
                }
            }
        };
        if fixed_rate {
            fixed(s(period), shutdown.clone(), run).await;
        } else {
            sliding(s(period), shutdown.clone(), run).await;
        }
        starts.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_sliding_loop_waits_the_period_after_each_end() {
        assert_eq!(starts(false, 10, &[3, 25, 0, 1]).await, [0, 13, 48, 58]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_loop_counts_from_start_to_start_and_does_not_catch_up() {
        assert_eq!(starts(true, 10, &[3, 25, 0, 1]).await, [0, 10, 35, 45]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_loop_never_starts_a_run() {
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        sliding(s(1), shutdown.clone(), || async { panic!("ran") }).await;
        fixed(s(1), shutdown.clone(), || async { panic!("ran") }).await;
        parallel_for(0..3, 2, &shutdown, |_| async { panic!("ran") }).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_is_woken_from_its_pause_by_the_cancellation() {
        let begin = Instant::now();
        let shutdown = CancellationToken::new();
        let run = sliding(s(3600), shutdown.clone(), || async {});
        tokio::join!(run, async {
            tokio::time::sleep(s(7)).await;
            shutdown.cancel();
        });
        assert_eq!(begin.elapsed(), s(7));
    }

    #[tokio::test(start_paused = true)]
    async fn items_are_taken_in_order_by_as_many_workers_as_allowed() {
        let running = Cell::new(0);
        let most = Cell::new(0);
        let seen = RefCell::new(Vec::new());
        let begin = Instant::now();
        parallel_for(0..10, 4, &CancellationToken::new(), |n| {
            seen.borrow_mut().push(n);
            let running = &running;
            let most = &most;
            async move {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                tokio::time::sleep(s(1)).await;
                running.set(running.get() - 1);
            }
        })
        .await;
        assert_eq!(seen.into_inner(), (0..10).collect::<Vec<_>>());
        assert_eq!((most.get(), begin.elapsed()), (4, s(3)));
    }

    #[tokio::test]
    async fn no_workers_do_nothing() {
        parallel_for(0..3, 0, &CancellationToken::new(), |_| async {
            panic!("ran")
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn cancellation_is_seen_between_items() {
        let done = Cell::new(0);
        let shutdown = CancellationToken::new();
        parallel_for(0..10, 2, &shutdown, |n| {
            let done = &done;
            let shutdown = &shutdown;
            async move {
                tokio::time::sleep(s(1)).await;
                done.set(done.get() + 1);
                if n == 2 {
                    shutdown.cancel();
                }
            }
        })
        .await;
        assert_eq!(done.get(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_panics_does_not_end_the_loop() {
        let runs = Cell::new(0);
        let shutdown = CancellationToken::new();
        sliding(s(5), shutdown.clone(), || {
            runs.set(runs.get() + 1);
            let run = runs.get();
            let shutdown = shutdown.clone();
            async move {
                assert!(run != 1, "a defect");
                if run == 3 {
                    shutdown.cancel();
                }
            }
        })
        .await;
        assert_eq!(runs.get(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_run_again_ever_more_rarely_and_not_after_a_good_end() {
        let begin = Instant::now();
        let starts = RefCell::new(Vec::new());
        let shutdown = CancellationToken::new();
        restarting("test", &shutdown, || {
            starts.borrow_mut().push(begin.elapsed().as_secs());
            let run = starts.borrow().len();
            // A panic before the first await counts, too.
            assert!(run != 1, "a defect");
            async move {
                tokio::time::sleep(s(if run == 9 { 61 } else { 0 })).await;
                assert!(run == 11, "a defect");
            }
        })
        .await;
        assert_eq!(
            starts.into_inner(),
            [0, 1, 3, 7, 15, 31, 63, 123, 183, 245, 247]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_ends_with_the_shutdown() {
        let shutdown = CancellationToken::new();
        let run = restarting("test", &shutdown, || async { panic!("a defect") });
        tokio::join!(run, async {
            tokio::time::sleep(s(100)).await;
            shutdown.cancel();
        });
    }
}
