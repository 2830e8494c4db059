//! Command-line flags.
//!
//! This module has all flags of the Go cloud-controller-manager with their names, meaning and parsing rules (FLAG-*),
//! the flags that were removed from it, and flags of this project. Each flag is declared once, in the struct of its
//! subject; parsing, help, the reference page, completions and the manual page are generated from the declarations.
//! Defaults differ from those of the Go program only as D-10 says.
//!
//! ```
//! use manager::flags::{Flags, Parsed};
//!
//! let arguments = ["cloud-controller-manager", "--cloud-provider=hcloud", "--leader-elect=false", "--secure-port=0"];
//! let Parsed::Flags(flags) = Flags::parse(arguments.map(Into::into)) else { panic!("they can be used") };
//! let configuration = flags.configuration();
//! assert!(configuration.election.is_none());
//! assert_eq!(configuration.serving.port, 0);
//! ```
//!
//! Outside of this module, only [`Configuration`] is read: [`Flags::configuration`] destructures all flags once.

// A flag that `configuration` does not read is an unused variable, which must not compile.
#![deny(unused_variables)]

mod api;
mod authentication;
mod authorization;
mod check;
mod cloud;
mod command;
mod command_line;
mod completion;
mod configuration;
mod configz;
mod controllers;
mod debugging;
mod election;
mod gates;
mod logging;
mod node;
mod notices;
mod orphans;
mod parse_errors;
mod program;
mod provider_flags;
mod quantity;
mod reference;
mod removed;
mod report;
mod route;
mod service;
mod serving;
mod subcommand;
#[cfg(test)]
mod tests;
mod tls;
mod validate;
mod values;
mod version;
mod webhook;

use std::ffi::OsString;

use clap::{ArgAction, FromArgMatches, Parser};

pub use self::api::{ApiFlags, MiscFlags};
pub use self::authentication::AuthenticationFlags;
pub use self::authorization::AuthorizationFlags;
pub(crate) use self::check::CheckFlags;
pub use self::cloud::{CloudFlags, OnCloudConfigChange};
pub use self::command_line::CommandLineFlags;
pub use self::configuration::{CloudConfiguration, Configuration, HealthListener};
pub(crate) use self::configz::configz_with_migration;
pub use self::controllers::ControllersFlags;
pub use self::debugging::DebuggingFlags;
pub(crate) use self::election::LEASE_NAMESPACE;
pub use self::election::{
    ElectionSettings, LeaderElectionFlags, LeaderMigrationFlags, MigrationSettings,
};
pub use self::gates::{
    ALL_BETA, FeatureGates, GATE_LOGGING_ALPHA, GATE_LOGGING_BETA, GATE_NATIVE_HISTOGRAMS,
    GATE_RELEASE_LEASE, GATE_UID_HEADER, GATE_WEBHOOK, GATES, Gate, INERT, Stage,
};
pub use self::logging::LoggingFlags;
pub use self::node::{LifecycleFlags, NodeFlags};
pub use self::notices::{Notice, Severity};
pub(crate) use self::orphans::OrphansFlags;
pub(crate) use self::program::{PROVIDER_VARIABLE, without_entry_point};
pub use self::program::{Program, VendorFlag};
pub use self::provider_flags::read_by;
pub use self::quantity::Quantity;
pub use self::reference::markdown;
pub use self::report::Output;
pub(crate) use self::report::{ObjectFlags, ReportCommand, ReportFlags};
pub use self::route::{RouteConfiguration, RouteFlags};
pub use self::service::ServiceFlags;
pub use self::serving::SecureServingFlags;
pub use self::tls::{Numbers, SniFlag};
pub use self::values::{List, ListenAddress, PathFlag};
pub use self::version::{KUBERNETES_VERSION, VersionFlag};
pub(crate) use self::webhook::{SERVICES, VOLUMES};
pub use self::webhook::{
    ValidationAction, WEBHOOKS, WebhookFlags, WebhookSelection, WebhookServingFlags,
};

/// Name of the program in help and messages.
const COMMAND: &str = cloud_provider::names::MANAGER_NAME;

const ABOUT: &str = "Joins a Kubernetes cluster to its cloud: initialises Nodes, removes those whose machine is gone, \
                     taints those shut down; runs load balancers for Services and routes for Pod networks.";

/// The parsed flags. The fields have the order of the help's sections (FLAG-13).
#[derive(Parser, Debug, Clone, PartialEq)]
#[command(name = COMMAND, about = ABOUT)]
pub struct Flags {
    /// Flags that are set on the command line.
    #[command(flatten)]
    pub command_line: CommandLineFlags,
    /// Flags for debugging the process.
    #[command(flatten)]
    pub debugging: DebuggingFlags,
    /// Flags of leader migration, with a second lease shared with the kube-controller-manager.
    #[command(flatten)]
    pub leader_migration: LeaderMigrationFlags,
    /// Flags of all controllers.
    #[command(flatten)]
    pub controllers: ControllersFlags,
    /// Flags of the cloud provider.
    #[command(flatten)]
    pub cloud: CloudFlags,
    /// Flags of the Kubernetes clients.
    #[command(flatten)]
    pub api: ApiFlags,
    /// Flags of leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionFlags,
    /// Flags of the node-route-controller.
    #[command(flatten)]
    pub route: RouteFlags,
    /// Flags of the cloud-node-controller.
    #[command(flatten)]
    pub node: NodeFlags,
    /// Flags of the cloud-node-lifecycle-controller.
    #[command(flatten)]
    pub lifecycle: LifecycleFlags,
    /// Flags of the service-lb-controller.
    #[command(flatten)]
    pub service: ServiceFlags,
    /// Flags that select webhooks.
    #[command(flatten)]
    pub webhook: WebhookFlags,
    /// Flags of the webhooks' HTTPS server.
    #[command(flatten)]
    pub webhook_serving: WebhookServingFlags,
    /// Flags of the endpoints' HTTPS server.
    #[command(flatten)]
    pub secure_serving: SecureServingFlags,
    /// Flags of authentication of callers.
    #[command(flatten)]
    pub authentication: AuthenticationFlags,
    /// Flags of authorization of callers.
    #[command(flatten)]
    pub authorization: AuthorizationFlags,
    /// Flags that locate the Kubernetes API, and others.
    #[command(flatten)]
    pub misc: MiscFlags,
    /// Flags of the log.
    #[command(flatten)]
    pub logging: LoggingFlags,
    /// Verbosity of the log: 2 is usual, 4 includes debug records, 6 includes all records.
    #[arg(id = "v", short = 'v', long = "v", default_value = "0", value_name = "LEVEL", value_parser = verbosity, help_heading = "Global")]
    pub verbosity: u8,
    /// Print the version and exit; raw: print the complete build information and exit; vX.Y.Z-...: report this version
    /// and run.
    #[arg(long, default_value = "false", value_name = "true|raw|VERSION", value_parser = str::parse::<VersionFlag>, help_heading = "Global")]
    pub version: VersionFlag,
    /// Print this help and exit.
    #[arg(short = 'h', long = "help", action = ArgAction::Help, help_heading = "Global")]
    help: Option<bool>,
    /// Positional arguments, which are errors unless they are empty (FLAG-8).
    #[arg(hide = true)]
    arguments: Vec<String>,
    /// Base name of the program.
    #[arg(skip)]
    binary: String,
    /// A vendor's own flags.
    #[arg(skip)]
    vendor: Vec<VendorFlag>,
    /// A vendor's own webhooks.
    #[arg(skip)]
    vendor_webhooks: Vec<&'static str>,
}

/// Parses the verbosity. klog accepts any int32; negative levels count as 0, and levels above 255 as 255.
fn verbosity(text: &str) -> Result<u8, String> {
    values::go_int(text).map(|level| u8::try_from(level.max(0)).unwrap_or(u8::MAX))
}

/// The result of parsing arguments.
#[derive(Debug)]
pub enum Parsed<T = Box<Flags>> {
    /// The parsed and validated flags.
    Flags(T),
    /// A text to print, such as the help or the version. Exit code 0.
    Say(String),
    /// An error message. Exit code 1.
    Wrong(String),
}

impl Flags {
    /// Parses and validates arguments. The first argument is the program's name, which determines some defaults
    /// ([`Program::called`]). A second argument that is the path of a known program counts instead (D-12).
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
        let (program, arguments) = Program::called_by(arguments.into_iter().collect(), "");
        Self::parse_as(&program, arguments)
    }

    /// Parses and validates arguments for this program. The first argument is the program's name.
    pub fn parse_as(program: &Program, arguments: impl IntoIterator<Item = OsString>) -> Parsed {
        let arguments: Vec<_> = arguments.into_iter().collect();
        if let Some(document) = reference::document_subcommand(program, &arguments) {
            return document;
        }
        let first = arguments
            .get(1)
            .map(|word| word.to_string_lossy().into_owned());
        let read =
            match command::read::<Self>(&reference::full_command(program), program.name, arguments)
            {
                Ok(read) => read,
                Err(Parsed::Say(text)) => return Parsed::Say(text),
                Err(Parsed::Wrong(text)) => return Parsed::Wrong(text),
                Err(Parsed::Flags(flags)) => return Parsed::Flags(Box::new(flags)),
            };
        let flags = reference::refuse_plugin(program, first.as_deref())
            .and_then(|()| finish(program, read));
        flags.map_or_else(Parsed::Wrong, |flags| Parsed::Flags(Box::new(flags)))
    }
}

impl AsMut<Self> for Flags {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

/// Adds the program's own flags and webhooks, and validates all flags.
fn finish<T: AsMut<Flags>>(program: &Program, mut read: command::Read<T>) -> Result<T, String> {
    let flags = read.values.as_mut();
    flags.binary.clone_from(&program.binary);
    flags.vendor.clone_from(&program.flags);
    flags.vendor_webhooks.clone_from(&program.webhooks);
    if let Some(adjust) = &program.adjust {
        adjust(flags);
    }
    let errors = [read.errors, flags.errors()].concat();
    if errors.is_empty() {
        Ok(read.values)
    } else {
        Err(parse_errors::together(errors))
    }
}

/// Parses arguments into `T`, a command that has the manager's flags, with the rules that all commands share, and
/// validates them. The first argument is the program's name; `name` is the command's name in messages.
pub(crate) fn parse<T: FromArgMatches + AsMut<Flags>>(
    program: &Program,
    command: clap::Command,
    name: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Parsed<T> {
    match command::read(&command::prepare(command, program), name, arguments) {
        Ok(read) => match finish(program, read) {
            Ok(values) => Parsed::Flags(values),
            Err(text) => Parsed::Wrong(text),
        },
        Err(said) => said,
    }
}
