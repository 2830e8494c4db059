//! The list of providers that a binary offers. Providers are registered explicitly.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::names::PROVIDER_EXTERNAL;
use crate::{CloudProvider, Error, Result, Setup, closest};

/// A provider's configuration file that was read.
///
/// ```
/// use cloud_provider::ConfigFile;
///
/// let file = ConfigFile { path: "/etc/cloud.yaml".into(), text: "token: s3cret".into() };
/// assert_eq!(format!("{file:?}"), r#"ConfigFile("/etc/cloud.yaml", 13 bytes)"#);
/// ```
#[derive(Clone)]
pub struct ConfigFile {
    /// Path of the file, for messages.
    pub path: String,
    /// Contents of the file, which may hold credentials.
    pub text: String,
}

impl fmt::Debug for ConfigFile {
    /// Shows path and size without the text, which may hold credentials (INV-5).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigFile({:?}, {} bytes)", self.path, self.text.len())
    }
}

/// Builds a provider from its setup. Called on every replica before it leads (APP-86), so it must be cheap and change
/// nothing.
///
/// ```
/// use cloud_provider::{CloudProvider, Error, Factory, Setup};
/// use std::sync::Arc;
///
/// struct Acme;
/// impl CloudProvider for Acme { fn name(&self) -> &str { "acme" } }
///
/// let factory: Factory = |setup| match setup.config {
///     Some(_) => Ok(Arc::new(Acme)),
///     None => Err(Error::invalid("acme needs --cloud-config with a key `token`")),
/// };
/// assert!(factory(&Setup::default()).is_err());
/// ```
pub type Factory = fn(&Setup) -> Result<Arc<dyn CloudProvider>>;

/// The providers of a binary, by name.
///
/// ```
/// use cloud_provider::{CloudProvider, Registry, Result, Setup};
/// use std::sync::Arc;
///
/// struct Acme;
/// impl CloudProvider for Acme { fn name(&self) -> &str { "acme" } }
///
/// let mut registry = Registry::new();
/// registry.register("acme", |_setup| Ok(Arc::new(Acme)));
/// assert!(registry.init("acme", None, Setup::default())?.is_some());
/// assert!(registry.init("external", None, Setup::default())?.is_none());
/// let unknown = registry.init("nowhere", None, Setup::default()).err().map(|e| e.to_string());
/// assert_eq!(unknown, Some("unknown cloud provider \"nowhere\"; this binary has: acme".into()));
/// # Ok::<(), cloud_provider::Error>(())
/// ```
#[derive(Default)]
pub struct Registry {
    factories: BTreeMap<&'static str, Factory>,
    left_out: Option<&'static str>,
}

impl Registry {
    /// Returns an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a provider under a name.
    ///
    /// # Panics
    /// Panics if the name is taken: two providers of one name are a mistake in the program (PROV-2).
    pub fn register(&mut self, name: &'static str, factory: Factory) -> &mut Self {
        let before = self.factories.insert(name, factory);
        assert!(
            before.is_none(),
            "cloud provider {name:?} was registered twice"
        );
        self
    }

    /// Says how to build a program with more providers. The text ends the error for a name that is not registered.
    pub fn left_out(&mut self, how_to_build: &'static str) -> &mut Self {
        self.left_out = Some(how_to_build);
        self
    }

    /// Returns `true` if this name is registered (PROV-3).
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.factories.contains_key(name)
    }

    /// Refuses a name that is not registered. The empty name and `external` mean that there is no provider.
    ///
    /// # Errors
    /// *Invalid*, with the names that this binary has.
    pub fn check(&self, name: &str) -> Result<()> {
        if name.is_empty() || name == PROVIDER_EXTERNAL || self.contains(name) {
            return Ok(());
        }
        let known: Vec<_> = self.names().collect();
        let hint = closest(name, &known)
            .map(|meant| format!(" (did you mean {meant:?}?)"))
            .unwrap_or_default();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        let left_out = self
            .left_out
            .map(|text| format!("; {text}"))
            .unwrap_or_default();
        Err(Error::invalid(format!(
            "unknown cloud provider {name:?}{hint}; this binary has: {known}{left_out}"
        )))
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.factories.keys().copied()
    }

    /// Returns the provider of this name (PROV-3); `None` if the name is unknown.
    ///
    /// # Errors
    /// The error of the factory.
    pub fn get(&self, name: &str, setup: &Setup) -> Result<Option<Arc<dyn CloudProvider>>> {
        self.factories
            .get(name)
            .map(|factory| factory(setup))
            .transpose()
    }

    /// Builds the provider of this name from `setup`, with the configuration in the file at `config` (PROV-4, PROV-5).
    /// Returns `None` for an empty name and for `external`.
    ///
    /// # Errors
    /// An unreadable file, an unknown name, or the error of the factory.
    pub fn init(
        &self,
        name: &str,
        config: Option<&Path>,
        setup: Setup,
    ) -> Result<Option<Arc<dyn CloudProvider>>> {
        if name.is_empty() || name == PROVIDER_EXTERNAL {
            return Ok(None);
        }
        self.check(name)?;
        let config = config.map(read_config).transpose()?.or(setup.config);
        self.get(name, &Setup { config, ..setup })
            .map_err(|err| err.context(format!("could not init cloud provider {name:?}")))
    }
}

fn read_config(path: &Path) -> Result<ConfigFile> {
    let text = crate::files::read_to_string(path).map_err(|err| {
        Error::invalid(format!(
            "couldn't open cloud provider configuration {}: {err}",
            path.display()
        ))
    })?;
    Ok(ConfigFile {
        path: path.display().to_string(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Empty;
    impl CloudProvider for Empty {
        fn name(&self) -> &'static str {
            "empty"
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.register("empty", |setup| match &setup.config {
            Some(file) if file.text == "bad" => Err(Error::other("cannot use it")),
            _ => Ok(Arc::new(Empty)),
        });
        registry
    }

    #[test]
    fn unknown_provider_is_none_in_get_and_an_error_in_init() {
        assert!(
            registry()
                .get("other", &Setup::default())
                .unwrap()
                .is_none()
        );
        let err = registry()
            .init("other", None, Setup::default())
            .err()
            .unwrap();
        assert!(
            err.to_string()
                .starts_with("unknown cloud provider \"other\"")
        );
    }

    #[test]
    fn an_unknown_name_is_answered_with_how_to_build_a_program_that_has_more() {
        let mut registry = registry();
        registry.left_out("build it with --features all");
        let error = registry.check("other").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown cloud provider \"other\"; this binary has: empty; build it with --features all"
        );
    }

    #[test]
    fn empty_and_external_names_have_no_provider_and_no_error() {
        assert!(
            registry()
                .init("", None, Setup::default())
                .unwrap()
                .is_none()
        );
        assert!(
            registry()
                .init("external", None, Setup::default())
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_factory_error_names_the_provider() {
        let file = ConfigFile {
            path: "f".into(),
            text: "bad".into(),
        };
        assert_eq!(
            registry()
                .get("empty", &Setup::of(file))
                .err()
                .unwrap()
                .to_string(),
            "cannot use it"
        );
        let err = Error::other("cannot use it").context("could not init cloud provider \"empty\"");
        assert_eq!(
            err.to_string(),
            "could not init cloud provider \"empty\": cannot use it"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let err = registry()
            .init(
                "empty",
                Some(Path::new("/nowhere/cloud.conf")),
                Setup::default(),
            )
            .err()
            .unwrap();
        assert!(err.to_string().contains("/nowhere/cloud.conf"), "{err}");
    }

    #[test]
    #[should_panic(expected = "registered twice")]
    fn the_same_name_twice_is_a_programming_error() {
        registry().register("empty", |_| Ok(Arc::new(Empty)));
    }

    #[test]
    fn a_configuration_shows_no_secret() {
        let file = ConfigFile {
            path: "cloud.conf".into(),
            text: "token=s3cret".into(),
        };
        assert!(!format!("{file:?}").contains("s3cret"));
    }
}
