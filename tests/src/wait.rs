//! Waiting for something to become true: by looking again, never by counting on a pause.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits like [`until`], but polls only once in each `pause`, so that polls do not disturb a measurement.
///
/// # Errors
/// What was still missing after `limit`.
pub async fn until_every<T>(
    pause: Duration,
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        // A request that hangs must not outlast the limit by much.
        let left = limit.saturating_sub(start.elapsed()).max(Duration::from_secs(1));
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

/// Looks until `probe` succeeds and returns what it found. Its errors say what is still missing; the last one is told if
/// `limit` passes. An error on the way to the API server is a "not yet" like any other.
///
/// # Errors
/// What was still missing after `limit`.
pub async fn until<T>(what: &str, limit: Duration, probe: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    until_every(PAUSE, what, limit, probe).await
}
