//! `spec.providerID`: `<scheme>://<id>` and back.

use cloud_provider::{Error, Result};

/// The provider ids of one cloud.
///
/// ```
/// use provider_kit::provider_id::ProviderIds;
///
/// const IDS: ProviderIds = ProviderIds { scheme: "acme", form: "<number>", valid: |id| id.parse::<u64>().is_ok() };
/// assert_eq!(IDS.write("17"), "acme://17");
/// assert_eq!(IDS.read("acme://17")?, "17");
/// assert_eq!(IDS.read("acme://x").unwrap_err().to_string(),
///     "provider id \"acme://x\" is not of the form acme://<number>");
/// # Ok::<(), cloud_provider::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProviderIds {
    /// What stands before `://`: by convention the provider's name.
    pub scheme: &'static str,
    /// How an id looks, for messages.
    pub form: &'static str,
    /// Whether a text can be an id. It becomes part of a path, so refuse what cannot be one.
    pub valid: fn(&str) -> bool,
}

impl ProviderIds {
    /// The provider id of a machine.
    #[must_use]
    pub fn write(&self, id: &str) -> String {
        format!("{}://{id}", self.scheme)
    }

    /// The machine's id.
    ///
    /// # Errors
    /// *Invalid*, naming what is accepted, for another scheme and for a malformed id: such a Node is not "gone".
    pub fn read<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        let id = provider_id.strip_prefix(self.scheme).and_then(|rest| rest.strip_prefix("://"));
        id.filter(|id| (self.valid)(id)).ok_or_else(|| {
            Error::invalid(format!("provider id {provider_id:?} is not of the form {}://{}", self.scheme, self.form))
        })
    }
}
