//! Admission webhooks (APP-140 to APP-143).

mod metrics;
mod request;
mod review;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::any;
use http::Request;
use serde_json::Value;
use tokio::sync::Semaphore;

pub use metrics::{NoWebhookMetrics, WebhookMetrics};
pub use request::{AdmissionRequest, GroupVersionKind};

use metrics::Call;

use crate::log_limit::LogLimit;

/// Handler of a webhook's requests.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Answers an AdmissionRequest with an AdmissionResponse as JSON; the `uid` is added to the response. Callers are
    /// not authenticated: check the kind and the size before [`AdmissionRequest::object`].
    ///
    /// # Errors
    /// The reason for which there is no response: the API server receives 500 and applies the webhook's
    /// `failurePolicy`.
    async fn handle(&self, request: AdmissionRequest) -> Result<Value, String>;
}

/// Admission webhook: its name in flags and metrics, its path and its handler.
#[derive(Clone)]
pub struct Webhook {
    /// The name in `--webhooks` and in metrics.
    pub name: String,
    /// The path of the URL.
    pub path: String,
    /// Handler of the requests.
    pub handler: Arc<dyn Handler>,
}

/// Limits of the size of a request and of the time in which it has to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Maximum size of a body in bytes. Two objects of etcd's default limit fit as JSON.
    pub body: usize,
    /// Time-out until the whole body has arrived.
    pub body_read: Duration,
    /// Maximum bytes of all bodies in progress. Callers are not authenticated.
    pub in_flight: usize,
}

impl Default for WebhookLimits {
    /// Returns the default limits: 7 MiB, 20 s (a request has 30 s in all), 8 MiB.
    fn default() -> Self {
        Self {
            body: 7 << 20,
            body_read: Duration::from_secs(20),
            in_flight: 8 << 20,
        }
    }
}

/// Returns the routes of these webhooks, for a server of their own: callers are not authenticated (APP-141). Every call
/// is counted (APP-143).
///
/// ```
/// use std::sync::Arc;
/// use serde_json::{Value, json};
/// use serving::webhook::{AdmissionRequest, Handler, NoWebhookMetrics, Webhook, WebhookLimits, router};
///
/// struct AllowAll;
///
/// #[async_trait::async_trait]
/// impl Handler for AllowAll {
///     async fn handle(&self, _request: AdmissionRequest) -> Result<Value, String> {
///         Ok(json!({"allowed": true}))
///     }
/// }
///
/// let webhook = Webhook { name: "all".into(), path: "/all".into(), handler: Arc::new(AllowAll) };
/// let _routes = router([webhook], WebhookLimits::default(), Arc::new(NoWebhookMetrics));
/// ```
pub fn router(
    webhooks: impl IntoIterator<Item = Webhook>,
    limits: WebhookLimits,
    metrics: Arc<dyn WebhookMetrics>,
) -> Router {
    let mut by_path: HashMap<String, Webhook> = HashMap::new();
    for webhook in webhooks {
        let path = format!("/{}", webhook.path.trim_start_matches('/'));
        if let Some(first) = by_path.get(&path) {
            let first = &first.name;
            let second = &webhook.name;
            tracing::error!(
                path,
                first,
                second,
                "two webhooks have the same path: the second is not served"
            );
            continue;
        }
        by_path.insert(path, webhook);
    }
    let memory = Arc::new(Semaphore::new(limits.in_flight));
    let log = LogLimit::new(10, Duration::from_secs(10));
    let served = Served {
        by_path,
        limits,
        memory,
        log,
        metrics,
    };
    // The paths are others' choice: a router of patterns would panic about some.
    Router::new()
        .fallback(any(serve))
        .with_state(Arc::new(served))
}

struct Served {
    by_path: HashMap<String, Webhook>,
    limits: WebhookLimits,
    /// A permit for each byte of a body.
    memory: Arc<Semaphore>,
    log: LogLimit,
    metrics: Arc<dyn WebhookMetrics>,
}

async fn serve(State(served): State<Arc<Served>>, request: Request<Body>) -> Response {
    let Some(webhook) = served.by_path.get(request.uri().path()) else {
        return crate::answer::not_found().await;
    };
    // A caller that goes away is counted too, when this is dropped.
    let call = Call::begin(&*served.metrics, &webhook.name);
    let answer = review::answer(webhook, &served.limits, &served.memory, request).await;
    let response = match answer {
        Ok(response) => response,
        Err(refused) => {
            let status = refused.status.as_u16();
            let reason = &refused.text;
            if let Some(suppressed) = served.log.admit() {
                tracing::warn!(
                    webhook = webhook.name,
                    status,
                    reason,
                    suppressed,
                    "a review was not answered"
                );
            }
            crate::answer::text(refused.status, refused.text + "\n")
        }
    };
    call.end(response.status());
    response
}
