//! Flags of routes for Pod networks.

use clap::{ArgAction, Args};
use controllers::options::{RouteMode, RouteOptions};
use controllers::route::cluster_cidr::parse;
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
    /// Assign Pod CIDRs to Nodes, with --cloud-provider=azure, gce or linode only. On other clouds
    /// kube-controller-manager assigns them.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Source of the Pod CIDRs that --allocate-node-cidrs assigns on gce: RangeAllocator takes them from --cluster-cidr,
    /// CloudAllocator from the instances. On azure, CloudAllocator takes their lengths from tags of scale sets. Accepted
    /// without effect on other clouds.
    #[arg(long, default_value = "RangeAllocator", value_name = "TYPE")]
    pub cidr_allocator_type: String,
    /// Maximum time between a change and the next comparison of routes. Without changes, routes are compared every five
    /// minutes. With the feature gate CloudControllerManagerWatchBasedRoutesReconciliation=false, routes are compared
    /// at this interval; with =true, this flag has no effect.
    #[arg(long, default_value_t = RouteOptions::default().reconciliation_period.into(), value_parser = duration)]
    pub route_reconciliation_period: GoDuration,
}

impl RouteFlags {
    /// Returns the options of the node-route-controller, and what else the flags configure.
    pub(super) fn configuration(&self, mode: RouteMode) -> (RouteOptions, RouteConfiguration) {
        let RouteFlags {
            cluster_cidr,
            configure_cloud_routes,
            // A provider that assigns Pod CIDRs gets this flag by its name (`Flags::cloud_flags`).
            allocate_node_cidrs: _,
            // No effect: kube-controller-manager assigns Pod CIDRs.
            cidr_allocator_type: _,
            route_reconciliation_period,
        } = self;
        let cluster_cidrs = cluster_cidrs(cluster_cidr);
        let options = RouteOptions {
            // If routes are needed and the CIDRs are invalid, the start fails (FLAG-21).
            cluster_cidrs: cluster_cidrs.clone().unwrap_or_default(),
            reconciliation_period: route_reconciliation_period.to_std_or_zero(),
            ..RouteOptions::in_mode(mode)
        };
        let cidr_error = cluster_cidrs.err();
        let cluster_cidr = cluster_cidr.clone();
        (
            options,
            RouteConfiguration {
                cluster_cidr,
                cidr_error,
                configure_cloud_routes: *configure_cloud_routes,
            },
        )
    }
}

/// The flags of routes that are not options of the node-route-controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfiguration {
    /// Value of `--cluster-cidr`, for the provider.
    pub cluster_cidr: String,
    /// Reason why `--cluster-cidr` cannot be used for routes (FLAG-21).
    pub cidr_error: Option<String>,
    /// Value of `--configure-cloud-routes`. If `false`, the route controller does not run (ROUTE-2).
    pub configure_cloud_routes: bool,
}

/// Parses the networks of `--cluster-cidr` (FLAG-21).
fn cluster_cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    parse(text).map_err(|_| {
        let reason = why_unusable(text);
        format!(
            "--cluster-cidr={text:?} is not usable for routes: {reason}; set it to the range of the Pod network, or pass \
             --configure-cloud-routes=false if this cluster needs no routes in the cloud"
        )
    })
}

/// Returns the reason why `text` names no networks of a cluster.
fn why_unusable(text: &str) -> String {
    let is_wrong = |part: &&str| part.trim() != *part || parse(part).is_err();
    match text.trim().split(',').find(is_wrong) {
        Some("") => "a range is missing".to_owned(),
        Some(part) if part.trim() != part => format!("{part:?} has a space"),
        Some(part) => format!("{part:?} is not a range such as 10.244.0.0/16"),
        None => "it must be one range, or one of IPv4 and one of IPv6".to_owned(),
    }
}
