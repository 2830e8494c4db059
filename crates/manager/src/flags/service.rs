//! Services of type `LoadBalancer`.

use clap::{ArgAction, Args};
use controllers::options::{Drift, ServiceOptions};
use runtime::go_duration::GoDuration;

use super::values::{List, duration, go_bool, go_int, list};

/// service-lb-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Service-lb-controller")]
pub struct ServiceFlags {
    /// Services whose load balancers are worked on at the same time.
    #[arg(long, default_value = "16", value_parser = go_int)]
    pub concurrent_service_syncs: i32,
    /// Values of spec.loadBalancerClass that are ours, separated by commas; none if unset.
    #[arg(long, value_parser = list)]
    pub load_balancer_classes: Vec<List>,
    /// Services without a spec.loadBalancerClass are ours.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub default_load_balancer: bool,
    /// Pause between two checks of all load balancers for changes that others made, times a random factor; 0: never.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub load_balancer_drift_check_period: GoDuration,
    /// What becomes of such a change: report (an event) or repair.
    #[arg(long, default_value = "report", value_name = "MODE", value_parser = str::parse::<Drift>)]
    pub load_balancer_drift: Drift,
    /// A Node that joins becomes a target only when its condition NetworkUnavailable is not true any more; one that is a target
    /// stays one.
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
