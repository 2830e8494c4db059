//! Flags of the node controllers: initialization and deletion of Nodes.

use clap::{ArgAction, Args};
use controllers::options::{GuardOptions, LifecycleOptions, NodeDeletion, NodeOptions};
use runtime::go_duration::GoDuration;

use super::values::{duration, go_bool, go_int};

/// Flags of the cloud-node-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Cloud-node-controller")]
pub struct NodeFlags {
    /// Maximum number of Nodes that are initialized at the same time.
    #[arg(long, default_value = "16", value_parser = go_int)]
    pub concurrent_node_syncs: i32,
    /// Maximum number of Nodes whose addresses are updated at the same time; 0 means the value of
    /// --concurrent-node-syncs.
    #[arg(long, default_value = "0", value_parser = go_int)]
    pub concurrent_node_status_updates: i32,
    /// Also initialize Nodes without a provider ID that were registered without the uninitialized taint.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub adopt_nodes: bool,
    /// Update the Nodes' labels of type, zone and region together with their addresses, and add labels that are new in
    /// the cloud.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub refresh_node_labels: bool,
}

impl NodeFlags {
    pub(super) fn options(&self, frequency: GoDuration) -> NodeOptions {
        NodeOptions {
            concurrent_node_syncs: self.concurrent_node_syncs,
            concurrent_node_status_updates: self.concurrent_node_status_updates,
            status_update_frequency: frequency.to_std_or_zero(),
            adopt: self.adopt_nodes,
            refresh_labels: self.refresh_node_labels,
        }
    }
}

/// Flags of the cloud-node-lifecycle-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Cloud-node-lifecycle-controller")]
pub struct LifecycleFlags {
    /// Interval at which the machines of all Nodes that are not ready are looked up in the cloud.
    #[arg(long, default_value = "5s", value_parser = duration, help_heading = "Generic")]
    pub node_monitor_period: GoDuration,
    /// Delete Nodes whose machine no longer exists: on, dry-run (log only) or off.
    #[arg(long, default_value = "on", value_name = "MODE", value_parser = str::parse::<NodeDeletion>)]
    pub node_deletion: NodeDeletion,
    /// Delete a Node only after the absence of its machine is confirmed, the credential is verified with another
    /// machine, and no mass deletion is suspected.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub node_deletion_guard: bool,
    /// Share of Nodes without a machine, from 0 to 1, above which a mass deletion is suspected and held. Also applies
    /// to Services that vanish from the API.
    #[arg(long, default_value = "0.5")]
    pub node_deletion_guard_share: f64,
    /// Time that a suspected mass deletion must last before Nodes are deleted. Also applies to load balancers of
    /// Services that vanish from the API.
    #[arg(long, default_value = "5m0s", value_parser = duration)]
    pub node_deletion_guard_delay: GoDuration,
}

impl LifecycleFlags {
    pub(super) fn options(&self) -> LifecycleOptions {
        LifecycleOptions {
            monitor_period: self.node_monitor_period.to_std_or_zero(),
            deletion: self.node_deletion,
            guard: self.node_deletion_guard.then(|| self.share_and_delay()),
        }
    }

    /// Returns the share and the delay of the guards against mass deletion of Nodes and of Services' load balancers.
    pub(super) fn share_and_delay(&self) -> GuardOptions {
        GuardOptions { share: self.node_deletion_guard_share, delay: self.node_deletion_guard_delay.to_std_or_zero() }
    }
}
