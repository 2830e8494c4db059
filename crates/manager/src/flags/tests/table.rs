//! Table of all flags: type, default, and the effect of one changed value.

mod endpoints;
mod logs;
mod own;
mod working;

use cloud_provider::names::SERVICE_CONTROLLER;
use serde_json::{Value, json};

use crate::flags::Configuration;

/// The effect of a changed value.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// The value in `/configz` at this pointer below the component's group.
    Configz(&'static str, fn() -> Value),
    /// An option of a component of the process.
    Option(fn(&Configuration) -> bool),
    /// A value in `/configz` and an option.
    Both(&'static str, fn() -> Value, fn(&Configuration) -> bool),
    /// A warning that the flag has no effect.
    Warns,
    /// The end of the program before there is a configuration; tested separately.
    Says,
}

/// A row of the table. Section and help of each flag are in docs/reference/flags.md, which a test compares.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Type of the value, as the reference page names it.
    pub(super) kind: &'static str,
    /// Default: the Go program's, if that has the flag.
    pub(super) default: &'static str,
    /// Arguments that change the value.
    pub(super) changed: &'static [&'static str],
    pub(super) effect: Effect,
}

const fn row(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    changed: &'static [&'static str],
    effect: Effect,
) -> Row {
    Row {
        name,
        kind,
        default,
        changed,
        effect,
    }
}

use Effect::{Both, Configz, Option as Opt, Says, Warns};

const fn secs(seconds: u64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds)
}

/// Returns all rows of the table.
pub(super) fn rows() -> Vec<Row> {
    let sections: [&[Row]; 10] = [
        &working::GENERIC,
        &working::DEBUGGING,
        &working::CLOUD,
        &working::CONTROLLERS,
        &endpoints::WEBHOOKS,
        &endpoints::SERVING,
        &endpoints::AUTHENTICATION,
        &endpoints::AUTHORIZATION,
        &logs::GLOBAL,
        &own::OWN,
    ];
    sections.concat()
}
