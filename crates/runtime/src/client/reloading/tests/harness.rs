//! Harness: an API server behind TLS that requires certificates, and a directory with a kubeconfig for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::ApiServer;
use http::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio::net::{TcpListener, TcpStream};
use tower::Service as _;

use crate::client::reloading::{KubeconfigSource, ReloadingClient, is_watch};

pub(super) async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .expect(what);
}

pub(super) struct Authority {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Certificate and key, in PEM.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub(super) fn client(&self, name: &str) -> Issued {
        self.issue(name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Issued {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        Issued {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Issued {
    pub(super) fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .unwrap()
            .to_vec()
    }
}

/// A request, by whom: a certificate or the header `Authorization`.
#[derive(Clone, Debug)]
pub(super) struct SeenRequest {
    pub(super) by: Vec<u8>,
    pub(super) is_watch: bool,
    pub(super) path: String,
}

pub(super) struct Server {
    pub(super) api: ApiServer,
    users: String,
    tls: Mutex<Arc<ServerConfig>>,
    requests: Mutex<Vec<SeenRequest>>,
    refused: Mutex<Vec<u8>>,
}

impl Server {
    /// Returns every request since the last [`forget`](Self::forget).
    pub(super) fn requests(&self) -> Vec<SeenRequest> {
        self.requests.lock().clone()
    }

    pub(super) fn forget(&self) {
        self.requests.lock().clear();
    }

    /// Answers 401 to this client from now on.
    pub(super) fn refuse(&self, who: &[u8]) {
        *self.refused.lock() = who.to_vec();
    }

    /// Presents a certificate of this authority to further connections.
    pub(super) fn serve_as(&self, authority: &Authority) {
        *self.tls.lock() = config(authority, &self.users);
    }

    async fn connection(self: Arc<Self>, tcp: TcpStream) {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&self.tls.lock()));
        let Ok(stream) = acceptor.accept(tcp).await else {
            return;
        };
        let certificate = stream
            .get_ref()
            .1
            .peer_certificates()
            .map(|chain| chain[0].to_vec());
        let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
            let token = request
                .headers()
                .get("authorization")
                .map(|value| value.as_bytes().to_vec());
            let by = certificate.clone().or(token).unwrap_or_default();
            let is_refused = !by.is_empty() && *self.refused.lock() == by;
            self.requests.lock().push(SeenRequest {
                by,
                is_watch: is_watch(request.uri()),
                path: request.uri().path().to_owned(),
            });
            let mut api = self.api.service();
            async move {
                if is_refused {
                    return Ok(Response::builder()
                        .status(401)
                        .body(Default::default())
                        .unwrap());
                }
                api.call(request).await
            }
        });
        _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }
}

fn config(authority: &Authority, users: &str) -> Arc<ServerConfig> {
    let issued = authority.issue("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
    let key = PrivatePkcs8KeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(users.as_bytes()).unwrap())
        .unwrap();
    let clients = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .build()
        .unwrap();
    let chain = vec![CertificateDer::from(issued.der())];
    Arc::new(
        ServerConfig::builder()
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key.into())
            .unwrap(),
    )
}

pub(super) struct Harness {
    directory: tempfile::TempDir,
    /// The authority that issues client certificates.
    pub(super) users: Authority,
    pub(super) server: Arc<Server>,
}

impl Harness {
    /// Starts the server; `user` is the kubeconfig's, in which `DIRECTORY` stands for its directory.
    pub(super) async fn new(user: &str) -> Self {
        // Another test may have been first.
        _ = rustls::crypto::ring::default_provider().install_default();
        let servers = Authority::new("servers");
        let users = Authority::new("users");
        let server = Arc::new(Server {
            api: ApiServer::new(),
            users: users.pem.clone(),
            tls: Mutex::new(config(&servers, &users.pem)),
            requests: Mutex::default(),
            refused: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&accepting).connection(tcp));
            }
        });
        let harness = Self {
            directory: tempfile::tempdir().unwrap(),
            users,
            server,
        };
        harness.write_file("ca.crt", &servers.pem);
        let user = user.replace("DIRECTORY", &harness.directory.path().display().to_string());
        let kubeconfig = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://{address}', certificate-authority: ca.crt}}}}]\n\
             users: [{{name: u, user: {user}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             current-context: x\n"
        );
        harness.write_file("kubeconfig", &kubeconfig);
        harness
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn write_file(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    pub(super) fn write(&self, name: &str, issued: &Issued) {
        self.write_file(&format!("{name}.crt"), &issued.certificate);
        self.write_file(&format!("{name}.key"), &issued.key);
    }

    pub(super) fn source(&self) -> KubeconfigSource {
        KubeconfigSource {
            kubeconfig: self.file("kubeconfig"),
            context: None,
            master: None,
            with_credential: true,
            user_agent: "ccm/v1".into(),
        }
    }

    /// Returns a source that only the test reads again, without a watcher.
    pub(super) async fn reloading_client(&self) -> Arc<ReloadingClient> {
        ReloadingClient::new(self.source(), Arc::default(), Arc::default())
            .await
            .unwrap()
    }
}
