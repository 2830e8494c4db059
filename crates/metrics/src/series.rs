//! Declarations of every series: one table for each subject, and [`all`] of them.
//!
//! The registry and `docs/reference/metrics.md` are generated from these tables, and a test compares them with the
//! specification.

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

/// Placeholder for the provider's name in the names of its series.
pub const PROVIDER: &str = "<provider>";

/// The declaration of a series: its name and its fixed properties.
///
/// ```
/// let depth = metrics::series::all().find(|series| series.name == "workqueue_depth").ok_or("not there")?;
/// assert_eq!(depth.labels, ["name"]);
/// assert_eq!(depth.help_text(), format!("[BETA] {}", depth.help));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// Name of the series. [`PROVIDER`] in the name stands for the provider's name.
    pub name: &'static str,
    /// Type of the series.
    pub kind: Kind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of a histogram's buckets, without `+Inf`, in the unit of the series.
    pub buckets: &'static [f64],
    /// Stability of the series.
    pub stability: Stability,
    /// Time from which the series has samples; see [`Presence`].
    pub presence: Presence,
    /// Meaning of the series in one sentence.
    pub help: &'static str,
}

/// The type of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A counter, which only increases.
    Counter,
    /// A gauge, which may increase and decrease.
    Gauge,
    /// A histogram, which counts values up to each bound.
    Histogram,
}

/// The stability of a series. Shown in front of the help text, where documentation tools look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// The series may change or be removed.
    Alpha,
    /// Name and labels of the series do not change.
    Beta,
    /// The series does not change and is not removed.
    Stable,
    /// A convention of all processes, without a stability level of Kubernetes.
    Convention,
}

/// The time from which samples of a series exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// From the start of the process, including on standbys.
    Start,
    /// From the creation of the controller, therefore only on the leader.
    Leader,
    /// From the first value that is recorded.
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
        let stability = Stability::Alpha;
        let presence = Presence::Use;
        Self {
            name,
            kind,
            labels: &[],
            buckets,
            stability,
            presence,
            help: "",
        }
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

    /// Returns the help text with the stability.
    #[must_use]
    pub fn help_text(&self) -> String {
        match self.stability {
            Stability::Convention => self.help.to_owned(),
            stability => format!("[{stability}] {}", self.help),
        }
    }
}

impl Kind {
    /// Returns the type's name in the text format.
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

/// A table of series with a heading of its own in the reference.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Subject of the table.
    pub title: &'static str,
    /// Path of the endpoint that serves the series.
    pub path: &'static str,
    /// Series of the table.
    pub series: &'static [&'static Series],
}

/// The tables in the order of the reference.
pub const TABLES: &[Table] = &[
    Table {
        title: "Controllers",
        path: METRICS,
        series: CONTROLLERS,
    },
    Table {
        title: "Work queues",
        path: METRICS,
        series: QUEUES,
    },
    Table {
        title: "Client of the API server",
        path: METRICS,
        series: API_CLIENT,
    },
    Table {
        title: "Leader election",
        path: METRICS,
        series: ELECTION,
    },
    Table {
        title: "Callers and webhooks",
        path: METRICS,
        series: ACCESS,
    },
    Table {
        title: "The cloud, by the provider's conventional names",
        path: METRICS,
        series: CLOUDS,
    },
    Table {
        title: "Additions of this project",
        path: METRICS,
        series: OWN,
    },
    Table {
        title: "Build and feature gates",
        path: METRICS,
        series: IDENTITY,
    },
    Table {
        title: "Process",
        path: METRICS,
        series: PROCESS,
    },
    Table {
        title: "Health",
        path: SLIS,
        series: HEALTH,
    },
];

/// Path of all series except those about health (MET-1).
pub const METRICS: &str = "/metrics";
/// Path of the series about health (MET-2).
pub const SLIS: &str = "/metrics/slis";

/// Returns the declarations of every series.
pub fn all() -> impl Iterator<Item = &'static Series> {
    TABLES.iter().flat_map(|table| table.series.iter().copied())
}

/// Defines a constant for each series and a table of all of them, so that no declared series is missing from the table.
macro_rules! table {
    ($table:ident { $($name:ident = $series:expr;)* }) => {
        $(pub(crate) const $name: &Series = &$series;)*
        pub(crate) const $table: &[&Series] = &[$($name),*];
    };
}
use table;

/// Bucket bounds 1, 2, 4 … 16384.
const DOUBLING: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
    16384.0,
];
/// Bucket bounds for network calls that a caller waits for, in seconds.
const CALLS: &[f64] = &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
/// Default bucket bounds of Prometheus client libraries, in seconds.
pub(crate) const CONVENTIONAL: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_labels_name_no_object() {
        let mut names = HashSet::new();
        for series in all().filter(|series| *series != PROCESS_START_TIME_OF_SLIS) {
            assert!(names.insert(series.name), "{} twice", series.name);
            assert!(
                !series.help.is_empty() && series.help.ends_with('.'),
                "{}: {:?}",
                series.name,
                series.help
            );
            let ids = [
                "node",
                "service",
                "namespace",
                "uid",
                "provider_id",
                "key",
                "ip",
            ];
            assert!(
                series.labels.iter().all(|label| !ids.contains(label)),
                "{series:?}"
            );
        }
    }

    #[test]
    fn series_that_the_go_program_lacks_has_our_prefix() {
        for series in all() {
            assert_eq!(
                series.name.starts_with("ccm_"),
                OWN.contains(&series),
                "{}",
                series.name
            );
        }
    }

    #[test]
    fn bounds_rise_and_only_histograms_have_them() {
        for series in all() {
            assert_eq!(
                series.kind == Kind::Histogram,
                !series.buckets.is_empty(),
                "{}",
                series.name
            );
            assert!(
                series.buckets.windows(2).all(|pair| pair[0] < pair[1]),
                "{}",
                series.name
            );
        }
    }
}
