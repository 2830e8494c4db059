//! Clients that follow changes of their kubeconfig and of the files that it names (APP-48, P-39).
//!
//! Certificates, tokens and authorities are replaced in their files while a process runs. All of them are read again
//! every ten seconds ([`kubeconfigs`](super::kubeconfigs)). A new configuration is verified with a request to the API
//! server. Then all further requests use it, and watches on the old connections are ended so that they resume on new
//! ones. A configuration that is invalid, or that the server does not accept, is logged once and changes nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use http::header::USER_AGENT;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyStream, StreamBody};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions};
use kube::{Client, Config};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Mutex as TryLock, Notify};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

use super::config::{ClientError, build, host_of};
use super::credential::prepare;
use super::kubeconfig::{named_files, read_kubeconfig};
use super::kubeconfigs::{Hashes, Required};
use super::plugin::PLUGIN_TIMEOUT;
use super::redacted_errors::redact;
use super::request::is_watch;
use crate::api_error::api_error;
use crate::cluster::Finding;
use crate::loops::catch_panic;

/// Time before its expiry at which a plugin's credential is replaced.
const BEFORE_END: SignedDuration = SignedDuration::from_secs(60);
/// Timeout of the request that verifies a new configuration.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// A kubeconfig and the options that override parts of it.
#[derive(Clone, PartialEq)]
pub(super) struct KubeconfigSource {
    pub(super) kubeconfig: PathBuf,
    /// Context to use instead of the current one.
    pub(super) context: Option<String>,
    /// Server to use instead of the kubeconfig's.
    pub(super) master: Option<Uri>,
    /// If set, the kubeconfig's user is applied; otherwise only the server and its certificate authority are.
    pub(super) with_credential: bool,
    /// User agent of the requests that verify a new configuration.
    pub(super) user_agent: String,
}

/// Result of a check of the files, to be logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReloadResult {
    Reloaded,
    Unusable(String),
    /// The files are unusable for the reason that was logged before.
    StillUnusable,
}

/// The body of an answer, which may end early.
trait AnswerBody:
    http_body::Body<Data = <Body as http_body::Body>::Data, Error = kube::Error> + Send + 'static
{
}

impl<B> AnswerBody for B where
    B: http_body::Body<Data = <Body as http_body::Body>::Data, Error = kube::Error>
        + Send
        + 'static
{
}

/// Client configuration of a kubeconfig that is reloaded when its files change.
pub(super) struct ReloadingClient {
    pub(super) source: KubeconfigSource,
    current: Mutex<Arc<LoadedConfig>>,
    /// If set, the server has refused the plugin's credential since the last check.
    is_refused: AtomicBool,
    /// Notified when the server refuses a credential that was read from a file.
    refusal: Arc<Notify>,
    /// Cluster that the kubeconfig must lead to.
    required: Arc<Required>,
    /// Reason for which the files' content is not in use, as last logged.
    failure: Mutex<Option<String>>,
    /// Lock held while a new configuration is verified.
    verifying: TryLock<()>,
}

/// Reason to read the files or run the plugin again.
#[derive(Clone, Copy)]
pub(super) enum ReloadCause {
    /// A file has changed.
    Changed,
    /// The server refused the plugin's credential.
    Refused,
    /// The plugin's credential expires soon.
    Ends,
}

/// Client for one state of the files.
struct LoadedConfig {
    client: Client,
    host: String,
    /// The files and a hash of each.
    files: Vec<(PathBuf, u64)>,
    /// If set, a plugin provides the credential and may provide a new one.
    has_plugin: bool,
    /// Expiry of the plugin's credential.
    valid_until: Option<Timestamp>,
    /// Cancelled when a newer generation is in use, which ends watches of this one.
    superseded: CancellationToken,
}

impl ReloadingClient {
    pub(super) async fn new(
        source: KubeconfigSource,
        refusal: Arc<Notify>,
        required: Arc<Required>,
    ) -> Result<Arc<Self>, ClientError> {
        let first = Arc::new(source.open().await?);
        Ok(Arc::new(Self {
            source,
            current: Mutex::new(first),
            is_refused: AtomicBool::new(false),
            refusal,
            required,
            failure: Mutex::default(),
            verifying: TryLock::default(),
        }))
    }

    fn current(&self) -> Arc<LoadedConfig> {
        Arc::clone(&lock(&self.current))
    }

    /// Returns a client that uses the configuration which is current at each request, and the server's name for
    /// metrics.
    pub(super) fn client(self: &Arc<Self>) -> (Client, String) {
        let this = Arc::clone(self);
        let current = self.current();
        let service = service_fn(move |request| Arc::clone(&this).send(request));
        (
            Client::new(service, current.client.default_namespace()),
            current.host.clone(),
        )
    }

    async fn send(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<impl AnswerBody>, BoxError> {
        let config = self.current();
        let superseded = if is_watch(request.uri()) {
            config.superseded.clone()
        } else {
            CancellationToken::new()
        };
        let answer = config.client.send(request).await?;
        // Without a credential of this kubeconfig, the refused credential belongs to the layer above.
        if answer.status() == StatusCode::UNAUTHORIZED && self.source.with_credential {
            match config.has_plugin {
                true => self.is_refused.store(true, Ordering::Relaxed),
                false => self.refusal.notify_one(),
            }
        }
        Ok(answer.map(|body| {
            StreamBody::new(BodyStream::new(body).take_until(superseded.cancelled_owned()))
        }))
    }

    /// Returns `true` if the content of the files cannot be used.
    pub(super) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    /// Returns the reason to read the configuration again, if any, with `hashes` of the files as they are now.
    pub(super) fn cause(&self, hashes: &mut Hashes) -> Option<ReloadCause> {
        let current = self.current();
        if current
            .files
            .iter()
            .any(|(path, hash)| hashes.of(path) != *hash)
        {
            return Some(ReloadCause::Changed);
        }
        if self.is_refused.swap(false, Ordering::Relaxed) {
            return Some(ReloadCause::Refused);
        }
        current.ends_soon().then_some(ReloadCause::Ends)
    }

    /// [Reloads](Self::reload) the configuration if there is a cause, and returns the result to log. Returns nothing if
    /// another call is in progress.
    pub(super) async fn reload_if_changed(
        &self,
        cause: Option<ReloadCause>,
    ) -> Option<ReloadResult> {
        let Ok(_verifying) = self.verifying.try_lock() else {
            return None;
        };
        let reloaded = match cause {
            Some(cause) => catch_panic("kubeconfig", self.reload(cause))
                .await
                .unwrap_or_else(|panicked| Err(panicked.to_string())),
            None => Ok(false),
        };
        let before = std::mem::replace(&mut *lock(&self.failure), reloaded.as_ref().err().cloned());
        match reloaded {
            Ok(is_new) => is_new.then_some(ReloadResult::Reloaded),
            Err(problem) if before.as_ref() == Some(&problem) => Some(ReloadResult::StillUnusable),
            Err(problem) => Some(ReloadResult::Unusable(problem)),
        }
    }

    /// Reads the files, and switches to the new configuration if the server accepts it. Returns `false` if nothing
    /// changed.
    async fn reload(&self, cause: ReloadCause) -> Result<bool, String> {
        let current = self.current();
        let next = self
            .source
            .open()
            .await
            .map_err(|error| error.to_string())?;
        // A plugin may return the same credential until it expires.
        if matches!(cause, ReloadCause::Ends) && next.valid_until == current.valid_until {
            return Ok(false);
        }
        self.source.verify(&next.client).await?;
        self.require_cluster(&next).await?;
        *lock(&self.current) = Arc::new(next);
        current.superseded.cancel();
        Ok(true)
    }
}

impl ReloadingClient {
    /// Fails unless the new configuration leads to the required cluster (INV-9).
    async fn require_cluster(&self, next: &LoadedConfig) -> Result<(), String> {
        let KubeconfigSource {
            kubeconfig,
            context,
            ..
        } = &self.source;
        let Some(identity) = self.required.of(kubeconfig, context.as_deref()) else {
            return Ok(());
        };
        let origin = format!("the kubeconfig {}", kubeconfig.display());
        let finding = if self.source.with_credential {
            identity.check(&next.client, &origin).await
        } else {
            // Reading the namespace needs a credential.
            let known = KubeconfigSource {
                with_credential: true,
                ..self.source.clone()
            };
            let known = known.open().await.map_err(|error| error.to_string())?;
            identity.check(&known.client, &origin).await
        };
        match finding {
            Finding::Same | Finding::Unknown => Ok(()),
            Finding::Other(other) => Err(other.to_string()),
            Finding::Unanswered(problem) => Err(problem),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl LoadedConfig {
    fn ends_soon(&self) -> bool {
        self.valid_until
            .is_some_and(|end| end <= Timestamp::now() + BEFORE_END)
    }
}

impl KubeconfigSource {
    /// Creates a client for the files' current content. No request is sent.
    async fn open(&self) -> Result<LoadedConfig, ClientError> {
        let unusable = |problem: String| ClientError::Kubeconfig {
            path: self.kubeconfig.clone(),
            problem,
        };
        // The hashes are computed first, so that a later write counts as a change even if it is read below.
        let mut files = vec![hashed(self.kubeconfig.clone())];
        let file =
            read_kubeconfig(&self.kubeconfig).map_err(|problem| unusable(problem.to_string()))?;
        files.extend(named_files(&file, self.context.as_deref(), self.with_credential).map(hashed));
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: None,
            user: None,
        };
        let config = Config::from_custom_kubeconfig(file, &options).await;
        let mut config = config.map_err(|problem| unusable(problem.to_string()))?;
        if let Some(master) = &self.master {
            config.cluster_url = master.clone();
        }
        if self.with_credential {
            read_token(&mut config.auth_info).map_err(unusable)?;
        } else {
            config.auth_info = AuthInfo::default();
        }
        let host = host_of(&config.cluster_url);
        let has_plugin = config.auth_info.exec.is_some();
        let origin = format!("the kubeconfig {}", self.kubeconfig.display());
        let valid_until = prepare(&mut config.auth_info).await.map_err(unusable)?;
        let client = match config.auth_info.auth_provider.is_some() {
            true => build_with_provider(config, origin)
                .await
                .map_err(unusable)?,
            false => build(config, &origin),
        }?;
        Ok(LoadedConfig {
            client,
            host,
            files,
            has_plugin,
            valid_until,
            superseded: CancellationToken::new(),
        })
    }

    /// Sends a request with the new client, to verify that the server responds and accepts the credential.
    async fn verify(&self, client: &Client) -> Result<(), String> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = Uri::from_static("/version");
        if let Ok(user_agent) = self.user_agent.parse() {
            request.headers_mut().insert(USER_AGENT, user_agent);
        }
        let answer = timeout(VERIFY_TIMEOUT, client.send(request)).await;
        let answer = answer.map_err(|_| {
            format!(
                "the API server does not answer within {} s",
                VERIFY_TIMEOUT.as_secs()
            )
        })?;
        match answer
            .map_err(|error| api_error(&redact(error)).to_string())?
            .status()
        {
            StatusCode::UNAUTHORIZED if self.with_credential => {
                Err("the API server does not accept the credential".to_owned())
            }
            status if status.is_server_error() => Err(format!("the API server answers {status}")),
            _ => Ok(()),
        }
    }
}

/// Calls [`build`] on a blocking thread with a time-out, because a legacy `auth-provider` may run a program for its
/// token.
async fn build_with_provider(
    config: Config,
    origin: String,
) -> Result<Result<Client, ClientError>, String> {
    let building = timeout(
        PLUGIN_TIMEOUT,
        tokio::task::spawn_blocking(move || build(config, &origin)),
    )
    .await;
    let late = |_| {
        format!(
            "the program of its auth-provider gave no answer within {} s",
            PLUGIN_TIMEOUT.as_secs()
        )
    };
    building.map_err(late)?.map_err(|error| error.to_string())
}

/// Replaces the token by that in the token file, without surrounding white space, as kubectl does.
fn read_token(user: &mut AuthInfo) -> Result<(), String> {
    let Some(path) = user.token_file.take().filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let text = cloud_provider::files::read_to_string(&path)
        .map_err(|error| format!("failed to read the token file {path}: {error}"))?;
    match text.trim() {
        "" => Err(format!("the token file {path} is empty")),
        token => {
            user.token = Some(token.to_owned().into());
            Ok(())
        }
    }
}

fn hashed(path: PathBuf) -> (PathBuf, u64) {
    let hash = hash_of(&path);
    (path, hash)
}

/// Returns a hash of a file's content, or of the fact that it cannot be read. The files are small and local, and are
/// read on the calling thread: separate threads would cost more.
pub(super) fn hash_of(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    cloud_provider::files::read(path).ok().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
