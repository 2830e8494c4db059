//! Shell completions of subcommands, flags and values.

use clap::builder::{PossibleValuesParser, Resettable};
use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;

use super::program::Program;
use super::subcommand::SUBCOMMANDS;
use super::{Flags, ObjectFlags, OrphansFlags, ReportFlags, check, command};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];
/// Flags with a fixed set of values. The names of the clouds come from the program.
const VALUES: [(&str, &[&str]); 4] = [
    ("service-validation-action", &["Warn", "Deny"]),
    ("node-deletion", &["on", "dry-run", "off"]),
    ("logging-format", &["text", "json"]),
    ("output", &["text", "json"]),
];

/// Returns the completion script for a shell.
///
/// # Errors
/// If there are no completions for the shell.
pub(super) fn script(program: &Program, shell: &str) -> Result<String, String> {
    let generator = match shell {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        other => {
            return Err(format!(
                "there are completions for bash, zsh and fish, not for {other:?}"
            ));
        }
    };
    let mut script = Vec::new();
    clap_complete::generate(
        generator,
        &mut described(program),
        program.name(),
        &mut script,
    );
    let script = String::from_utf8_lossy(&script).into_owned();
    Ok(if shell == "bash" {
        corrected_for_bash(&script, program.name())
    } else {
        script
    })
}

/// Returns the command with its subcommands, the flags that are offered, and their values.
fn described(program: &Program) -> Command {
    let flags = || offered(&Flags::command());
    let complete = |command: Command| {
        command::prepare(command, program).mut_args(|flag| with_values(flag, program))
    };
    let top = complete(Command::new(program.name()).args(flags()));
    let is_own = |name: &str| {
        program
            .subcommands
            .iter()
            .any(|subcommand| subcommand.get_name() == name)
    };
    let top = top.subcommands(&program.subcommands);
    SUBCOMMANDS
        .iter()
        .copied()
        .filter(|(name, _)| !is_own(name))
        .fold(top, |top, (name, about)| {
            let sub = Command::new(name).about(about);
            top.subcommand(match name {
                "plan" | "doctor" => complete(sub.args(offered(&ReportFlags::command()))),
                "check" => complete(sub.args(flags()).args(check::arguments())),
                "orphans" => complete(sub.args(offered(&OrphansFlags::command()))),
                "explain" => {
                    let flags = offered(&ObjectFlags::command());
                    let kinds = ["node", "service"]
                        .map(|kind| complete(Command::new(kind).args(flags.clone())));
                    complete(sub.args(flags)).subcommands(kinds)
                }
                // Subcommands instead of values, because the generator for fish does not complete values of positional
                // arguments.
                "completion" => sub.subcommands(SHELLS.map(Command::new)),
                "help" => sub.subcommands(SUBCOMMANDS.iter().map(|(name, _)| Command::new(*name))),
                _ => sub,
            })
        })
}

/// Returns the flags to complete: all except hidden ones, which are accepted for compatibility only.
fn offered(command: &Command) -> Vec<Arg> {
    command
        .get_arguments()
        .filter(|flag| !flag.is_hide_set() && !flag.is_positional())
        .cloned()
        .collect()
}

/// Adds the fixed values of a flag to its completion.
fn with_values(flag: Arg, program: &Program) -> Arg {
    let name = flag.get_long().unwrap_or_default();
    let values = VALUES
        .into_iter()
        .find(|(flag, _)| *flag == name)
        .map(|(_, values)| values.to_vec());
    let values = if name == "cloud-provider" {
        Some(program.providers.clone())
    } else {
        values
    };
    match values.filter(|values| !values.is_empty()) {
        // An empty default is not one of the values.
        Some(values) => flag
            .value_parser(PossibleValuesParser::new(values))
            .default_value(Resettable::Reset),
        None => flag,
    }
}

/// Corrects the generated bash script: the words of a hyphenated name stand in its cases like subcommands, so that
/// nothing is completed after a subcommand, and bash splits `--flag=VALUE` at `=`, so that the flag is one word further
/// back.
fn corrected_for_bash(script: &str, name: &str) -> String {
    let case = |separator: &str| format!("{}__subcmd__", name.replace('-', separator));
    let previous_word = "    prev=\"$3\"\n";
    let previous_flag = "    if [[ \"$cur\" == \"=\" ]]; then\n        cur=\"\"; prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n    elif \
                         [[ \"$prev\" == \"=\" ]]; then\n        prev=\"${COMP_WORDS[COMP_CWORD-2]}\"\n    fi\n";
    let script = script.replace(&case("__subcmd__"), &case("__"));
    script.replacen(previous_word, &format!("{previous_word}{previous_flag}"), 1)
}
