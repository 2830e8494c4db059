//! Waiting for what a cloud does in the background: for one thing ([`until_done`]), or, where a cloud gives operations ids and
//! tells of many in one answer, for all who wait at the same time ([`Operations`]).

mod shared;

use std::time::Duration;

pub use shared::{OperationState, Operations};

use cloud_provider::{Error, Result};
use tokio::time::Instant;

/// How often to ask, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Polling {
    /// Before the first question.
    pub first: Duration,
    /// How much longer each pause is than the one before; 2 unless set.
    pub growth: f64,
    /// The longest time between two questions.
    pub longest: Duration,
    /// In all. What takes longer is looked at again later, so that it does not hold a worker.
    pub limit: Duration,
    /// When to come back after that.
    pub come_back: Duration,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            growth: 2.0,
            longest: Duration::from_secs(5),
            limit: Duration::from_secs(30),
            come_back: Duration::from_secs(10),
        }
    }
}

/// Asks until there is a result.
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
/// What `ask` answers; *retry after* when the time is over.
pub async fn until_done<T, F>(what: &str, polling: Polling, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let give_up = Instant::now() + polling.limit;
    let mut wait = polling.first;
    loop {
        if Instant::now() + wait > give_up {
            let (limit, come_back) = (rounded(polling.limit), rounded(polling.come_back));
            let text = format!("{what} is not ready after {limit:?}; looking again in {come_back:?}");
            return Err(Error::retry_in(text, polling.come_back));
        }
        tokio::time::sleep(wait).await;
        if let Some(result) = ask().await? {
            return Ok(result);
        }
        wait = wait.mul_f64(polling.growth).min(polling.longest);
    }
}

/// Rounds a duration of a second or more to whole seconds, as messages show it.
fn rounded(duration: Duration) -> Duration {
    if duration < Duration::from_secs(1) { duration } else { Duration::from_secs_f64(duration.as_secs_f64().round()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn questions_become_rarer_and_end_with_a_date() {
        let (began, mut asked) = (Instant::now(), Vec::new());
        let err = until_done("volume \"v\"", Polling::default(), || {
            asked.push(began.elapsed().as_millis());
            std::future::ready(Ok(None::<()>))
        })
        .await
        .unwrap_err();
        assert_eq!(asked, [250, 750, 1750, 3750, 7750, 12750, 17750, 22750, 27750]);
        assert_eq!(err.retry_after(), Some(Duration::from_secs(10)));
        assert_eq!(err.to_string(), "volume \"v\" is not ready after 30s; looking again in 10s");
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_message_rounds_durations_to_seconds() {
        let (limit, come_back) = (Duration::from_millis(271_026), Duration::from_millis(250));
        let polling = Polling { limit, come_back, ..Polling::default() };
        let err = until_done("volume \"v\"", polling, || std::future::ready(Ok(None::<()>))).await.unwrap_err();
        assert_eq!(err.to_string(), "volume \"v\" is not ready after 271s; looking again in 250ms");
    }
}
