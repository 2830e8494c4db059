//! Waiting for something to become true: by looking again, never by counting on a pause.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits like [`until`], but polls only once in each `pause`, so that polls do not disturb a measurement.
///
/// # Errors
/// The last error of `probe`, after `limit`.
pub async fn until_every<T>(
    pause: Duration,
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        // A request that hangs must not outlast the limit by much.
        let left = limit
            .saturating_sub(start.elapsed())
            .max(Duration::from_secs(1));
        let error = match tokio::time::timeout(left, probe()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("no answer in time"),
        };
        if start.elapsed() >= limit {
            return Err(error).with_context(|| format!("waited {limit:?} for: {what}"));
        }
        tokio::time::sleep(pause).await;
    }
}

/// Polls `probe` until it succeeds, and returns its result. Its errors name what is still missing; the last one is
/// returned after `limit`. Connection errors to the API server count as "not yet" as well.
///
/// # Errors
/// The last error of `probe`, after `limit`.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    until_every(PAUSE, what, limit, probe).await
}
