//! Admission webhooks (APP-140 to APP-143).

mod metrics;
mod review;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::any;
use http::Request;
use serde_json::Value;

pub use metrics::{NoWebhookMetrics, WebhookMetrics};

use metrics::Call;

/// What answers the requests of a webhook.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Answers an AdmissionRequest with an AdmissionResponse, both as JSON; the `uid` is added to the answer.
    ///
    /// # Errors
    /// Why there is no answer: the API server gets 500 and does as the webhook's `failurePolicy` says.
    async fn handle(&self, request: Value) -> Result<Value, String>;
}

/// A webhook: its name in flags and metrics, its path, and what answers.
#[derive(Clone)]
pub struct Webhook {
    /// The name in `--webhooks` and in metrics.
    pub name: String,
    /// The path of the URL.
    pub path: String,
    /// What answers.
    pub handler: Arc<dyn Handler>,
}

/// How large a request may be and how long it may take to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Bytes of a body. An object of etcd's default limit, twice, in JSON, fits.
    pub body: usize,
    /// Until the body is there.
    pub body_read: Duration,
}

impl Default for WebhookLimits {
    /// 7 MiB, 30 s.
    fn default() -> Self {
        Self { body: 7 << 20, body_read: Duration::from_secs(30) }
    }
}

/// The routes of these webhooks, for a server of their own: nobody is authenticated (APP-141). Every call is counted
/// (APP-143).
///
/// ```
/// use std::sync::Arc;
/// use serde_json::{Value, json};
/// use serving::webhook::{Handler, NoWebhookMetrics, Webhook, WebhookLimits, router};
///
/// struct AllowAll;
///
/// #[async_trait::async_trait]
/// impl Handler for AllowAll {
///     async fn handle(&self, _request: Value) -> Result<Value, String> {
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
    let rules = Arc::new(Rules { limits, metrics });
    let mut router = Router::new().fallback(crate::answer::not_found);
    for webhook in webhooks {
        let path = webhook.path.clone();
        let served = Arc::new(Served { webhook, rules: Arc::clone(&rules) });
        router = router.route(&path, any(serve).with_state(served));
    }
    router
}

struct Served {
    webhook: Webhook,
    rules: Arc<Rules>,
}

/// What is the same for all.
struct Rules {
    limits: WebhookLimits,
    metrics: Arc<dyn WebhookMetrics>,
}

async fn serve(State(served): State<Arc<Served>>, request: Request<Body>) -> Response {
    // A caller that goes away is counted too, when this is dropped.
    let call = Call::begin(&*served.rules.metrics, &served.webhook.name);
    let answer = review::answer(&served.webhook, &served.rules.limits, request).await;
    let response = match answer {
        Ok(response) => response,
        Err(refused) => {
            tracing::warn!(webhook = served.webhook.name, status = refused.status.as_u16(), reason = refused.text);
            crate::answer::text(refused.status, refused.text + "\n")
        }
    };
    call.end(response.status());
    response
}
