//! The API server that a Pod's clients use: one choice for the process, made again when a request fails (APP-175).

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{Request, Response, Uri};
use http_body_util::{BodyStream, StreamBody};
use kube::client::Body;
use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::sync::Mutex as ProbeLock;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

use super::answer_size::Data;
use super::candidates::{ApiServerCandidates, Decision, Probe, SERVER_NAME, decide, shown};
use super::config::{ClientError, build, host_of};
use super::redacted_errors::redact;
use super::request::is_watch;
use crate::api_error::api_error;

/// Timeout of a probe. All candidates are probed at the same time, so that a leader has time to renew its Lease.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a connection to a candidate.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The candidates for the API server, and the choice between them. Clones share the choice: all clients of a process
/// use the same server.
#[derive(Clone, Default)]
pub struct ApiServers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    candidates: ApiServerCandidates,
    selector: Mutex<Option<Arc<Selector>>>,
}

/// Outcome of a probe, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// URL of the candidate.
    pub url: String,
    /// Reason for which the candidate is not used.
    pub problem: String,
    /// If set, a server answered there, and its certificate was refused.
    pub is_refused: bool,
}

/// Error of a request for which no candidate could be used.
#[derive(Clone, Debug)]
pub struct NoApiServer {
    /// The candidates in their order, with their errors.
    pub attempts: Vec<Attempt>,
}

impl NoApiServer {
    /// Returns this error if it is the cause of `error`.
    #[must_use]
    pub fn of(error: &kube::Error) -> Option<&Self> {
        let mut next: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<Self>() {
                return Some(found);
            }
            next = match error.downcast_ref::<kube::Error>() {
                Some(kube::Error::Service(inner)) => Some(&**inner),
                _ => error.source(),
            };
        }
        None
    }
}

impl fmt::Display for NoApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts: Vec<_> = self
            .attempts
            .iter()
            .map(|a| format!("{}: {}", a.url, a.problem))
            .collect();
        write!(f, "no API server can be used: {}", attempts.join("; "))
    }
}

impl Error for NoApiServer {}

impl ApiServers {
    /// Returns candidates that are tried after the address in the Pod's environment.
    #[must_use]
    pub fn new(candidates: ApiServerCandidates) -> Self {
        Self(Arc::new(Shared {
            candidates,
            selector: Mutex::default(),
        }))
    }

    /// Returns the URL of the API server that is in use; `None` before the first request, and if there is no choice.
    #[must_use]
    pub fn in_use(&self) -> Option<String> {
        let selector = self.0.selector.lock().clone()?;
        let choice = selector.choice.lock();
        choice
            .last
            .as_ref()
            .map(|last| selector.candidates[last.index].url.clone())
    }

    /// Returns the candidates that could not be used at the last choice.
    #[must_use]
    pub fn failed(&self) -> Vec<Attempt> {
        let selector = self.0.selector.lock().clone();
        selector
            .map(|selector| selector.choice.lock().failed.clone())
            .unwrap_or_default()
    }

    /// Returns a client without a credential for the API server of this Pod, and the server's name for metrics.
    pub(super) fn connect(
        &self,
        config: &Config,
        origin: &str,
    ) -> Result<(Client, String), ClientError> {
        let namespace = config.default_namespace.clone();
        let mut selector = self.0.selector.lock();
        let selector = match &*selector {
            Some(known) => Arc::clone(known),
            None => Arc::clone(selector.insert(Arc::new(self.open(config, origin)?))),
        };
        let host = match selector.candidates.as_slice() {
            [_] => host_of(&config.cluster_url),
            _ => SERVER_NAME.to_owned(),
        };
        let service = service_fn(move |request| Arc::clone(&selector).send(request));
        Ok((Client::new(service, namespace), host))
    }

    /// Creates a client for each candidate. The cluster's CA verifies all of them (APP-176).
    fn open(&self, config: &Config, origin: &str) -> Result<Selector, ClientError> {
        let mut urls: Vec<&Uri> = vec![&config.cluster_url];
        urls.extend(self.0.candidates.urls());
        let mut candidates: Vec<Candidate> = Vec::new();
        for (index, url) in urls.into_iter().enumerate() {
            if candidates.iter().any(|known| known.url == shown(url)) {
                continue;
            }
            let mut config = config.clone();
            config.cluster_url = url.clone();
            config.connect_timeout = Some(CONNECT_TIMEOUT);
            if index > 0 || is_loopback(url) {
                config.tls_server_name = Some(SERVER_NAME.to_owned());
            }
            candidates.push(Candidate {
                url: shown(url),
                client: build(config, origin)?,
            });
        }
        Ok(Selector::new(candidates))
    }
}

impl fmt::Debug for ApiServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiServers")
            .field(&self.0.candidates)
            .finish()
    }
}

/// Returns `true` for a loopback address, which few certificates contain.
fn is_loopback(url: &Uri) -> bool {
    let host = url
        .host()
        .unwrap_or_default()
        .trim_start_matches('[')
        .trim_end_matches(']');
    host.parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_loopback())
}

/// A candidate with a client that has no credential and verifies the server by the cluster's CA.
struct Candidate {
    url: String,
    client: Client,
}

struct Selector {
    candidates: Vec<Candidate>,
    choice: Mutex<Choice>,
    /// Lock held while the candidates are probed.
    probing: ProbeLock<()>,
}

#[derive(Default)]
struct Choice {
    /// Server that requests are sent to; `None` if it must be chosen (again).
    in_use: Option<Arc<InUse>>,
    /// The last server that was chosen.
    last: Option<Arc<InUse>>,
    failed: Vec<Attempt>,
    /// Time at which a choice failed.
    failed_at: Option<Instant>,
}

struct InUse {
    index: usize,
    /// Cancelled when another server is in use, which ends watches of this one.
    superseded: CancellationToken,
}

impl Selector {
    fn new(candidates: Vec<Candidate>) -> Self {
        Self {
            candidates,
            choice: Mutex::default(),
            probing: ProbeLock::default(),
        }
    }

    /// Sends a request to the server in use. A request that is not answered, or that its caller gives up, makes the next
    /// request choose again.
    async fn send(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<
        Response<impl http_body::Body<Data = Data, Error = kube::Error> + Send + 'static>,
        BoxError,
    > {
        let in_use = self.choose().await?;
        let superseded = if is_watch(request.uri()) {
            in_use.superseded.clone()
        } else {
            CancellationToken::new()
        };
        let doubt = Doubt {
            selector: &self,
            in_use: &in_use,
            is_answered: false,
        };
        let answer = self.candidates[in_use.index].client.send(request).await?;
        doubt.answered();
        Ok(answer.map(|body| {
            StreamBody::new(BodyStream::new(body).take_until(superseded.cancelled_owned()))
        }))
    }

    async fn choose(&self) -> Result<Arc<InUse>, NoApiServer> {
        let asked = Instant::now();
        if let Some(in_use) = self.choice.lock().in_use.clone() {
            return Ok(in_use);
        }
        let _probing = self.probing.lock().await;
        {
            // Another request may have chosen meanwhile, or found no server.
            let choice = self.choice.lock();
            if let Some(in_use) = choice.in_use.clone() {
                return Ok(in_use);
            }
            if choice.failed_at.is_some_and(|at| at > asked) {
                return Err(NoApiServer {
                    attempts: choice.failed.clone(),
                });
            }
        }
        let (decision, failed) = self.probe_all().await;
        self.record(decision, failed)
    }

    /// Probes all candidates at the same time, until the probes decide.
    async fn probe_all(&self) -> (Decision, Vec<Attempt>) {
        let mut probes: Vec<Option<Probe>> = vec![None; self.candidates.len()];
        let mut problems: Vec<Option<Attempt>> = vec![None; self.candidates.len()];
        let mut pending: FuturesUnordered<_> = self
            .candidates
            .iter()
            .enumerate()
            .map(async |(index, candidate)| (index, candidate.probe().await))
            .collect();
        while let Some((index, (probe, problem))) = pending.next().await {
            probes[index] = Some(probe);
            problems[index] = problem;
            if decide(&probes) != Decision::Pending {
                break;
            }
        }
        drop(pending);
        (decide(&probes), problems.into_iter().flatten().collect())
    }

    /// Records the decision, and logs it if it is new.
    fn record(&self, decision: Decision, failed: Vec<Attempt>) -> Result<Arc<InUse>, NoApiServer> {
        let mut choice = self.choice.lock();
        let Decision::Use(index) = decision else {
            choice.failed.clone_from(&failed);
            choice.failed_at = Some(Instant::now());
            return Err(NoApiServer { attempts: failed });
        };
        let server = &self.candidates[index].url;
        // A candidate after the chosen one, where nothing listens, is no fault: most clusters have no server there.
        let precedes = |url: &str| {
            self.candidates[..index]
                .iter()
                .any(|candidate| candidate.url == url)
        };
        let failed: Vec<_> = failed
            .into_iter()
            .filter(|attempt| {
                attempt.url != *server && (attempt.is_refused || precedes(&attempt.url))
            })
            .collect();
        let in_use = match &choice.last {
            Some(last) if last.index == index => Arc::clone(last),
            before => {
                if let Some(before) = before {
                    before.superseded.cancel();
                }
                for Attempt {
                    url,
                    problem,
                    is_refused,
                } in &failed
                {
                    match is_refused {
                        true => tracing::warn!(url, problem, "API server candidate refused"),
                        false => tracing::info!(url, problem, "API server candidate not reachable"),
                    }
                }
                tracing::info!(server, "API server chosen, with the Pod's service account");
                Arc::new(InUse {
                    index,
                    superseded: CancellationToken::new(),
                })
            }
        };
        (choice.in_use, choice.last) = (Some(Arc::clone(&in_use)), Some(Arc::clone(&in_use)));
        choice.failed = failed;
        Ok(in_use)
    }
}

/// Guard of a request that makes the next one choose again, unless there is an answer.
struct Doubt<'a> {
    selector: &'a Selector,
    in_use: &'a Arc<InUse>,
    is_answered: bool,
}

impl Doubt<'_> {
    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        let mut choice = self.selector.choice.lock();
        if !self.is_answered
            && choice
                .in_use
                .as_ref()
                .is_some_and(|in_use| Arc::ptr_eq(in_use, self.in_use))
        {
            choice.in_use = None;
        }
    }
}

impl Candidate {
    /// Asks for `/readyz`, without a credential. Whatever a verified server answers, short of an error of its own, shows
    /// that it works.
    async fn probe(&self) -> (Probe, Option<Attempt>) {
        let failed = |problem: String, is_refused| {
            let url = self.url.clone();
            (
                Probe::Failed,
                Some(Attempt {
                    url,
                    problem,
                    is_refused,
                }),
            )
        };
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = Uri::from_static("/readyz");
        match timeout(PROBE_TIMEOUT, self.client.send(request)).await {
            Err(_) => failed(
                format!("no answer within {} s", PROBE_TIMEOUT.as_secs()),
                false,
            ),
            Ok(Err(error)) => {
                let error = redact(error);
                failed(api_error(&error).to_string(), is_refused(&error))
            }
            Ok(Ok(answer)) if answer.status().is_server_error() => {
                let problem = format!("it is not ready: HTTP {}", answer.status().as_u16());
                (
                    Probe::Unhealthy,
                    Some(Attempt {
                        url: self.url.clone(),
                        problem,
                        is_refused: false,
                    }),
                )
            }
            Ok(Ok(_)) => (Probe::Ready, None),
        }
    }
}

/// Returns `true` if a certificate was refused.
fn is_refused(error: &kube::Error) -> bool {
    api_error(error)
        .to_string()
        .contains("invalid peer certificate")
}

#[cfg(test)]
mod tests;
