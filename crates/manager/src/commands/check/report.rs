//! The report of `check`, as text and as JSON, and its exit code.

use cloud_provider::counted;
use serde_json::{Value, json};

use crate::output::Lines;

/// Version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The load balancer would be refused.
    Error,
    /// The Service works, but probably not as intended.
    Warning,
}

/// A mistake in a Service.
pub(super) struct Finding {
    pub(super) file: String,
    pub(super) line: usize,
    /// Number of the document in the file, starting at 1.
    pub(super) document: usize,
    /// Namespace, if the object has one, and name.
    pub(super) service: String,
    pub(super) severity: Severity,
    pub(super) text: String,
}

/// Findings and errors of all input.
pub(super) struct Report {
    provider: String,
    is_strict: bool,
    pub(super) findings: Vec<Finding>,
    /// Errors of unusable input.
    pub(super) errors: Vec<String>,
    /// Number of reviewed Services.
    pub(super) services: usize,
    /// Number of other objects, which are skipped.
    pub(super) skipped: usize,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Report {
    pub(super) fn new(provider: &str, is_strict: bool) -> Self {
        let findings = Vec::new();
        let errors = Vec::new();
        Self {
            provider: provider.to_owned(),
            is_strict,
            findings,
            errors,
            services: 0,
            skipped: 0,
        }
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    pub(super) fn exit_code(&self) -> u8 {
        match (
            self.errors.len(),
            self.count(Severity::Error),
            self.count(Severity::Warning),
        ) {
            (1.., ..) => 2,
            (0, 1.., _) => 1,
            (0, 0, 1..) => self.is_strict.into(),
            (0, 0, 0) => 0,
        }
    }

    /// Returns one line for each finding in the format of compilers, and a summary.
    pub(super) fn text(&self) -> String {
        let mut out = Lines::default();
        for Finding {
            file,
            line,
            service,
            severity,
            text,
            ..
        } in &self.findings
        {
            out.line(format_args!(
                "{file}:{line}: {}: Service {service}: {text}",
                severity.as_str()
            ));
        }
        out.line(format_args!(
            "{} checked: {}, {}; {} skipped",
            counted(self.services, "Service"),
            counted(self.count(Severity::Error), "error"),
            counted(self.count(Severity::Warning), "warning"),
            counted(self.skipped, "other object"),
        ));
        out.into_text()
    }

    pub(super) fn json(&self) -> Value {
        let finding = |Finding {
                           file,
                           line,
                           document,
                           service,
                           severity,
                           text,
                       }: &Finding| {
            json!({
                "file": file, "line": line, "document": document, "service": service, "severity": severity.as_str(),
                "text": text,
            })
        };
        json!({
            "version": JSON_VERSION,
            "provider": self.provider,
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "errors": self.errors,
            "summary": {
                "services": self.services,
                "skipped": self.skipped,
                "errors": self.count(Severity::Error),
                "warnings": self.count(Severity::Warning),
                "exitCode": self.exit_code(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_follows_the_worst_finding() {
        use Severity::{Error, Warning};
        let report = |severities: &[Severity], errors: usize, is_strict| {
            let mut report = Report::new("acme", is_strict);
            report
                .findings
                .extend(severities.iter().map(|severity| Finding {
                    file: "f".to_owned(),
                    line: 1,
                    document: 1,
                    service: "web".to_owned(),
                    severity: *severity,
                    text: "wrong".to_owned(),
                }));
            report.errors = vec![String::new(); errors];
            report
        };
        let table: [(&[Severity], usize, bool, u8); 6] = [
            (&[], 0, true, 0),
            (&[Warning], 0, false, 0),
            (&[Warning], 0, true, 1),
            (&[Warning, Error], 0, false, 1),
            (&[Error], 1, false, 2),
            (&[], 1, false, 2),
        ];
        for (severities, errors, is_strict, code) in table {
            assert_eq!(
                report(severities, errors, is_strict).exit_code(),
                code,
                "{severities:?} {errors} {is_strict}"
            );
        }
        let text = report(&[Error, Warning], 0, false).text();
        let expected = "f:1: error: Service web: wrong\nf:1: warning: Service web: wrong\n\
                        0 Services checked: 1 error, 1 warning; 0 other objects skipped\n";
        assert_eq!(text, expected);
    }
}
