//! Environment variables, passed to providers instead of read from the process, so that tests have their own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The environment variables that a provider may read. Cheap to clone; its `Debug` shows only names, because values may
/// be secrets.
///
/// ```
/// use cloud_provider::Environment;
///
/// let environment = Environment::of([("ACME_TOKEN", "s3cret")]);
/// assert_eq!(environment.get("ACME_TOKEN"), Some("s3cret"));
/// assert_eq!(format!("{environment:?}"), "Environment(ACME_TOKEN)");
/// ```
#[derive(Clone, Default)]
pub struct Environment {
    variables: Arc<BTreeMap<String, String>>,
    is_offline: bool,
}

impl Environment {
    /// Returns an environment of these variables.
    pub fn of<K: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            variables: Arc::new(variables),
            is_offline: false,
        }
    }

    /// Returns the current variables of this process. A variable that is not valid Unicode is left out.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::of(std::env::vars_os().filter_map(text))
    }

    /// Returns the same variables for a program that never calls the cloud, such as `check` in a pipeline.
    ///
    /// ```
    /// use cloud_provider::Environment;
    ///
    /// assert!(Environment::default().offline().is_offline());
    /// ```
    #[must_use]
    pub fn offline(self) -> Self {
        Self {
            is_offline: true,
            ..self
        }
    }

    /// Returns `true` if the cloud is never called: settings that only a call needs may be missing from the
    /// configuration, such as credentials, endpoints and certificates.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.is_offline
    }

    /// Returns the value of a variable; an empty value is `Some("")`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns the names of all variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Environment({})",
            self.names().collect::<Vec<_>>().join(", ")
        )
    }
}
