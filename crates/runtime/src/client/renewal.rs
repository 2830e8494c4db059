//! A client that goes on with what its kubeconfig, and the files that this names, say by now (APP-48, P-39).
//!
//! Certificates, tokens and authorities are replaced in their files while a process runs. All of them are read again every
//! ten seconds. What is new is tried on the API server first; then it is used by every further request, and the watches that
//! still run over the old connections are ended, to be taken up again over new ones. What cannot be used, or is not
//! accepted, is said once and leaves everything as it was.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use http::header::USER_AGENT;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyStream, StreamBody};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions};
use kube::{Client, Config};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

use super::config::{ClientError, build, host_of};
use super::discreet::discreet;
use super::kubeconfig::{named_files, read_kubeconfig};
use super::request::is_watch;
use crate::api_error::api_error;

/// How often the files are read (D-171).
const PERIOD: Duration = Duration::from_secs(10);
/// A certificate that a plugin made is replaced so long before its end.
const BEFORE_END: SignedDuration = SignedDuration::from_secs(60);
/// A server that takes longer has not accepted what is tried on it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A kubeconfig, and what of it counts.
pub(super) struct Source {
    pub(super) kubeconfig: PathBuf,
    /// Another context than its current one.
    pub(super) context: Option<String>,
    /// Another server than its own.
    pub(super) master: Option<Uri>,
    /// Whether its user counts; else only where the server is and how it is known.
    pub(super) with_credential: bool,
    pub(super) user_agent: String,
}

/// A client for the server of `source`, and the server's name for metrics.
pub(super) async fn connect(source: Source) -> Result<(Client, String), ClientError> {
    let renewing = Renewing::new(source).await?;
    tokio::spawn(follow(Arc::downgrade(&renewing)));
    Ok((renewing.client(), renewing.current().host.clone()))
}

/// Looks at the files as long as anybody has the client.
async fn follow(renewing: Weak<Renewing>) {
    let mut trouble = None;
    loop {
        sleep(PERIOD).await;
        let Some(renewing) = renewing.upgrade() else { return };
        let Source { kubeconfig, user_agent, .. } = &renewing.source;
        let (kubeconfig, client) = (kubeconfig.display(), user_agent);
        match renewing.look(&mut trouble).await {
            Some(News::InUse) => {
                tracing::info!(%kubeconfig, client, "what has changed in the kubeconfig, or in a file that it names, is in use");
            }
            Some(News::Unusable(problem)) => tracing::warn!(
                %kubeconfig,
                client,
                problem,
                "what the kubeconfig says by now cannot be used; going on with what it said before"
            ),
            None => {}
        }
    }
}

/// What there is to say after a look at the files.
#[derive(Debug, PartialEq, Eq)]
enum News {
    InUse,
    Unusable(String),
}

/// The body of an answer, which may end early.
trait AnswerBody: http_body::Body<Data = <Body as http_body::Body>::Data, Error = kube::Error> + Send + 'static {}

impl<B> AnswerBody for B where
    B: http_body::Body<Data = <Body as http_body::Body>::Data, Error = kube::Error> + Send + 'static
{
}

struct Renewing {
    source: Source,
    current: Mutex<Arc<Generation>>,
    /// Whether the server has refused the credential since that was last looked at.
    is_refused: AtomicBool,
}

/// What the files said at one time.
struct Generation {
    client: Client,
    host: String,
    /// All files, and a hash of each.
    files: Vec<(PathBuf, u64)>,
    /// Whether a plugin gives the credential, and may give another one.
    has_plugin: bool,
    /// There is a later one: watches end.
    over: CancellationToken,
}

impl Renewing {
    async fn new(source: Source) -> Result<Arc<Self>, ClientError> {
        let first = Arc::new(source.open().await?);
        Ok(Arc::new(Self { source, current: Mutex::new(first), is_refused: AtomicBool::new(false) }))
    }

    fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn client(self: &Arc<Self>) -> Client {
        let this = Arc::clone(self);
        let service = service_fn(move |request| Arc::clone(&this).send(request));
        Client::new(service, self.current().client.default_namespace())
    }

    async fn send(self: Arc<Self>, request: Request<Body>) -> Result<Response<impl AnswerBody>, BoxError> {
        let generation = self.current();
        let over = if is_watch(request.uri()) { generation.over.clone() } else { CancellationToken::new() };
        let answer = generation.client.send(request).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        Ok(answer.map(|body| StreamBody::new(BodyStream::new(body).take_until(over.cancelled_owned()))))
    }

    /// [Renews](Self::renew), and tells what of that is news after the `trouble` that was told last.
    async fn look(&self, trouble: &mut Option<String>) -> Option<News> {
        match self.renew().await {
            Ok(is_new) => {
                *trouble = None;
                is_new.then_some(News::InUse)
            }
            Err(problem) if trouble.as_ref() == Some(&problem) => None,
            Err(problem) => {
                *trouble = Some(problem.clone());
                Some(News::Unusable(problem))
            }
        }
    }

    /// Reads the files, and uses what is new in them if the server accepts it. Whether there was anything.
    async fn renew(&self) -> Result<bool, String> {
        let current = self.current();
        let is_refused = self.is_refused.swap(false, Ordering::Relaxed) && current.has_plugin;
        let is_changed = current.files.iter().any(|(path, hash)| hash_of(path) != *hash);
        if !is_changed && !is_refused && !current.ends_soon() {
            return Ok(false);
        }
        let next = self.source.open().await.map_err(|error| error.to_string())?;
        // A plugin may give the same until its very end.
        if !is_changed && !is_refused && next.client.valid_until() == current.client.valid_until() {
            return Ok(false);
        }
        self.source.try_out(&next.client).await?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        current.over.cancel();
        Ok(true)
    }
}

impl Generation {
    fn ends_soon(&self) -> bool {
        self.client.valid_until().is_some_and(|end| end <= Timestamp::now() + BEFORE_END)
    }
}

impl Source {
    /// A client for what the files say now. Nothing is sent.
    async fn open(&self) -> Result<Generation, ClientError> {
        let unusable = |problem: String| ClientError::Kubeconfig { path: self.kubeconfig.clone(), problem };
        // The hashes come first: what is written after them is news, even if it is read below.
        let mut files = vec![noted(self.kubeconfig.clone())];
        let file = read_kubeconfig(&self.kubeconfig).map_err(|problem| unusable(problem.to_string()))?;
        files.extend(named_files(&file, self.context.as_deref(), self.with_credential).map(noted));
        let options = KubeConfigOptions { context: self.context.clone(), cluster: None, user: None };
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
        let (host, has_plugin) = (host_of(&config.cluster_url), config.auth_info.exec.is_some());
        let origin = format!("the kubeconfig {}", self.kubeconfig.display());
        // A plugin is a program, which takes its time.
        let client = match has_plugin {
            true => {
                tokio::task::spawn_blocking(move || build(config, origin)).await.map_err(|e| unusable(e.to_string()))?
            }
            false => build(config, origin),
        }?;
        Ok(Generation { client, host, files, has_plugin, over: CancellationToken::new() })
    }

    /// Whether the server answers to this client, and knows who it is.
    async fn try_out(&self, client: &Client) -> Result<(), String> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = Uri::from_static("/version");
        if let Ok(user_agent) = self.user_agent.parse() {
            request.headers_mut().insert(USER_AGENT, user_agent);
        }
        let answer = timeout(PATIENCE, client.send(request)).await;
        let answer = answer.map_err(|_| format!("the API server does not answer within {} s", PATIENCE.as_secs()))?;
        match answer.map_err(|error| api_error(&discreet(error)).to_string())?.status() {
            StatusCode::UNAUTHORIZED if self.with_credential => {
                Err("the API server does not accept the credential".to_owned())
            }
            status if status.is_server_error() => Err(format!("the API server answers {status}")),
            _ => Ok(()),
        }
    }
}

/// Puts what is in the token file in the place of the token, as kubectl does; white space around it does not count.
fn read_token(user: &mut AuthInfo) -> Result<(), String> {
    let Some(path) = user.token_file.take().filter(|path| !path.is_empty()) else { return Ok(()) };
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("failed to read the token file {path}: {error}"))?;
    match text.trim() {
        "" => Err(format!("the token file {path} is empty")),
        token => {
            user.token = Some(token.to_owned().into());
            Ok(())
        }
    }
}

fn noted(path: PathBuf) -> (PathBuf, u64) {
    let hash = hash_of(&path);
    (path, hash)
}

/// Hash of a file's content, or of its being unreadable. The files are small and local, and read by whoever asks: threads of their
/// own for it would cost more.
fn hash_of(path: &PathBuf) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read(path).ok().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
