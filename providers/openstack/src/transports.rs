//! Transports to the services, and the meaning of their refusals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::{Error, Setup};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use provider_kit::transport::{BodyLimit, Builder, Connector, NoAnswer, Refusal, RetryPolicy};
use serde_json::Value;

use crate::config::Config;
use crate::metrics::Requests;

/// Version of Nova's API from which on a server has the name of its flavor.
const MICROVERSION: &str = "compute 2.47";

/// Applies the settings that the clients of all services share: timeouts, refusals, metrics, connector.
pub(crate) fn configure(
    builder: Builder,
    config: &Config,
    setup: &Setup,
    connector: Arc<dyn Connector>,
) -> Builder {
    builder
        .setup(setup)
        .connector(connector)
        .own_series(Requests(Arc::clone(&setup.metrics)))
        .retry_policy(retry_policy(config.request_timeout))
        .correlation("x-openstack-request-id")
        .refusals(refusal)
}

fn retry_policy(timeout: Duration) -> RetryPolicy {
    let total_timeout = timeout.saturating_mul(2).max(Duration::from_secs(60));
    let longest_pause = Duration::from_secs(30);
    RetryPolicy {
        timeout,
        total_timeout,
        longest_pause,
        backoff: Duration::from_millis(500),
        ..RetryPolicy::default()
    }
}

/// A connector that requests a later microversion of Nova's API, and stops doing so once Nova refuses it (406).
pub(crate) struct Microversion {
    connector: Arc<dyn Connector>,
    is_refused: Arc<AtomicBool>,
}

impl Microversion {
    pub(crate) fn new(connector: Arc<dyn Connector>) -> Self {
        Self {
            connector,
            is_refused: Arc::default(),
        }
    }
}

impl Connector for Microversion {
    fn carry(
        &self,
        mut request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        if self.is_refused.load(Ordering::Relaxed) {
            return self.connector.carry(request, limit);
        }
        let plain = request.clone();
        request.headers_mut().insert(
            "openstack-api-version",
            HeaderValue::from_static(MICROVERSION),
        );
        let connector = Arc::clone(&self.connector);
        let is_refused = Arc::clone(&self.is_refused);
        async move {
            let answer = connector.carry(request, limit).await?;
            if answer.status() != StatusCode::NOT_ACCEPTABLE {
                return Ok(answer);
            }
            is_refused.store(true, Ordering::Relaxed);
            connector.carry(plain, limit).await
        }
        .boxed()
    }
}

/// Reads the services' own error bodies. Only a refusal with an error code comes from the service itself: all services, and the
/// proxies before them, answer 404 to unknown paths, and some of them in JSON.
fn refusal(headers: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let refusal = |code: &str, message: &Value| {
        let message = message.as_str()?.replace("<br />", " ");
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_words = !message.is_empty() && code != "HTTPNotFound";
        Some(Refusal {
            code: if is_words {
                code.to_owned()
            } else {
                String::new()
            },
            message,
            details: Vec::new(),
        })
    };
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    // Octavia, then Barbican.
    for (code, message) in [("faultcode", "faultstring"), ("title", "description")] {
        if let (Some(code), Some(message)) = (text(code), value.get(message)) {
            return refusal(code, message);
        }
    }
    let nested = value
        .as_object()?
        .iter()
        .find_map(|(word, inner)| Some((word, inner, inner.get("message")?)));
    let Some((word, inner, message)) = nested else {
        return Refusal::read(headers, body).map(|read| Refusal {
            code: String::new(),
            ..read
        });
    };
    // The code is `title` in Keystone, `type` in Neutron, and the key of the error in Nova.
    let code = ["type", "title"]
        .iter()
        .find_map(|key| inner.get(*key)?.as_str())
        .unwrap_or(word);
    refusal(code, message)
}

/// Returns the meaning of a refusal beyond its status.
pub(crate) fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    let said = refusal.message.to_ascii_lowercase();
    let is_full = [
        "OverQuota",
        "IpAddressGenerationFailure",
        "ExternalIpAddressExhausted",
    ]
    .contains(&&*refusal.code);
    if is_full
        || said.contains("quota")
            && ["exceed", "has been met", "limit"]
                .iter()
                .any(|word| said.contains(word))
    {
        return Some(Error::quota);
    }
    // Octavia answers some of these with 409, as if another attempt could help.
    let is_permanent = [
        "validation failure: ",
        "is invalid while ",
        "vip ip address is already in use",
    ];
    is_permanent
        .iter()
        .any(|words| said.contains(words))
        .then_some(Error::invalid)
}
