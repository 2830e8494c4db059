//! Flags of the cloud and the cluster.

use std::str::FromStr;

use clap::{ArgAction, Args};
use cloud_provider::AdoptableTag;
use runtime::go_duration::GoDuration;

use super::values::{PathFlag, duration, go_bool, path};

/// The reaction to a change of the file of `--cloud-config` (APP-89).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCloudConfigChange {
    /// The provider reloads the file.
    Reload,
    /// The process shuts down in order, to be restarted.
    Exit,
    /// The change is ignored.
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

/// A tag that may be empty, which means that there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagFlag(pub(super) Option<AdoptableTag>);

impl FromStr for TagFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Ok(Self(None))
        } else {
            text.parse().map(|tag| Self(Some(tag)))
        }
    }
}

/// Flags of the cloud and the cluster.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct CloudFlags {
    /// Name of the cloud provider. Optional for a program with a vendor's name (hcloud-cloud-controller-manager, ...).
    #[arg(long, default_value = "", value_name = "NAME")]
    pub cloud_provider: String,
    /// Configuration file of the provider.
    #[arg(long, default_value = "", value_parser = path())]
    pub cloud_config: PathFlag,
    /// Reaction to a change of the file of --cloud-config: reload passes it to the provider (if the provider cannot
    /// reload, a warning is logged), exit ends the process with code 0, ignore does nothing.
    #[arg(long, default_value = "reload", value_name = "WHAT", value_parser = str::parse::<OnCloudConfigChange>)]
    pub cloud_config_change: OnCloudConfigChange,
    /// Name of the cluster; part of the names of cloud resources, so it must not change.
    #[arg(long, default_value = cloud_provider::names::DEFAULT_CLUSTER_NAME, value_name = "NAME")]
    pub cluster_name: String,
    /// Tag (KEY or KEY=VALUE) that a load balancer must have in the cloud before a Service adopts it by its ID or its name.
    /// Empty: none is needed, so the author of any Service can adopt each load balancer that has no owner.
    #[arg(long, default_value = "", value_name = "TAG", value_parser = str::parse::<TagFlag>)]
    pub adoptable_load_balancer_tag: TagFlag,
    /// Start even if the provider cannot tell resources of this cluster from those of another.
    #[arg(long, hide = true, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub allow_untagged_cloud: bool,
    /// Accepted without effect, for compatibility.
    #[arg(long, hide = true, default_value = "0s", value_parser = duration)]
    pub node_sync_period: GoDuration,
    /// Accepted without effect: CSI drivers manage volumes.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub external_cloud_volume_plugin: String,
}
