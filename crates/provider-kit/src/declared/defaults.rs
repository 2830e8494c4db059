//! Defaults of annotations that come from variables or from a configuration file.

use std::collections::BTreeMap;

use super::{Declaration, DefaultValue};

/// Values of variables or keys to which annotations [fall back](Declaration::fallback). They are checked where they are
/// read, with all other settings: [`Variables::defaults`](crate::variables::Variables::defaults) and
/// [`gcfg::GitConfigSettings::defaults`](crate::gcfg::GitConfigSettings::defaults).
///
/// ```
/// use cloud_provider::{Environment, Service};
/// use provider_kit::annotations::Annotations;
/// use provider_kit::variables::Variables;
///
/// provider_kit::declare! {
///     /// Every variable of Acme's.
///     pub VARIABLES: "ACME_";
///
///     /// Default of the annotation `tier`.
///     pub TIER_VARIABLE: u16 = "TIER";
/// }
/// provider_kit::declare! {
///     /// Every annotation of Acme's.
///     pub ANNOTATIONS: "acme.example/";
///
///     /// Tier of the load balancer.
///     pub TIER: u16 = "tier", fallback(&TIER_VARIABLE);
/// }
///
/// let environment = Environment::of([("ACME_TIER", "3")]);
/// let defaults = Variables::of(&environment).defaults(VARIABLES);
/// assert_eq!(Annotations::of(&Service::default()).over(&defaults).get(&TIER), Some(3));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults(BTreeMap<&'static str, String>);

impl Defaults {
    /// Returns the value of a variable or key, or else that of its own fallback, or else its default.
    #[must_use]
    pub fn get<T>(&self, declaration: &Declaration<T>) -> Option<T> {
        let text = self
            .0
            .get(declaration.key)
            .and_then(|text| declaration.kind.parse(text));
        text.or_else(|| self.get(declaration.fallback?))
            .or_else(|| match declaration.default {
                DefaultValue::Value(text) => declaration.kind.parse(text),
                DefaultValue::Nothing | DefaultValue::Described(_) => None,
            })
    }

    /// Sets the text of a variable or key; an empty text unsets it.
    #[must_use]
    pub fn set(mut self, key: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            self.0.remove(key)
        } else {
            self.0.insert(key, text)
        };
        self
    }

    /// Adds the texts of other keys, such as those of a class to those of all load balancers.
    #[must_use]
    pub fn with(mut self, others: &Self) -> Self {
        self.0
            .extend(others.0.iter().map(|(key, text)| (*key, text.clone())));
        self
    }
}
