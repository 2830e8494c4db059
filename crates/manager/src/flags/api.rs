//! The Kubernetes API: where it is and how often it is asked.

use std::time::Duration;

use clap::{ArgAction, Args};
use runtime::go_duration::GoDuration;

use super::values::{PathFlag, duration, go_bool, go_float, go_int, path};

/// How the Kubernetes API is asked.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct ApiFlags {
    /// Requests per second to the API server, for each client. Without it there is no limit: the server's own priority
    /// and fairness decides, and its 429 answers are obeyed.
    #[arg(long, value_parser = go_float)]
    pub kube_api_qps: Option<f32>,
    /// Requests that may be sent at once where --kube-api-qps sets a limit; 30 if unset.
    #[arg(long, value_parser = go_int)]
    pub kube_api_burst: Option<i32>,
    /// Accepted for any value: JSON is spoken with the API server.
    #[arg(long, default_value = "application/vnd.kubernetes.protobuf", value_name = "TYPE")]
    pub kube_api_content_type: String,
    /// Every object is looked at again after this long, times a random factor from 1 to 2.
    #[arg(long, default_value = "12h0m0s", value_parser = duration)]
    pub min_resync_period: GoDuration,
    /// Give each controller the identity of a ServiceAccount of its own in kube-system instead of this process's.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub use_service_account_credentials: bool,
}

/// Where the Kubernetes API is, and what belongs nowhere else.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Misc")]
pub struct MiscFlags {
    /// Path of a kubeconfig, read again when it or a file that it names changes; without it the Pod's service account is used.
    #[arg(long, default_value = "", value_parser = path())]
    pub kubeconfig: PathFlag,
    /// URL of the API server; overrides the kubeconfig's.
    #[arg(long, default_value = "", value_name = "URL")]
    pub master: String,
    /// Pause between two passes over all Nodes' addresses.
    #[arg(long, default_value = "5m0s", value_parser = duration)]
    pub node_status_update_frequency: GoDuration,
}

impl ApiFlags {
    pub(super) fn min_resync_period(&self) -> Duration {
        self.min_resync_period.to_std().unwrap_or(Duration::from_secs(12 * 3600))
    }

    /// Requests that may be saved up; `None` if that is not said.
    pub(super) fn burst(&self) -> Option<u32> {
        self.kube_api_burst.and_then(|burst| u32::try_from(burst).ok())
    }
}
