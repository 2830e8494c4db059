//! The specification's tables of flags (§2 to §12), row by row, with the effect of one changed value.

mod endpoints;
mod logs;
mod working;

use serde_json::{Value, json};

use crate::flags::Flags;

/// How much of a flag there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Must,
    Should,
    NoopAccept,
}

/// What a changed value changes.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// `/configz` at this pointer below the component's group.
    Configz(&'static str, fn() -> Value),
    /// An option of a part of the process.
    Option(fn(&Flags) -> bool),
    /// Nothing: it is said that it has none.
    Warns,
    /// It ends the program before there is a configuration; tests of their own.
    Says,
}

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// The reference's default.
    pub(super) reference: &'static str,
    /// Ours, where it differs (D-10).
    pub(super) ours: Option<&'static str>,
    pub(super) class: Class,
    pub(super) section: &'static str,
    /// Arguments with a changed value.
    pub(super) changed: &'static [&'static str],
    pub(super) effect: Effect,
}

const fn row(
    section: &'static str,
    (name, kind, reference, class): (&'static str, &'static str, &'static str, Class),
    changed: &'static [&'static str],
    effect: Effect,
) -> Row {
    Row { name, kind, reference, ours: None, class, section, changed, effect }
}

impl Row {
    /// With another default of ours.
    const fn ours(self, ours: &'static str) -> Self {
        Self { ours: Some(ours), ..self }
    }
}

use Class::{Must, NoopAccept, Should};
use Effect::{Configz, Option as Opt, Says, Warns};

const fn secs(seconds: u64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds)
}

/// Every row.
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

/// This project's own flags, with type, default and section.
pub(super) const OWN: [(&str, &str, &str, &str); 15] = [
    ("adopt-nodes", "bool", "false", "Cloud-node-controller"),
    ("cloud-config-change", "string", "reload", "Generic"),
    ("default-load-balancer", "bool", "true", "Service-lb-controller"),
    ("exclude-nodes-without-network", "bool", "false", "Service-lb-controller"),
    ("explain", "bool", "true", "Generic"),
    ("load-balancer-classes", "strings", "", "Service-lb-controller"),
    ("load-balancer-drift", "string", "report", "Service-lb-controller"),
    ("load-balancer-drift-check-period", "duration", "0s", "Service-lb-controller"),
    ("metrics-bind-address", "address", "", "Secure serving"),
    ("node-deletion", "string", "on", "Cloud-node-lifecycle-controller"),
    ("node-deletion-guard", "bool", "true", "Cloud-node-lifecycle-controller"),
    ("node-deletion-guard-delay", "duration", "5m0s", "Cloud-node-lifecycle-controller"),
    ("node-deletion-guard-share", "float64", "0.5", "Cloud-node-lifecycle-controller"),
    ("refresh-node-labels", "bool", "false", "Cloud-node-controller"),
    ("shutdown-timeout", "duration", "10s", "Generic"),
];

/// §14: flags that are accepted for nothing, each with a value.
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
