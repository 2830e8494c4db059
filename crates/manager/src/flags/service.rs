//! Flags of Services of type `LoadBalancer`.

use clap::{ArgAction, Args};
use controllers::options::{Drift, GuardOptions, ServiceOptions};
use runtime::go_duration::GoDuration;

use super::values::{List, duration, go_bool, go_int, list};

/// Flags of the service-lb-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Service-lb-controller")]
pub struct ServiceFlags {
    /// Maximum number of Services that are synced at the same time.
    #[arg(long, default_value_t = ServiceOptions::default().concurrent_syncs, value_parser = go_int)]
    pub concurrent_service_syncs: i32,
    /// Values of spec.loadBalancerClass that this manager handles, separated by commas; none by default.
    #[arg(long, value_parser = list)]
    pub load_balancer_classes: Vec<List>,
    /// Handle Services without a spec.loadBalancerClass.
    #[arg(long, default_value_t = ServiceOptions::default().is_default, value_parser = go_bool, action = ArgAction::Set)]
    pub default_load_balancer: bool,
    /// Interval between two checks of a load balancer for drift, varied by up to a tenth; 0 disables the checks.
    #[arg(long, default_value_t = ServiceOptions::default().drift_check_period.into(), value_parser = duration)]
    pub load_balancer_drift_check_period: GoDuration,
    /// Reaction to drift of a load balancer: report (with an event) or repair.
    #[arg(long, default_value_t = ServiceOptions::default().drift, value_name = "MODE", value_parser = str::parse::<Drift>)]
    pub load_balancer_drift: Drift,
    /// Add a new Node as a target only after its condition NetworkUnavailable is no longer true; Nodes that are targets
    /// already stay targets.
    #[arg(long, default_value_t = ServiceOptions::default().exclude_without_network, value_parser = go_bool, action = ArgAction::Set)]
    pub exclude_nodes_without_network: bool,
}

/// Values of spec.loadBalancerClass that programs of vendors handle without a flag, by `--cloud-provider`.
const CLASSES: [(&str, &str); 2] = [
    ("alibabacloud", "alibabacloud.com/nlb"),
    ("alicloud", "alibabacloud.com/nlb"),
];

impl ServiceFlags {
    /// Returns the options of the service-lb-controller, with the guard for Services that vanish from the API.
    pub(super) fn options(&self, guard: GuardOptions, provider: &str) -> ServiceOptions {
        let ServiceFlags {
            concurrent_service_syncs,
            load_balancer_classes,
            default_load_balancer,
            load_balancer_drift_check_period,
            load_balancer_drift,
            exclude_nodes_without_network,
        } = self;
        let of_vendor = CLASSES
            .iter()
            .filter(|(name, _)| load_balancer_classes.is_empty() && *name == provider);
        let classes = List::all(load_balancer_classes).chain(of_vendor.map(|(_, class)| *class));
        ServiceOptions {
            concurrent_syncs: *concurrent_service_syncs,
            classes: classes.map(str::to_owned).collect(),
            is_default: *default_load_balancer,
            drift_check_period: load_balancer_drift_check_period.to_std_or_zero(),
            drift: *load_balancer_drift,
            vanished: Some(guard),
            exclude_without_network: *exclude_nodes_without_network,
            ..ServiceOptions::default()
        }
    }
}
