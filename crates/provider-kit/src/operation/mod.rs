//! Waiting for work that a cloud does in the background: for one object ([`until_done`]), or, where a cloud gives
//! operations IDs and reports on many in one answer, for all callers that wait at the same time ([`Operations`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use futures::future::join_all;
use tokio::time::Instant;

use crate::coalescer::Coalescer;

/// The intervals and the timeout of polling.
#[derive(Clone, Copy, Debug)]
pub struct Polling {
    /// Delay before the first poll; 250 ms by default.
    pub first: Duration,
    /// Factor between one delay and the next; 2 by default.
    pub growth: f64,
    /// The longest delay between two polls; 5 s by default.
    pub max_interval: Duration,
    /// Timeout of the wait; 30 s by default. Then the caller gets a *retry after* error, so that slow work does not
    /// occupy a worker.
    pub timeout: Duration,
    /// Delay in that *retry after* error, after which the caller tries again; 10 s by default.
    pub retry_after: Duration,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            growth: 2.0,
            max_interval: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            retry_after: Duration::from_secs(10),
        }
    }
}

/// Polls until there is a result.
///
/// ```
/// use provider_kit::operation::{until_done, Polling};
///
/// # async fn example(ask_the_cloud: impl AsyncFn() -> cloud_provider::Result<Option<String>>) -> cloud_provider::Result<()> {
/// let address = until_done("load balancer \"a7\"", Polling::default(), async || ask_the_cloud().await).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The error of `ask`; *retry after* on timeout.
pub async fn until_done<T, F>(what: &str, polling: Polling, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let give_up = Instant::now() + polling.timeout;
    let mut wait = polling.first;
    loop {
        if Instant::now() + wait > give_up {
            let timeout = rounded(polling.timeout);
            let retry_after = rounded(polling.retry_after);
            let text =
                format!("{what} is not ready after {timeout:?}; checking again in {retry_after:?}");
            return Err(Error::retry_in(text, polling.retry_after));
        }
        tokio::time::sleep(wait).await;
        if let Some(result) = ask().await? {
            return Ok(result);
        }
        wait = wait.mul_f64(polling.growth).min(polling.max_interval);
    }
}

/// Rounds a duration of a second or more to whole seconds, as messages show it.
fn rounded(duration: Duration) -> Duration {
    if duration < Duration::from_secs(1) {
        duration
    } else {
        Duration::from_secs_f64(duration.as_secs_f64().round())
    }
}

/// The state of an operation.
#[derive(Clone, Debug)]
pub struct OperationState<I = u64> {
    /// The ID of the operation.
    pub id: I,
    /// The result of the operation; `None` while the operation is running.
    pub outcome: Option<Result<()>>,
}

/// Operations that a cloud carries out in the background, and the callers that wait for them. Cheap to clone.
///
/// While any caller waits, all unfinished operations are read at a constant interval, several IDs in one request. Thus
/// the number of requests grows with the time that the cloud takes, and hardly with the number of callers.
///
/// ```
/// use std::time::Duration;
/// use provider_kit::operation::{Operations, OperationState};
///
/// # async fn example(ask_the_cloud: impl AsyncFn(&[u64])) -> cloud_provider::Result<()> {
/// let operations = Operations::new(Duration::from_millis(500), 25, |ids: Vec<u64>| async move {
///     // One request for all IDs; here each operation is done at once.
///     Ok(ids.into_iter().map(|id| OperationState { id, outcome: Some(Ok(())) }).collect())
/// });
/// operations.wait(&[13, 14]).await
/// # }
/// ```
#[derive(Clone)]
pub struct Operations<I = u64> {
    interval: Duration,
    /// Timeout of a caller, and the time after which it tries again.
    timeouts: (Duration, Duration),
    reads: Arc<Coalescer<(), I, Outcomes<I>>>,
}

type Outcomes<I> = Arc<BTreeMap<I, Option<Result<()>>>>;

impl<I: Clone + Ord + fmt::Display + Send + Sync + 'static> Operations<I> {
    /// Returns operations that are read with `read`, up to `ids_per_request` at a time, every `interval`. An operation
    /// that `read` does not return does not exist. If `read` is refused with an error that one ID may have caused, each
    /// operation is read alone.
    pub fn new<F>(
        interval: Duration,
        ids_per_request: usize,
        read: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Vec<OperationState<I>>>> + Send + 'static,
    {
        let reads = Coalescer::retrying_alone(move |(), mut ids: Vec<I>| {
            ids.sort();
            ids.dedup();
            let states = read(ids);
            async move {
                Ok(Arc::new(
                    states
                        .await?
                        .into_iter()
                        .map(|state| (state.id, state.outcome))
                        .collect(),
                ))
            }
        });
        let interval = interval.max(Duration::from_millis(1));
        let reads = Arc::new(reads.at_most(ids_per_request));
        Self {
            interval,
            timeouts: (Duration::from_secs(60), Duration::from_secs(10)),
            reads,
        }
    }

    /// Sets the timeout of a caller, one minute by default, and the delay in its *retry after* error, 10 s by default.
    #[must_use]
    pub fn timeouts(mut self, timeout: Duration, retry_after: Duration) -> Self {
        self.timeouts = (timeout, retry_after);
        self
    }

    /// Waits until all operations have ended, for a limited time.
    ///
    /// # Errors
    /// The error of the first operation that failed; *other* if the cloud does not know an operation; *retry after* on
    /// timeout; the error of reading the states.
    pub async fn wait(&self, ids: &[I]) -> Result<()> {
        let (timeout, retry_after) = self.timeouts;
        match tokio::time::timeout(
            timeout,
            join_all(ids.iter().map(|id| self.wait_for_one(id))),
        )
        .await
        {
            Ok(outcomes) => outcomes.into_iter().collect(),
            Err(_) => {
                let ids = ids
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ");
                let text = format!(
                    "operations not finished after {timeout:?}: {ids}; checking again in {retry_after:?}"
                );
                Err(Error::retry_in(text, retry_after))
            }
        }
    }

    async fn wait_for_one(&self, id: &I) -> Result<()> {
        loop {
            let states = self
                .reads
                .join_at((), id.clone(), |last| {
                    next_tick(Instant::now(), last, self.interval)
                })
                .await?;
            match states.get(id) {
                None => return Err(Error::other(format!("operations not found: {id}"))),
                Some(None) => {}
                Some(Some(outcome)) => return outcome.clone(),
            }
        }
    }
}

/// Returns the time of the next read. Reads keep their interval regardless of how long one takes; after a pause, the
/// first read waits for a whole interval.
fn next_tick(now: Instant, last: Option<Instant>, interval: Duration) -> Instant {
    let ticks = last.into_iter().flat_map(|last| [last, last + interval]);
    ticks
        .into_iter()
        .find(|tick| *tick > now)
        .unwrap_or(now + interval)
}

impl<I> fmt::Debug for Operations<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
