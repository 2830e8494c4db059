//! Flags of routes for Pod networks.

use clap::{ArgAction, Args};
use controllers::options::{RouteMode, RouteOptions};
use ipnet::IpNet;
use runtime::go_duration::GoDuration;

use super::values::{duration, go_bool};

/// Flags of the node-route-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct RouteFlags {
    /// CIDR of the Pod network, or one IPv4 and one IPv6 CIDR separated by a comma.
    #[arg(long, default_value = "", value_name = "CIDRS")]
    pub cluster_cidr: String,
    /// Create routes to the Nodes' Pod CIDRs in the cloud, if the provider supports routes; requires --cluster-cidr.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub configure_cloud_routes: bool,
    /// Assign Pod CIDRs to Nodes, with --cloud-provider=gce or linode only. On other clouds kube-controller-manager
    /// assigns them.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Source of the Pod CIDRs that --allocate-node-cidrs assigns on gce: RangeAllocator takes them from --cluster-cidr,
    /// CloudAllocator from the instances. Accepted without effect on other clouds.
    #[arg(long, default_value = "RangeAllocator", value_name = "TYPE")]
    pub cidr_allocator_type: String,
    /// Maximum time between a change and the next comparison of routes. Without changes, routes are compared every five
    /// minutes. With the feature gate CloudControllerManagerWatchBasedRoutesReconciliation=false, routes are compared
    /// at this interval; with =true, this flag has no effect.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub route_reconciliation_period: GoDuration,
}

impl RouteFlags {
    pub(super) fn options(&self, mode: RouteMode) -> RouteOptions {
        RouteOptions {
            // If routes are needed and the CIDRs are invalid, the start fails (FLAG-21).
            cluster_cidrs: self.cluster_cidrs().unwrap_or_default(),
            reconciliation_period: self.route_reconciliation_period.to_std_or_zero(),
            ..RouteOptions::in_mode(mode)
        }
    }

    /// Parses `--cluster-cidr` (FLAG-21).
    ///
    /// # Errors
    /// The invalid value, and the remedies.
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
