//! Initialization of the provider by the leader, repeated while the cloud does not answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use cloud_provider::{CloudProvider, Context};
use parking_lot::{Mutex, MutexGuard};
use serving::health::Check;
use tokio::time::sleep;

use super::check_cluster_id;
use crate::controller_set::Settings;

/// Pause after the first attempt. Each further pause is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time after which an attempt in progress is reported.
const SLOW_ATTEMPT: Duration = Duration::from_secs(3);

/// The state of the provider's initialization, with a check for `/readyz`. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct ProviderInitialization(Arc<Mutex<InitializationPhase>>);

#[derive(Default)]
enum InitializationPhase {
    /// The initialization has not begun.
    #[default]
    Idle,
    Initialising,
    /// The cloud did not answer; the text is the error.
    Waiting(String),
}

impl ProviderInitialization {
    /// Records whether the initialization is in progress.
    pub(crate) fn note(&self, is_under_way: bool) {
        *self.phase() = if is_under_way {
            InitializationPhase::Initialising
        } else {
            InitializationPhase::Idle
        };
    }

    /// Initializes the provider (PROV-10), repeats this while the cloud does not answer, and then checks the cluster ID
    /// (PROV-7). Ending the process would not help against a cloud that does not answer: another replica would not
    /// reach it either, and the kubelet's restart backoff would not be visible in the log.
    ///
    /// # Errors
    /// Any other error of the provider, or the lack of a cluster ID.
    pub(crate) async fn run(
        &self,
        settings: &Settings,
        provider: &dyn CloudProvider,
        context: &Context,
    ) -> Result<()> {
        let name = provider.name();
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let error = match initialize(provider, context).await {
                Ok(()) if attempt > 1 => {
                    tracing::info!(provider = name, attempt, "the cloud answers");
                    return check_cluster_id(settings, provider);
                }
                Ok(()) => return check_cluster_id(settings, provider),
                Err(error) if error.is_unanswered() => error,
                Err(error) => return Err(anyhow!("cloud provider {name:?} cannot start: {error}")),
            };
            tracing::warn!(provider = name, %error, attempt, retry_in = ?pause, "the cloud provider cannot start yet");
            *self.phase() = InitializationPhase::Waiting(error.to_string());
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            attempt += 1;
        }
    }

    fn phase(&self) -> MutexGuard<'_, InitializationPhase> {
        self.0.lock()
    }
}

/// Makes one attempt, and logs if the attempt takes long.
async fn initialize(provider: &dyn CloudProvider, context: &Context) -> cloud_provider::Result<()> {
    let mut attempt = std::pin::pin!(provider.initialize(context));
    tokio::select! {
        result = &mut attempt => return result,
        () = sleep(SLOW_ATTEMPT) => {
            tracing::warn!(provider = provider.name(), "the cloud has not answered for {} s", SLOW_ATTEMPT.as_secs());
        }
    }
    attempt.await
}

impl Check for ProviderInitialization {
    fn check(&self) -> Result<(), String> {
        match &*self.phase() {
            InitializationPhase::Idle => Ok(()),
            InitializationPhase::Initialising => {
                Err("the cloud provider is being initialised".to_owned())
            }
            InitializationPhase::Waiting(error) => {
                Err(format!("the cloud does not answer; retrying: {error}"))
            }
        }
    }
}
