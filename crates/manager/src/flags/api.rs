//! The Kubernetes API: where it is and how often it is asked.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use runtime::client::ClientOptions;
use runtime::go_duration::GoDuration;

use super::values::go_int;

/// The Kubernetes API: where it is and how often it is asked.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Kubernetes API")]
pub struct ApiFlags {
    /// Path of a kubeconfig; without it the Pod's service account is used.
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; overrides the kubeconfig's.
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// Requests per second to the API server, for each client; no limit if unset.
    #[arg(long, value_name = "FLOAT")]
    pub kube_api_qps: Option<f32>,
    /// Requests that may be sent at once where there is a limit.
    #[arg(long, value_name = "INT", value_parser = go_int)]
    pub kube_api_burst: Option<i32>,
    /// Every object is looked at again after this long, times a random factor from 1 to 2.
    #[arg(long, default_value = "12h0m0s", value_name = "DURATION")]
    pub min_resync_period: GoDuration,
}

impl ApiFlags {
    pub(super) fn client_options(&self) -> ClientOptions {
        ClientOptions {
            kubeconfig: self.kubeconfig.clone(),
            master: self.master.clone(),
            qps: self.kube_api_qps,
            burst: self.kube_api_burst.and_then(|burst| u32::try_from(burst).ok()),
            ..ClientOptions::default()
        }
    }

    pub(super) fn min_resync_period(&self) -> Duration {
        self.min_resync_period.to_std().unwrap_or(Duration::from_secs(12 * 3600))
    }
}
