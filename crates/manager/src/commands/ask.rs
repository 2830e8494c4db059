//! Calls to the provider with a deadline. If the provider hangs or panics, the report lacks one answer instead of
//! failing as a whole.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cloud_provider::{Error, Result};
use futures::FutureExt as _;

/// Deadline of a call. Providers have shorter timeouts for each of their requests.
const DEADLINE: Duration = Duration::from_secs(120);

/// Returns the provider's answer, or an error after a panic or the deadline.
pub(super) async fn ask<T>(provider: &str, question: impl Future<Output = Result<T>>) -> Result<T> {
    ask_within(DEADLINE, provider, question).await
}

/// Returns the provider's answer like [`ask`], with another deadline.
pub(super) async fn ask_within<T>(
    deadline: Duration,
    provider: &str,
    question: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(question).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Error::other(format!("cloud provider {provider} panicked"))),
        Err(_) => Err(Error::other(format!(
            "cloud provider {provider} gave no answer within {} s",
            deadline.as_secs()
        ))),
    }
}
