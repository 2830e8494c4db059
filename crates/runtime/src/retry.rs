//! Retries of a read and write after a conflict.

use std::time::Duration;

/// Repeats a read-and-write that lost against another writer (RT-10).
///
/// Only conflicts are repeated; any other error ends it at once. Pauses are drawn uniformly from `pause` to twice
/// `pause` and do not grow. There is none after the last attempt.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use runtime::retry::ConflictRetry;
/// use std::time::Duration;
///
/// let retry = ConflictRetry { attempts: 3, pause: Duration::from_millis(1) };
/// let result = retry
///     .run(|e| *e == "conflict", |attempt| async move { if attempt < 2 { Err("conflict") } else { Ok(attempt) } })
///     .await;
/// assert_eq!(result, Ok(2));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConflictRetry {
    /// Maximum number of runs; at least one is made.
    pub attempts: u32,
    /// Shortest pause between two runs.
    pub pause: Duration,
}

impl ConflictRetry {
    /// The write that initialises a Node: 20 runs, 50 to 100 ms apart.
    pub const NODE_INITIALIZATION: Self = Self {
        attempts: 20,
        pause: Duration::from_millis(50),
    };
    /// Labels of a Node: 5 runs, 100 to 200 ms apart.
    pub const LABELS: Self = Self {
        attempts: 5,
        pause: Duration::from_millis(100),
    };
    /// Taints of a Node: 5 runs, 100 to 200 ms apart.
    pub const TAINTS: Self = Self::LABELS;
    /// Creating a route and writing its condition: 5 runs, 100 to 200 ms apart.
    pub const ROUTES: Self = Self::LABELS;

    /// Runs `f` until it succeeds, fails with an error other than a conflict, or the attempts are used up; returns the
    /// last result. `f` receives the number of the attempt, from 0: a first attempt may read from a cache, a later one
    /// must not.
    ///
    /// # Errors
    /// Whatever the last run of `f` returned.
    pub async fn run<T, E, F, Fut>(
        &self,
        is_conflict: impl Fn(&E) -> bool,
        mut f: F,
    ) -> Result<T, E>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut attempt = 0;
        loop {
            let result = f(attempt).await;
            attempt += 1;
            match result {
                Err(error) if attempt < self.attempts && is_conflict(&error) => {
                    tokio::time::sleep(self.pause.mul_f64(1.0 + fastrand::f64())).await;
                }
                done => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::Instant;

    async fn run(
        attempts: u32,
        outcomes: &[&'static str],
    ) -> (usize, Result<(), &'static str>, Duration) {
        let runs = Cell::new(0);
        let start = Instant::now();
        let retry = ConflictRetry {
            attempts,
            pause: Duration::from_millis(100),
        };
        let result = retry
            .run(
                |e| *e == "conflict",
                |attempt| {
                    assert_eq!(attempt as usize, runs.get());
                    runs.set(runs.get() + 1);
                    let outcome = outcomes[runs.get() - 1];
                    async move {
                        if outcome == "ok" {
                            Ok(())
                        } else {
                            Err(outcome)
                        }
                    }
                },
            )
            .await;
        (runs.get(), result, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn only_conflicts_are_repeated_and_not_for_ever() {
        let c = "conflict";
        type Row<'a> = (u32, &'a [&'static str], usize, Result<(), &'static str>);
        let table: [Row<'_>; 6] = [
            (5, &["ok"], 1, Ok(())),
            (5, &[c, c, "ok"], 3, Ok(())),
            (5, &[c, c, c, c, c], 5, Err(c)),
            (5, &["boom"], 1, Err("boom")),
            (5, &[c, "boom"], 2, Err("boom")),
            (0, &[c], 1, Err(c)),
        ];
        for (attempts, outcomes, runs, result) in table {
            let (got_runs, got, took) = run(attempts, outcomes).await;
            assert_eq!((got_runs, got), (runs, result), "{outcomes:?}");
            let pauses = u32::try_from(runs - 1).unwrap() * Duration::from_millis(100);
            let slack = Duration::from_millis(5 * runs as u64);
            assert!(
                took >= pauses && took <= 2 * pauses + slack,
                "{outcomes:?} took {took:?}, no pause after the last run"
            );
        }
    }
}
