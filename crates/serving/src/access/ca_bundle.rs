//! Bundle of CA certificates, and verification of client certificates against it.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DistinguishedName, RootCertStore};

/// Authorities that client certificates are checked against.
pub(super) struct CaBundle {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl CaBundle {
    /// Reads the certificates of a PEM file.
    ///
    /// # Errors The text is not PEM, has no certificate, or has an invalid one.
    pub(super) fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("it is no PEM: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("a certificate in it cannot be used: {error}"))?;
        }
        if roots.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::new(default_provider()),
        )
        .build();
        Ok(Self {
            verifier: verifier.map_err(|error| error.to_string())?,
        })
    }

    pub(super) fn subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    /// Verifies that the chain (leaf first) leads to one of the authorities, is valid at `now`, and is for clients.
    ///
    /// # Errors
    /// The reason why the chain is rejected.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), String> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err("there is no certificate".to_owned());
        };
        self.verifier
            .verify_client_cert(leaf, intermediates, now)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("authorities", &self.subjects().len())
            .finish()
    }
}
