//! Settings from environment variables, with all mistakes reported at once.

use std::fmt;
use std::path::PathBuf;

use cloud_provider::{Environment, Result, closest};
use secrecy::{ExposeSecret, SecretString};

use crate::declared::{Declaration, Declared, Defaults, Reading};
use crate::transport::{Credential, ValueOrFile};

/// The value of a credential that is never used, where the cloud is never called.
pub(crate) const OFFLINE: &str = "offline";

/// The declaration of a variable.
pub type Variable<T> = Declaration<T>;

/// A reader of environment variables: get each one, then call [`finish`](Self::finish). An empty variable counts as
/// unset.
///
/// ```
/// use cloud_provider::Environment;
/// use provider_kit::declared::Kind;
/// use provider_kit::variables::Variables;
///
/// provider_kit::declare! {
///     /// Every variable of Acme's.
///     pub ALL: "ACME_";
///
///     /// If set, requests are logged.
///     pub DEBUG: bool = "DEBUG", default("false");
///     /// Port of the metrics endpoint.
///     pub PORT: u16 = "PORT", kind(Kind::number(1, 65535)), default("8080");
/// }
///
/// let environment = Environment::of([("ACME_DEBUG", "yes"), ("ACME_PORT", "x")]);
/// let mut variables = Variables::of(&environment);
/// variables.get(&DEBUG);
/// variables.get(&PORT);
/// assert_eq!(variables.finish().unwrap_err().to_string(),
///     "ACME_DEBUG: \"yes\" is not true or false; ACME_PORT: \"x\" is not a whole number from 1 to 65535");
/// ```
#[derive(Debug)]
pub struct Variables<'a> {
    environment: &'a Environment,
    reading: Reading,
}

/// The current value of a secret, and the file that it was read from, if any. Its `Debug` does not show the value.
#[derive(Clone)]
pub struct Secret {
    /// Value, without surrounding white space.
    pub text: SecretString,
    /// File that `<VAR>_FILE` names.
    pub file: Option<PathBuf>,
}

impl<'a> Variables<'a> {
    /// Returns a reader of this environment.
    #[must_use]
    pub fn of(environment: &'a Environment) -> Self {
        Self {
            environment,
            reading: Reading::default(),
        }
    }

    /// Returns the value, or else the default. `None` if there is neither, or if the value is a mistake.
    pub fn get<T>(&mut self, variable: &Variable<T>) -> Option<T> {
        let environment = self.environment;
        self.reading
            .get(variable, &str::to_owned, |name| set(environment, name))
    }

    /// Returns the values of these variables that are set, as [defaults](Defaults) of annotations. A value that is not
    /// accepted is a mistake.
    pub fn defaults(&mut self, variables: &[&dyn Declared]) -> Defaults {
        let environment = self.environment;
        self.reading.defaults(variables, |key| {
            Some((set(environment, key)?.to_owned(), key.to_owned()))
        })
    }

    /// Returns the value of a variable, or else the contents of the file that `<VAR>_FILE` names. A file that cannot be
    /// read, or that is empty, is a mistake. Where the cloud is [never called](Environment::is_offline), returns a
    /// dummy value.
    pub fn secret(&mut self, variable: &Variable<String>) -> Option<Secret> {
        if self.environment.is_offline() {
            return Some(Secret {
                text: SecretString::from(OFFLINE),
                file: None,
            });
        }
        if let Some(text) = set(self.environment, variable.key)
            .map(str::trim)
            .filter(|text| !text.is_empty())
        {
            return Some(Secret {
                text: SecretString::from(text),
                file: None,
            });
        }
        let name = format!("{}_FILE", variable.key);
        let path = set(self.environment, &name)?;
        match cloud_provider::files::read_to_string(path)
            .as_deref()
            .map(str::trim)
        {
            Ok("") => self.mistake(format!("{name}: {path} is empty")),
            Ok(text) => {
                return Some(Secret {
                    text: SecretString::from(text),
                    file: Some(PathBuf::from(path)),
                });
            }
            Err(err) => self.mistake(format!("{name}: cannot read {path}: {err}")),
        }
        None
    }

    /// Returns the bearer token of a secret; no credential without a secret. A file is read again when it changes.
    pub fn token(&mut self, secret: Option<Secret>) -> Credential {
        match secret {
            None => Credential::none(),
            Some(Secret {
                file: Some(file), ..
            }) => self.usable(Credential::file(file)),
            Some(Secret { text, .. }) => Credential::token(text.expose_secret()),
        }
    }

    /// Returns user and password as a credential; `None` unless both are set. Files are read again when they change.
    pub fn basic(&mut self, user: Option<Secret>, password: Option<Secret>) -> Option<Credential> {
        Some(self.usable(Credential::basic_files(user?.into(), password?.into())))
    }

    fn usable(&mut self, credential: Result<Credential>) -> Credential {
        credential.unwrap_or_else(|err| {
            self.mistake(err.to_string());
            Credential::none()
        })
    }

    /// Returns `true` if the variable, or its file if the variable is a secret, is set to any value.
    #[must_use]
    pub fn is_set<T>(&self, variable: &Variable<T>) -> bool {
        let file = || variable.is_secret.then(|| format!("{}_FILE", variable.key));
        set(self.environment, variable.key)
            .or_else(|| set(self.environment, &file()?))
            .is_some()
    }

    /// Adds a mistake that the caller found; name the variable and the accepted values.
    pub fn mistake(&mut self, text: impl Into<String>) {
        self.reading.mistake(text.into());
    }

    /// Adds a warning about a setting that works, but needs attention.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.reading.warning(text.into());
    }

    /// Warns of variables that begin with `prefix` and are not `declared`, but resemble a declared name: no code reads
    /// them.
    pub fn misspelt(&mut self, prefix: &str, declared: &[&dyn Declared]) {
        let rows = declared.iter().map(|setting| setting.row());
        let known: Vec<String> = rows
            .flat_map(|row| {
                let file = row.is_secret.then(|| format!("{}_FILE", row.key));
                std::iter::once(row.key)
                    .chain(row.aliases.iter().copied())
                    .map(str::to_owned)
                    .chain(file)
            })
            .collect();
        for name in self
            .environment
            .names()
            .filter(|name| name.starts_with(prefix))
        {
            if known.iter().all(|key| key != name)
                && let Some(meant) = closest(name, &known)
            {
                self.reading
                    .warning(format!("{name} is not known: did you mean {meant}?"));
            }
        }
    }

    /// Ends the reading and logs the warnings.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes: each names the variable and the accepted values.
    pub fn finish(self) -> Result<()> {
        for warning in self.reading.warnings() {
            tracing::warn!("{warning}");
        }
        self.reading.finish()
    }

    /// Returns the warnings so far.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.reading.warnings()
    }
}

fn set<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.get(name).filter(|value| !value.is_empty())
}

impl Secret {
    /// Returns the number of characters of the secret.
    #[must_use]
    pub fn length(&self) -> usize {
        self.text.expose_secret().chars().count()
    }
}

impl From<Secret> for ValueOrFile {
    fn from(secret: Secret) -> Self {
        secret.file.map_or(Self::Value(secret.text), Self::File)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            None => f.write_str("Secret(redacted)"),
            Some(file) => write!(f, "Secret(file {}, redacted)", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::{Kind, Value};

    const TOKEN: Variable<String> = Variable::new("ACME_TOKEN", Value::KIND, "The token.").secret();
    const DEBUG: Variable<bool> =
        Variable::new("ACME_DEBUG", Value::KIND, "More in the log.").default("false");
    const SECRET_NUMBER: Variable<u8> =
        Variable::new("ACME_PIN", Kind::number(0, 9), "A number.").secret();

    fn mistakes(variables: &[(&str, &str)], ask: impl Fn(&mut Variables<'_>)) -> String {
        let environment = Environment::of(variables.iter().copied());
        let mut variables = Variables::of(&environment);
        ask(&mut variables);
        variables
            .finish()
            .map_or_else(|err| err.to_string(), |()| "none".to_owned())
    }

    #[test]
    fn secret_comes_trimmed_from_its_variable_or_else_its_file() {
        let path = std::env::temp_dir().join(format!("provider-kit-secret-{}", std::process::id()));
        std::fs::write(&path, " filed\n").unwrap();
        let path = path.to_str().unwrap();
        let table = [
            (vec![], None),
            (vec![("ACME_TOKEN", "direct\n")], Some(("direct", false))),
            (vec![("ACME_TOKEN_FILE", path)], Some(("filed", true))),
            (
                vec![("ACME_TOKEN", ""), ("ACME_TOKEN_FILE", path)],
                Some(("filed", true)),
            ),
            (
                vec![("ACME_TOKEN", "direct"), ("ACME_TOKEN_FILE", "/nowhere")],
                Some(("direct", false)),
            ),
        ];
        for (variables, expected) in table {
            let environment = Environment::of(variables.clone());
            let mut variables = Variables::of(&environment);
            let secret = variables.secret(&TOKEN);
            let shown = secret
                .as_ref()
                .map(|secret| (secret.text.expose_secret(), secret.file.is_some()));
            assert_eq!(shown, expected, "{variables:?}");
            variables.finish().unwrap();
        }
    }

    #[test]
    fn offline_secrets_are_not_read() {
        let environment =
            Environment::of([("ACME_TOKEN_FILE", "/nowhere"), ("ACME_DEBUG", "yes")]).offline();
        let mut variables = Variables::of(&environment);
        assert_eq!(
            variables.secret(&TOKEN).unwrap().text.expose_secret(),
            OFFLINE
        );
        variables.get(&DEBUG);
        assert_eq!(
            variables.finish().unwrap_err().to_string(),
            "ACME_DEBUG: \"yes\" is not true or false"
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_names_the_variable() {
        let ask = |variables: &mut Variables<'_>| assert!(variables.secret(&TOKEN).is_none());
        let text = mistakes(&[("ACME_TOKEN_FILE", "/nowhere")], ask);
        assert!(
            text.starts_with("ACME_TOKEN_FILE: cannot read /nowhere: "),
            "{text}"
        );
    }

    #[test]
    fn value_of_a_secret_appears_in_no_message() {
        let ask = |variables: &mut Variables<'_>| assert_eq!(variables.get(&SECRET_NUMBER), None);
        assert_eq!(
            mistakes(&[("ACME_PIN", "s3cret")], ask),
            "ACME_PIN: its value is not a whole number from 0 to 9"
        );
        let environment = Environment::of([("ACME_TOKEN", "s3cret")]);
        let secret = Variables::of(&environment).secret(&TOKEN);
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn empty_variable_is_unset_and_a_misspelt_one_is_warned_of() {
        let environment = Environment::of([
            ("ACME_DEBUG", ""),
            ("ACME_DEBUGS", "1"),
            ("ACME_TOKEN_FILE", ""),
            ("ACME_SERVICE_HOST", "x"),
        ]);
        let mut variables = Variables::of(&environment);
        assert_eq!(
            (variables.get(&DEBUG), variables.is_set(&DEBUG)),
            (Some(false), false)
        );
        variables.misspelt("ACME_", &[&TOKEN, &DEBUG]);
        assert_eq!(
            variables.warnings(),
            ["ACME_DEBUGS is not known: did you mean ACME_DEBUG?"]
        );
        variables.finish().unwrap();
    }
}
