//! Flags of the node controllers: initialization and deletion of Nodes.

use std::time::Duration;

use clap::{ArgAction, Args};
use controllers::options::{GuardOptions, LifecycleOptions, NodeDeletion, NodeOptions};
use runtime::go_duration::GoDuration;

use super::values::{duration, go_bool, go_int};

/// Flags of the cloud-node-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Cloud-node-controller")]
pub struct NodeFlags {
    /// Maximum number of Nodes that are initialized at the same time.
    #[arg(long, default_value_t = NodeOptions::default().concurrent_node_syncs, value_parser = go_int)]
    pub concurrent_node_syncs: i32,
    /// Maximum number of Nodes whose addresses are updated at the same time; 0 means the value of
    /// --concurrent-node-syncs.
    #[arg(long, default_value_t = NodeOptions::default().concurrent_node_status_updates, value_parser = go_int)]
    pub concurrent_node_status_updates: i32,
    /// Also initialize Nodes without a provider ID that were registered without the uninitialized taint.
    #[arg(long, default_value_t = NodeOptions::default().adopt, value_parser = go_bool, action = ArgAction::Set)]
    pub adopt_nodes: bool,
    /// Update the Nodes' labels of type, zone and region together with their addresses, and add labels that are new in
    /// the cloud.
    #[arg(long, default_value_t = NodeOptions::default().refresh_labels, value_parser = go_bool, action = ArgAction::Set)]
    pub refresh_node_labels: bool,
}

impl NodeFlags {
    /// Returns the options of the cloud-node-controller, with the interval of `--node-status-update-frequency`, which
    /// is in the help's section "Misc".
    pub(super) fn options(&self, status_update_frequency: Duration) -> NodeOptions {
        let &NodeFlags {
            concurrent_node_syncs,
            concurrent_node_status_updates,
            adopt_nodes,
            refresh_node_labels,
        } = self;
        NodeOptions {
            concurrent_node_syncs,
            concurrent_node_status_updates,
            status_update_frequency,
            adopt: adopt_nodes,
            refresh_labels: refresh_node_labels,
            ..NodeOptions::default()
        }
    }
}

/// Flags of the cloud-node-lifecycle-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Cloud-node-lifecycle-controller")]
pub struct LifecycleFlags {
    /// Interval at which the machines of all Nodes that are not ready are looked up in the cloud.
    #[arg(long, default_value_t = LifecycleOptions::default().monitor_period.into(), value_parser = duration)]
    pub node_monitor_period: GoDuration,
    /// Maximum number of Nodes that are tainted or deleted at the same time. Machines are looked up together.
    #[arg(long, default_value_t = LifecycleOptions::default().concurrent_syncs, value_parser = go_int)]
    pub concurrent_node_lifecycle_syncs: i32,
    /// Delete Nodes whose machine no longer exists: on, dry-run (log only) or off.
    #[arg(long, default_value_t = LifecycleOptions::default().deletion, value_name = "MODE", value_parser = str::parse::<NodeDeletion>)]
    pub node_deletion: NodeDeletion,
    /// Delete a Node only after the absence of its machine is confirmed, the credential is verified with another
    /// machine, and no mass deletion is suspected.
    #[arg(long, default_value_t = LifecycleOptions::default().guard.is_some(), value_parser = go_bool, action = ArgAction::Set)]
    pub node_deletion_guard: bool,
    /// Share of Nodes without a machine, from 0 to 1, above which a mass deletion is suspected and held. Also applies
    /// to Services that vanish from the API.
    #[arg(long, default_value_t = GuardOptions::default().share)]
    pub node_deletion_guard_share: f64,
    /// Time that a suspected mass deletion must last before Nodes are deleted. Also applies to load balancers of
    /// Services that vanish from the API.
    #[arg(long, default_value_t = GuardOptions::default().delay.into(), value_parser = duration)]
    pub node_deletion_guard_delay: GoDuration,
}

impl LifecycleFlags {
    /// Returns the options of the cloud-node-lifecycle-controller, and the guard against mass deletion, which Services
    /// have even if it is disabled for Nodes.
    pub(super) fn options(&self) -> (LifecycleOptions, GuardOptions) {
        let &LifecycleFlags {
            node_monitor_period,
            concurrent_node_lifecycle_syncs,
            node_deletion,
            node_deletion_guard,
            node_deletion_guard_share,
            node_deletion_guard_delay,
        } = self;
        let guard = GuardOptions {
            share: node_deletion_guard_share,
            delay: node_deletion_guard_delay.to_std_or_zero(),
        };
        let options = LifecycleOptions {
            monitor_period: node_monitor_period.to_std_or_zero(),
            concurrent_syncs: concurrent_node_lifecycle_syncs,
            deletion: node_deletion,
            guard: node_deletion_guard.then_some(guard),
        };
        (options, guard)
    }
}
