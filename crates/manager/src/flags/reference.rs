//! Documents generated from the declared flags: the help, the reference page and the manual page.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::gates::{HISTORIC, HISTORIC_PROVIDERS};
use super::program::{PLUGIN, PROGRAMS, PROVIDERS_OF_OTHERS, Program};
use super::provider_flags::Effect;
use super::{
    Flags, GATES, INERT, Parsed, Stage, command, completion, provider_flags, removed, subcommand,
};

/// Flags whose default differs from the Go program's (D-10), with the Go program's default.
pub(super) const REFERENCE_DEFAULTS: [(&str, &str); 4] = [
    ("concurrent-node-lifecycle-syncs", "1"),
    ("concurrent-node-syncs", "1"),
    ("concurrent-service-syncs", "1"),
    ("kube-api-qps", "20"),
];
/// Sections of the help in order (FLAG-13).
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

/// Runs the subcommands that only print a document: `completion SHELL`, `help`, `man` and `version`. Returns `None` for
/// other commands.
pub(super) fn document_subcommand(program: &Program, arguments: &[OsString]) -> Option<Parsed> {
    if let Some(help) = plugin_help(program, arguments) {
        return Some(Parsed::Say(help));
    }
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    match words.next()?.as_ref() {
        "man" => Some(Parsed::Say(man(program))),
        "version" => Some(Parsed::Say(subcommand::version(program.name()))),
        "help" => Some(help(program, &words.next().unwrap_or_default())),
        "completion" => {
            let shell = words.next().unwrap_or_default();
            Some(completion::script(program, &shell).map_or_else(Parsed::Wrong, Parsed::Say))
        }
        _ => None,
    }
}

/// Returns the help of the plugin of kubectl, if the arguments ask for it. Without arguments the manager would start.
fn plugin_help(program: &Program, arguments: &[OsString]) -> Option<String> {
    let words: Vec<_> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy())
        .collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let asks = matches!(words[..], [] | ["help" | "--help" | "-h"]);
    (asks && program.name() == PLUGIN).then(|| {
        format!(
            "Inspect a cloud controller manager, its Nodes, Services and resources in the cloud.\n\nUsage: kubectl ccm \
             SUBCOMMAND [FLAGS]\n\nSubcommands:\n{}\n\nkubectl ccm SUBCOMMAND --help lists the flags of a subcommand.\n",
            subcommand::list()
        )
    })
}

/// Returns the reason why the plugin of kubectl does not start the manager. A first argument that is not a flag is
/// probably a misspelt subcommand.
pub(super) fn refuse_plugin(program: &Program, first: Option<&str>) -> Result<(), String> {
    if program.name() != PLUGIN {
        return Ok(());
    }
    if let Some(word) = first.filter(|word| !word.starts_with('-')) {
        return Err(format!(
            "unknown subcommand {word:?}; {}",
            subcommand::hint(word)
        ));
    }
    let names: Vec<_> = subcommand::SUBCOMMANDS
        .iter()
        .map(|(name, _)| *name)
        .collect();
    Err(format!(
        "{PLUGIN} runs no controllers: write one of the subcommands {} first, or call the program {}",
        names.join(", "),
        cloud_provider::names::MANAGER_NAME
    ))
}

/// Returns the program as a clap command with the program's name.
pub(super) fn full_command(program: &Program) -> Command {
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\nSubcommands:\n{}\n\n{{all-args}}",
        subcommand::list()
    );
    command::prepare(Flags::command(), program)
        .name(program.name())
        .bin_name(program.name())
        .override_usage(format!(
            "{0} [FLAGS]\n       {0} SUBCOMMAND [FLAGS]",
            program.name()
        ))
        .help_template(template)
}

/// Returns the help of the program, or what a subcommand without flags does.
fn help(program: &Program, name: &str) -> Parsed {
    if name.is_empty() {
        return Parsed::Say(full_command(program).render_help().to_string());
    }
    match subcommand::SUBCOMMANDS
        .iter()
        .copied()
        .find(|(known, _)| *known == name)
    {
        Some((_, about)) => Parsed::Say(format!("{} {name}: {about}\n", program.name())),
        None => Parsed::Wrong(format!(
            "unknown subcommand {name:?}; {}",
            subcommand::hint(name)
        )),
    }
}

fn man(program: &Program) -> String {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let command = full_command(program).after_help(format!("Subcommands:\n{}", subcommand::list()));
    _ = clap_mangen::Man::new(command)
        .section("8")
        .source(subcommand::product())
        .render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the reference page, `docs/reference/flags.md`.
#[must_use]
pub fn markdown() -> String {
    let command = full_command(&Program::default());
    let mut page = String::from(
        "# Flags\n\n\
         Written by the program from the declaration of its flags; do not edit. `cloud-controller-manager --help` says the \
         same.\n\n\
         Values are written as Go programs read them: `--flag=value` or `--flag value`, but a boolean's value is attached \
         with `=`; durations as `1h30m`; lists separated by commas, repeated flags append. `_` in a flag's name is as good \
         as `-`. All that is wrong is reported at once, with exit code 1.\n",
    );
    for section in SECTIONS {
        let flags = command
            .get_arguments()
            .filter(|flag| flag.get_help_heading() == Some(section) && !flag.is_hide_set());
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
    _ = write!(
        page,
        "\n## {title}\n\n| flag | type | default | meaning |\n|---|---|---|---|\n"
    );
    for flag in flags {
        let name = flag.get_long().unwrap_or_default();
        let short = flag
            .get_short()
            .map(|short| format!(", `-{short}`"))
            .unwrap_or_default();
        let meaning = flag.get_help().map(ToString::to_string).unwrap_or_default();
        _ = writeln!(
            page,
            "| `--{name}`{short} | {} | {} | {} |",
            kind(flag),
            default(flag),
            escape(&meaning)
        );
    }
}

pub(super) fn kind(flag: &Arg) -> &'static str {
    match flag.get_long() {
        Some("help") => "bool",
        _ => command::kind(flag),
    }
}

/// Returns a flag's default, with the Go program's default if that differs.
fn default(flag: &Arg) -> String {
    let ours: Vec<_> = flag
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    let ours = match ours.join(",") {
        empty if empty.is_empty() => String::new(),
        value => format!("`{value}`"),
    };
    let theirs = REFERENCE_DEFAULTS
        .into_iter()
        .find(|(name, _)| flag.get_long() == Some(name));
    match theirs {
        Some((_, theirs)) if ours.is_empty() => format!("none (reference: `{theirs}`)"),
        Some((_, theirs)) => format!("{ours} (reference: `{theirs}`)"),
        None => ours,
    }
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('*', "\\*")
        .replace('\n', " ")
}

/// Adds the flags that the help does not show.
fn accepted(page: &mut String, command: &Command) {
    let deprecated = removed::DEPRECATED.map(|(name, _)| name);
    let hidden = |flag: &&Arg| {
        flag.get_long()
            .is_some_and(|name| deprecated.contains(&name))
    };
    page.push_str(
        "\n# Accepted for existing manifests\n\nNot shown by `--help`; each use is said once at the start.\n",
    );
    table(page, "Deprecated", command.get_arguments().filter(hidden));
    page.push_str("\n## Historic, without effect\n\n| flag | type | note |\n|---|---|---|\n");
    for flag in &removed::REMOVED {
        _ = writeln!(
            page,
            "| `--{}` | {} | {} |",
            flag.name,
            flag.kind.name(),
            flag.instead
        );
    }
    page.push_str(
        "\n## Of vendors' programs\n\n| flag | type | providers | effect |\n|---|---|---|---|\n",
    );
    for flag in provider_flags::all() {
        let effect = match flag.effect {
            Effect::Read => "The provider's page explains the flag.".to_owned(),
            Effect::UserAgent => {
                "The value goes into the `User-Agent` of requests to the cloud.".to_owned()
            }
            Effect::Inert(reason) => format!("None: {reason}."),
        };
        _ = writeln!(
            page,
            "| `--{}` | {} | {} | {effect} |",
            flag.name,
            flag.kind.name(),
            flag.providers.join(", ")
        );
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
        _ = writeln!(
            page,
            "| `{}` | {stage} | {} | {} |",
            gate.name,
            gate.default,
            escape(gate.effect)
        );
    }
    let inert = INERT.map(|name| format!("`{name}`")).join(", ");
    _ = write!(page, "\nAccepted without effect: {inert}.\n");
    let historic = HISTORIC.map(|name| format!("`{name}`")).join(", ");
    let providers = HISTORIC_PROVIDERS
        .map(|name| format!("`{name}`"))
        .join(", ");
    _ = write!(
        page,
        "\nOf older versions of Kubernetes, accepted without effect with the providers {providers}, whose manifests set \
         them, and unknown with all others: {historic}.\n"
    );
}

fn programs(page: &mut String) {
    page.push_str(
        "\n# Names of the program\n\nCalled by one of these names (by a link, for example) the program has other defaults. A \
         first argument that is the path of such a program counts as its name. If neither tells a provider, the variable \
         `CCM_CLOUD_PROVIDER` does, with the same further defaults. `--cloud-provider` takes precedence over all. As `kubectl-ccm` the \
         program is a plugin: `kubectl ccm` has the subcommands, runs no controllers, and reads the kubeconfig that kubectl \
         reads (the first file of `KUBECONFIG` that exists, or `~/.kube/config`).\n\n| name | `--cloud-provider` | further defaults |\n|---|---|---|\n",
    );
    for (name, provider, defaults) in PROGRAMS {
        let defaults: Vec<_> = defaults
            .iter()
            .map(|(flag, value)| format!("`--{flag}={value}`"))
            .collect();
        _ = writeln!(
            page,
            "| `{name}` | `{provider}` | {} |",
            defaults.join(", ")
        );
    }
    _ = writeln!(
        page,
        "\nThis project has no provider for {}: vendors embed the manager under these names, and the image has no links for \
         them.",
        PROVIDERS_OF_OTHERS
            .map(|provider| format!("`{provider}`"))
            .join(", ")
    );
}
