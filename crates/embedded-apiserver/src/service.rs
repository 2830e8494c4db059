//! Processing of a request from start to end: faults, authentication, the handler, the log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::{Response, header};
use http_body_util::BodyExt as _;

use crate::faults::Action;
use crate::handlers;
use crate::negotiate::{Form, error_response, json_response, to_bytes};
use crate::request::Request;
use crate::requests::LoggedRequest;
use crate::server::Inner;
use crate::status::ApiError;

/// The connection was cut by a fault rule; there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by peer (injected fault)")]
pub struct ConnectionCut;

/// Largest body the server reads, as the real one.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// The server as a [`tower::Service`], for `kube::Client::new`.
#[derive(Debug, Clone)]
pub struct ApiService {
    inner: Arc<Inner>,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<B> tower::Service<http::Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Response = Response<Body>;
    type Error = ConnectionCut;
    type Future = Boxed<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move { answer(inner, request).await })
    }
}

impl ApiService {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Returns the response. If a fault rule cuts the connection, the response has a body that breaks off.
    pub(crate) async fn answer_or_break(&self, request: axum::extract::Request) -> Response<Body> {
        match answer(self.inner.clone(), request).await {
            Ok(response) => response,
            Err(cut) => {
                let broken = futures::stream::once(std::future::ready(Err::<Bytes, _>(cut)));
                Response::new(Body::from_stream(broken))
            }
        }
    }
}

async fn answer<B>(
    inner: Arc<Inner>,
    request: http::Request<B>,
) -> Result<Response<Body>, ConnectionCut>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let (parts, body) = request.into_parts();
    let Ok(body) = http_body_util::Limited::new(body, MAX_BODY)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
    else {
        let message = format!("Request entity too large: limit is {MAX_BODY}");
        return Ok(error_response(
            Form::Json,
            &ApiError::new(413, "RequestEntityTooLarge", message),
        ));
    };
    if parts.uri.path().starts_with("/_") {
        return Ok(crate::control::answer(
            &inner,
            &parts.method,
            parts.uri.path(),
            &body,
        ));
    }
    let request = Request::new(&parts.method, &parts.uri, parts.headers);
    let mut entry = entry(&request, parts.uri.query().unwrap_or_default(), &body);
    let effect = inner.faults.effect_of(&entry);
    if !effect.delay.is_zero() {
        tokio::time::sleep(effect.delay).await;
    }
    let result = match effect.action {
        None | Some(Action::Latency { .. } | Action::DropWatch) => {
            Ok(handle(&inner, &request, &parts.method, body, &entry).await)
        }
        Some(Action::AnswerLost) => {
            handle(&inner, &request, &parts.method, body, &entry).await;
            Err(ConnectionCut)
        }
        Some(Action::Refused) => Err(ConnectionCut),
        Some(Action::Hang) => {
            // Logged before it hangs, since it never ends.
            inner.requests.push(entry);
            return std::future::pending().await;
        }
        Some(Action::Body { code, body }) => Ok(json_response(code, to_bytes(&body))),
        Some(Action::Status {
            code,
            reason,
            message,
            retry_after_seconds,
        }) => Ok(injected(code, &reason, &message, retry_after_seconds)),
    };
    entry.status = result
        .as_ref()
        .map_or(0, |response| response.status().as_u16());
    tracing::trace!(
        verb = entry.verb,
        path = entry.path,
        status = entry.status,
        "request"
    );
    inner.requests.push(entry);
    result
}

async fn handle(
    inner: &Arc<Inner>,
    request: &Request,
    method: &http::Method,
    body: Bytes,
    entry: &LoggedRequest,
) -> Response<Body> {
    let failed =
        |error: ApiError| error_response(Form::of(&request.headers).unwrap_or(Form::Json), &error);
    let user = match handlers::review::authenticate(inner, request) {
        Ok(user) => user,
        Err(error) => return failed(error),
    };
    handlers::dispatch(inner, request, method, body, entry, &user)
        .await
        .unwrap_or_else(failed)
}

fn injected(code: u16, reason: &str, message: &str, retry_after: Option<u32>) -> Response<Body> {
    let mut status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    if let Some(seconds) = retry_after {
        status["details"] = serde_json::json!({"retryAfterSeconds": seconds});
    }
    let mut response = json_response(code, to_bytes(&status));
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn entry(request: &Request, query: &str, body: &Bytes) -> LoggedRequest {
    let target = request.target.as_ref();
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    let resource = target.map(|t| t.resource.plural).unwrap_or_default();
    let secret = resource == "secrets" || resource.ends_with("reviews");
    LoggedRequest {
        verb: request.verb.name(),
        resource: resource.to_owned(),
        subresource: text(target.and_then(|t| t.subresource.as_ref())),
        namespace: text(target.and_then(|t| t.namespace.as_ref())),
        name: text(target.and_then(|t| t.name.as_ref())),
        path: request.path.clone(),
        query: query.to_owned(),
        content_type: request.header(header::CONTENT_TYPE).to_owned(),
        user_agent: request.header(header::USER_AGENT).to_owned(),
        body: if secret { Bytes::new() } else { body.clone() },
        status: 0,
    }
}
