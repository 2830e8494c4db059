//! HTTP to a cloud: what every provider needs around one request.
//!
//! [`Transport::send`] adds the credential, waits while the cloud asks for a pause, sends, tries again where that is safe,
//! tells [`CloudMetrics`], and turns a refusal into a [`cloud_provider::Error`] that says what to do:
//!
//! | answer | error | sent again |
//! |---|---|---|
//! | 401 | *unauthorized* | once, if the token file holds another token |
//! | 403 | *unauthorized* | no |
//! | 404 in the API's own words | *not found* | no |
//! | 404 of anybody else (a proxy, a gateway) | *other* | no |
//! | 409, 412, 423 | *conflict* | no |
//! | 400, 422 | *invalid* | no |
//! | 429 | *rate limited*, and a pause for the whole client | yes: it was not applied |
//! | 5xx, 408, no answer, time-out | *other* | if the call is idempotent |
//!
//! Calls that change something are sent only while the [`Fence`] is open ([`Builder::fence`], INV-4): it is asked as the very
//! last thing, before each try.
//!
//! What carries the request is a [`Leaf`]: the network, or an axum router in the same process.

mod call;
mod credential;
mod failure;
mod leaf;
mod priority;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::{CloudMetrics, Error, Fence, NoCloudMetrics, Result};
use http::{HeaderValue, Request, Response, StatusCode, header};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

pub use call::{Answer, Call};
pub use credential::Credential;
use credential::Token;
pub use failure::{Meaning, Refusal, RefusalReader};
use leaf::{InProcess, Network};
pub use leaf::{Leaf, NoAnswer};
pub use priority::Priority;

/// How patient a [`Transport`] is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For one try, the body included.
    pub timeout: Duration,
    /// Tries in all, the first included.
    pub tries: u32,
    /// For one call with all its tries and pauses. What would take longer fails at once.
    pub total: Duration,
    /// Before the second try; doubled for each further one, and jittered.
    pub backoff: Duration,
    /// The longest pause that a call sits out itself; a longer one is the caller's to schedule.
    pub longest_pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            tries: 4,
            total: Duration::from_secs(60),
            backoff: Duration::from_millis(250),
            longest_pause: Duration::from_secs(10),
        }
    }
}

/// A client for one cloud API with one credential. Cheap to clone; clones share the pause.
#[derive(Clone)]
pub struct Transport(Arc<Inner>, Meaning);

struct Inner {
    base: String,
    credential: Credential,
    leaf: Box<dyn Leaf>,
    metrics: Arc<dyn CloudMetrics>,
    fence: Fence,
    patience: Patience,
    refusals: RefusalReader,
    paused_until: Mutex<Option<Instant>>,
}

/// Makes a [`Transport`].
pub struct Builder {
    base: String,
    credential: Credential,
    leaf: Option<Box<dyn Leaf>>,
    metrics: Arc<dyn CloudMetrics>,
    fence: Fence,
    patience: Patience,
    refusals: RefusalReader,
}

impl Builder {
    /// Sends this credential with each request.
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }

    /// Tells `metrics` of each request.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<dyn CloudMetrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Sends what changes something only while `fence` is open: hand it the one of the provider's set-up. What is sent
    /// meanwhile is cut off when it closes.
    #[must_use]
    pub fn fence(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// Time-outs and retries.
    #[must_use]
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// How this API words a refusal; by default the usual JSON shapes are understood.
    #[must_use]
    pub fn refusals(mut self, reader: RefusalReader) -> Self {
        self.refusals = reader;
        self
    }

    /// Carries requests with `leaf` instead of over the network.
    #[must_use]
    pub fn leaf(mut self, leaf: impl Leaf) -> Self {
        self.leaf = Some(Box::new(leaf));
        self
    }

    /// Hands requests to a tower service in this process, such as an axum router.
    #[must_use]
    pub fn service<S, B>(self, service: S) -> Self
    where
        S: tower::Service<Request<http_body_util::Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: fmt::Display + Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: fmt::Display,
    {
        self.leaf(InProcess(service))
    }

    /// The finished client.
    ///
    /// # Errors
    /// *Invalid* for a base URL that is not `http://` or `https://` with a host; *other* if TLS cannot be set up.
    pub fn build(self) -> Result<Transport> {
        let uri = self.base.parse::<http::Uri>().ok();
        let scheme = uri.as_ref().and_then(http::Uri::scheme_str).filter(|s| ["http", "https"].contains(s));
        let host = uri.as_ref().and_then(http::Uri::host).filter(|host| !host.is_empty());
        let (Some(scheme), Some(host)) = (scheme, host) else {
            // A URL may hold user and password.
            return Err(Error::invalid("the endpoint is not a URL such as https://api.example.com"));
        };
        let leaf = match self.leaf {
            Some(leaf) => leaf,
            None => Box::new(Network::new(scheme == "https", host)?),
        };
        Ok(Transport(
            Arc::new(Inner {
                base: self.base.trim_end_matches('/').to_owned(),
                credential: self.credential,
                leaf,
                metrics: self.metrics,
                fence: self.fence,
                patience: self.patience,
                refusals: self.refusals,
                paused_until: Mutex::new(None),
            }),
            |_| None,
        ))
    }
}

impl Transport {
    /// A client for the API at `base`, a URL such as `https://api.example.com`.
    #[must_use]
    pub fn builder(base: impl Into<String>) -> Builder {
        Builder {
            base: base.into(),
            credential: Credential::none(),
            leaf: None,
            metrics: Arc::new(NoCloudMetrics),
            fence: Fence::open(),
            patience: Patience::default(),
            refusals: Refusal::read,
        }
    }

    /// The same client for an API whose code words say more than the status.
    ///
    /// ```
    /// use cloud_provider::Error;
    /// use provider_kit::transport::Transport;
    ///
    /// # fn main() -> cloud_provider::Result<()> {
    /// let cloud = Transport::builder("http://127.0.0.1:8080").build()?.meaning(|refusal| match &*refusal.code {
    ///     "resource_limit_exceeded" => Some(Error::quota),
    ///     "protected" => Some(Error::protected),
    ///     _ => None,
    /// });
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn meaning(mut self, meaning: Meaning) -> Self {
        self.1 = meaning;
        self
    }

    /// Sends a call and reads the answer as JSON.
    ///
    /// # Errors
    /// See [`send`](Self::send); *other* if the answer is not the JSON that was expected.
    pub async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        self.send(call).await?.json()
    }

    /// Reads something that may not exist: `None` if the API itself says so.
    ///
    /// # Errors
    /// Every other refusal.
    pub async fn find<T: DeserializeOwned>(&self, call: Call) -> Result<Option<T>> {
        match self.read(call).await {
            Err(err) if err.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Removes something; success if it does not exist, so that a delete can be repeated.
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
    /// By the table in the [module's](self) documentation. The text names method, path and what was answered.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        let patience = self.0.patience;
        let give_up = Instant::now() + patience.total;
        let mut reread = false;
        for attempt in 1.. {
            self.sit_out_pause(&call, give_up).await?;
            let token = self.0.credential.current();
            let failure = match self.try_once(&call, token.as_ref()).await? {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.status == Some(StatusCode::UNAUTHORIZED)
                && !std::mem::replace(&mut reread, true)
                && self.0.credential.differs_now(token.as_ref())
            {
                continue;
            }
            if let Some(pause) = failure.pause {
                self.pause(pause);
            }
            let delay = failure.pause.unwrap_or_else(|| jittered(patience.backoff * 2_u32.saturating_pow(attempt - 1)));
            if attempt >= patience.tries
                || !failure.may_repeat(&call)
                || delay > patience.longest_pause
                || Instant::now() + delay >= give_up
            {
                return Err(failure.error);
            }
            // A pause is sat out, by everybody, before the next try.
            if failure.pause.is_none() {
                tokio::time::sleep(delay).await;
            }
        }
        Err(Error::other(format!("{} was not sent", call.place())))
    }

    /// One try: the outer error is a call that cannot be sent at all.
    async fn try_once(&self, call: &Call, token: Option<&Token>) -> Result<Result<Answer, failure::Failure>> {
        let request = self.request(call, token)?;
        // The last thing before it is sent: it may have waited for long.
        if call.changes {
            self.0.fence.check().map_err(|err| err.context(call.place()))?;
        }
        let began = Instant::now();
        let exchange = while_open(call, &self.0.fence, self.0.leaf.carry(request));
        let outcome = match tokio::time::timeout(self.0.patience.timeout, exchange).await {
            Ok(exchanged) => Ok(exchanged?),
            Err(late) => Err(late),
        };
        let status = outcome.as_ref().ok().and_then(|o| o.as_ref().ok()).map(|answer| answer.status().as_u16());
        self.0.metrics.finished(&call.route(), status, began.elapsed());
        if let Some(left) = outcome.iter().flatten().find_map(|answer| failure::remaining(answer.headers())) {
            self.0.metrics.remaining(left);
        }
        Ok(match outcome {
            Err(_) => Err(failure::no_answer(call, &format!("no answer within {:?}", self.0.patience.timeout))),
            Ok(Err(err)) => Err(failure::no_answer(call, &redact(err.to_string(), token))),
            Ok(Ok(answer)) if answer.status().is_success() => {
                let (parts, body) = answer.into_parts();
                if let Some(pause) = failure::exhausted(&parts.headers) {
                    self.pause(pause);
                }
                Ok(Answer { place: call.place(), status: parts.status, headers: parts.headers, body })
            }
            Ok(Ok(answer)) => Err(failure::refused(call, &answer, self.0.refusals, self.1, |text| redact(text, token))),
        })
    }

    fn request(&self, call: &Call, token: Option<&Token>) -> Result<Request<Bytes>> {
        let body = call.body.clone()?;
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.0.base, call.uri()))
            .header(header::ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
                .map_err(|_| Error::unauthorized("the token has characters that no HTTP header can carry"))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        request
            .body(body.unwrap_or_default())
            .map_err(|err| Error::other(format!("{} cannot be sent: {err}", call.place())))
    }

    /// Whoever waits here wakes a little apart, so that the end of a pause is not a storm.
    async fn sit_out_pause(&self, call: &Call, give_up: Instant) -> Result<()> {
        loop {
            let until = *self.0.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(left) =
                until.map(|until| until.saturating_duration_since(Instant::now())).filter(|d| !d.is_zero())
            else {
                return Ok(());
            };
            if left > self.0.patience.longest_pause || Instant::now() + left >= give_up {
                let text = format!("{} was held back: the cloud asked for a pause, {left:.0?} are left", call.place());
                return Err(Error::rate_limited(text, left));
            }
            tokio::time::sleep(left + Duration::from_millis(fastrand::u64(0..=100))).await;
        }
    }

    /// Holds back everything that this client would send for `pause`.
    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut paused = self.0.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        if paused.is_none_or(|before| before < until) {
            *paused = Some(until);
            self.0.metrics.paused(pause);
        }
    }

    /// Who hears of its requests.
    #[must_use]
    pub fn metrics(&self) -> Arc<dyn CloudMetrics> {
        Arc::clone(&self.0.metrics)
    }

    /// Where the API is.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0.base
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("credential", &self.0.credential).finish_non_exhaustive()
    }
}

/// Goes on with an exchange only while the fence is open, unless it changes nothing. Whatever it waits for first, such as a
/// connection, it is the fence of the moment after that decides; and a process that was frozen in between sends nothing.
async fn while_open<T>(call: &Call, fence: &Fence, exchange: impl Future<Output = T>) -> Result<T> {
    if !call.changes {
        return Ok(exchange.await);
    }
    let mut exchange = pin!(exchange);
    poll_fn(|context| match fence.check() {
        Ok(()) => exchange.as_mut().poll(context).map(Ok),
        Err(closed) => Poll::Ready(Err(closed.context(call.place()))),
    })
    .await
}

/// Between half of it and all of it.
fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// A cloud may repeat what it was sent; the token must not reach a log (INV-5).
fn redact(text: String, token: Option<&Token>) -> String {
    match token {
        Some(token) if text.contains(token.expose_secret()) => text.replace(token.expose_secret(), "[redacted]"),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
