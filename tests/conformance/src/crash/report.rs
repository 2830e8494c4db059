//! Report of the crash scenarios, for people.

use std::fmt;
use std::time::Duration;

use crate::fault_injector::{Moment, Passed, Side};
use crate::harness::Harness;

/// Results of all scenarios.
#[derive(Debug, Default)]
pub struct Report {
    /// Crash points at which the program was killed.
    pub tried: usize,
    /// Rows, one for each scenario.
    pub rows: Vec<Row>,
    /// Plays that did not end as they should.
    pub failures: Vec<Failure>,
    /// Crash points at which the program was not killed, because the request was not sent in that run.
    pub unreached: usize,
    /// Duration of all scenarios, in real time.
    pub took: Duration,
}

/// The requests of one scenario.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Number of requests to Kubernetes.
    pub kubernetes: usize,
    /// Requests to the cloud.
    pub cloud: usize,
    /// Number of requests of both that ask for a change.
    pub mutations: usize,
}

impl Row {
    pub(super) fn new(scenario: &'static str, requests: &[Passed]) -> Self {
        let count = |matches: &dyn Fn(&&Passed) -> bool| requests.iter().filter(matches).count();
        Self {
            scenario,
            kubernetes: count(&|request| request.side == Side::Kubernetes),
            cloud: count(&|request| request.side == Side::Cloud),
            mutations: count(&|request| request.is_mutation()),
        }
    }

    /// Returns the number of crash points: before and after each request.
    #[must_use]
    pub fn crash_points(&self) -> usize {
        2 * (self.kubernetes + self.cloud)
    }
}

/// A play that did not end as it should.
#[derive(Debug)]
pub struct Failure {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// At which request, from 1; 0: undisturbed.
    pub number: usize,
    /// Before or after it.
    pub moment: Option<Moment>,
    /// Request at which the program was killed.
    pub request: Option<Passed>,
    /// Problems that were found.
    pub problems: Vec<String>,
    /// Last requests before the failure.
    pub last: Vec<Passed>,
    /// The last warnings that the program wrote as events.
    pub warnings: Vec<String>,
}

impl Failure {
    pub(super) fn undisturbed(
        scenario: &'static str,
        problems: Vec<String>,
        harness: &Harness,
    ) -> Self {
        let last = harness.injector.last(20);
        let warnings = harness.warnings(5);
        Self {
            scenario,
            number: 0,
            moment: None,
            request: None,
            problems,
            last,
            warnings,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scenario {:?}, ", self.scenario)?;
        match (self.moment, &self.request) {
            (Some(moment), Some(request)) => {
                writeln!(f, "killed {moment:?} request {} ({request}):", self.number)?;
            }
            _ => writeln!(f, "undisturbed:")?,
        }
        for problem in &self.problems {
            writeln!(f, "  {problem}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "  the program warned: {warning}")?;
        }
        writeln!(f, "  the last requests:")?;
        self.last
            .iter()
            .try_for_each(|request| writeln!(f, "    {request}"))
    }
}

impl Report {
    /// Returns the number of crash points of all scenarios.
    #[must_use]
    pub fn crash_points(&self) -> usize {
        self.rows.iter().map(Row::crash_points).sum()
    }

    /// Returns the first failures in full, and the number of all.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut scenarios: Vec<&str> = self
            .failures
            .iter()
            .map(|failure| failure.scenario)
            .collect();
        scenarios.dedup();
        let of = |name: &&str| {
            let mut all = self
                .failures
                .iter()
                .filter(|failure| failure.scenario == *name)
                .peekable();
            let first = all.peek().map_or_else(String::new, ToString::to_string);
            format!("{} in scenario {name:?}, the first:\n{first}", all.count())
        };
        let all: Vec<String> = scenarios.iter().map(of).collect();
        format!(
            "{} plays failed:\n\n{}",
            self.failures.len(),
            all.join("\n")
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<44} {:>10} {:>6} {:>9} {:>12}",
            "scenario", "kubernetes", "cloud", "mutations", "crash points"
        )?;
        for row in &self.rows {
            let Row {
                scenario,
                kubernetes,
                cloud,
                mutations,
            } = row;
            writeln!(
                f,
                "{scenario:<44} {kubernetes:>10} {cloud:>6} {mutations:>9} {:>12}",
                row.crash_points()
            )?;
        }
        let scenarios = self.rows.len();
        let points = self.crash_points();
        let failed = self.failures.len();
        let unreached = self.unreached;
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{scenarios} scenarios, {points} crash points, {} tried ({unreached} not reached), {failed} failed, {seconds:.1} s",
            self.tried
        )
    }
}
