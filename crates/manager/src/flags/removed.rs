//! Flags that older cloud controller managers had. This program accepts them so that it starts with old manifests
//! (P-41).

use clap::{Arg, ArgAction};

use super::values::{go_bool, go_float, go_int64, ip};

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Float,
    Ip,
    Text,
}

impl Kind {
    pub(super) fn argument(self, name: &'static str) -> Arg {
        let argument = Arg::new(name)
            .long(name)
            .hide(true)
            .action(ArgAction::Append);
        match self {
            Self::Bool => argument.action(ArgAction::Set).value_parser(go_bool),
            Self::Int => argument.value_parser(go_int64),
            Self::Float => argument.value_parser(go_float),
            Self::Ip => argument.value_parser(ip),
            Self::Text => argument,
        }
    }

    /// Returns a value of this type.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Bool => "true",
            Self::Int => "24",
            Self::Float => "1.5",
            Self::Ip => "127.0.0.1",
            Self::Text => "a",
        }
    }

    /// Returns the type as the documentation names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float32",
            Self::Ip => "ip",
            Self::Text => "string",
        }
    }
}

/// A removed flag, accepted without effect.
pub(super) struct RemovedFlag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Replacement of the flag: the end of `Flag --x has been deprecated, …`.
    pub(super) instead: &'static str,
}

const fn removed(name: &'static str, kind: Kind, instead: &'static str) -> RemovedFlag {
    RemovedFlag {
        name,
        kind,
        instead,
    }
}

const TO_STDERR: &str = "it has no effect: the log goes to standard error; remove it";
const NO_FILES: &str =
    "it has no effect: the log is not written to files; redirect standard error, and remove it";
const HEADERS: &str =
    "it has no effect: records always have their header; choose --logging-format=json or remove it";
const NO_HTTP: &str = "it has no effect: there is no plain HTTP port; use --secure-port, or --metrics-bind-address for metrics";
const NOT_HIDDEN: &str = "it has no effect: all metrics are always shown; remove it";

/// klog flags removed in Kubernetes 1.26, the insecure port, and metrics flags of other Kubernetes components.
pub(super) const REMOVED: [RemovedFlag; 17] = [
    removed("logtostderr", Kind::Bool, TO_STDERR),
    removed("alsologtostderr", Kind::Bool, TO_STDERR),
    removed("stderrthreshold", Kind::Text, TO_STDERR),
    removed("one-output", Kind::Bool, TO_STDERR),
    removed("log-dir", Kind::Text, NO_FILES),
    removed("log-file", Kind::Text, NO_FILES),
    removed("log-file-max-size", Kind::Int, NO_FILES),
    removed("skip-headers", Kind::Bool, HEADERS),
    removed("skip-log-headers", Kind::Bool, HEADERS),
    removed("add-dir-header", Kind::Bool, HEADERS),
    removed(
        "log-backtrace-at",
        Kind::Text,
        "it has no effect: use --vmodule for more of one file, or remove it",
    ),
    removed("port", Kind::Int, NO_HTTP),
    removed("address", Kind::Ip, NO_HTTP),
    removed("show-hidden-metrics-for-version", Kind::Text, NOT_HIDDEN),
    removed("disabled-metrics", Kind::Text, NOT_HIDDEN),
    removed("allow-metric-labels", Kind::Text, NOT_HIDDEN),
    removed("allow-metric-labels-manifest", Kind::Text, NOT_HIDDEN),
];

/// Flags that still have an effect or are shown by `/configz`, but are deprecated (FLAG-11).
pub(super) const DEPRECATED: [(&str, &str); 2] = [
    (
        "allow-untagged-cloud",
        "This flag is deprecated and will be removed in a future release. It is still needed, and will be accepted, where \
         the cloud has no cluster id.",
    ),
    (
        "node-sync-period",
        "This flag is currently no-op and will be deleted.",
    ),
];
