//! Nodes: their initialisation, and their end.

use clap::{ArgAction, Args};
use controllers::options::{GuardOptions, LifecycleOptions, NodeDeletion, NodeOptions};
use runtime::go_duration::GoDuration;

use super::values::{duration, go_bool, go_int};

/// cloud-node-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Cloud-node-controller")]
pub struct NodeFlags {
    /// Nodes that are initialised at the same time.
    #[arg(long, default_value = "16", value_parser = go_int)]
    pub concurrent_node_syncs: i32,
    /// Nodes whose addresses are written at the same time; 0: as --concurrent-node-syncs.
    #[arg(long, default_value = "0", value_parser = go_int)]
    pub concurrent_node_status_updates: i32,
    /// Initialise Nodes without a provider id, too, if they were registered without the start-up taint.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub adopt_nodes: bool,
    /// With their addresses, bring the Nodes' labels of type, zone and region up to date, and add those that the cloud has new.
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

/// cloud-node-lifecycle-controller.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Cloud-node-lifecycle-controller")]
pub struct LifecycleFlags {
    /// Pause between two passes over all Nodes that are not ready.
    #[arg(long, default_value = "5s", value_parser = duration, help_heading = "Generic")]
    pub node_monitor_period: GoDuration,
    /// Delete Nodes whose machine is gone: on, dry-run (say which) or off.
    #[arg(long, default_value = "on", value_name = "MODE", value_parser = str::parse::<NodeDeletion>)]
    pub node_deletion: NodeDeletion,
    /// Delete a Node only if its absence is confirmed, witnessed and no landslide.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub node_deletion_guard: bool,
    /// More than this share of the Nodes gone together is a landslide, which is held.
    #[arg(long, default_value = "0.5")]
    pub node_deletion_guard_share: f64,
    /// How long a landslide must last before it is believed.
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

    /// Share and delay of the guards over Nodes and over Services that vanish.
    pub(super) fn share_and_delay(&self) -> GuardOptions {
        GuardOptions { share: self.node_deletion_guard_share, delay: self.node_deletion_guard_delay.to_std_or_zero() }
    }
}
