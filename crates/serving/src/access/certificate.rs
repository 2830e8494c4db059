//! Authentication by client certificate (APP-124).

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate};

use super::bundle::Bundle;
use super::user::User;

/// The user of a certificate chain: the common name, in the groups that its organisations name.
///
/// # Errors
/// Why it proves nothing.
pub(super) fn authenticate(
    bundle: &Bundle,
    chain: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(User, Duration), String> {
    bundle.verify(chain, now)?;
    let subject = Subject::of(chain)?;
    if subject.common_name.is_empty() {
        return Err("its subject has no common name".to_owned());
    }
    let remaining = Duration::from_secs(subject.not_after.saturating_sub(now.as_secs()));
    Ok((User { name: subject.common_name, groups: subject.organisations, ..User::default() }, remaining))
}

/// The subject of the first certificate of a chain, and its expiry.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) common_name: String,
    pub(super) organisations: Vec<String>,
    /// Expiry, in seconds since 1970.
    not_after: u64,
}

impl Subject {
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Result<Self, String> {
        let leaf = chain.first().ok_or("there is no certificate")?;
        let (_, leaf) = X509Certificate::from_der(leaf).map_err(|error| format!("it cannot be read: {error}"))?;
        Ok(Self {
            // Of several the last counts, as everywhere in Kubernetes.
            common_name: texts(leaf.subject().iter_common_name()).pop().unwrap_or_default(),
            organisations: texts(leaf.subject().iter_organization()),
            not_after: u64::try_from(leaf.validity().not_after.timestamp()).unwrap_or_default(),
        })
    }
}

fn texts<'a>(attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Vec<String> {
    attributes.filter_map(|attribute| attribute.as_str().ok()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject;

    /// Two organisations, made by OpenSSL for a hundred years.
    const JANE: &[u8] = include_bytes!("testdata/jane.crt");
    const AUTHORITY: &[u8] = include_bytes!("testdata/authority.crt");

    #[test]
    fn all_organisations_are_groups() {
        let bundle = Bundle::parse(AUTHORITY).unwrap();
        let chain = [CertificateDer::from_pem_slice(JANE).unwrap()];
        let (user, remaining) = authenticate(&bundle, &chain, UnixTime::now()).unwrap();
        assert_eq!((user.name.as_str(), user.groups), ("jane", vec!["system:masters".to_owned(), "ops".to_owned()]));
        assert!(remaining > Duration::from_secs(3600));
        let long_ago = UnixTime::since_unix_epoch(Duration::from_secs(1_000_000_000));
        assert!(authenticate(&bundle, &chain, long_ago).is_err(), "not yet valid then");
        assert!(authenticate(&bundle, &[], UnixTime::now()).is_err());
    }
}
