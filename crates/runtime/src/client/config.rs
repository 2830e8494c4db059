//! Client configuration: the address of the API server and the credential.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Fence;
use http::Uri;
use kube::client::ClientBuilder;
use kube::config::AuthInfo;
use kube::{Client, Config};

use super::address::{self, shown_url};
use super::agent::UserAgent;
use super::api_servers::ApiServers;
use super::credential;
use super::kubeconfigs::Kubeconfigs;
use super::layer::{Limits, wrap};
use super::redacted_errors::redact;
use super::reloading::KubeconfigSource;
use super::request::RequestMetrics;
use super::token_file;
use super::unanswered::naming_urls;
use crate::cluster::ClusterIdentity;

/// Environment variable with the API server's URL, used if neither `--master` nor `--kubeconfig` is set.
const MASTER_VARIABLE: &str = "KUBERNETES_MASTER";

/// Default of [`ClientOptions::burst`], in requests. Go clients have the same.
pub const DEFAULT_BURST: u32 = 30;

/// Address, credential and limits of an API client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Path of the kubeconfig; `None` for the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig watcher. Clients of one process share one watcher.
    pub kubeconfigs: Kubeconfigs,
    /// Context of the kubeconfig; `None` for its current context.
    pub context: Option<String>,
    /// URL of the API server, which overrides that of the kubeconfig; `None` to use the kubeconfig's.
    pub master: Option<String>,
    /// Candidates for the API server of the Pod's service account, and the choice between them. Clients of one process
    /// share one choice.
    pub api_servers: ApiServers,
    /// Program, version and commit, for the `User-Agent`.
    pub user_agent: UserAgent,
    /// Requests per second, shared by all users of one client; `None` or at most zero: no limit (D-10).
    pub qps: Option<f32>,
    /// Burst: number of requests above `qps` that may be sent at once. No effect without `qps`.
    pub burst: u32,
    /// Timeout of a request, from sending it to the end of the response; for a watch, to its first byte. `None` for no
    /// timeout.
    pub request_timeout: Option<Duration>,
    /// If set, no request is retried, whatever the server answers.
    pub single_attempt: bool,
    /// The fence that permits requests which change objects (INV-4): a leader's
    /// [`fence`](crate::election::Leadership::fence), checked immediately before each attempt. The objects that a
    /// standby may write (the Lease and its events, TokenReviews and SubjectAccessReviews) go through a client without
    /// a fence.
    ///
    /// [`Leadership::fence`]: crate::election::Leadership::fence
    pub fence: Fence,
}

impl Default for ClientOptions {
    /// Returns the options for the Pod's identity, without a limit, with 60 s for a request, retries, and no fence.
    fn default() -> Self {
        Self {
            kubeconfig: None,
            kubeconfigs: Kubeconfigs::default(),
            context: None,
            master: None,
            api_servers: ApiServers::default(),
            user_agent: UserAgent::default(),
            qps: None,
            burst: DEFAULT_BURST,
            request_timeout: Some(Duration::from_secs(60)),
            single_attempt: false,
            fence: Fence::open(),
        }
    }
}

impl ClientOptions {
    /// Requires that changes in the kubeconfig of these options still lead to this cluster. A configuration for another
    /// cluster is never used; `identity` records the mismatch.
    pub fn require_cluster(&self, identity: &ClusterIdentity) {
        if let Some(kubeconfig) = &self.kubeconfig {
            self.kubeconfigs
                .require_cluster(kubeconfig, self.context.as_deref(), identity);
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            rate: self.qps.map(|qps| (qps, self.burst)),
            request_timeout: self.request_timeout,
            single_attempt: self.single_attempt,
            fence: self.fence.clone(),
        }
    }
}

/// Reasons for which no client can be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be read or used.
    #[error("cannot use the kubeconfig {}: {problem}; check the path, and that this user may read it", path.display())]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// The error, without any content of the file (INV-5).
        problem: String,
    },
    /// `--master` is no URL.
    #[error("the API server's address {url:?} is no URL: {source}; write it as https://HOST:PORT")]
    Master {
        /// The URL of `--master`, without user and password.
        url: String,
        /// Error of the URL parser.
        #[source]
        source: http::uri::InvalidUri,
    },
    /// No configuration exists: no kubeconfig, no `--master` and no in-cluster configuration. The message begins with
    /// client-go's sentence, which operators know.
    #[error(
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable \
         (--kubeconfig and --master are not set, and this is not a Pod with a service account: {source}; outside of a Pod set \
         --kubeconfig; a Pod needs automountServiceAccountToken: true for the files in \
         /var/run/secrets/kubernetes.io/serviceaccount)"
    )]
    Nothing {
        /// The reason for which the in-cluster configuration cannot be used.
        #[source]
        source: Box<kube::config::InClusterError>,
    },
    /// The configuration was found, but no client can be created from it (certificates, keys, exec plugins).
    #[error("cannot make a client for the API server {server} from {origin}: {text}")]
    Unusable {
        /// URL of the server.
        server: String,
        /// Source of the configuration: a kubeconfig, flags or the Pod's service account.
        origin: String,
        /// Message of the error.
        text: String,
    },
}

/// Creates a client for the API server that `options` lead to: a kubeconfig, the Pod's identity, or a bare URL (APP-5).
///
/// `identity` names the component that sends the requests; it is the suffix of the `User-Agent`. No request is sent
/// yet. The process must have a TLS crypto provider (the binary installs one).
///
/// Changes in a kubeconfig, or in a file that it names, are applied within seconds if the server accepts them (APP-48):
/// by all clients of the same [`Kubeconfigs`], which also share connections. A Pod's token and authority are read again
/// each minute. That needs a running tokio runtime. The API server of a Pod is chosen from candidates (APP-175).
///
/// # Errors
/// [`ClientError`] names what was tried and the remedy.
pub async fn connect(
    options: &ClientOptions,
    identity: &str,
    metrics: Arc<dyn RequestMetrics>,
) -> Result<Client, ClientError> {
    let agent = options.user_agent.with_suffix(identity);
    let (below, host) = open(options, true, &metrics).await?;
    Ok(wrap(&below, &host, &agent, &options.limits(), metrics))
}

/// Creates a client like [`connect`], but with another credential: the configuration's own (tokens, certificates,
/// plugins, impersonation) is left out. `credential` receives the bare client and returns one that adds a credential to
/// each request; its waits happen before the fence is checked.
///
/// # Errors
/// Errors of [`connect`].
pub async fn connect_as(
    options: &ClientOptions,
    identity: &str,
    metrics: Arc<dyn RequestMetrics>,
    credential: impl FnOnce(&Client) -> Client,
) -> Result<Client, ClientError> {
    let agent = options.user_agent.with_suffix(identity);
    let (bare, host) = open(options, false, &metrics).await?;
    Ok(wrap(
        &credential(&bare),
        &host,
        &agent,
        &options.limits(),
        metrics,
    ))
}

/// Creates a client without this crate's middleware (retries, limits, fence, metrics), and returns the server's name
/// for metrics.
async fn open(
    options: &ClientOptions,
    with_credential: bool,
    metrics: &Arc<dyn RequestMetrics>,
) -> Result<(Client, String), ClientError> {
    let master = options.master.as_deref().map(parse_master).transpose()?;
    if let Some(kubeconfig) = options.kubeconfig.clone() {
        let context = options.context.clone();
        let user_agent = options.user_agent.with_suffix("");
        let source = KubeconfigSource {
            kubeconfig,
            context,
            master,
            with_credential,
            user_agent,
        };
        return options.kubeconfigs.connect(source, metrics).await;
    }
    let Loaded {
        mut config,
        origin,
        is_pod,
    } = load(master)?;
    if !with_credential {
        config.auth_info = AuthInfo::default();
    }
    let server = shown_url(&config.cluster_url.to_string());
    let token = config.auth_info.token_file.take();
    let (client, host) = match is_pod {
        true => options.api_servers.connect(&config, &origin)?,
        false => {
            let host = host_of(&config.cluster_url);
            (build(config, &origin)?, host)
        }
    };
    // The token is added above the choice of a server, whose clients verify each of them by the cluster's CA.
    let client = match token {
        Some(path) => {
            token_file::over(&client, path.into()).map_err(|text| ClientError::Unusable {
                server,
                origin,
                text,
            })?
        }
        None => client,
    };
    Ok((client, host))
}

/// Creates a client without this crate's middleware.
pub(super) fn build(mut config: Config, origin: &str) -> Result<Client, ClientError> {
    // The middleware of this crate retries instead: it counts the attempts and stops on shutdown.
    config.default_retry = false;
    config.disable_compression = true;
    let server = shown_url(&config.cluster_url.to_string());
    let unusable = |text: String| ClientError::Unusable {
        server: server.clone(),
        origin: origin.to_owned(),
        text,
    };
    check_addresses(&mut config).map_err(unusable)?;
    trust_roots_of_the_system(&mut config).map_err(unusable)?;
    if address::is_open(&config.cluster_url) && credential::is_sent(&config.auth_info) {
        tracing::warn!(
            server,
            origin,
            "the credential for the API server is sent unencrypted, because the URL begins with http://: everybody on the way can \
             read and use it; write https://"
        );
    }
    // The builder panics on some invalid credentials, and a reload must continue.
    let built = catch_unwind(AssertUnwindSafe(|| ClientBuilder::try_from(config)));
    let built = built.map_err(|_| {
        unusable("a defect: making a client panicked, and the log says where".to_owned())
    })?;
    let builder =
        built.map_err(|error| unusable(crate::api_error::api_error(&redact(error)).to_string()))?;
    Ok(naming_urls(builder.build(), &server))
}

/// Checks the URLs of server and proxy. The server's keeps neither user nor password.
fn check_addresses(config: &mut Config) -> Result<(), String> {
    let has_tls = config.root_cert.is_some()
        || config.accept_invalid_certs
        || config.auth_info.client_certificate.is_some()
        || config.auth_info.client_certificate_data.is_some();
    if config
        .cluster_url
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        tracing::warn!(
            "user and password in the API server's URL are not used; give them as `username` and `password` in a kubeconfig"
        );
    }
    config.cluster_url = address::checked(&config.cluster_url, has_tls).map_err(|problem| {
        format!("the server's URL is not accepted: {problem}; write it as https://HOST:PORT")
    })?;
    if let Some(proxy) = &config.proxy_url {
        let checked = address::checked(proxy, false);
        checked.map_err(|problem| {
            format!("the proxy's URL is not accepted: {problem}; write it as http://HOST:PORT")
        })?;
    }
    Ok(())
}

/// Trusts the authorities of this system where the configuration names none. Without TLS, no certificate is loaded.
pub(super) fn trust_roots_of_the_system(config: &mut Config) -> Result<(), String> {
    if config.root_cert.is_some() || config.root_cert_file.is_some() || config.accept_invalid_certs
    {
        return Ok(());
    }
    let roots = match config.cluster_url.scheme_str() {
        Some("http") => Vec::new(),
        _ => trusted_roots::load().map_err(|error| {
            format!("{error}. Or name the authority of the API server with certificate-authority in the kubeconfig")
        })?,
    };
    config.root_cert = Some(roots.into_iter().map(|root| root.to_vec()).collect());
    Ok(())
}

/// A configuration that does not come from a kubeconfig.
struct Loaded {
    config: Config,
    origin: String,
    /// If set, this is the Pod's service account, whose API server is chosen from candidates.
    is_pod: bool,
}

fn load(master: Option<Uri>) -> Result<Loaded, ClientError> {
    let bare = |url, origin: &str| Loaded {
        config: Config::new(url),
        origin: origin.to_owned(),
        is_pod: false,
    };
    if let Some(url) = master {
        return Ok(bare(url, "--master"));
    }
    match (Config::incluster(), env::var(MASTER_VARIABLE)) {
        (Ok(config), _) => Ok(Loaded {
            config,
            origin: "the Pod's service account".into(),
            is_pod: true,
        }),
        (Err(_), Ok(url)) if !url.is_empty() => Ok(bare(parse_master(&url)?, MASTER_VARIABLE)),
        (Err(source), _) => Err(ClientError::Nothing {
            source: Box::new(source),
        }),
    }
}

fn parse_master(url: &str) -> Result<Uri, ClientError> {
    // A bare host is allowed, as everywhere in Kubernetes.
    let full = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    full.parse().map_err(|source| ClientError::Master {
        url: shown_url(url),
        source,
    })
}

/// Returns host and port, for the label `host`.
pub(super) fn host_of(url: &Uri) -> String {
    let host = url.host().unwrap_or_default();
    match (url.port_u16(), url.scheme_str()) {
        (Some(port), _) => format!("{host}:{port}"),
        (None, Some("http")) => format!("{host}:80"),
        (None, _) => format!("{host}:443"),
    }
}
