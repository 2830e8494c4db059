//! Which controllers run, and what all of them do alike.

use clap::{ArgAction, Args};
use cloud_provider::names::CONTROLLERS;
use runtime::go_duration::GoDuration;

use super::gates::FeatureGates;
use super::values::{List, duration, go_bool, list};
use crate::selection::Selection;

/// The controller that tags instances, on aws.
pub(super) const TAGGING: &str = "tagging";

/// Controllers that only some vendors' programs have (APP-22): canonical names and aliases.
const RESERVED: [&str; 7] = [
    "gke-service",
    "gke-service-lb-controller",
    "gke-tenant-controller-manager",
    "gkenetworkparamset",
    "node-ipam-controller",
    "nodeipam",
    TAGGING,
];

/// The controller that an item of the list names.
fn name(item: &str) -> &str {
    item.strip_prefix('-').unwrap_or(item)
}

/// Which controllers run, and what all of them do alike.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct ControllersFlags {
    /// Controllers to run, separated by commas: names, -NAME for one not to run, * for all that are on by default
    /// (cloud-node-controller, cloud-node-lifecycle-controller, node-route-controller, service-lb-controller; not
    /// persistent-volume-label-controller).
    #[arg(long, default_value = "*", value_parser = list)]
    pub controllers: Vec<List>,
    /// Pause after starting each controller, times a random factor from 1 to 2.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub controller_start_interval: GoDuration,
    /// Optional behaviour, as NAME=true|false, separated by commas.
    #[arg(long, value_name = "MAP", value_parser = str::parse::<FeatureGates>)]
    pub feature_gates: Vec<FeatureGates>,
    /// Say on an object, with an event or a condition, why it waits.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub explain: bool,
    /// What is in work at a stop may take this long to finish, before the lease is handed over; it must fit in the Pod's
    /// grace period.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub shutdown_timeout: GoDuration,
}

impl ControllersFlags {
    /// # Errors
    /// One text for each name that is no controller's.
    pub(super) fn selection(&self) -> Result<Selection, Vec<String>> {
        Selection::parse(List::all(&self.controllers).filter(|item| !RESERVED.contains(&name(item))))
    }

    /// Those asked for that only some vendors' programs have.
    pub(super) fn reserved(&self) -> impl Iterator<Item = &str> {
        List::all(&self.controllers).filter(|item| RESERVED.contains(item))
    }

    /// The items with canonical names, as `/configz` shows them (APP-156).
    pub(crate) fn canonical(&self) -> Vec<String> {
        let canonical = |item: &str| {
            let (minus, name) = item.strip_prefix('-').map_or(("", item), |name| ("-", name));
            let known = CONTROLLERS.into_iter().find(|known| known.alias == name);
            format!("{minus}{}", known.map_or(name, |known| known.canonical))
        };
        List::all(&self.controllers).map(canonical).collect()
    }

    pub(super) fn gates(&self) -> FeatureGates {
        FeatureGates::merged(&self.feature_gates)
    }
}
