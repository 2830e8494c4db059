//! The flags as documents: the reference page, completions, the manual page. All come from the declaration.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;

use super::program::{PROGRAMS, Program};
use super::{Flags, GATES, INERT, KUBERNETES_VERSION, Parsed, Stage, command, historic, provider_flags};

/// Subcommands, for help and completion.
const SUBCOMMANDS: [(&str, &str); 5] = [
    ("plan", "what would be changed, without changing it"),
    ("doctor", "what is wrong with this installation, and what to do"),
    ("demo", "a whole cluster and cloud in this process"),
    ("completion", "completions for bash, zsh or fish"),
    ("man", "the manual page"),
];
/// Flags of which the reference has another default (D-10).
pub(super) const REFERENCE_DEFAULTS: [(&str, &str); 4] = [
    ("concurrent-node-syncs", "1"),
    ("concurrent-service-syncs", "1"),
    ("kube-api-burst", "30"),
    ("kube-api-qps", "20"),
];
/// The sections in order (FLAG-13).
pub(super) const SECTIONS: [&str; 13] = [
    "Debugging",
    "Leader-migration",
    "Generic",
    "Cloud-node-controller",
    "Cloud-node-lifecycle-controller",
    "Service-lb-controller",
    "Webhook",
    "Webhook serving",
    "Secure serving",
    "Authentication",
    "Authorization",
    "Misc",
    "Global",
];

/// The subcommands that only write a document: `completion SHELL` and `man`. `None`: another command.
pub(super) fn asked(program: &Program, arguments: &[OsString]) -> Option<Parsed> {
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    match words.next()?.as_ref() {
        "man" => Some(Parsed::Say(man(program))),
        "completion" => {
            let shell = words.next().unwrap_or_default();
            Some(completion(program, &shell).map_or_else(Parsed::Wrong, Parsed::Say))
        }
        _ => None,
    }
}

/// The program as a command of this name.
pub(super) fn whole(program: &Program) -> Command {
    let subcommands = SUBCOMMANDS.map(|(name, about)| format!("  {name:<12}{about}")).join("\n");
    command::prepare(Flags::command(), program)
        .name(program.name())
        .bin_name(program.name())
        .after_help(format!("Subcommands:\n{subcommands}"))
}

/// # Errors
/// A shell that there is nothing for.
fn completion(program: &Program, shell: &str) -> Result<String, String> {
    let shell = match shell {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        other => return Err(format!("there are completions for bash, zsh and fish, not for {other:?}")),
    };
    // What is only accepted is not offered.
    let flags = || Flags::command().get_arguments().filter(|flag| !flag.is_hide_set()).cloned().collect::<Vec<_>>();
    let command = command::prepare(Command::new(program.name()).args(flags()), program);
    let mut command = SUBCOMMANDS.into_iter().fold(command, |command, (name, about)| {
        let sub = Command::new(name).about(about);
        command.subcommand(match name {
            "plan" => command::prepare(sub.args(flags()), program),
            "completion" => sub.arg(Arg::new("shell").value_parser(["bash", "zsh", "fish"])),
            _ => sub,
        })
    });
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, program.name(), &mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn man(program: &Program) -> String {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    _ = clap_mangen::Man::new(whole(program)).section("8").source(KUBERNETES_VERSION).render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The reference page, `docs/reference/flags.md`.
#[must_use]
pub fn markdown() -> String {
    let command = whole(&Program::default());
    let mut page = String::from(
        "# Flags\n\n\
         Written by the program from the declaration of its flags; do not edit. `cloud-controller-manager --help` says the \
         same.\n\n\
         Values are written as Go programs read them: `--flag=value` or `--flag value`, but a boolean's value is attached \
         with `=`; durations as `1h30m`; lists separated by commas, repeated flags append. `_` in a flag's name is as good \
         as `-`. All that is wrong is reported at once, with exit code 1.\n",
    );
    for section in SECTIONS {
        let flags =
            command.get_arguments().filter(|flag| flag.get_help_heading() == Some(section) && !flag.is_hide_set());
        table(&mut page, section, flags);
    }
    accepted(&mut page, &command);
    gates(&mut page);
    programs(&mut page);
    page
}

fn table<'a>(page: &mut String, title: &str, flags: impl Iterator<Item = &'a Arg>) {
    let mut flags: Vec<_> = flags.collect();
    flags.sort_by_key(|flag| flag.get_long());
    _ = write!(page, "\n## {title}\n\n| flag | type | default | meaning |\n|---|---|---|---|\n");
    for flag in flags {
        let name = flag.get_long().unwrap_or_default();
        let short = flag.get_short().map(|short| format!(", `-{short}`")).unwrap_or_default();
        let meaning = flag.get_help().map(ToString::to_string).unwrap_or_default();
        _ = writeln!(page, "| `--{name}`{short} | {} | {} | {} |", kind(flag), default(flag), escape(&meaning));
    }
}

fn kind(flag: &Arg) -> &'static str {
    match flag.get_long() {
        Some("help") => "bool",
        _ => command::kind(flag),
    }
}

/// A flag's default; where the reference has another one, that too.
fn default(flag: &Arg) -> String {
    let ours: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let ours = match ours.join(",") {
        empty if empty.is_empty() => String::new(),
        value => format!("`{value}`"),
    };
    let theirs = REFERENCE_DEFAULTS.into_iter().find(|(name, _)| flag.get_long() == Some(name));
    match theirs {
        Some((_, theirs)) if ours.is_empty() => format!("none (reference: `{theirs}`)"),
        Some((_, theirs)) => format!("{ours} (reference: `{theirs}`)"),
        None => ours,
    }
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('\n', " ")
}

/// Flags that the help does not show.
fn accepted(page: &mut String, command: &Command) {
    let deprecated = historic::DEPRECATED.map(|(name, _)| name);
    let hidden = |flag: &&Arg| flag.get_long().is_some_and(|name| deprecated.contains(&name));
    page.push_str(
        "\n# Accepted for existing manifests\n\nNot shown by `--help`; each use is said once at the start.\n",
    );
    table(page, "Deprecated", command.get_arguments().filter(hidden));
    page.push_str("\n## Historic, without effect\n\n| flag | type | note |\n|---|---|---|\n");
    for flag in &historic::HISTORIC {
        _ = writeln!(page, "| `--{}` | {} | {} |", flag.name, flag.kind.name(), flag.instead);
    }
    page.push_str("\n## Of vendors' programs, without effect\n\n`--user-agent` has one: it goes into the User-Agent of requests to OpenStack.\n\n| flag | type | providers |\n|---|---|---|\n");
    for flag in provider_flags::all() {
        _ = writeln!(page, "| `--{}` | {} | {} |", flag.name, flag.kind.name(), flag.providers.join(", "));
    }
}

fn gates(page: &mut String) {
    page.push_str("\n# Feature gates\n\n| gate | stage | default | effect |\n|---|---|---|---|\n");
    for gate in GATES {
        let stage = match gate.stage {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
            Stage::Bulk => "–",
        };
        _ = writeln!(page, "| `{}` | {stage} | {} | {} |", gate.name, gate.default, escape(gate.effect));
    }
    let inert = INERT.map(|name| format!("`{name}`")).join(", ");
    _ = write!(page, "\nAccepted without effect: {inert}.\n");
}

fn programs(page: &mut String) {
    page.push_str(
        "\n# Names of the program\n\nCalled by one of these names (by a link, for example) the program has other defaults.\n\n\
         | name | `--cloud-provider` | further defaults |\n|---|---|---|\n",
    );
    for (name, provider, defaults) in PROGRAMS {
        let defaults: Vec<_> = defaults.iter().map(|(flag, value)| format!("`--{flag}={value}`")).collect();
        _ = writeln!(page, "| `{name}` | `{provider}` | {} |", defaults.join(", "));
    }
}
