//! Command-line flags.
//!
//! All flags of the reference, with their names, meaning and parsing rules (FLAG-*), those that it had once, and those of
//! this project. They are declared once, in the structs of this module, one for each subject; parsing, help, the reference
//! page, completions and the man page come from there. Defaults that differ from the reference's are those of D-10.
//!
//! ```
//! use manager::flags::{Flags, Parsed};
//!
//! let arguments = ["cloud-controller-manager", "--cloud-provider=hcloud", "--leader-elect=false", "--secure-port=0"];
//! let Parsed::Flags(flags) = Flags::parse(arguments.map(Into::into)) else { panic!("they can be used") };
//! assert!(flags.election().is_none());
//! assert_eq!(flags.serving().port, 0);
//! ```

mod accessors;
mod api;
mod authentication;
mod authorization;
mod check;
mod cloud;
mod command;
mod completion;
mod controllers;
mod debugging;
mod election;
mod explain;
mod gates;
mod given;
mod historic;
mod logging;
mod node;
mod notices;
mod orphans;
mod program;
mod provider_flags;
mod quantity;
mod reference;
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
pub use self::controllers::ControllersFlags;
pub use self::debugging::DebuggingFlags;
pub use self::election::{ElectionSettings, LeaderElectionFlags, LeaderMigrationFlags, MigrationSettings};
pub use self::gates::{
    FeatureGates, GATE_LOGGING_ALPHA, GATE_LOGGING_BETA, GATE_RELEASE_LEASE, GATE_UID_HEADER, GATE_WEBHOOK, GATES,
    Gate, INERT, Stage,
};
pub use self::given::Given;
pub use self::logging::LoggingFlags;
pub use self::node::{LifecycleFlags, NodeFlags};
pub use self::notices::{Notice, Severity};
pub(crate) use self::orphans::OrphansFlags;
pub use self::program::{Program, VendorFlag};
pub use self::quantity::Quantity;
pub use self::reference::markdown;
pub use self::report::Output;
pub(crate) use self::report::{ObjectFlags, ReportCommand, ReportFlags};
pub use self::route::RouteFlags;
pub use self::service::ServiceFlags;
pub use self::serving::SecureServingFlags;
pub use self::tls::{Numbers, SniFlag};
pub use self::values::{List, ListenAddress, PathFlag};
pub use self::version::{KUBERNETES_VERSION, VersionFlag};
pub(crate) use self::webhook::{SERVICES, VOLUMES};
pub use self::webhook::{ValidationAction, WEBHOOKS, WebhookFlags, WebhookSelection, WebhookServingFlags};

/// Name in help and messages.
const COMMAND: &str = cloud_provider::names::MANAGER_NAME;

const ABOUT: &str = "Joins a Kubernetes cluster to its cloud: initialises Nodes, removes those whose machine is gone, \
                     taints those shut down; runs load balancers for Services and routes for Pod networks.";

/// The flags, parsed. The order of the fields is that of the help's sections (FLAG-13).
#[derive(Parser, Debug, Clone, PartialEq)]
#[command(name = COMMAND, about = ABOUT)]
pub struct Flags {
    /// What stood on the command line.
    #[command(flatten)]
    pub given: Given,
    /// What helps to look into the process.
    #[command(flatten)]
    pub debugging: DebuggingFlags,
    /// A second lease, shared with the kube-controller-manager.
    #[command(flatten)]
    pub leader_migration: LeaderMigrationFlags,
    /// All controllers.
    #[command(flatten)]
    pub controllers: ControllersFlags,
    /// The cloud.
    #[command(flatten)]
    pub cloud: CloudFlags,
    /// How the Kubernetes API is asked.
    #[command(flatten)]
    pub api: ApiFlags,
    /// Which replica works.
    #[command(flatten)]
    pub leader_election: LeaderElectionFlags,
    /// node-route-controller.
    #[command(flatten)]
    pub route: RouteFlags,
    /// cloud-node-controller.
    #[command(flatten)]
    pub node: NodeFlags,
    /// cloud-node-lifecycle-controller.
    #[command(flatten)]
    pub lifecycle: LifecycleFlags,
    /// service-lb-controller.
    #[command(flatten)]
    pub service: ServiceFlags,
    /// Which webhooks are served.
    #[command(flatten)]
    pub webhook: WebhookFlags,
    /// Where webhooks are served.
    #[command(flatten)]
    pub webhook_serving: WebhookServingFlags,
    /// Where the endpoints are served.
    #[command(flatten)]
    pub secure_serving: SecureServingFlags,
    /// Who their callers are.
    #[command(flatten)]
    pub authentication: AuthenticationFlags,
    /// What their callers may do.
    #[command(flatten)]
    pub authorization: AuthorizationFlags,
    /// Where the Kubernetes API is.
    #[command(flatten)]
    pub misc: MiscFlags,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingFlags,
    /// Verbosity of the log: 2 is usual, 4 shows debug lines, 6 everything.
    #[arg(id = "v", short = 'v', long = "v", default_value = "0", value_name = "LEVEL", value_parser = verbosity, help_heading = "Global")]
    pub verbosity: u8,
    /// Print the version and end; raw: the whole record of the build; vX.Y.Z-...: report this version and run.
    #[arg(long, default_value = "false", value_name = "true|raw|VERSION", value_parser = str::parse::<VersionFlag>, help_heading = "Global")]
    pub version: VersionFlag,
    /// Print this help and end.
    #[arg(short = 'h', long = "help", action = ArgAction::Help, help_heading = "Global")]
    help: Option<bool>,
    /// FLAG-8: what is no flag is an error, unless it is empty.
    #[arg(hide = true)]
    arguments: Vec<String>,
    /// Base name of the program.
    #[arg(skip)]
    binary: String,
    /// Flags of a vendor's own.
    #[arg(skip)]
    vendor: Vec<VendorFlag>,
    /// Webhooks of a vendor's own.
    #[arg(skip)]
    vendor_webhooks: Vec<&'static str>,
}

/// klog's levels are any int32; below none and above the highest there is nothing more to tell apart.
fn verbosity(text: &str) -> Result<u8, String> {
    values::go_int(text).map(|level| u8::try_from(level.max(0)).unwrap_or(u8::MAX))
}

/// What came of the arguments.
#[derive(Debug)]
pub enum Parsed<T = Box<Flags>> {
    /// Run with these.
    Flags(T),
    /// Help, the version or the like was asked for: print it and end well.
    Say(String),
    /// They cannot be used; exit code 1.
    Wrong(String),
}

impl Flags {
    /// Parses and validates arguments, the program's name first: it decides about some defaults ([`Program::called`]).
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
        let arguments: Vec<_> = arguments.into_iter().collect();
        let program = arguments.first().map(|name| Program::called(name)).unwrap_or_default();
        Self::parse_as(&program, arguments)
    }

    /// Parses and validates arguments, the program's name first, as this program.
    pub fn parse_as(program: &Program, arguments: impl IntoIterator<Item = OsString>) -> Parsed {
        let arguments: Vec<_> = arguments.into_iter().collect();
        if let Some(document) = reference::asked(program, &arguments) {
            return document;
        }
        let read = match command::read::<Self>(&reference::whole(program), program.name, arguments) {
            Ok(read) => read,
            Err(Parsed::Say(text)) => return Parsed::Say(text),
            Err(Parsed::Wrong(text)) => return Parsed::Wrong(text),
            Err(Parsed::Flags(flags)) => return Parsed::Flags(Box::new(flags)),
        };
        match finish(program, read) {
            Ok(flags) => Parsed::Flags(Box::new(flags)),
            Err(text) => Parsed::Wrong(text),
        }
    }
}

impl AsMut<Self> for Flags {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

/// What a program has of its own, and whether all of it can be used.
fn finish<T: AsMut<Flags>>(program: &Program, mut read: command::Read<T>) -> Result<T, String> {
    let flags = read.values.as_mut();
    flags.binary.clone_from(&program.binary);
    flags.vendor.clone_from(&program.flags);
    flags.vendor_webhooks.clone_from(&program.webhooks);
    if let Some(adjust) = &program.adjust {
        adjust(flags);
    }
    let errors = [read.errors, flags.errors()].concat();
    if errors.is_empty() { Ok(read.values) } else { Err(explain::together(errors)) }
}

/// Reads arguments into `T`, a command that has the flags, as this program, by the rules that all commands share, and
/// validates them. The program's name comes first; `name` is the command's in messages.
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
