//! Provider IDs (`spec.providerID`) of the form `<scheme>://<id>`.

use std::fmt;

use cloud_provider::{Error, Result};

/// The provider IDs of one cloud.
///
/// ```
/// use provider_kit::provider_id::{ProviderIds, number};
///
/// const IDS: ProviderIds = ProviderIds { scheme: "acme", form: "<number>", valid: |id| number(id).is_some() };
/// assert_eq!(IDS.write("17"), "acme://17");
/// assert_eq!(IDS.read("acme://17")?, "17");
/// assert_eq!(IDS.read("acme://x").unwrap_err().to_string(),
///     "provider id \"acme://x\" is not of the form acme://<number>");
/// # Ok::<(), cloud_provider::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProviderIds {
    /// Scheme before `://`: by convention, the provider's name.
    pub scheme: &'static str,
    /// Form of an ID, for messages.
    pub form: &'static str,
    /// Returns `true` if a text can be an ID. The ID becomes part of a URL path, so refuse texts that are not valid
    /// there.
    pub valid: fn(&str) -> bool,
}

impl ProviderIds {
    /// Returns the provider ID of a machine.
    #[must_use]
    pub fn write(&self, id: &str) -> String {
        format!("{}://{id}", self.scheme)
    }

    /// Returns the machine's ID in a provider ID.
    ///
    /// # Errors
    /// *Invalid*, naming the accepted form, for another scheme and for a malformed ID: the machine of such a Node is
    /// not "gone".
    pub fn read<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        let id = provider_id
            .strip_prefix(self.scheme)
            .and_then(|rest| rest.strip_prefix("://"));
        id.filter(|id| (self.valid)(id)).ok_or_else(|| {
            Error::invalid(format!(
                "provider id {provider_id:?} is not of the form {}://{}",
                self.scheme, self.form
            ))
        })
    }
}

/// Provider IDs of a cloud that has several kinds of machines, or that used other IDs before.
///
/// ```
/// use provider_kit::provider_id::{Forms, IdError, number};
///
/// #[derive(Debug, PartialEq)]
/// enum Machine { Server(u64), Metal(u64) }
///
/// const IDS: Forms<Machine> = Forms {
///     accepted: "acme://<number> and acme-metal://<number>",
///     prefixes: &[
///         ("acme://metal-", |id| number(id).map(Machine::Metal)), // as it was once
///         ("acme://", |id| number(id).map(Machine::Server)),
///         ("acme-metal://", |id| number(id).map(Machine::Metal)),
///     ],
/// };
/// assert_eq!(IDS.read("acme://metal-7"), Ok(Machine::Metal(7)));
/// assert!(matches!(IDS.read("acme://x"), Err(IdError::Malformed { .. })));
/// assert_eq!(IDS.read("other://7").unwrap_err().to_string(),
///     "provider id \"other://7\" has an unknown prefix; known are acme://<number> and acme-metal://<number>");
/// ```
#[derive(Debug)]
pub struct Forms<M: 'static> {
    /// Forms that are written, for messages.
    pub accepted: &'static str,
    /// Prefixes of IDs, each with the parser of the rest; the first prefix that fits decides.
    pub prefixes: &'static [(&'static str, Read<M>)],
}

/// Parser of an ID after its prefix; returns `None` for an invalid ID.
pub type Read<M> = fn(&str) -> Option<M>;

/// The error for a provider ID that names no machine; never a proof that a machine is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The provider ID has another provider's prefix, so the Node is not this provider's.
    UnknownPrefix {
        /// The provider ID of the Node.
        id: String,
        /// Forms that this provider accepts.
        accepted: &'static str,
    },
    /// The provider ID has a prefix of this provider, but no valid ID after it.
    Malformed {
        /// The provider ID of the Node.
        id: String,
        /// Forms that this provider accepts.
        accepted: &'static str,
    },
}

impl<M> Forms<M> {
    /// Returns the machine that a provider ID names.
    ///
    /// # Errors
    /// An [`IdError`] for an ID of another form.
    pub fn read(&self, provider_id: &str) -> Result<M, IdError> {
        let Self { accepted, prefixes } = *self;
        let id = provider_id.to_owned();
        for (prefix, read) in prefixes {
            if let Some(rest) = provider_id.strip_prefix(prefix) {
                return read(rest).ok_or(IdError::Malformed { id, accepted });
            }
        }
        Err(IdError::UnknownPrefix { id, accepted })
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPrefix { id, accepted } => {
                write!(
                    f,
                    "provider id {id:?} has an unknown prefix; known are {accepted}"
                )
            }
            Self::Malformed { id, accepted } => {
                write!(
                    f,
                    "provider id {id:?} has no id after its prefix; accepted are {accepted}"
                )
            }
        }
    }
}

impl std::error::Error for IdError {}

impl From<IdError> for Error {
    fn from(err: IdError) -> Self {
        Self::invalid(err.to_string())
    }
}

/// Parses a number as APIs write it. Another spelling (`007`, `+7`) is refused, because no API knows it.
#[must_use]
pub fn number(digits: &str) -> Option<u64> {
    let is_canonical = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_spelling() {
        assert_eq!(number("9007199254740993"), Some(9_007_199_254_740_993));
        for text in [
            "",
            "0",
            "007",
            "+7",
            "-7",
            "7 ",
            "x",
            "99999999999999999999",
        ] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    #[test]
    fn foreign_scheme_and_malformed_id_are_invalid() {
        const IDS: ProviderIds = ProviderIds {
            scheme: "acme",
            form: "<number>",
            valid: |id| number(id).is_some(),
        };
        for id in ["acme:/1", "acme://", "acme://1/2", "acmes://1", "1"] {
            assert!(IDS.read(id).is_err_and(|err| err.is_invalid()), "{id}");
        }
    }
}
