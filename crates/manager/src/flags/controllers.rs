//! Flags that select controllers and apply to all of them.

use clap::{ArgAction, Args};
use cloud_provider::names::CONTROLLERS;
use runtime::go_duration::GoDuration;

use super::gates::FeatureGates;
use super::provider_flags::ALIBABA;
use super::values::{List, duration, go_bool, list};
use crate::controller_set::Selection;

/// The controller that tags instances, on aws.
pub(super) const TAGGING: &str = "tagging";

/// Names of the controllers of Alibaba Cloud's program, and the controllers here that do their work.
const OTHER_NAMES: [(&str, &[&str]); 2] = [
    (
        "node",
        &["cloud-node-controller", "cloud-node-lifecycle-controller"],
    ),
    ("nlb", &["service-lb-controller"]),
];

/// Returns the items of the list with the names of this program.
fn translated(item: &str) -> Vec<String> {
    let minus = if item.starts_with('-') { "-" } else { "" };
    let known = OTHER_NAMES.iter().find(|(other, _)| *other == name(item));
    known.map_or_else(
        || vec![item.to_owned()],
        |(_, names)| names.iter().map(|name| format!("{minus}{name}")).collect(),
    )
}

/// Canonical names and aliases of controllers that only some vendors' programs have (APP-22).
const RESERVED: [&str; 7] = [
    "gke-service",
    "gke-service-lb-controller",
    "gke-tenant-controller-manager",
    "gkenetworkparamset",
    NODE_IPAM[0],
    NODE_IPAM[1],
    TAGGING,
];

/// Names of controllers of Alibaba Cloud's program whose work this program does not do: ALB instances for Ingresses, and
/// records of a private DNS zone. The names are known for that cloud alone, so that no other cloud accepts a typing error.
const ALIBABA_RESERVED: [&str; 2] = ["ingress", "pvtz"];

/// Returns `true` if only some vendors' programs have a controller of this name, and those of this provider may name it.
fn is_reserved(name: &str, provider: &str) -> bool {
    RESERVED.contains(&name) || (ALIBABA.contains(&provider) && ALIBABA_RESERVED.contains(&name))
}

/// Name and alias of the controller that assigns Pod ranges to Nodes, on gce and linode.
pub(super) const NODE_IPAM: [&str; 2] = ["node-ipam-controller", "nodeipam"];

/// Returns the controller that an item of the list names.
fn name(item: &str) -> &str {
    item.strip_prefix('-').unwrap_or(item)
}

/// Flags that select controllers and apply to all of them.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct ControllersFlags {
    /// Controllers to run, separated by commas: names, -NAME for one not to run, * for all that are on by default
    /// (cloud-node-controller, cloud-node-lifecycle-controller, node-route-controller, service-lb-controller; not
    /// persistent-volume-label-controller).
    #[arg(long, default_value = "*", value_parser = list)]
    pub controllers: Vec<List>,
    /// Pause after the start of each controller, multiplied by a random factor from 1 to 2.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub controller_start_interval: GoDuration,
    /// Feature gates to set, as NAME=true|false, separated by commas.
    #[arg(long, value_name = "MAP", value_parser = str::parse::<FeatureGates>)]
    pub feature_gates: Vec<FeatureGates>,
    /// Explain in events and conditions why an object is pending.
    #[arg(long, default_value_t = ::controllers::Options::default().explain, value_parser = go_bool, action = ArgAction::Set)]
    pub explain: bool,
    /// Maximum time to wait at a shutdown for work in progress before the lease is released. Must be shorter than the
    /// Pod's terminationGracePeriodSeconds.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub shutdown_timeout: GoDuration,
}

impl ControllersFlags {
    /// Parses `--controllers` for this provider.
    ///
    /// # Errors
    /// One error for each unknown name.
    pub(super) fn selection(&self, provider: &str) -> Result<Selection, Vec<String>> {
        let items = List::all(&self.controllers).filter(|item| !is_reserved(name(item), provider));
        let items: Vec<_> = items.flat_map(translated).collect();
        Selection::parse(items.iter().map(String::as_str))
    }

    /// Returns the selected controllers that only some vendors' programs have.
    pub(super) fn reserved(&self, provider: &str) -> impl Iterator<Item = &str> {
        List::all(&self.controllers).filter(move |item| is_reserved(item, provider))
    }

    /// Returns `true` if the list says that a controller of one of these names shall not run.
    pub(super) fn excludes(&self, names: &[&str]) -> bool {
        List::all(&self.controllers)
            .any(|item| item.starts_with('-') && names.contains(&name(item)))
    }

    /// Returns the items with canonical names, as `/configz` shows them (APP-156).
    pub(crate) fn canonical(&self) -> Vec<String> {
        let canonical = |item: &str| {
            let (minus, name) = item
                .strip_prefix('-')
                .map_or(("", item), |name| ("-", name));
            let known = CONTROLLERS.into_iter().find(|known| known.alias == name);
            format!("{minus}{}", known.map_or(name, |known| known.canonical))
        };
        List::all(&self.controllers).map(canonical).collect()
    }

    /// Returns the feature gates of all occurrences of `--feature-gates`.
    pub(super) fn gates(&self) -> FeatureGates {
        FeatureGates::merged(&self.feature_gates)
    }
}
