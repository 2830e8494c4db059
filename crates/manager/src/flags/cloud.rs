//! The cloud and the cluster in it.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::values::go_bool;

/// The cloud and the cluster in it.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Cloud")]
pub struct CloudFlags {
    /// The cloud.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub cloud_provider: String,
    /// The provider's configuration file.
    #[arg(long, value_name = "PATH")]
    pub cloud_config: Option<PathBuf>,
    /// Name of the cluster; part of the names of cloud resources, so it must stay the same.
    #[arg(long, default_value = cloud_provider::names::DEFAULT_CLUSTER_NAME, value_name = "NAME")]
    pub cluster_name: String,
    /// Start even if the cloud cannot tell this cluster's resources from another's.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, value_name = "BOOL")]
    pub allow_untagged_cloud: bool,
}
