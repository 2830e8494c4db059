//! The subcommands that take the manager's flags: `plan`, `doctor`, `explain`, `orphans` and `check`. Each is a module
//! with one door, its `mod.rs`; what several of them need is here.

mod ask;
mod check;
pub mod doctor;
pub mod explain;
pub mod orphans;
pub mod plan;
mod read;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use cloud_provider::Registry;

use crate::flags::Program;
use ask::{ask, ask_within};
use read::{list, read_only_client};

/// Runs the subcommand that the first argument names, or prints its help after `help`. Returns `None` for other
/// arguments.
pub(crate) fn run(
    providers: &Registry,
    program: &Program,
    arguments: &[OsString],
) -> Option<ExitCode> {
    let word = |index: usize| arguments.get(index).and_then(|word| word.to_str());
    let called = arguments.iter().take(1).cloned();
    let (name, arguments): (_, Vec<OsString>) = match (word(1)?, word(2)) {
        ("help", Some(name)) => (name, called.chain(["--help".into()]).collect()),
        (name, _) => (
            name,
            called.chain(arguments.iter().skip(2).cloned()).collect(),
        ),
    };
    match name {
        plan::SUBCOMMAND => Some(plan::main(providers, program, arguments)),
        orphans::SUBCOMMAND => Some(orphans::main(providers, program, arguments)),
        doctor::SUBCOMMAND => Some(doctor::main(providers, program, arguments)),
        check::SUBCOMMAND => Some(check::main(providers, program, arguments)),
        explain::SUBCOMMAND => Some(explain::main(providers, program, arguments)),
        _ => None,
    }
}

/// Formats a duration as `59 s`, `12 min`, `5 h` or `3 d`.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}
