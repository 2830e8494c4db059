//! A proxy in front of an API server that records the requests of one program.
//!
//! The API server's own counters mix all its clients; only clients of this proxy are counted here.

use std::path::Path;

use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, body::Body};
use http::StatusCode;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api_requests::{ApiRequest, ApiRequests};

/// A proxy that runs until it is dropped.
pub struct RecordingProxy {
    requests: ApiRequests,
    url: String,
    _until: DropGuard,
}

impl RecordingProxy {
    /// Starts a proxy on a free port that forwards to where `client` leads, with `client`'s credentials.
    ///
    /// # Errors
    /// No port.
    pub async fn start(client: Client) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("a port for the recording proxy")?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = ApiRequests::default();
        let shutdown = CancellationToken::new();
        let router = Router::new()
            .fallback(forward)
            .with_state((client, requests.clone()));
        let until = shutdown.clone().drop_guard();
        tokio::spawn(async move {
            // Watches never end by themselves: no graceful shutdown.
            tokio::select! {
                _ = axum::serve(listener, router).into_future() => {}
                () = shutdown.cancelled() => {}
            }
        });
        Ok(Self {
            requests,
            url,
            _until: until,
        })
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> &ApiRequests {
        &self.requests
    }

    /// Writes a kubeconfig that leads through the proxy.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        let text = embedded_apiserver::kubeconfig(&self.url, None, None);
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

async fn forward(
    State((client, requests)): State<(Client, ApiRequests)>,
    request: Request,
) -> Response {
    let mut noted = ApiRequest::read(request.method(), request.uri());
    let (mut head, body) = request.into_parts();
    // These headers belong to the connection with the proxy.
    for header in [
        http::header::HOST,
        http::header::AUTHORIZATION,
        http::header::CONNECTION,
    ] {
        head.headers.remove(header);
    }
    let body = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let request = http::Request::from_parts(head, kube::client::Body::from(body.to_vec()));
    let answer = match client.send(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    noted.status = answer.status().as_u16();
    requests.push(noted);
    answer
}
