//! Which controllers run, and what all of them do alike.

use clap::{ArgAction, Args};

use super::gates::FeatureGates;
use super::values::{List, go_bool, list};
use crate::selection::Selection;

/// Which controllers run, and what all of them do alike.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Controllers")]
pub struct ControllersFlags {
    /// Controllers to run, separated by commas: names, -NAME for one not to run, * for all that are on by default
    /// (cloud-node-controller, cloud-node-lifecycle-controller, node-route-controller, service-lb-controller; not
    /// persistent-volume-label-controller).
    #[arg(long, default_value = "*", value_name = "LIST", value_parser = list, allow_hyphen_values = true)]
    pub controllers: Vec<List>,
    /// Optional behaviour, as NAME=true|false, separated by commas.
    #[arg(long, value_name = "MAP", value_parser = str::parse::<FeatureGates>)]
    pub feature_gates: Vec<FeatureGates>,
    /// Say on an object, with an event or a condition, why it waits.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, value_name = "BOOL")]
    pub explain: bool,
}

impl ControllersFlags {
    /// # Errors
    /// One text for each name that is no controller's.
    pub(super) fn selection(&self) -> Result<Selection, Vec<String>> {
        Selection::parse(List::all(&self.controllers))
    }

    pub(super) fn gates(&self) -> FeatureGates {
        FeatureGates::merged(&self.feature_gates)
    }
}
