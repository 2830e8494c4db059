//! HTTP client for cloud APIs: everything that a provider needs around one request.
//!
//! [`Transport::send`] hands a [`Call`] down through layers, each a tower service around the next:
//!
//! | layer | task |
//! |---|---|
//! | retry | retries where that is safe, within the limits of [`RetryPolicy`] |
//! | throttle | lets calls wait for the [`Budget`], by priority, and for the end of a pause that the cloud requests |
//! | authenticate | adds the [`Credential`], where a new one is [validated first](Builder::validate), or the access of a [`Session`] |
//! | guard | refuses changes unless the [`Fence`] is open (INV-4); checked last, before each attempt |
//! | measure | reports each attempt to [`CloudMetrics`] |
//! | exchange | [signs](crate::signing) where the API requires it, sends with a timeout, and converts a refusal into a [`cloud_provider::Error`] that tells what to do |
//!
//! | answer | error | retried |
//! |---|---|---|
//! | 401 | *unauthorized* | once, if the files hold another credential, or the session has another access |
//! | 403 | *unauthorized* | no |
//! | 404 in the API's own form, or in a [common form](Refusal::read) | *not found* | no |
//! | 404 in another form (a proxy's, a gateway's) | *other* | no |
//! | 409, 412, 423 | *conflict* | no |
//! | 400, 422 | *invalid* | no |
//! | 429, 413 with `Retry-After` | *rate limited*, and a pause for the whole client | yes: it was not applied |
//! | 503 with `Retry-After` | an error with the [time to retry after](cloud_provider::Error::retry_after), and that pause for the whole client | if the call is idempotent |
//! | no connection | *unanswered* | yes: it was not sent |
//! | no answer, timeout | *unanswered* | if the call is idempotent |
//! | 5xx, 408 | *other* | if the call is idempotent; not before `Retry-After` |
//! | any with a body that is too long | by its status; *other* for a success | no |
//! | any whose code means that it was [not applied](Builder::retry_refusals) | by its status | yes |
//! | any whose code has its own [meaning](Transport::error_mapping) | that meaning | by its status |
//!
//! At most 16 MiB of a list are read ([`Call::list`]), 1 MiB of any other answer, and 64 KiB of a refusal; at most 1
//! KiB of a refusal's message is shown. A pause lasts five minutes at most, even if the cloud requests more: then one
//! request finds out if the cloud answers.
//!
//! At the bottom, a [`Connector`] carries the request: over the network, or to an axum router in the same
//! process.

mod access;
mod attempt;
mod authenticate;
mod budget;
mod call;
mod connector;
mod credential;
mod dump;
mod exchange;
mod failure;
mod format;
mod guard;
mod inside;
mod limit;
mod measure;
mod metadata_service;
mod metrics_fan_out;
mod network;
mod priority;
mod redact;
mod retry;
mod retry_policy;
mod throttle;
mod xml;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use access::endpoint;
use attempt::{Attempt, Stack};
use authenticate::Identity;
use budget::Allowance;
use bytes::Bytes;
use cloud_provider::{CloudMetrics, Error, Fence, NoCloudMetrics, Result, Setup};
use connector::InProcess;
use exchange::Exchange;
use failure::RefusalRules;
pub use http::Method;
use http::{HeaderValue, Request, Response};
use network::Network;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::paging::Paging;
use crate::signing::Signer;

pub use access::{Access, Session, has_valid_port};
pub use budget::{Budget, Refill};
pub use call::{Answer, Call};
pub use connector::{Connector, NoAnswer, ReplaceableConnector, in_process};
pub use credential::{Credential, ValueOrFile};
pub use failure::{ErrorMapping, RateLimitReader, RateLimitReport, Refusal, RefusalReader};
pub use format::{Format, Json, Xml};
pub use limit::{BodyLimit, BodyReader, MOST_OF_A_LIST, MOST_OF_A_REFUSAL, MOST_OF_AN_OBJECT};
pub use network::{Tls, network};
pub use priority::Priority;
pub use retry_policy::{Jitter, RetryPolicy};

/// A client for one cloud API with one credential. Cheap to clone; clones share the budget and the pause.
#[derive(Clone)]
pub struct Transport(Arc<Inner>, ErrorMapping, Paging);

struct Inner {
    base: String,
    credential: Credential,
    metrics: Arc<dyn CloudMetrics>,
    retry_policy: RetryPolicy,
    signer: Option<Arc<dyn Signer>>,
    stack: Box<dyn Stack>,
}

/// The name of this program in `User-Agent`.
const AGENT: &str = concat!("ccm-rs/", env!("CARGO_PKG_VERSION"));

/// A builder of a [`Transport`].
pub struct Builder {
    base: String,
    credential: Credential,
    session: Option<Arc<dyn Session>>,
    signer: Option<Arc<dyn Signer>>,
    tls: Tls,
    user_agent: Vec<String>,
    connector: Option<Box<dyn Connector>>,
    metrics: Arc<dyn CloudMetrics>,
    fence: Fence,
    retry_policy: RetryPolicy,
    call_timeout: Option<Duration>,
    budget: Budget,
    reports_lower_stated_limits: bool,
    paging: Paging,
    refusal_rules: RefusalRules,
    validate: Option<Call>,
    log_bodies: bool,
}

impl Builder {
    /// Sends this credential with each request.
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }

    /// Signs each request before it is sent, instead of sending a credential along; also before each retry.
    #[must_use]
    pub fn signer(mut self, signer: Arc<dyn Signer>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Sets the TLS settings.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Adds a product name before the program's own name in `User-Agent`, such as `my-cluster`; several are kept in
    /// order.
    #[must_use]
    pub fn user_agent(mut self, product: impl Into<String>) -> Self {
        self.user_agent.push(product.into());
        self
    }

    /// Applies the setup of providers: User-Agent, timeout of a call, fence, and metrics.
    #[must_use]
    pub fn setup(mut self, setup: &Setup) -> Self {
        self.call_timeout = setup.call_timeout;
        let named = setup.user_agent.iter().fold(self, Builder::user_agent);
        named
            .fence(setup.fence.clone())
            .metrics(Arc::clone(&setup.metrics))
    }

    /// Reports each request to `metrics`.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<dyn CloudMetrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Reports each request to `own` as well, which records it under the metric names of the cloud's Go cloud
    /// controller manager. Call it after [`setup`](Self::setup).
    #[must_use]
    pub fn own_series(self, own: impl CloudMetrics + 'static) -> Self {
        let all = Arc::clone(&self.metrics);
        self.metrics(Arc::new(metrics_fan_out::MetricsFanOut { own, all }))
    }

    /// Sends changes only while `fence` is open: pass the fence of the provider's setup. A change in flight is cut off
    /// when the fence closes.
    #[must_use]
    pub fn fence(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// Sets timeouts and the retry policy.
    #[must_use]
    pub fn retry_policy(mut self, retry_policy: RetryPolicy) -> Self {
        self.retry_policy = retry_policy;
        self
    }

    /// Reads refusals with `reader` instead of [`Refusal::read`], which knows the common forms. A 404 whose refusal has
    /// no code is a gateway's, and not *not found*.
    #[must_use]
    pub fn refusals(mut self, reader: RefusalReader) -> Self {
        self.refusal_rules.reader = reader;
        self
    }

    /// Declares which refusals mean that nothing was applied and that a retry soon may help, such as `locked`:
    /// `is_not_applied` returns `true` for them. Refused calls of this kind are retried even if they are not
    /// idempotent. A 429 always counts as such a refusal.
    #[must_use]
    pub fn retry_refusals(mut self, is_not_applied: fn(&Refusal) -> bool) -> Self {
        self.refusal_rules.is_not_applied = is_not_applied;
        self
    }

    /// Sets the header, such as `x-request-id`, whose value is added to errors because the cloud's support asks for it.
    #[must_use]
    pub fn correlation(mut self, header: &'static str) -> Self {
        self.refusal_rules.correlation = Some(header);
        self
    }

    /// Sets the paging of lists, for [`Transport::list`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use cloud_provider::{Result, Setup};
    /// use provider_kit::inventory::SharedPriority;
    /// use provider_kit::paging::Paging;
    /// use provider_kit::transport::{Budget, Call, Credential, Refill, Transport};
    ///
    /// # #[derive(serde::Deserialize)] struct Droplet { id: u64 }
    /// fn digitalocean(setup: &Setup, token: Credential) -> Result<Transport> {
    ///     Transport::builder("https://api.digitalocean.com").setup(setup).credential(token)
    ///         .budget(Budget { refill: Refill::Evenly(Duration::from_secs(3600)), ..Budget::default() })
    ///         .paging(Paging::next_link("/links/pages/next").size("per_page", 200).total("/meta/total"))
    ///         .build()
    /// }
    ///
    /// fn linode(setup: &Setup, token: Credential) -> Result<Transport> {
    ///     Transport::builder("https://api.linode.com").setup(setup).credential(token)
    ///         .paging(Paging::page_count("/pages").size("page_size", 500).total("/results"))
    ///         .build()
    /// }
    ///
    /// fn vultr(setup: &Setup, token: Credential) -> Result<Transport> {
    ///     Transport::builder("https://api.vultr.com").setup(setup).credential(token)
    ///         .paging(Paging::token("cursor", "/meta/links/next").size("per_page", 500).total("/meta/total"))
    ///         .build()
    /// }
    ///
    /// async fn droplets(cloud: &Transport) -> Result<Vec<Droplet>> {
    ///     let call = Call::get("/v2/droplets", &[]);
    ///     let list = cloud.list(call, "droplets", &SharedPriority::default(), |droplet: Droplet| droplet, |it| it.id).await?;
    ///     Ok(list.complete()?.into_items())
    /// }
    /// # rustls::crypto::ring::default_provider().install_default().ok();
    /// # let token = || Credential::token("secret");
    /// # assert_eq!(digitalocean(&Setup::default(), token())?.base(), "https://api.digitalocean.com");
    /// # linode(&Setup::default(), token()).and(vultr(&Setup::default(), token()))?;
    /// # Ok::<(), cloud_provider::Error>(())
    /// ```
    #[must_use]
    pub fn paging(mut self, paging: Paging) -> Self {
        self.paging = paging;
        self
    }

    /// Sets the request budget.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Reads the rate limit that an answer reports with `reader`, instead of the common headers (see [`Budget`]). A report
    /// lowers a limit that is [stated](Refill::Stated), too: no more requests are sent than are left by both, and those
    /// that are left of a window are spread over it.
    ///
    /// ```
    /// use provider_kit::transport::{RateLimitReport, Transport};
    ///
    /// # fn main() -> cloud_provider::Result<()> {
    /// let cloud = Transport::builder("http://127.0.0.1:8080").rate_limits(|headers| RateLimitReport {
    ///     remaining: headers.get("x-calls-left").and_then(|it| it.to_str().ok()?.parse().ok()),
    ///     ..RateLimitReport::default()
    /// }).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn rate_limits(mut self, reader: RateLimitReader) -> Self {
        self.refusal_rules.rate_limits = reader;
        self.reports_lower_stated_limits = true;
        self
    }

    /// Sets the call that validates a newly read credential before it replaces the current one. If the call fails, the
    /// current credential stays in use, and the new one is tried again after a minute or when the file changes again.
    /// If the current credential is refused (401) meanwhile, the new one is used nevertheless.
    #[must_use]
    pub fn validate(mut self, call: Call) -> Self {
        self.validate = Some(call);
        self
    }

    /// Logs every request and every answer, without secrets.
    #[must_use]
    pub fn log_bodies(mut self, log_bodies: bool) -> Self {
        self.log_bodies = log_bodies;
        self
    }

    /// Carries requests with `connector` instead of over the network.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Some(Box::new(connector));
        self
    }

    /// Passes requests to a tower service in this process, such as an axum router.
    #[must_use]
    pub fn service<S, B>(self, service: S) -> Self
    where
        S: tower::Service<Request<http_body_util::Full<Bytes>>, Response = Response<B>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
        S::Error: fmt::Display + Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: fmt::Display,
    {
        self.connector(InProcess(service))
    }

    /// Builds the client from the settings.
    ///
    /// # Errors
    /// *Invalid* for a base URL that is not `http://` or `https://` with a host; *other* if TLS cannot be set up.
    pub fn build(self) -> Result<Transport> {
        if self.session.is_none() {
            endpoint(&self.base)?;
        }
        let connector = match self.connector {
            Some(connector) => connector,
            None => {
                let network = Network::new(&self.tls)?;
                if self.session.is_none() {
                    network.prepare(&self.base)?;
                }
                Box::new(network)
            }
        };
        let base = self.base.trim_end_matches('/').to_owned();
        let retry_policy = self
            .call_timeout
            .map_or(self.retry_policy, |longest| self.retry_policy.once(longest));
        let metrics = self.metrics;
        let signer = self.signer;
        let refusal_rules = RefusalRules {
            refill: self.budget.refill,
            ..self.refusal_rules
        };
        let agent = self
            .user_agent
            .into_iter()
            .chain([AGENT.to_owned()])
            .collect::<Vec<_>>()
            .join(" ");
        let user_agent = HeaderValue::try_from(&agent).map_err(|_| {
            Error::invalid(format!("no HTTP header can carry the user agent {agent:?}"))
        })?;
        let layers = exchange::exchange(Exchange {
            base: base.clone(),
            connector,
            timeout: retry_policy.timeout,
            refusal_rules,
            user_agent,
            log_bodies: self.log_bodies,
        });
        let layers = measure::measure(layers, Arc::clone(&metrics));
        let layers = guard::guard(layers, self.fence);
        let identity = match self.session {
            Some(session) => Identity::Session(session),
            None => Identity::Credential(self.credential.clone(), self.validate.map(Arc::new)),
        };
        let layers = authenticate::authenticate(layers, identity, Arc::clone(&metrics));
        let allowance = Allowance::new(self.budget, self.reports_lower_stated_limits);
        let layers = throttle::throttle(layers, allowance, retry_policy, Arc::clone(&metrics));
        let stack = Box::new(retry::retry(layers, retry_policy));
        let inner = Inner {
            base,
            credential: self.credential,
            metrics,
            retry_policy,
            signer,
            stack,
        };
        Ok(Transport(Arc::new(inner), |_| None, self.paging))
    }
}

/// Checks the base URL of an API.
///
/// # Errors
/// *Invalid* if it is not `http://` or `https://` with a host.
pub(crate) fn check_endpoint(base: &str) -> Result<()> {
    endpoint(base).map(drop)
}

impl Transport {
    /// Returns a builder of a client for the API at `base`, a URL such as `https://api.example.com`.
    #[must_use]
    pub fn builder(base: impl Into<String>) -> Builder {
        Builder {
            base: base.into(),
            credential: Credential::none(),
            session: None,
            signer: None,
            tls: Tls::default(),
            user_agent: Vec::new(),
            connector: None,
            metrics: Arc::new(NoCloudMetrics),
            fence: Fence::open(),
            retry_policy: RetryPolicy::default(),
            call_timeout: None,
            budget: Budget::default(),
            reports_lower_stated_limits: false,
            paging: Paging::WHOLE,
            refusal_rules: RefusalRules {
                reader: Refusal::read,
                is_not_applied: |_| false,
                correlation: None,
                refill: Budget::default().refill,
                rate_limits: RateLimitReport::read,
            },
            validate: None,
            log_bodies: false,
        }
    }

    /// Returns a builder of a client for an API whose base URL and credential come from `session` with each access.
    #[must_use]
    pub fn of_session(session: Arc<dyn Session>) -> Builder {
        Builder {
            session: Some(session),
            ..Self::builder(String::new())
        }
    }

    /// Returns the client with rules that map an API's error codes to errors, for codes that are more specific than the
    /// HTTP status.
    ///
    /// ```
    /// use cloud_provider::Error;
    /// use provider_kit::transport::Transport;
    ///
    /// # fn main() -> cloud_provider::Result<()> {
    /// let cloud = Transport::builder("http://127.0.0.1:8080").build()?.error_mapping(|refusal| match &*refusal.code {
    ///     "resource_limit_exceeded" => Some(Error::quota),
    ///     "protected" => Some(Error::protected),
    ///     _ => None,
    /// });
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn error_mapping(mut self, error_mapping: ErrorMapping) -> Self {
        self.1 = error_mapping;
        self
    }

    /// Returns the same client for an API with this paging of lists, for [`list`](Self::list).
    #[must_use]
    pub fn paging(mut self, paging: Paging) -> Self {
        self.2 = paging;
        self
    }

    pub(crate) fn paged(&self) -> Paging {
        self.2
    }

    /// Sends a call and reads the answer as JSON.
    ///
    /// # Errors
    /// See [`send`](Self::send); *other* if the answer is not the JSON that was expected.
    pub async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        self.send(call).await?.json()
    }

    /// Sends a call and reads the answer in this format.
    ///
    /// # Errors
    /// See [`send`](Self::send); *other* if the answer has another form than was expected.
    pub async fn read_as<F: Format, T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        self.send(call).await?.read_as::<F, T>()
    }

    /// Reads an object that may not exist: `None` if the API itself answers so.
    ///
    /// # Errors
    /// Every other refusal.
    pub async fn find<T: DeserializeOwned>(&self, call: Call) -> Result<Option<T>> {
        match self.read(call).await {
            Err(err) if err.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Deletes an object; succeeds if the object does not exist, so that a deletion can be repeated.
    ///
    /// # Errors
    /// Every other refusal.
    pub async fn remove(&self, call: Call) -> Result<()> {
        match self.send(call).await {
            Err(err) if !err.is_not_found() => Err(err),
            _ => Ok(()),
        }
    }

    /// Sends a call.
    ///
    /// # Errors
    /// Listed in the table of the [module](self) documentation. The text names method, path and answer.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        let give_up = Instant::now() + self.0.retry_policy.total_timeout;
        let attempt = Attempt {
            call: Arc::new(call),
            error_mapping: self.1,
            give_up,
            access: None,
            signer: self.0.signer.clone(),
        };
        self.0
            .stack
            .send(attempt)
            .await
            .map_err(|failure| failure.error)
    }

    /// Returns the metrics that requests are reported to.
    #[must_use]
    pub fn metrics(&self) -> Arc<dyn CloudMetrics> {
        Arc::clone(&self.0.metrics)
    }

    /// Returns the base URL of the API, for messages: without user and password if the URL has them (INV-5). Empty for
    /// a session.
    #[must_use]
    pub fn base(&self) -> String {
        let Some((scheme, rest)) = self.0.base.split_once("://") else {
            return String::new();
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let host = rest[..end].rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}{}", &rest[end..])
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("credential", &self.0.credential)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
