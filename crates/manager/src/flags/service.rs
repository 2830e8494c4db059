//! Flags of Services of type `LoadBalancer`.

use clap::{ArgAction, Args};
use controllers::options::{Drift, ServiceOptions};
use runtime::go_duration::GoDuration;

use super::values::{List, duration, go_bool, go_int, list};

/// Flags of the service-lb-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Service-lb-controller")]
pub struct ServiceFlags {
    /// Maximum number of Services that are synced at the same time.
    #[arg(long, default_value = "16", value_parser = go_int)]
    pub concurrent_service_syncs: i32,
    /// Values of spec.loadBalancerClass that this manager handles, separated by commas; none by default.
    #[arg(long, value_parser = list)]
    pub load_balancer_classes: Vec<List>,
    /// Handle Services without a spec.loadBalancerClass.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub default_load_balancer: bool,
    /// Interval between two checks of a load balancer for drift, varied by up to a tenth; 0 disables the checks.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub load_balancer_drift_check_period: GoDuration,
    /// Reaction to drift of a load balancer: report (with an event) or repair.
    #[arg(long, default_value = "report", value_name = "MODE", value_parser = str::parse::<Drift>)]
    pub load_balancer_drift: Drift,
    /// Add a new Node as a target only after its condition NetworkUnavailable is no longer true; Nodes that are targets
    /// already stay targets.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub exclude_nodes_without_network: bool,
}

impl ServiceFlags {
    pub(super) fn options(&self) -> ServiceOptions {
        ServiceOptions {
            concurrent_syncs: self.concurrent_service_syncs,
            classes: List::all(&self.load_balancer_classes).map(str::to_owned).collect(),
            is_default: self.default_load_balancer,
            drift_check_period: self.load_balancer_drift_check_period.to_std_or_zero(),
            drift: self.load_balancer_drift,
            exclude_without_network: self.exclude_nodes_without_network,
            ..ServiceOptions::default()
        }
    }
}
