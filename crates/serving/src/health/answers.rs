//! The texts of the probes.

use axum::response::Response;
use http::StatusCode;

use super::{CheckOutcome, CheckResult, Probe, Report};
use crate::answer::text;
use crate::quote::shortened;

/// Names of unknown checks that an answer repeats.
const QUOTED: usize = 10;

/// `?verbose&exclude=NAME&exclude=…`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) verbose: bool,
    pub(super) excluded: Vec<String>,
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let mut verbose = false;
        let mut excluded = Vec::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match (&*key, &*value) {
                ("verbose", _) => verbose = true,
                ("exclude", name) if !name.is_empty() => excluded.push(name.to_owned()),
                _ => {}
            }
        }
        // Listed in the order of the Go cloud-controller-manager, each once.
        excluded.sort();
        excluded.dedup();
        Self { verbose, excluded }
    }
}

pub(super) fn all(report: &Report, verbose: bool) -> Response {
    let word = report.probe.as_str();
    let lines: String = report.results.iter().map(line).collect();
    let lines = lines + &warning(&report.unmatched);
    match (report.is_healthy(), verbose) {
        (true, false) => text(StatusCode::OK, "ok"),
        (true, true) => text(StatusCode::OK, format!("{lines}{word} check passed\n")),
        (false, _) => text(
            failed(report.probe),
            format!("{lines}{word} check failed\n"),
        ),
    }
}

/// Returns the status of a failed probe (APP-97, and APP-162: not ready is a state, not an error).
fn failed(probe: Probe) -> StatusCode {
    match probe {
        Probe::Healthz | Probe::Livez => StatusCode::INTERNAL_SERVER_ERROR,
        Probe::Readyz => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub(super) fn one(probe: Probe, result: Option<&CheckResult>) -> Response {
    match result {
        None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Some(result) => match result.outcome {
            CheckOutcome::Failed(_) => text(failed(probe), line(result)),
            CheckOutcome::Healthy | CheckOutcome::Excluded => text(StatusCode::OK, "ok"),
        },
    }
}

fn line(CheckResult { name, outcome }: &CheckResult) -> String {
    match outcome {
        CheckOutcome::Healthy => format!("[+]{name} ok\n"),
        CheckOutcome::Excluded => format!("[+]{name} excluded: ok\n"),
        CheckOutcome::Failed(_) => format!("[-]{name} failed: reason withheld\n"),
    }
}

fn warning(unmatched: &[String]) -> String {
    if unmatched.is_empty() {
        return String::new();
    }
    // The caller chose them, and need not be known.
    let names: Vec<_> = unmatched
        .iter()
        .take(QUOTED)
        .map(|name| format!("{:?}", shortened(name)))
        .collect();
    format!(
        "warn: some health checks cannot be excluded: no matches for {}\n",
        names.join(",")
    )
}
