//! Self-signed certificate of the server.

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Errors of a self-signed certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate cannot be generated.
    #[error("making a self-signed certificate for {names:?}: {source}")]
    Generate {
        /// The names it was to be for.
        names: Vec<String>,
        /// Error of the certificate library.
        source: rcgen::Error,
    },
    /// The certificate cannot be used.
    #[error("using the self-signed certificate: {0}")]
    Use(#[from] rustls::Error),
}

/// A self-signed certificate with its key. `Debug` shows the names alone.
pub struct Certificate {
    names: Vec<String>,
    chain: rustls::pki_types::CertificateDer<'static>,
    pem: String,
    key: Vec<u8>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Creates a certificate for these host names and addresses (`localhost`, `127.0.0.1`).
    ///
    /// # Errors
    ///
    /// A name is malformed.
    pub fn self_signed(names: &[&str]) -> Result<Self, TlsError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names.clone()).map_err(|source| {
            TlsError::Generate {
                names: names.clone(),
                source,
            }
        })?;
        Ok(Self {
            names,
            chain: made.cert.der().clone(),
            pem: made.cert.pem(),
            key: made.signing_key.serialize_der(),
        })
    }

    /// Returns the certificate in PEM, which is its own authority.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.chain.clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}
