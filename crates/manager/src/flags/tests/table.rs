//! Table of all flags, with the effect of one changed value.

mod endpoints;
mod logs;
mod working;

use serde_json::{Value, json};

use crate::flags::Configuration;

/// The effect of a changed value.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// The value in `/configz` at this pointer below the component's group.
    Configz(&'static str, fn() -> Value),
    /// An option of a component of the process.
    Option(fn(&Configuration) -> bool),
    /// A warning that the flag has no effect.
    Warns,
    /// The end of the program before there is a configuration; tested separately.
    Says,
}

/// A row of the table. Type and section of each flag are in docs/reference/flags.md, which a test compares.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Default of the Go program.
    pub(super) reference: &'static str,
    /// Arguments that change the value.
    pub(super) changed: &'static [&'static str],
    pub(super) effect: Effect,
}

const fn row(name: &'static str, reference: &'static str, changed: &'static [&'static str], effect: Effect) -> Row {
    Row { name, reference, changed, effect }
}

use Effect::{Configz, Option as Opt, Says, Warns};

const fn secs(seconds: u64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds)
}

/// Returns all rows of the table.
pub(super) fn rows() -> Vec<Row> {
    let sections: [&[Row]; 9] = [
        &working::GENERIC,
        &working::DEBUGGING,
        &working::CLOUD,
        &working::CONTROLLERS,
        &endpoints::WEBHOOKS,
        &endpoints::SERVING,
        &endpoints::AUTHENTICATION,
        &endpoints::AUTHORIZATION,
        &logs::GLOBAL,
    ];
    sections.concat()
}

/// Flags that only this project has.
pub(super) const OWN: [&str; 16] = [
    "adopt-nodes",
    "cloud-config-change",
    "default-load-balancer",
    "exclude-nodes-without-network",
    "explain",
    "load-balancer-classes",
    "load-balancer-drift",
    "load-balancer-drift-check-period",
    "metrics-bind-address",
    "node-deletion",
    "node-deletion-guard",
    "node-deletion-guard-delay",
    "node-deletion-guard-share",
    "refresh-node-labels",
    "service-validation-action",
    "shutdown-timeout",
];

/// Flags that are accepted for nothing, each with a value.
pub(super) const EXTRA: [&str; 17] = [
    "--logtostderr=true",
    "--alsologtostderr",
    "--log-dir=/var/log",
    "--log-file=/var/log/ccm.log",
    "--log-file-max-size=1800",
    "--stderrthreshold=2",
    "--skip-headers",
    "--skip-log-headers",
    "--add-dir-header",
    "--one-output",
    "--log-backtrace-at=main.go:10",
    "--port=0",
    "--address=127.0.0.1",
    "--show-hidden-metrics-for-version=1.34",
    "--disabled-metrics=a,b",
    "--allow-metric-labels=metric,label=value",
    "--allow-metric-labels-manifest=/a",
];
