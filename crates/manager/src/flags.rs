//! Command-line flags.
//!
//! This is the part of the reference's flags that the node controllers need, with their names, defaults and parsing
//! rules (FLAG-*), and the flags of this project.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Parser};
use controllers::options::{GuardOptions, LifecycleOptions, NodeDeletion, NodeOptions, Options};
use runtime::client::ClientOptions;
use runtime::go_duration::GoDuration;

use crate::controllers_task::{Clients, Settings};

/// Name in messages about arguments (FLAG-8).
const COMMAND: &str = "cloud-controller-manager";

/// The flags, parsed.
#[derive(Parser, Debug, Clone, PartialEq)]
#[command(name = COMMAND, version, disable_help_subcommand = true, args_override_self = true, max_term_width = 120,
    about = "Joins a Kubernetes cluster to its cloud: initialises Nodes, removes those whose machine is gone, taints those shut down.",
    after_help = "Subcommands: demo (a whole cluster and cloud in this process; see `demo --help`)")]
pub struct Flags {
    /// The cloud.
    #[arg(long, default_value = "", value_name = "NAME", help_heading = "Cloud")]
    pub cloud_provider: String,
    /// The provider's configuration file.
    #[arg(long, value_name = "PATH", help_heading = "Cloud")]
    pub cloud_config: Option<PathBuf>,
    /// Name of the cluster; part of the names of cloud resources, so it must stay the same.
    #[arg(long, default_value = cloud_provider::names::DEFAULT_CLUSTER_NAME, value_name = "NAME", help_heading = "Cloud")]
    pub cluster_name: String,
    /// Start even if the cloud cannot tell this cluster's resources from another's.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, value_name = "BOOL", help_heading = "Cloud")]
    pub allow_untagged_cloud: bool,

    /// Path of a kubeconfig; without it the Pod's service account is used.
    #[arg(long, value_name = "PATH", help_heading = "Kubernetes API")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; overrides the kubeconfig's.
    #[arg(long, value_name = "URL", help_heading = "Kubernetes API")]
    pub master: Option<String>,
    /// Requests per second to the API server, for each client; no limit if unset.
    #[arg(long, value_name = "FLOAT", help_heading = "Kubernetes API")]
    pub kube_api_qps: Option<f32>,
    /// Requests that may be sent at once where there is a limit.
    #[arg(long, value_name = "INT", value_parser = go_int, help_heading = "Kubernetes API")]
    pub kube_api_burst: Option<i32>,
    /// Every object is looked at again after this long, times a random factor from 1 to 2.
    #[arg(long, default_value = "12h0m0s", value_name = "DURATION", help_heading = "Kubernetes API")]
    pub min_resync_period: GoDuration,

    /// Nodes that are initialised at the same time.
    #[arg(long, default_value = "16", value_name = "INT", value_parser = go_int, allow_hyphen_values = true, help_heading = "Node controller")]
    pub concurrent_node_syncs: i32,
    /// Nodes whose addresses are written at the same time; 0: as --concurrent-node-syncs.
    #[arg(long, default_value = "0", value_name = "INT", value_parser = go_int, allow_hyphen_values = true, help_heading = "Node controller")]
    pub concurrent_node_status_updates: i32,
    /// Pause between two passes over all Nodes' addresses.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", help_heading = "Node controller")]
    pub node_status_update_frequency: GoDuration,
    /// Say on a Node, with an event, why it is not initialised.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, value_name = "BOOL", help_heading = "Node controller")]
    pub explain: bool,

    /// Pause between two passes over all Nodes that are not ready.
    #[arg(long, default_value = "5s", value_name = "DURATION", help_heading = "Node lifecycle controller")]
    pub node_monitor_period: GoDuration,
    /// Delete Nodes whose machine is gone: on, dry-run (say which) or off.
    #[arg(long, default_value = "on", value_name = "MODE", value_parser = str::parse::<NodeDeletion>, help_heading = "Node lifecycle controller")]
    pub node_deletion: NodeDeletion,
    /// Delete a Node only if its absence is confirmed, witnessed and no landslide.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, value_name = "BOOL", help_heading = "Node lifecycle controller")]
    pub node_deletion_guard: bool,
    /// More than this share of the Nodes gone together is a landslide, which is held.
    #[arg(
        long,
        default_value = "0.5",
        value_name = "FLOAT",
        allow_hyphen_values = true,
        help_heading = "Node lifecycle controller"
    )]
    pub node_deletion_guard_share: f64,
    /// How long a landslide must last before it is believed.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", help_heading = "Node lifecycle controller")]
    pub node_deletion_guard_delay: GoDuration,

    /// Verbosity of the log: 4 shows debug lines, 6 everything.
    #[arg(short = 'v', long = "v", default_value = "0", value_name = "LEVEL", help_heading = "Global")]
    pub verbosity: u8,
}

/// What came of the arguments.
#[derive(Debug)]
pub enum Parsed {
    /// Run with these.
    Flags(Box<Flags>),
    /// Help or version was asked for: print it and end well.
    Say(String),
    /// They cannot be used; exit code 1.
    Wrong(String),
}

impl Flags {
    /// Parses and validates arguments, the program's name first.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
        match Self::try_parse_from(arguments.into_iter().map(with_hyphens)) {
            Ok(flags) => match flags.validate() {
                Ok(()) => Parsed::Flags(Box::new(flags)),
                Err(text) => Parsed::Wrong(text),
            },
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                Parsed::Say(error.render().to_string())
            }
            Err(error) => Parsed::Wrong(explain(&error)),
        }
    }

    /// FLAG-10: everything that is wrong, at once.
    fn validate(&self) -> Result<(), String> {
        let mut errors = Vec::new();
        if self.cloud_provider.is_empty() {
            errors.push("--cloud-provider cannot be empty".to_owned());
        }
        errors.extend(self.options().validate());
        for (name, period) in [
            ("node-monitor-period", self.node_monitor_period),
            ("node-status-update-frequency", self.node_status_update_frequency),
            ("node-deletion-guard-delay", self.node_deletion_guard_delay),
        ] {
            // A pass after the other without a pause would only burn the cloud's quota.
            let may_be_zero = name == "node-deletion-guard-delay";
            if !(period.is_positive() || may_be_zero && period == GoDuration::ZERO) {
                errors.push(format!("{name} is {period}, it must be longer than 0s"));
            }
        }
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
            node: NodeOptions {
                concurrent_node_syncs: self.concurrent_node_syncs,
                concurrent_node_status_updates: self.concurrent_node_status_updates,
                status_update_frequency: self.node_status_update_frequency.to_std_or_zero(),
            },
            lifecycle: LifecycleOptions {
                monitor_period: self.node_monitor_period.to_std_or_zero(),
                deletion: self.node_deletion,
                guard: self.node_deletion_guard.then(|| GuardOptions {
                    share: self.node_deletion_guard_share,
                    delay: self.node_deletion_guard_delay.to_std_or_zero(),
                }),
            },
            explain: self.explain,
            ..Options::default()
        }
    }

    /// What the controllers are started with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            options: self.options(),
            clients: Clients::Configured(Box::new(ClientOptions {
                kubeconfig: self.kubeconfig.clone(),
                master: self.master.clone(),
                qps: self.kube_api_qps,
                burst: self.kube_api_burst.and_then(|burst| u32::try_from(burst).ok()),
                ..ClientOptions::default()
            })),
            min_resync_period: self.min_resync_period.to_std().unwrap_or(Duration::from_secs(12 * 3600)),
        }
    }
}

/// FLAG-3: `_` in a flag's name is `-`.
fn with_hyphens(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("--") => {
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            value.map_or(name.clone(), |value| format!("{name}={value}")).into()
        }
        _ => argument,
    }
}

/// FLAG-2.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// FLAG-6: decimal, hexadecimal, octal or binary, with `_` between digits.
fn go_int(text: &str) -> Result<i32, String> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { "-" } else { "" }, rest),
        None => ("", text),
    };
    let digits = digits.replace('_', "").to_ascii_lowercase();
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', b'o', ..] => (8, &digits[2..]),
        [b'0', b'b', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, &digits[..]),
    };
    let number = i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why =
            if matches!(error.kind(), PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {text:?}: {why}")
    })?;
    i32::try_from(number).map_err(|_| format!("strconv.ParseInt: parsing {text:?}: value out of range"))
}

/// FLAG-8, FLAG-9: the stems that scripts know, and what to do.
fn explain(error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    // clap shows the value's placeholder behind the flag.
    let flag = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let see = format!("see '{COMMAND} --help'");
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let hint =
                context(ContextKind::SuggestedArg).map(|like| format!("did you mean {like}? ")).unwrap_or_default();
            format!("unknown flag: {flag}; {hint}{see}")
        }
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => {
            format!("{COMMAND:?} does not take any arguments, got [{argument:?}]")
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = context(ContextKind::InvalidValue).unwrap_or_default();
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            if value.is_empty() && why.is_empty() {
                return format!("flag needs an argument: {flag}; {see}");
            }
            format!("invalid argument {value:?} for {flag:?} flag: {why}")
        }
        _ => error.render().to_string().trim_start_matches("error: ").trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Parsed {
        Flags::parse(std::iter::once(&COMMAND).chain(arguments).map(OsString::from))
    }

    fn flags(arguments: &[&str]) -> Flags {
        match parse(&[&["--cloud-provider=simulated"], arguments].concat()) {
            Parsed::Flags(flags) => *flags,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    fn wrong(arguments: &[&str]) -> String {
        match parse(&[&["--cloud-provider=simulated"], arguments].concat()) {
            Parsed::Wrong(text) => text,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    #[test]
    fn without_flags_the_controllers_are_the_product() {
        assert_eq!(flags(&[]).options(), Options::default());
    }

    #[test]
    fn every_flag_reaches_its_option() {
        let options = flags(&[
            "--concurrent_node_syncs=0x3",
            "--concurrent-node-status-updates",
            "2",
            "--node-status-update-frequency=1m",
            "--node-monitor-period=500ms",
            "--node-deletion=dry-run",
            "--node-deletion-guard-share=0.25",
            "--node-deletion-guard-delay=10s",
            "--explain=F",
        ])
        .options();
        assert_eq!(
            options,
            Options {
                node: NodeOptions {
                    concurrent_node_syncs: 3,
                    concurrent_node_status_updates: 2,
                    status_update_frequency: Duration::from_secs(60),
                },
                lifecycle: LifecycleOptions {
                    monitor_period: Duration::from_millis(500),
                    deletion: NodeDeletion::DryRun,
                    guard: Some(GuardOptions { share: 0.25, delay: Duration::from_secs(10) }),
                },
                explain: false,
                ..Options::default()
            }
        );
        assert_eq!(flags(&["--node-deletion-guard=false"]).options().lifecycle.guard, None);
        assert!(flags(&["--allow-untagged-cloud"]).allow_untagged_cloud);
        assert_eq!(flags(&["-v4"]).verbosity, 4);
        assert_eq!(flags(&["--v=2", "-v=6"]).verbosity, 6, "the last one counts");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_what_to_do() {
        let table: [(&[&str], &str); 10] = [
            (&["--node-monitor-period=0"], "node-monitor-period is 0s, it must be longer than 0s"),
            (
                &["--cloud-provder=x"],
                "unknown flag: --cloud-provder; did you mean --cloud-provider? see 'cloud-controller-manager --help'",
            ),
            (&["--zzz"], "unknown flag: --zzz; see 'cloud-controller-manager --help'"),
            (
                &["--explain=maybe"],
                "invalid argument \"maybe\" for \"--explain\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                &["--node-monitor-period=abc"],
                "invalid argument \"abc\" for \"--node-monitor-period\" flag: time: invalid duration \"abc\"",
            ),
            (
                &["--concurrent-node-syncs=9999999999"],
                "invalid argument \"9999999999\" for \"--concurrent-node-syncs\" flag: strconv.ParseInt: parsing \"9999999999\": value out of range",
            ),
            (
                &["--node-deletion=maybe"],
                "invalid argument \"maybe\" for \"--node-deletion\" flag: \"maybe\" is not one of on, dry-run, off",
            ),
            (&["--explain", "false"], "\"cloud-controller-manager\" does not take any arguments, got [\"false\"]"),
            (&["--concurrent-node-syncs=0"], "concurrent-node-syncs must be a positive number"),
            (
                &["--concurrent-node-syncs=0", "--node-deletion-guard-share=2"],
                "[concurrent-node-syncs must be a positive number, node-deletion-guard-share is 2, it must be between 0 and 1]",
            ),
        ];
        for (arguments, text) in table {
            assert_eq!(wrong(arguments), text);
        }
        assert!(matches!(parse(&[]), Parsed::Wrong(text) if text == "--cloud-provider cannot be empty"));
    }

    #[test]
    fn integers_are_written_as_in_go() {
        for (text, number) in [
            ("10", 10),
            ("+10", 10),
            ("-10", -10),
            ("0x0a", 10),
            ("0o12", 10),
            ("012", 10),
            ("0b1010", 10),
            ("1_000", 1000),
        ] {
            assert_eq!(go_int(text), Ok(number), "{text}");
        }
        for text in ["--5", "", "-", "0x", "ten", "9223372036854775808", "-9223372036854775809", "2147483648"] {
            assert!(go_int(text).is_err(), "{text}");
        }
    }

    #[test]
    fn help_is_no_error() {
        assert!(matches!(parse(&["--help"]), Parsed::Say(text) if text.contains("--node-deletion-guard-share")));
        assert!(matches!(parse(&["--version"]), Parsed::Say(text) if text.contains(env!("CARGO_PKG_VERSION"))));
    }
}
