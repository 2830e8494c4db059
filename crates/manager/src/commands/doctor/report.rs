//! The report of `doctor`, as text and as JSON.

use std::collections::HashSet;

use cloud_provider::{Finding, Severity, counted};
use serde_json::{Value, json};

/// The findings in the order of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Findings of all checks.
    pub findings: Vec<Finding>,
}

/// A collector that passes each finding on at once and keeps it for the report.
pub(super) struct Findings<'a> {
    report: Report,
    told: &'a mut (dyn FnMut(&Finding) + Send),
}

impl<'a> Findings<'a> {
    pub(super) fn new(told: &'a mut (dyn FnMut(&Finding) + Send)) -> Self {
        Self {
            report: Report::default(),
            told,
        }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        (self.told)(&finding);
        self.report.findings.push(finding);
    }

    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }

    pub(super) fn into_report(self) -> Report {
        self.report
    }
}

impl Report {
    /// Returns the number of findings of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Returns the exit code: 1 if there is a failure, else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.count(Severity::Failure) > 0)
    }
}

/// The text form, line by line. A remedy that was printed before is not repeated.
#[derive(Default)]
pub(super) struct Lines {
    remedies: HashSet<String>,
}

impl Lines {
    /// Returns the line of a finding: `ok|warn|FAIL  check: text; remedy`.
    pub(super) fn line(&mut self, finding: &Finding) -> String {
        let Finding {
            check,
            severity,
            text,
            remedy,
        } = finding;
        let mark = match severity {
            Severity::Ok => "ok",
            Severity::Warning => "warn",
            Severity::Failure => "FAIL",
        };
        let remedy = match remedy.as_ref().filter(|remedy| !remedy.is_empty()) {
            None => String::new(),
            Some(remedy) if self.remedies.insert(remedy.clone()) => format!("; {remedy}"),
            Some(_) => "; remedy as above".to_owned(),
        };
        // Texts from elsewhere may have line breaks; a finding is one line.
        let said = format!("{text}{remedy}");
        let said = said.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        format!("{mark:<4}  {check}: {said}\n")
    }
}

/// Returns a line for each finding and a summary line.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut lines = Lines::default();
    let findings: String = report
        .findings
        .iter()
        .map(|finding| lines.line(finding))
        .collect();
    findings + &summary(report)
}

/// Returns the summary line with the number of findings by severity.
pub(super) fn summary(report: &Report) -> String {
    let [ok, warnings, failures] =
        [Severity::Ok, Severity::Warning, Severity::Failure].map(|severity| report.count(severity));
    format!(
        "{}, {}, {ok} ok. Nothing was changed.\n",
        counted(failures, "failure"),
        counted(warnings, "warning")
    )
}

/// Version of the JSON form. The version increases when a field is removed or changes its meaning, not when a field is
/// added.
pub const JSON_VERSION: u32 = 1;

/// Returns the report as one JSON object:
///
/// ```text
/// {
///   "version": 1,
///   "findings": [{
///     "check": "clock",
///     "severity": "ok", "warning" or "failure",
///     "text": "…",
///     "remedy": "…" or null
///   }],
///   "summary": {"ok": 9, "warnings": 0, "failures": 0, "exitCode": 0 or 1}
/// }
/// ```
#[must_use]
pub fn json(report: &Report) -> Value {
    let finding = |finding: &Finding| {
        let severity = match finding.severity {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Failure => "failure",
        };
        json!({"check": finding.check, "severity": severity, "text": finding.text, "remedy": finding.remedy})
    };
    json!({
        "version": JSON_VERSION,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "summary": {
            "ok": report.count(Severity::Ok),
            "warnings": report.count(Severity::Warning),
            "failures": report.count(Severity::Failure),
            "exitCode": report.exit_code(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let findings = vec![
            Finding::ok("api", "answers"),
            Finding::warning("clock", "3 s behind", "set it"),
            Finding::failure("cloud token", "refused:\n  401", "make a new one"),
        ];
        Report { findings }
    }

    #[test]
    fn each_finding_is_one_line_with_its_remedy() {
        assert_eq!(
            text(&report()),
            "ok    api: answers\n\
             warn  clock: 3 s behind; set it\n\
             FAIL  cloud token: refused: 401; make a new one\n\
             1 failure, 1 warning, 1 ok. Nothing was changed.\n"
        );
    }

    #[test]
    fn advice_is_given_once() {
        let findings = ["a", "b"]
            .map(|node| Finding::warning("nodes", node, "start the instance"))
            .to_vec();
        assert_eq!(
            text(&Report { findings }),
            "warn  nodes: a; start the instance\n\
             warn  nodes: b; remedy as above\n\
             0 failures, 2 warnings, 0 ok. Nothing was changed.\n"
        );
    }

    #[test]
    fn only_a_failure_makes_the_exit_code_1() {
        let mut report = report();
        assert_eq!(
            (
                report.exit_code(),
                json(&report)["summary"]["exitCode"].clone()
            ),
            (1, json!(1))
        );
        report.findings.pop();
        assert_eq!(report.exit_code(), 0);
        assert_eq!(
            json(&report)["findings"][0],
            json!({"check": "api", "severity": "ok", "text": "answers", "remedy": null})
        );
    }
}
