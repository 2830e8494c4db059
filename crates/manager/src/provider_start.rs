//! The start of the provider by the process that leads: repeated while the cloud does not answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use cloud_provider::{CloudProvider, Context};
use serving::health::Check;
use tokio::time::sleep;

/// The pause after the first attempt. Each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// An attempt that takes longer is reported before it ends.
const SLOW: Duration = Duration::from_secs(3);

/// The start of the provider, and a check for `/readyz`. Clones are handles to the same.
#[derive(Clone, Default)]
pub(crate) struct ProviderStart(Arc<Mutex<Phase>>);

#[derive(Default)]
enum Phase {
    /// The initialisation has not begun.
    #[default]
    Idle,
    Initialising,
    /// The cloud did not answer, with this error.
    Waiting(String),
}

impl ProviderStart {
    /// Notes that the start is under way, or is over.
    pub(crate) fn note(&self, is_under_way: bool) {
        *self.phase() = if is_under_way { Phase::Initialising } else { Phase::Idle };
    }

    /// Initialises the provider (PROV-10), again and again while the cloud does not answer: another process would not reach it
    /// either, and a process that ends is started again with the pauses of the kubelet, which nobody sees in its log.
    ///
    /// # Errors
    /// Any other error of the provider.
    pub(crate) async fn run(&self, provider: &dyn CloudProvider, context: &Context) -> Result<()> {
        let (name, mut pause, mut attempt) = (provider.name(), FIRST_PAUSE, 1);
        loop {
            let error = match initialize(provider, context).await {
                Ok(()) if attempt > 1 => {
                    tracing::info!(provider = name, attempt, "the cloud answers");
                    return Ok(());
                }
                Ok(()) => return Ok(()),
                Err(error) if error.is_unanswered() => error,
                Err(error) => return Err(anyhow!("cloud provider {name:?} cannot start: {error}")),
            };
            tracing::warn!(provider = name, %error, attempt, retry_in = ?pause, "the cloud provider cannot start yet");
            *self.phase() = Phase::Waiting(error.to_string());
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            attempt += 1;
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes one attempt, which is reported if it takes long.
async fn initialize(provider: &dyn CloudProvider, context: &Context) -> cloud_provider::Result<()> {
    let mut attempt = std::pin::pin!(provider.initialize(context));
    tokio::select! {
        result = &mut attempt => return result,
        () = sleep(SLOW) => {
            tracing::warn!(provider = provider.name(), "the cloud has not answered for {} s", SLOW.as_secs());
        }
    }
    attempt.await
}

impl Check for ProviderStart {
    fn check(&self) -> Result<(), String> {
        match &*self.phase() {
            Phase::Idle => Ok(()),
            Phase::Initialising => Err("the cloud provider is being initialised".to_owned()),
            Phase::Waiting(error) => Err(format!("the cloud does not answer, and is asked again: {error}")),
        }
    }
}
