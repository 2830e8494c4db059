//! A certificate with its key.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::error::ServingError;
use crate::options::CertificateFiles;

/// A pair as it was read; equal bytes are the same pair.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PemPair {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl PemPair {
    pub(super) fn read(files: &CertificateFiles) -> Result<Self, ServingError> {
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
        })
    }

    /// Returns the first certificate, whether there is a key for it or not.
    pub(super) fn leaf(&self) -> Option<Leaf> {
        Leaf::read(&CertificateDer::from_pem_slice(&self.certificate).ok()?)
    }

    /// Checks that both can be used and belong together.
    pub(super) fn parse(
        &self,
        files: &CertificateFiles,
        provider: &CryptoProvider,
    ) -> Result<Arc<CertifiedKey>, ServingError> {
        let unusable = |path: &Path, problem: String| ServingError::Unusable {
            path: path.to_owned(),
            problem,
        };
        let certificate = |problem| unusable(&files.certificate, problem);
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| certificate(format!("it is no PEM: {error}")))?;
        if chain.is_empty() {
            return Err(certificate("there is no certificate in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            unusable(
                &files.key,
                format!("there is no private key in it: {error}"),
            )
        })?;
        let pair = CertifiedKey::from_der(chain, key, provider);
        let names = format!("with the key {}", files.key.display());
        pair.map(Arc::new)
            .map_err(|error| certificate(format!("it cannot be used {names}: {error}")))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ServingError> {
    cloud_provider::files::read(path).map_err(|problem| ServingError::Read {
        path: path.to_owned(),
        problem,
    })
}

/// Fields of a leaf certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The common names of subject and issuer.
    pub(super) subject: String,
    pub(super) issuer: String,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// DNS names, in lower case.
    pub(super) names: Vec<String>,
}

impl Leaf {
    pub(super) fn of(pair: &CertifiedKey) -> Option<Self> {
        Self::read(pair.cert.first()?)
    }

    fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let common = |name: &x509_parser::x509::X509Name<'_>| {
            let common = name
                .iter_common_name()
                .next()
                .and_then(|attribute| attribute.as_str().ok());
            common.unwrap_or_default().to_owned()
        };
        let mut names: Vec<String> = Vec::new();
        if let Ok(Some(alternatives)) = certificate.subject_alternative_name() {
            names.extend(
                alternatives
                    .value
                    .general_names
                    .iter()
                    .filter_map(|name| match name {
                        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
                        _ => None,
                    }),
            );
        }
        let subject = common(certificate.subject());
        // Old certificates have their name there alone.
        if names.is_empty() && subject.contains('.') && !subject.contains(['@', ' ']) {
            names.push(subject.to_ascii_lowercase());
        }
        let validity = certificate.validity();
        let not_before =
            Timestamp::from_second(validity.not_before.timestamp()).unwrap_or(Timestamp::MIN);
        let not_after =
            Timestamp::from_second(validity.not_after.timestamp()).unwrap_or(Timestamp::MAX);
        Some(Self {
            issuer: common(certificate.issuer()),
            subject,
            not_before,
            not_after,
            names,
        })
    }
}
