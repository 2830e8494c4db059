//! What a provider finds out about itself for `doctor`.

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// It works, but somebody should look at it.
    Warning,
    /// It does not work.
    Failure,
}

/// One thing that was looked at: what was found, and what to do.
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
    /// What was looked at: a word or two.
    pub check: String,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, without a secret (INV-5).
    pub text: String,
    /// What to do; none if all is well.
    pub remedy: Option<String>,
}

impl Finding {
    /// All is well.
    #[must_use]
    pub fn ok(check: impl Into<String>, text: impl Into<String>) -> Self {
        Self { check: check.into(), severity: Severity::Ok, text: text.into(), remedy: None }
    }

    /// Somebody should look at it.
    #[must_use]
    pub fn warning(check: impl Into<String>, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, remedy: Some(remedy.into()), ..Self::ok(check, text) }
    }

    /// It does not work.
    #[must_use]
    pub fn failure(check: impl Into<String>, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Failure, remedy: Some(remedy.into()), ..Self::ok(check, text) }
    }
}
