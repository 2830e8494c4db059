//! Findings of a provider about itself, for `doctor`.

/// The severity of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The check found no problem.
    Ok,
    /// The checked item works, but needs a user's attention.
    Warning,
    /// The checked item does not work.
    Failure,
}

/// The result of a check, with a remedy.
///
/// ```
/// use cloud_provider::{Finding, Severity};
///
/// let finding = Finding::failure("token", "the API answers 401", "make a new token and put it into the Secret");
/// assert_eq!(finding.severity, Severity::Failure);
/// assert_eq!(Finding::ok("endpoint", "answers in 12 ms").remedy, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check, in a word or two.
    pub check: String,
    /// Severity of the finding.
    pub severity: Severity,
    /// Text of the finding, without secrets (INV-5).
    pub text: String,
    /// Remedy; `None` if the check succeeded.
    pub remedy: Option<String>,
}

impl Finding {
    /// Returns the finding of a check that succeeded.
    #[must_use]
    pub fn ok(check: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            severity: Severity::Ok,
            text: text.into(),
            remedy: None,
        }
    }

    /// Returns a finding that needs a user's attention.
    #[must_use]
    pub fn warning(
        check: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            remedy: Some(remedy.into()),
            ..Self::ok(check, text)
        }
    }

    /// Returns the finding of a check that failed.
    #[must_use]
    pub fn failure(
        check: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Failure,
            remedy: Some(remedy.into()),
            ..Self::ok(check, text)
        }
    }
}
