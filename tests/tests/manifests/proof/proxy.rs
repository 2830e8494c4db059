//! A proxy in front of the API server that passes on the callers' credentials, and records requests and responses.
//!
//! It can inject two rare situations: a conflict, and an API server that does not stream lists.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use ccm_tests::api_requests::{ApiRequest, ApiRequests};
use http::StatusCode;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A proxy that runs until it is dropped.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    url: String,
    _until: DropGuard,
}

struct Shared {
    server: Client,
    requests: ApiRequests,
    /// Answered with a conflict once: verb and resource.
    conflict: Mutex<Option<(&'static str, &'static str)>>,
    streams: AtomicBool,
}

impl Proxy {
    /// Starts the proxy; `server` is a client of the API server without credentials.
    pub(crate) async fn start(server: Client) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("a port for the proxy")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            server,
            requests: ApiRequests::default(),
            conflict: Mutex::default(),
            streams: AtomicBool::new(true),
        });
        let shutdown = CancellationToken::new();
        let router = Router::new()
            .fallback(forward)
            .with_state(Arc::clone(&shared));
        let until = shutdown.clone().drop_guard();
        tokio::spawn(async move {
            tokio::select! {
                _ = axum::serve(listener, router).into_future() => {}
                () = shutdown.cancelled() => {}
            }
        });
        Ok(Self {
            shared,
            url,
            _until: until,
        })
    }

    pub(crate) fn requests(&self) -> &ApiRequests {
        &self.shared.requests
    }

    /// Answers the next such request with a conflict.
    pub(crate) fn conflict_once(&self, verb: &'static str, resource: &'static str) {
        *self.shared.conflict.lock() = Some((verb, resource));
    }

    /// Disables streamed lists, so that lists are read in pages.
    pub(crate) fn stop_streaming(&self) {
        self.shared.streams.store(false, Ordering::Relaxed);
    }

    /// Writes a kubeconfig that leads through it, as the owner of a token.
    pub(crate) fn write_kubeconfig(&self, path: &Path, token: &str) -> Result<()> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(path, config.to_string())
            .with_context(|| format!("writing {}", path.display()))
    }
}

impl Shared {
    /// Returns the response that replaces the API server's, if any.
    fn trick(&self, request: &ApiRequest, query: &str) -> Option<(StatusCode, Value)> {
        if !self.streams.load(Ordering::Relaxed) && query.contains("sendInitialEvents") {
            let status = refusal(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            );
            return Some((StatusCode::UNPROCESSABLE_ENTITY, status));
        }
        let mut conflict = self.conflict.lock();
        if conflict
            .is_some_and(|(verb, resource)| verb == request.verb && resource == request.resource)
        {
            *conflict = None;
            return Some((
                StatusCode::CONFLICT,
                refusal(
                    StatusCode::CONFLICT,
                    "Conflict",
                    "the object has been modified",
                ),
            ));
        }
        None
    }
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": reason,
        "message": message, "code": code.as_u16()})
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let mut noted = ApiRequest::read(request.method(), request.uri());
    let (mut head, body) = request.into_parts();
    if let Some((code, status)) = shared.trick(&noted, head.uri.query().unwrap_or_default()) {
        return (code, Json(status)).into_response();
    }
    for header in [http::header::HOST, http::header::CONNECTION] {
        head.headers.remove(header);
    }
    let body = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let request = http::Request::from_parts(head, kube::client::Body::from(body.to_vec()));
    let answer = match shared.server.send(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    noted.status = answer.status().as_u16();
    shared.requests.push(noted);
    answer
}
