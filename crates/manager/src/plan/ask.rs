//! Questions to the provider, so that a defect of it costs an answer and not the plan.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cloud_provider::{Error, Result};
use futures::FutureExt as _;

/// A question that takes longer is given up. Providers have shorter limits for each of their requests.
const DEADLINE: Duration = Duration::from_secs(120);

/// The provider's answer, or what became of it.
pub(crate) async fn ask<T>(provider: &str, question: impl Future<Output = Result<T>>) -> Result<T> {
    ask_within(DEADLINE, provider, question).await
}

/// Asks as [`ask`], for so long.
pub(crate) async fn ask_within<T>(
    deadline: Duration,
    provider: &str,
    question: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(question).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Error::other(format!("cloud provider {provider} panicked"))),
        Err(_) => {
            Err(Error::other(format!("cloud provider {provider} gave no answer within {} s", deadline.as_secs())))
        }
    }
}
