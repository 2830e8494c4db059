//! The arguments of the subcommand `demo`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory as _, Parser, ValueEnum};

const COMMAND: &str = "cloud-controller-manager demo";
/// Name of the subcommand.
const NAME: &str = "demo";

/// Minimum number of Nodes for the scenario.
const FEWEST: usize = 5;
/// Maximum number of Nodes. More would only measure the speed of this machine.
const MOST: usize = 20_000;

/// Minimum number of Services: one changes its port, one its type, and one is deleted.
const FEWEST_SERVICES: usize = 3;
/// Maximum number of Services, somewhat below the number of node ports.
const MOST_SERVICES: usize = 2000;

/// The parsed arguments of the subcommand.
#[derive(Parser, Debug, Clone, PartialEq, Eq)]
#[command(name = COMMAND, version, max_term_width = 120, about = "A whole cluster and a whole cloud in this process, and what becomes of Nodes and Services.",
    long_about = "Starts an in-memory Kubernetes API server, a simulated cloud and the cloud controller manager, all on \
    loopback TCP, and tells what happens: Nodes join and get routes, Services get load balancers, a machine stops, \
    starts, disappears, the credential is revoked, the cloud's list comes back empty, most machines vanish, everything \
    heals; Services change and go, and the controllers are killed in the middle of it. Every step is asserted from the \
    Kubernetes API and from the cloud; if one does not happen the exit code is 1.",
    after_help = "NO_COLOR and TERM=dumb are honoured. Nothing outside this process is touched, except for a temporary directory, and the file of --kubeconfig.")]
pub(super) struct Arguments {
    /// Number of Nodes, 5 to 20000.
    #[arg(long, default_value = "5", value_name = "N", value_parser = node_count)]
    pub(super) nodes: usize,
    /// Number of Services, 3 to 2000.
    #[arg(long, default_value = "3", value_name = "N", value_parser = service_count)]
    pub(super) services: usize,
    /// Keep running after the scenario, for kubectl and curl, until Ctrl-C.
    #[arg(long)]
    pub(super) serve: bool,
    /// Run no scenario and start no controllers: API server, cloud and kubelets keep running, with the Services, for
    /// your own manager.
    #[arg(long)]
    pub(super) no_controllers: bool,
    /// Path of the kubeconfig, instead of a temporary directory. The file must not exist, and is removed at the end.
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Format of the output; json: one object for each step and one at the end.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub(super) output: Output,
    /// Port of the Kubernetes API; a free port if unset.
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(super) port: Option<u16>,
    /// Port of the simulated cloud; a free port if unset.
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(super) cloud_port: Option<u16>,
    /// Show the controllers' log on standard error; -vv adds debug records, -vvv all records.
    #[arg(short = 'v', action = ArgAction::Count)]
    pub(super) verbosity: u8,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Text for people to read.
    Text,
    /// JSON for programs to parse.
    Json,
}

/// The result of parsing the arguments.
#[derive(Debug)]
pub(super) enum Parsed {
    /// The arguments of a demo to run.
    Run(Arguments),
    /// A text to print, such as the help or the version. Exit code 0.
    Say(String),
    /// An error message. Exit code 1.
    Wrong(String),
}

/// Returns the subcommand with its flags, for completions.
pub(crate) fn command() -> Command {
    Arguments::command().name(NAME)
}

/// Parses the arguments that follow `demo`.
pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
    match Arguments::try_parse_from(std::iter::once(COMMAND.into()).chain(arguments)) {
        Ok(arguments) => Parsed::Run(arguments),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            Parsed::Say(error.render().to_string())
        }
        Err(error) => Parsed::Wrong(explain(&error)),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .map_err(|_| "it must be a whole number from 0 to 65535".to_owned())
}

fn node_count(text: &str) -> Result<usize, String> {
    let nodes: usize = text
        .parse()
        .map_err(|_| "it must be a whole number".to_owned())?;
    match nodes {
        0..FEWEST => Err(format!(
            "the demo needs at least {FEWEST} Nodes: one is terminated, and at least four must be left to count as a \
             mass deletion"
        )),
        FEWEST..=MOST => Ok(nodes),
        _ => Err(format!(
            "at most {MOST} Nodes, because API server, cloud and controllers share this process"
        )),
    }
}

fn service_count(text: &str) -> Result<usize, String> {
    let services: usize = text
        .parse()
        .map_err(|_| "it must be a whole number".to_owned())?;
    match services {
        0..FEWEST_SERVICES => Err(format!(
            "the demo needs at least {FEWEST_SERVICES} Services: one changes its port, one its type, and one is deleted"
        )),
        FEWEST_SERVICES..=MOST_SERVICES => Ok(services),
        _ => Err(format!(
            "at most {MOST_SERVICES} Services, because a cluster has 2768 node ports"
        )),
    }
}

/// Returns the message about an invalid argument, with the most similar valid one.
fn explain(error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    // clap shows the value's placeholder after the flag.
    let flag = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let see = format!("see '{COMMAND} --help'");
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let like =
                context(ContextKind::SuggestedArg).map(|like| format!("did you mean {like}? "));
            format!("unknown flag: {flag}; {}{see}", like.unwrap_or_default())
        }
        ErrorKind::UnknownArgument => {
            format!("the demo does not take the argument {argument:?}; {see}")
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = context(ContextKind::InvalidValue).unwrap_or_default();
            let why = std::error::Error::source(error).map(ToString::to_string);
            let why = why.or_else(|| {
                context(ContextKind::ValidValue).map(|valid| format!("one of {valid}"))
            });
            match (value.as_str(), why) {
                ("", _) => format!("flag needs an argument: {flag}; {see}"),
                (value, why) => format!(
                    "invalid argument {value:?} for {flag}: {}",
                    why.unwrap_or(see)
                ),
            }
        }
        _ => error
            .render()
            .to_string()
            .trim_start_matches("error: ")
            .trim_end()
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str]) -> Parsed {
        parse(arguments.iter().map(OsString::from))
    }

    fn wrong(arguments: &[&str]) -> String {
        match run(arguments) {
            Parsed::Wrong(text) => text,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    #[test]
    fn demo_without_arguments_has_five_nodes_three_services_and_text() {
        let Parsed::Run(arguments) = run(&[]) else {
            panic!()
        };
        assert_eq!((arguments.nodes, arguments.services), (5, 3));
        assert_eq!((arguments.serve, arguments.output), (false, Output::Text));
    }

    #[test]
    fn a_mistyped_flag_is_answered_with_the_nearest() {
        assert_eq!(
            wrong(&["--nods", "7"]),
            "unknown flag: --nods; did you mean --nodes? see 'cloud-controller-manager demo --help'"
        );
        assert!(wrong(&["please"]).contains("\"please\""));
    }

    #[test]
    fn too_few_or_too_many_are_refused_with_the_reason() {
        assert!(wrong(&["--nodes", "4"]).contains("at least 5 Nodes: one is terminated"));
        assert!(wrong(&["--nodes", "20001"]).contains("at most 20000"));
        assert!(wrong(&["--nodes", "many"]).contains("whole number"));
        assert!(wrong(&["--services", "2"]).contains("at least 3 Services: one changes its port"));
        assert!(wrong(&["--services", "2001"]).contains("at most 2000"));
        assert!(wrong(&["--nodes"]).starts_with("flag needs an argument: --nodes"));
        assert_eq!(
            wrong(&["--output", "yaml"]),
            "invalid argument \"yaml\" for --output: one of text, json"
        );
    }

    #[test]
    fn help_is_no_error() {
        assert!(matches!(run(&["--help"]), Parsed::Say(text) if text.contains("--serve")));
    }
}
