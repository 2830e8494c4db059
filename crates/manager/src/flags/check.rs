//! Flags of `check`: those of the manager, and the files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, CommandFactory as _, Parser};

use super::values::{PathFlag, go_bool, path};
use super::{Flags, Output, Parsed, Program, parse};

/// Section of the help with the flags that only `check` has.
const SECTION: &str = "Check";
/// Flags of the manager that influence findings.
const CONCERNED: [&str; 6] = [
    "cloud-provider",
    "cloud-config",
    "load-balancer-classes",
    "default-load-balancer",
    "v",
    "help",
];

const ABOUT: &str = "Finds mistakes in manifests of Services of type LoadBalancer: unknown annotations, values and \
                     ports that the provider does not accept, annotations that contradict each other. Needs no \
                     cluster, no network and no credential; without --cloud-config or the provider's variables, the \
                     provider's defaults apply.";
const AFTER_HELP: &str = "\
Exit code: 0 nothing to correct (there may be warnings), 1 errors (with --strict also warnings), 2 input that cannot be used.
JSON: {\"version\": 1, \"provider\", \"findings\": [{\"file\", \"line\", \"document\", \"service\", \"severity\": \"error|warning\", \
\"text\"}], \"errors\", \"summary\": {\"services\", \"skipped\", \"errors\", \"warnings\", \"exitCode\"}}
All other flags of the manager are accepted, too, so that the command line of a manifest works as it is.";

/// Flags of the manager, the files, and flags of the report.
#[derive(Parser, Debug)]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// File or directory with objects in YAML or JSON, or - for standard input; may be repeated.
    #[arg(short = 'f', long, value_parser = path(), help_heading = SECTION)]
    filename: Vec<PathFlag>,
    /// Read subdirectories as well.
    #[arg(short = 'R', long, default_value = "false", value_parser = go_bool, action = ArgAction::Set, help_heading = SECTION)]
    pub(crate) recursive: bool,
    /// Exit with code 1 for warnings, too.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set, help_heading = SECTION)]
    pub(crate) strict: bool,
    /// Format of the output: text or json.
    #[arg(long, default_value = "text", value_name = "FORM", value_parser = str::parse::<Output>, help_heading = SECTION)]
    pub(crate) output: Output,
}

impl AsMut<Flags> for CheckFlags {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

impl CheckFlags {
    /// Parses and validates the arguments of the subcommand `name`. The first argument is the program's name.
    pub(crate) fn parse(
        program: &Program,
        name: &'static str,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Parsed<Self> {
        let called = format!("{} {name}", program.name());
        let concerns = |flag: &Arg| {
            flag.get_help_heading() == Some(SECTION)
                || flag
                    .get_long()
                    .is_some_and(|long| CONCERNED.contains(&long))
        };
        let command = Self::command()
            .name(name)
            .bin_name(&called)
            .about(ABOUT)
            .after_help(AFTER_HELP)
            .mut_args(|flag| {
                if concerns(&flag) {
                    flag
                } else {
                    flag.hide(true)
                }
            });
        parse(program, command, &called, arguments)
    }

    /// Returns the files and directories in the order of the command line; `-` is standard input.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.filename
            .iter()
            .filter_map(PathFlag::to_path_buf)
            .collect()
    }
}

/// Returns the flags that only `check` has, for completions.
pub(super) fn arguments() -> Vec<Arg> {
    let command = CheckFlags::command();
    command
        .get_arguments()
        .filter(|flag| flag.get_help_heading() == Some(SECTION))
        .cloned()
        .collect()
}
