//! Flags of the Kubernetes clients: address and rate limits.

use clap::{ArgAction, Args};
use controllers::options::NodeOptions;
use runtime::client::{ApiServerCandidates, DEFAULT_BURST, DEFAULT_CANDIDATES};
use runtime::go_duration::GoDuration;

use super::values::{PathFlag, duration, go_bool, go_float, go_int, path};
use crate::controller_set::MIN_RESYNC_PERIOD;

/// Flags of the Kubernetes clients.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct ApiFlags {
    /// Maximum number of requests per second to the API server, for each client. Without this flag there is no limit:
    /// the API server throttles with API Priority and Fairness, and the clients respect its 429 responses.
    #[arg(long, value_parser = go_float)]
    pub kube_api_qps: Option<f32>,
    /// Number of requests above --kube-api-qps that a client may send at once. No effect without --kube-api-qps.
    #[arg(long, default_value_t = DEFAULT_BURST.cast_signed(), value_parser = go_int)]
    pub kube_api_burst: i32,
    /// Accepted with any value: requests to the API server always use JSON.
    #[arg(
        long,
        default_value = "application/vnd.kubernetes.protobuf",
        value_name = "TYPE"
    )]
    pub kube_api_content_type: String,
    /// Interval of full resyncs of all objects, multiplied by a random factor from 1 to 2.
    #[arg(long, default_value_t = MIN_RESYNC_PERIOD.into(), value_parser = duration)]
    pub min_resync_period: GoDuration,
    /// Use a separate ServiceAccount in kube-system for each controller, instead of the identity of the process.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub use_service_account_credentials: bool,
}

/// Flags that locate the Kubernetes API, and flags without another section.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Misc")]
pub struct MiscFlags {
    /// Path of a kubeconfig, reloaded when it or a file that it names changes; the Pod's service account if empty.
    #[arg(long, default_value = "", value_parser = path())]
    pub kubeconfig: PathFlag,
    /// URL of the API server; overrides the kubeconfig's.
    #[arg(long, default_value = "", value_name = "URL")]
    pub master: String,
    /// URLs of the API server to try in this order, separated by commas, if this is a Pod and the address in
    /// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT does not answer. Each server must have a certificate of the
    /// cluster's CA for kubernetes.default.svc. Empty: no other address is tried. No effect with --kubeconfig or --master.
    #[arg(long, default_value = DEFAULT_CANDIDATES, value_name = "URLS", value_parser = str::parse::<ApiServerCandidates>)]
    pub api_server_candidates: ApiServerCandidates,
    /// Interval between updates of the addresses of all Nodes from the cloud.
    #[arg(long, default_value_t = NodeOptions::default().status_update_frequency.into(), value_parser = duration)]
    pub node_status_update_frequency: GoDuration,
}
