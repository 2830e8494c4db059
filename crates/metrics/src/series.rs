//! The declaration of every series: one table for each subject, and [`all`] of them.
//!
//! The registry is built from these tables, `docs/reference/metrics.md` is generated from them, and the test of the
//! specification's tables walks them.

mod access;
mod api_client;
mod clouds;
mod controllers;
mod election;
mod health;
mod identity;
mod own;
mod process;
mod queues;

use std::fmt;

pub(crate) use access::*;
pub(crate) use api_client::*;
pub(crate) use clouds::*;
pub(crate) use controllers::*;
pub(crate) use election::*;
pub(crate) use health::*;
pub(crate) use identity::*;
pub(crate) use own::*;
pub(crate) use process::*;
pub(crate) use queues::*;

/// What stands for the provider's name in the names of series of its requests.
pub const PROVIDER: &str = "<provider>";

/// One series: its name and what never changes of it.
///
/// ```
/// let depth = metrics::series::all().find(|series| series.name == "workqueue_depth").ok_or("not there")?;
/// assert_eq!(depth.labels, ["name"]);
/// assert_eq!(depth.help_text(), format!("[BETA] {}", depth.help));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// Its name; [`PROVIDER`] in it stands for the provider's.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of a histogram's buckets, without `+Inf`, in the unit of the name.
    pub buckets: &'static [f64],
    /// What may be relied on.
    pub stability: Stability,
    /// From when on it is there.
    pub presence: Presence,
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// Type of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of values up to each bound.
    Histogram,
}

/// Which promise goes with a series; shown in front of its help text, where documentation tools look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// May change or go.
    Alpha,
    /// Neither name nor labels change.
    Beta,
    /// Stays.
    Stable,
    /// The convention of all processes; Kubernetes says nothing of it.
    Convention,
}

/// From when on samples of a series are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// From the start of the process, also on standbys.
    Start,
    /// From when the controller is made, so only where it leads.
    Leader,
    /// From its first use.
    Use,
}

impl Series {
    pub(crate) const fn counter(name: &'static str) -> Self {
        Self::new(name, Kind::Counter, &[])
    }

    pub(crate) const fn gauge(name: &'static str) -> Self {
        Self::new(name, Kind::Gauge, &[])
    }

    pub(crate) const fn histogram(name: &'static str, buckets: &'static [f64]) -> Self {
        Self::new(name, Kind::Histogram, buckets)
    }

    const fn new(name: &'static str, kind: Kind, buckets: &'static [f64]) -> Self {
        let (stability, presence) = (Stability::Alpha, Presence::Use);
        Self { name, kind, labels: &[], buckets, stability, presence, help: "" }
    }

    pub(crate) const fn by(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    pub(crate) const fn is(mut self, stability: Stability) -> Self {
        self.stability = stability;
        self
    }

    pub(crate) const fn from(mut self, presence: Presence) -> Self {
        self.presence = presence;
        self
    }

    pub(crate) const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// The help text as it is shown.
    #[must_use]
    pub fn help_text(&self) -> String {
        match self.stability {
            Stability::Convention => self.help.to_owned(),
            stability => format!("[{stability}] {}", self.help),
        }
    }
}

impl Kind {
    /// As the text format calls it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "STABLE",
            Self::Convention => "",
        })
    }
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Leader => "leader",
            Self::Use => "use",
        })
    }
}

/// A table with a heading of its own in the reference.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// What it is about.
    pub title: &'static str,
    /// Where it is served.
    pub path: &'static str,
    /// Its series.
    pub series: &'static [&'static Series],
}

/// All tables, in the order of the reference.
pub const TABLES: &[Table] = &[
    Table { title: "Controllers", path: METRICS, series: CONTROLLERS },
    Table { title: "Work queues", path: METRICS, series: QUEUES },
    Table { title: "Client of the API server", path: METRICS, series: API_CLIENT },
    Table { title: "Leader election", path: METRICS, series: ELECTION },
    Table { title: "Callers and webhooks", path: METRICS, series: ACCESS },
    Table { title: "The cloud, by the provider's conventional names", path: METRICS, series: CLOUDS },
    Table { title: "Additions of this project", path: METRICS, series: OWN },
    Table { title: "Build and feature gates", path: METRICS, series: IDENTITY },
    Table { title: "Process", path: METRICS, series: PROCESS },
    Table { title: "Health", path: SLIS, series: HEALTH },
];

/// Path of all series but those of health (MET-1).
pub const METRICS: &str = "/metrics";
/// Path of the series of health (MET-2).
pub const SLIS: &str = "/metrics/slis";

/// Every series.
pub fn all() -> impl Iterator<Item = &'static Series> {
    TABLES.iter().flat_map(|table| table.series.iter().copied())
}

/// Names each series, and makes a table of them all, so that none is declared and forgotten.
macro_rules! table {
    ($table:ident { $($name:ident = $series:expr;)* }) => {
        $(pub(crate) const $name: &Series = &$series;)*
        pub(crate) const $table: &[&Series] = &[$($name),*];
    };
}
use table;

/// 1, 2, 4 … 16384.
const DOUBLING: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
/// Of calls over the network that somebody waits for.
const CALLS: &[f64] = &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
/// What the libraries of the field use where nothing is said.
const CONVENTIONAL: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_labels_name_no_object() {
        let mut names = HashSet::new();
        for series in all().filter(|series| *series != PROCESS_START_TIME_OF_SLIS) {
            assert!(names.insert(series.name), "{} twice", series.name);
            assert!(!series.help.is_empty() && series.help.ends_with('.'), "{}: {:?}", series.name, series.help);
            let ids = ["node", "service", "namespace", "uid", "provider_id", "key", "ip"];
            assert!(series.labels.iter().all(|label| !ids.contains(label)), "{series:?}");
        }
    }

    #[test]
    fn what_is_not_in_the_reference_has_our_prefix() {
        for series in all() {
            assert_eq!(series.name.starts_with("ccm_"), OWN.contains(&series), "{}", series.name);
        }
    }

    #[test]
    fn bounds_rise_and_only_histograms_have_them() {
        for series in all() {
            assert_eq!(series.kind == Kind::Histogram, !series.buckets.is_empty(), "{}", series.name);
            assert!(series.buckets.windows(2).all(|pair| pair[0] < pair[1]), "{}", series.name);
        }
    }
}
