//! Routes for Pod networks.

use clap::{ArgAction, Args};
use controllers::options::{RouteMode, RouteOptions};
use ipnet::IpNet;
use runtime::go_duration::GoDuration;

use super::values::{duration, go_bool};

/// node-route-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct RouteFlags {
    /// The Pod network's range, or one IPv4 and one IPv6 range separated by a comma.
    #[arg(long, default_value = "", value_name = "CIDRS")]
    pub cluster_cidr: String,
    /// Keep the cloud's routes to the Nodes' Pod ranges, where the cloud has routes; needs --cluster-cidr.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub configure_cloud_routes: bool,
    /// Assign Pod ranges to Nodes, on linode, and on gce with --cidr-allocator-type=CloudAllocator. On other clouds without effect: there kube-controller-manager does it.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Source of Pod ranges: CloudAllocator on gce. Otherwise accepted without effect, as --allocate-node-cidrs.
    #[arg(long, default_value = "RangeAllocator", value_name = "TYPE")]
    pub cidr_allocator_type: String,
    /// After a change routes are compared at least this often. Without one, they are compared every five minutes; with the
    /// feature gate CloudControllerManagerWatchBasedRoutesReconciliation=false always at this period, with =true never.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub route_reconciliation_period: GoDuration,
}

impl RouteFlags {
    pub(super) fn options(&self, mode: RouteMode) -> RouteOptions {
        RouteOptions {
            // Where they are needed and wrong, the start fails (FLAG-21).
            cluster_cidrs: self.cluster_cidrs().unwrap_or_default(),
            reconciliation_period: self.route_reconciliation_period.to_std_or_zero(),
            ..RouteOptions::in_mode(mode)
        }
    }

    /// FLAG-21.
    ///
    /// # Errors
    /// What is wrong with the flag, and the ways out.
    pub(crate) fn cluster_cidrs(&self) -> Result<Vec<IpNet>, String> {
        controllers::route::cluster_cidr::parse(&self.cluster_cidr).map_err(|error| {
            format!(
                "{error}: --cluster-cidr={:?} is not usable for routes; set it to the range of the Pod network, or pass \
                 --configure-cloud-routes=false if this cluster needs no routes in the cloud",
                self.cluster_cidr
            )
        })
    }
}
