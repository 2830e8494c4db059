//! Middleware of a client: `User-Agent`, rate limit, retries, fence, timeout and metrics.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cloud_provider::Fence;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, service_fn};

use super::answer_size::{Data, RequestLine, limit_lines, read};
use super::redacted_errors::redact;
use super::request::{RequestInfo, RequestMetrics};
use super::retry;
use crate::limiter::TokenBucket;

/// Request rate and time-outs of a client.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Rate limit as requests per second and burst, shared by all uses of one client (RT-35); `None` for no limit
    /// (D-10). Watches are not limited and do not count.
    pub rate: Option<(f32, u32)>,
    /// Time-out from sending a request to the end of the response, for each attempt; a watch only needs to begin in
    /// that time.
    pub request_timeout: Option<Duration>,
    /// If set, no request is retried, whatever the server answers. Leader election needs this, because it retries on
    /// its own schedule.
    pub single_attempt: bool,
    /// The fence that permits requests which change objects (INV-4); open by default.
    pub fence: Fence,
}

/// Wraps a client in middleware: `User-Agent`, rate limit, bounded retries, fence, timeout and metrics.
///
/// `below` must not retry by itself. `host` is the value of the metrics' label `host`. Tests wrap a client of an
/// in-process server: `wrap(&Client::new(router, "default"), …)`.
#[must_use]
pub fn wrap(
    below: &Client,
    host: &str,
    user_agent: &str,
    limits: &Limits,
    metrics: Arc<dyn RequestMetrics>,
) -> Client {
    let bucket = limits
        .rate
        .filter(|(qps, _)| *qps > 0.0)
        .map(|(qps, burst)| {
            let interval =
                Duration::try_from_secs_f64(1.0 / f64::from(qps)).unwrap_or(Duration::MAX);
            Mutex::new(TokenBucket::new(interval, burst.max(1), None))
        });
    let sender = Arc::new(Sender {
        below: below.clone(),
        host: host.into(),
        user_agent: HeaderValue::from_str(user_agent).ok(),
        bucket,
        request_timeout: limits.request_timeout,
        attempts: if limits.single_attempt {
            1
        } else {
            retry::ATTEMPTS
        },
        fence: limits.fence.clone(),
        metrics,
    });
    let service = service_fn(move |request| Arc::clone(&sender).send(request));
    Client::new(service, below.default_namespace())
}

/// An answer whose size is limited.
type Answer = Response<UnsyncBoxBody<Data, BoxError>>;

struct Sender {
    below: Client,
    host: Arc<str>,
    user_agent: Option<HeaderValue>,
    bucket: Option<Mutex<TokenBucket>>,
    request_timeout: Option<Duration>,
    attempts: u32,
    fence: Fence,
    metrics: Arc<dyn RequestMetrics>,
}

impl Sender {
    async fn send(self: Arc<Self>, mut request: Request<Body>) -> Result<Answer, BoxError> {
        let info = RequestInfo::new(request.method(), request.uri(), Arc::clone(&self.host));
        if let Some(user_agent) = &self.user_agent {
            request.headers_mut().insert(USER_AGENT, user_agent.clone());
        }
        let mut attempt = 0;
        loop {
            attempt += 1;
            let again = if attempt < self.attempts {
                copy(&request)
            } else {
                None
            };
            self.wait_for_turn(&info).await;
            let answer = self.send_once(&info, request).await?;
            let pause = again.and_then(|request| {
                Some((
                    retry::pause(attempt, &info.method, answer.status(), answer.headers())?,
                    request,
                ))
            });
            let Some((pause, next)) = pause else {
                return Ok(answer);
            };
            let status = answer.status().as_u16();
            tracing::debug!(verb = %info.verb, route = info.route, status, ?pause, "the API server is busy, retrying");
            self.metrics.retried(&info, status);
            request = next;
            sleep(pause).await;
        }
    }

    async fn wait_for_turn(&self, info: &RequestInfo) {
        let Some(bucket) = self.bucket.as_ref().filter(|_| !info.is_watch()) else {
            return;
        };
        let wait = bucket.lock().delay(Instant::now());
        self.metrics.limited(info, wait);
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }

    /// Sends one attempt. The response body is read here, so that the time-out covers it, except for a watch, whose
    /// stream is passed on. Both are limited in size.
    async fn send_once(
        &self,
        info: &RequestInfo,
        request: Request<Body>,
    ) -> Result<Answer, BoxError> {
        let request_line = RequestLine::of(&request, &self.host);
        let target = format!("{} {}{}", request.method(), self.host, request.uri().path());
        let start = Instant::now();
        let sent = body_size(request.body());
        let changes = !request.method().is_safe();
        if changes {
            self.fence.check()?;
        }
        let exchange = async {
            let answer = self.below.send(request).await.map_err(redact)?;
            if info.is_watch() && answer.status().is_success() {
                return Ok(answer.map(|body| limit_lines(body, request_line).boxed_unsync()));
            }
            let (head, body) = answer.into_parts();
            let body = read(body, head.status, info, &request_line).await?;
            self.metrics.transferred(info, sent, body.len());
            let body = Full::new(Data::from(body))
                .map_err(|never| match never {})
                .boxed_unsync();
            Ok::<_, kube::Error>(Response::from_parts(head, body))
        };
        let exchange = async {
            if changes {
                while_open(&self.fence, exchange).await
            } else {
                exchange.await.map_err(Into::into)
            }
        };
        let answer: Result<_, BoxError> = match self.request_timeout {
            Some(limit) => timeout(limit, exchange).await.unwrap_or_else(|_| {
                Err(format!("no answer from the API server to {target} within {limit:?}").into())
            }),
            None => exchange.await,
        };
        let status = answer.as_ref().ok().map(|a| a.status().as_u16());
        self.metrics.answered(info, status, start.elapsed());
        answer
    }
}

/// Polls a request only while the fence is open. The fence is checked after every wait, such as for a connection or a
/// token, so a process that was frozen meanwhile sends nothing (INV-4).
async fn while_open<T, E: Into<BoxError>>(
    fence: &Fence,
    exchange: impl Future<Output = Result<T, E>>,
) -> Result<T, BoxError> {
    let mut exchange = pin!(exchange);
    poll_fn(|context| match fence.check() {
        Ok(()) => exchange.as_mut().poll(context).map_err(Into::into),
        Err(closed) => Poll::Ready(Err(closed
            .context("cut off on its way to the API server")
            .into())),
    })
    .await
}

/// Returns a copy of a request for a retry.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// Returns the size of a request's body, which is always known in advance.
fn body_size(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}
