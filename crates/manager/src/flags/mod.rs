//! Command-line flags.
//!
//! This is the part of the reference's flags that the controllers need, with their names, defaults and parsing rules
//! (FLAG-*), and the flags of this project. Defaults that differ from the reference's are those of D-10.

mod api;
mod cloud;
mod controllers;
mod explain;
mod gates;
mod node;
mod route;
mod service;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsString;

use ::controllers::Options;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use runtime::go_duration::GoDuration;

pub use self::api::ApiFlags;
pub use self::cloud::CloudFlags;
pub use self::controllers::ControllersFlags;
use self::explain::explain;
pub use self::gates::FeatureGates;
pub use self::node::{LifecycleFlags, NodeFlags};
pub use self::route::RouteFlags;
pub use self::service::ServiceFlags;
pub use self::values::List;
use self::values::with_hyphens;
use crate::controllers_task::{Clients, Settings};

/// Name in messages about arguments (FLAG-8).
const COMMAND: &str = "cloud-controller-manager";

const ABOUT: &str = "Joins a Kubernetes cluster to its cloud: initialises Nodes, removes those whose machine is gone, \
                     taints those shut down; runs load balancers for Services and routes for Pod networks.";

/// The flags, parsed.
#[derive(Parser, Debug, Clone, PartialEq)]
#[command(name = COMMAND, version, about = ABOUT, disable_help_subcommand = true, args_override_self = true, max_term_width = 120,
    after_help = "Subcommands:\n  plan  what would be changed, without changing it; see `plan --help`\n  demo  a whole cluster and cloud in this process; see `demo --help`")]
pub struct Flags {
    /// The cloud.
    #[command(flatten)]
    pub cloud: CloudFlags,
    /// The Kubernetes API.
    #[command(flatten)]
    pub api: ApiFlags,
    /// All controllers.
    #[command(flatten)]
    pub controllers: ControllersFlags,
    /// cloud-node-controller.
    #[command(flatten)]
    pub node: NodeFlags,
    /// cloud-node-lifecycle-controller.
    #[command(flatten)]
    pub lifecycle: LifecycleFlags,
    /// service-lb-controller.
    #[command(flatten)]
    pub service: ServiceFlags,
    /// node-route-controller.
    #[command(flatten)]
    pub route: RouteFlags,

    /// Verbosity of the log: 4 shows debug lines, 6 everything.
    #[arg(short = 'v', long = "v", default_value = "0", value_name = "LEVEL", help_heading = "Global")]
    pub verbosity: u8,
}

/// What came of the arguments.
#[derive(Debug)]
pub enum Parsed<T = Box<Flags>> {
    /// Run with these.
    Flags(T),
    /// Help or version was asked for: print it and end well.
    Say(String),
    /// They cannot be used; exit code 1.
    Wrong(String),
}

impl Flags {
    /// Parses and validates arguments, the program's name first.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
        match parse::<Self>(Self::command(), COMMAND, arguments) {
            Parsed::Flags(flags) => match flags.validate() {
                Ok(()) => Parsed::Flags(Box::new(flags)),
                Err(text) => Parsed::Wrong(text),
            },
            Parsed::Say(text) => Parsed::Say(text),
            Parsed::Wrong(text) => Parsed::Wrong(text),
        }
    }

    /// FLAG-10: everything that is wrong, at once.
    ///
    /// # Errors
    /// What is wrong and what to do.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let mut errors = Vec::new();
        if self.cloud.cloud_provider.is_empty() {
            errors.push("--cloud-provider cannot be empty".to_owned());
        }
        errors.extend(self.controllers.selection().err().unwrap_or_default());
        errors.extend(self.options().validate());
        // A pass after the other without a pause would only burn the cloud's quota.
        for (name, period) in [
            ("node-monitor-period", self.lifecycle.node_monitor_period),
            ("node-status-update-frequency", self.node.node_status_update_frequency),
            ("route-reconciliation-period", self.route.route_reconciliation_period),
        ] {
            if !period.is_positive() {
                errors.push(format!("{name} is {period}, it must be longer than 0s"));
            }
        }
        for (name, period) in [
            ("node-deletion-guard-delay", self.lifecycle.node_deletion_guard_delay),
            ("load-balancer-drift-check-period", self.service.load_balancer_drift_check_period),
        ] {
            if !(period.is_positive() || period == GoDuration::ZERO) {
                errors.push(format!("{name} is {period}, it must not be negative"));
            }
        }
        errors.dedup();
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// How the controllers behave.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            node: self.node.options(),
            lifecycle: self.lifecycle.options(),
            service: self.service.options(),
            route: self.route.options(self.controllers.gates().route_mode()),
            explain: self.controllers.explain,
        }
    }

    /// What the controllers are started with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            min_resync_period: self.api.min_resync_period(),
            // Names were checked when the flags were parsed.
            controllers: self.controllers.selection().unwrap_or_default(),
            configure_cloud_routes: self.route.configure_cloud_routes,
            ..Settings::new(self.options(), Clients::Configured(Box::new(self.api.client_options())))
        }
    }

    /// Says in the log which flags were accepted for nothing.
    pub(crate) fn log_inert(&self) {
        for gate in self.controllers.gates().inert() {
            tracing::info!(gate, "this feature gate has no effect here");
        }
        if self.route.allocate_node_cidrs {
            tracing::info!(
                "--allocate-node-cidrs has no effect here: kube-controller-manager gives Nodes their Pod ranges"
            );
        }
    }
}

/// Reads arguments into `T` by the rules that all commands share.
pub(crate) fn parse<T: FromArgMatches>(
    command: clap::Command,
    name: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Parsed<T> {
    let matches = command.try_get_matches_from(arguments.into_iter().map(with_hyphens));
    match matches.and_then(|mut matches| T::from_arg_matches_mut(&mut matches)) {
        Ok(flags) => Parsed::Flags(flags),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Parsed::Say(error.render().to_string())
        }
        Err(error) => Parsed::Wrong(explain(&error, name)),
    }
}
