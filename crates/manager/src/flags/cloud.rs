//! The cloud and the cluster in it.

use std::str::FromStr;

use clap::{ArgAction, Args};
use runtime::go_duration::GoDuration;

use super::values::{PathFlag, duration, go_bool, path};

/// What happens when the file of `--cloud-config` changes (APP-89).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCloudConfigChange {
    /// The provider is given it.
    Reload,
    /// The process ends in order, so that it is started again.
    Exit,
    /// Nothing.
    Ignore,
}

impl FromStr for OnCloudConfigChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "reload" => Ok(Self::Reload),
            "exit" => Ok(Self::Exit),
            "ignore" => Ok(Self::Ignore),
            other => Err(format!("{other:?} is not one of reload, exit, ignore")),
        }
    }
}

/// The cloud and the cluster in it.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct CloudFlags {
    /// The cloud. A program called as a vendor's (hcloud-cloud-controller-manager, ...) need not be told.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub cloud_provider: String,
    /// The provider's configuration file.
    #[arg(long, default_value = "", value_parser = path())]
    pub cloud_config: PathFlag,
    /// If that file changes: reload hands it to the provider (one that cannot take it over is not restarted, the log says
    /// so), exit ends the process in order with code 0, ignore does nothing.
    #[arg(long, default_value = "reload", value_name = "WHAT", value_parser = str::parse::<OnCloudConfigChange>)]
    pub cloud_config_change: OnCloudConfigChange,
    /// Name of the cluster; part of the names of cloud resources, so it must stay the same.
    #[arg(long, default_value = cloud_provider::names::DEFAULT_CLUSTER_NAME, value_name = "NAME")]
    pub cluster_name: String,
    /// Start even if the cloud cannot tell this cluster's resources from another's.
    #[arg(long, hide = true, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub allow_untagged_cloud: bool,
    /// Accepted, without effect.
    #[arg(long, hide = true, default_value = "0s", value_parser = duration)]
    pub node_sync_period: GoDuration,
    /// Accepted, without effect: volumes are the CSI drivers' work.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub external_cloud_volume_plugin: String,
}
