//! TLS settings: custom roots, a client certificate, or no verification.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it does not find what it expects"
)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provider_kit::transport::{Call, RetryPolicy, Tls, Transport};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("provider-kit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(directory.join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, directory }
    }

    /// Returns the files of a certificate for `name` and its key.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        let file = |suffix: &str| self.directory.join(format!("{name}.{suffix}"));
        std::fs::write(file("crt"), certificate.pem()).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        (file("crt"), file("key"))
    }

    fn roots(&self) -> Option<PathBuf> {
        Some(self.directory.join("ca.pem"))
    }

    /// Starts a server that answers `{}` to clients with a certificate of this authority.
    async fn server(&self) -> SocketAddr {
        use rustls::pki_types::pem::PemObject;
        let (certificate, key) = self.issue("localhost");
        let read = |path: &Path| std::fs::read(path).unwrap();
        let chain = rustls::pki_types::CertificateDer::from_pem_slice(&read(&certificate)).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
            .build()
            .unwrap();
        let config = rustls::ServerConfig::builder().with_client_cert_verifier(verifier);
        let config = config
            .with_single_cert(
                vec![chain],
                PrivateKeyDer::from_pem_slice(&read(&key)).unwrap(),
            )
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                if let Ok(mut tls) = acceptor.accept(connection).await {
                    let mut request = [0; 4096];
                    let _ = tls.read(&mut request).await;
                    let _ = tls
                        .write_all(
                            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
                        )
                        .await;
                    let _ = tls.shutdown().await;
                }
            }
        });
        address
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test]
async fn only_configured_roots_are_trusted_and_our_certificate_is_sent() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    let ours = Authority::new("ours");
    let other = Authority::new("other");
    let identity = ours.issue("ccm");
    let stranger = other.issue("ccm");
    let base = format!("https://localhost:{}", ours.server().await.port());
    let answers = async |tls: Tls| {
        let retry_policy = RetryPolicy {
            max_attempts: 1,
            ..RetryPolicy::default()
        };
        let client = Transport::builder(base.clone())
            .tls(tls)
            .retry_policy(retry_policy)
            .build()
            .unwrap();
        client
            .send(Call::get("/", &[]))
            .await
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let roots = ours.roots();
    let identity = Some(identity);
    assert_eq!(
        answers(Tls {
            roots: roots.clone(),
            identity: identity.clone(),
            insecure: false
        })
        .await,
        Ok(())
    );
    assert_eq!(
        answers(Tls {
            identity: identity.clone(),
            insecure: true,
            ..Tls::default()
        })
        .await,
        Ok(())
    );
    let untrusted = [other.roots(), None].map(|roots| Tls {
        roots,
        identity: identity.clone(),
        insecure: false,
    });
    for tls in untrusted {
        let error = answers(tls).await.unwrap_err();
        assert!(error.contains("certificate"), "{error}");
    }
    for identity in [None, Some(stranger)] {
        answers(Tls {
            roots: roots.clone(),
            identity,
            insecure: false,
        })
        .await
        .unwrap_err();
    }
}
