//! The connector for the network: reqwest, and the settings of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cloud_provider::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;

use super::access::endpoint;
use super::{BodyLimit, BodyReader, Connector, NoAnswer};

/// Hosts that are reached without a proxy: this machine itself, and the services of its cloud for machines and containers.
/// A proxy would answer with the facts and the credential of its own machine.
const WITHOUT_PROXY: [&str; 14] = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    // Most clouds, and the IPv6 addresses of AWS, Google Cloud and Oracle Cloud.
    "169.254.169.254",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fd00:c1::a9fe:a9fe]",
    "metadata.google.internal",
    // Alibaba Cloud.
    "100.100.100.200",
    // Tencent Cloud.
    "169.254.0.23",
    "metadata.tencentyun.com",
    // Containers of AWS.
    "169.254.170.2",
    "169.254.170.23",
    "[fd00:ec2::23]",
];

/// TLS settings: trusted certificates, and the client certificate. By default, the system's certificates are trusted,
/// and there is no client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the only certificates that are trusted.
    pub roots: Option<PathBuf>,
    /// PEM files of the client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// If set, server certificates are not verified. For tests.
    pub insecure: bool,
}

/// The connector for the network. Several clients that share one also share connections and TLS settings.
pub(super) struct Network {
    tls: Settings,
    /// HTTP clients, built when they are first used, because most programs need only one: with or without `https`, with
    /// or without a proxy.
    clients: Mutex<[Option<reqwest::Client>; 4]>,
}

struct Settings {
    roots: Option<Vec<reqwest::Certificate>>,
    identity: Option<reqwest::Identity>,
    insecure: bool,
}

/// Returns a connector that sends over the network, for several clients. `base` is a URL that will be requested.
///
/// # Errors
/// *Invalid* for files that cannot be read or hold no certificates, and for a base URL that is none; *other* if TLS cannot be
/// set up.
pub fn network(tls: &Tls, base: &str) -> Result<Arc<dyn Connector>> {
    let network = Network::new(tls)?;
    network.prepare(base)?;
    Ok(Arc::new(network))
}

impl Network {
    pub(super) fn new(tls: &Tls) -> Result<Self> {
        let roots = tls.roots.as_ref().map(|path| roots(path)).transpose()?;
        let identity = tls
            .identity
            .as_ref()
            .map(|(certificate, key)| identity(certificate, key))
            .transpose()?;
        let tls = Settings {
            roots,
            identity,
            insecure: tls.insecure,
        };
        Ok(Self {
            tls,
            clients: Mutex::default(),
        })
    }

    /// Checks that the client for `base` can be built.
    pub(super) fn prepare(&self, base: &str) -> Result<()> {
        let (https, host) = endpoint(base)?;
        self.client(https, &host).map(drop)
    }

    /// Returns the client for a host. For `https` the program must have installed a TLS crypto provider; plain `http`
    /// works without one.
    fn client(&self, https: bool, host: &str) -> Result<reqwest::Client> {
        let proxied = may_be_proxied(host);
        let mut clients = self.clients.lock();
        let client = &mut clients[usize::from(https) * 2 + usize::from(proxied)];
        if let Some(client) = client {
            return Ok(client.clone());
        }
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true);
        if !proxied {
            builder = builder.no_proxy();
        }
        if !https {
            builder = builder.tls_backend_preconfigured(unused_tls()?);
        } else if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(Error::other(
                "no TLS crypto provider is installed; the program must install one when it starts",
            ));
        } else {
            builder = self.tls.apply(builder)?;
        }
        let made = builder
            .build()
            .map_err(|err| Error::other(format!("cannot make an HTTP client: {err}")))?;
        Ok(client.insert(made).clone())
    }
}

impl Settings {
    fn apply(&self, mut builder: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder> {
        // Without verification no certificate is needed.
        builder = match &self.roots {
            Some(roots) => builder.tls_certs_only(roots.iter().cloned()),
            None if self.insecure => builder,
            None => builder.tls_certs_only(system_roots()?),
        };
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity.clone());
        }
        Ok(builder.tls_danger_accept_invalid_certs(self.insecure))
    }
}

/// Returns the certificates of the authorities that this system trusts.
fn system_roots() -> Result<Vec<reqwest::Certificate>> {
    let roots = trusted_roots::load().map_err(|error| Error::invalid(error.to_string()))?;
    let made = roots
        .iter()
        .map(|root| reqwest::Certificate::from_der(root));
    made.collect::<Result<_, _>>()
        .map_err(|err| Error::other(format!("cannot make an HTTP client: {err}")))
}

/// Returns `true` if the proxy of the environment, if there is one, is used for a host.
fn may_be_proxied(host: &str) -> bool {
    !WITHOUT_PROXY
        .iter()
        .any(|direct| direct.eq_ignore_ascii_case(host))
}

fn roots(path: &Path) -> Result<Vec<reqwest::Certificate>> {
    let roots = reqwest::Certificate::from_pem_bundle(&read(path)?).unwrap_or_default();
    if roots.is_empty() {
        return Err(Error::invalid(format!(
            "{} holds no certificate in the form of PEM",
            path.display()
        )));
    }
    Ok(roots)
}

fn identity(certificate: &Path, key: &Path) -> Result<reqwest::Identity> {
    let pem = [read(certificate)?, b"\n".to_vec(), read(key)?].concat();
    // The error's own text could contain the contents of the key file.
    reqwest::Identity::from_pem(&pem).map_err(|_| {
        let certificate = certificate.display();
        let key = key.display();
        Error::invalid(format!(
            "{certificate} and {key} do not hold a certificate and its key in the form of PEM"
        ))
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    cloud_provider::files::read(path)
        .map_err(|err| Error::invalid(format!("cannot read {}: {err}", path.display())))
}

/// Returns a TLS configuration without trusted certificates. It keeps reqwest from requiring a crypto provider, and
/// from loading the system's certificates, where only `http` is used.
fn unused_tls() -> Result<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| Error::other(format!("cannot make an HTTP client: {err}")))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

impl Connector for Network {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let uri = request.uri();
        let client = self.client(
            uri.scheme_str() == Some("https"),
            uri.host().unwrap_or_default(),
        );
        async move {
            let client = client.map_err(NoAnswer::not_sent)?;
            let request = reqwest::Request::try_from(request).map_err(no_answer)?;
            let mut answer = client.execute(request).await.map_err(no_answer)?;
            let status = answer.status();
            let headers = answer.headers().clone();
            let mut body = BodyReader::new(limit, status);
            body.expect(answer.content_length().unwrap_or_default());
            while let Some(part) = answer.chunk().await.map_err(no_answer)? {
                if !body.push(&part) {
                    break;
                }
            }
            let mut response = Response::new(body.finish());
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        }
        .boxed()
    }
}

/// Converts an error of reqwest. Its own text is just "error sending request", so the causes are added. The URL is left
/// out, because its query may hold a secret.
fn no_answer(err: reqwest::Error) -> NoAnswer {
    let err = err.without_url();
    let answer = if err.is_connect() {
        NoAnswer::not_sent
    } else {
        NoAnswer::new
    };
    let mut text = err.to_string();
    let mut cause = std::error::Error::source(&err);
    while let Some(err) = cause {
        text = format!("{text}: {err}");
        cause = err.source();
    }
    answer(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_reached_without_a_proxy() {
        let urls = [
            ("http://100.100.100.200/latest/meta-data/", false),
            ("http://metadata.tencentyun.com/latest/meta-data/", false),
            ("http://metadata.google.internal/computeMetadata/v1/", false),
            ("http://169.254.169.254/opc/v2/", false),
            ("http://[fd00:ec2::254]/latest/meta-data/", false),
            ("http://127.0.0.1:8080/", false),
            ("https://ec2.us-east-1.amazonaws.com/", true),
            ("http://169.254.169.254.example.com/", true),
        ];
        for (url, expected) in urls {
            let uri: http::Uri = url.parse().unwrap();
            assert_eq!(may_be_proxied(uri.host().unwrap()), expected, "{url}");
        }
    }
}
