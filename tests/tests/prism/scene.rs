//! The fake behind the proxy, and a way to both.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hetzner_fake::{Fake, Options, Port, Served, TOKEN};
use http::header;
use parking_lot::Mutex;
use provider_kit::transport::{BodyLimit, Call, Connector, Credential, NoAnswer, Transport};
use serde_json::Value;
use std::time::Duration;

use crate::disagreements::{Used, mend_answer, mend_request};

/// The most that a body may be.
const MOST: usize = 1 << 20;

/// Harness of a scenario.
pub(crate) struct Scene {
    /// The fake; the proxy forwards to it.
    pub(crate) fake: Fake,
    /// URL of the proxy.
    pub(crate) proxy: String,
    /// The disagreements that were met.
    pub(crate) used: Used,
    client: reqwest::Client,
    violations: Violations,
    under_way: UnderWay,
    _served: Served,
}

/// Requests that the proxy refused, in words.
type Violations = Arc<Mutex<BTreeSet<String>>>;

/// Number of requests that wait for their responses.
#[derive(Clone, Default)]
struct UnderWay(Arc<AtomicUsize>);

/// A pending request, counted until this is dropped.
struct Asked(UnderWay);

impl UnderWay {
    fn one(&self) -> Asked {
        self.0.fetch_add(1, Ordering::Relaxed);
        Asked(self.clone())
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers as the document wants them.
async fn mended(used: Used, request: Request, next: Next) -> Response {
    let (mut head, body) = next.run(request).await.into_parts();
    let mut body = to_bytes(body, MOST).await.unwrap_or_default();
    if let Ok(mut value) = serde_json::from_slice::<Value>(&body) {
        mend_answer(&mut value, &used);
        body = value.to_string().into();
        head.headers.remove(header::CONTENT_LENGTH);
    }
    Response::from_parts(head, Body::from(body))
}

impl Scene {
    /// Serves a fake at `upstream`; `proxy` forwards to it.
    pub(crate) async fn start(proxy: &str, upstream: &str) -> Result<Self> {
        let fake = Fake::new(Options {
            action_time: Duration::from_millis(100),
            ..Options::default()
        });
        let used = Used::default();
        let layer = {
            let used = used.clone();
            from_fn(move |request: Request, next: Next| mended(used.clone(), request, next))
        };
        let app: Router = fake.router().layer(layer);
        let port = Port::open(upstream)
            .await
            .with_context(|| format!("listening at {upstream}"))?;
        let served = port.serve(app);
        ccm_tests::install_crypto();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let proxy = proxy.trim_end_matches('/').to_owned();
        let violations = Violations::default();
        Ok(Self {
            fake,
            proxy,
            used,
            client,
            violations,
            under_way: UnderWay::default(),
            _served: served,
        })
    }

    /// Returns a connector that sends requests through the proxy, adapted to the document, and records the refused
    /// ones.
    pub(crate) fn connector(&self) -> Proxied {
        Proxied {
            client: self.client.clone(),
            used: self.used.clone(),
            violations: Arc::clone(&self.violations),
            under_way: self.under_way.clone(),
        }
    }

    /// Returns a transport through the proxy.
    pub(crate) fn transport(&self) -> Result<Transport> {
        let builder = Transport::builder(&self.proxy).credential(Credential::token(TOKEN));
        builder
            .connector(self.connector())
            .build()
            .map_err(|error| anyhow!("CCM_TEST_HETZNER_PROXY: {error}"))
    }

    /// Sends a request that must be answered with success.
    pub(crate) async fn send(&self, call: Call) -> Result<Value> {
        let what = call.uri();
        let answer = self
            .transport()?
            .send(call)
            .await
            .map_err(|error| anyhow!("{what}: {error}"))?;
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Returns the number of pending requests, and the number of all requests so far.
    pub(crate) fn traffic(&self) -> (usize, usize) {
        (
            self.under_way.0.load(Ordering::Relaxed),
            self.fake.requests().len(),
        )
    }

    /// Returns the requests that violated the document, or whose answers did.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().iter().cloned().collect()
    }

    /// Prints the routes that were used.
    pub(crate) fn print_routes(&self) {
        let counts = self.fake.counts();
        println!("{} routes:", counts.len());
        counts
            .iter()
            .for_each(|(route, count)| println!("  {count:>4} × {route}"));
    }

    /// Fails if there are violations.
    pub(crate) fn judge(&self) -> Result<()> {
        let violations = self.violations();
        ensure!(
            violations.is_empty(),
            "the document does not allow:\n{}",
            violations.join("\n")
        );
        Ok(())
    }
}

/// Sends through the proxy.
#[derive(Clone)]
pub(crate) struct Proxied {
    client: reqwest::Client,
    used: Used,
    violations: Violations,
    under_way: UnderWay,
}

/// The header in which the proxy names what is wrong.
const VIOLATIONS: &str = "sl-violations";

impl Connector for Proxied {
    fn carry(
        &self,
        request: http::Request<Bytes>,
        _limit: BodyLimit,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NoAnswer>> {
        let (mut head, mut body) = request.into_parts();
        if let Ok(mut value) = serde_json::from_slice::<Value>(&body) {
            mend_request(&mut value, &self.used);
            body = value.to_string().into();
            head.headers.remove(header::CONTENT_LENGTH);
        }
        let what = format!("{} {}", head.method, head.uri.path());
        let request = reqwest::Request::try_from(http::Request::from_parts(head, body));
        let client = self.client.clone();
        let violations = Arc::clone(&self.violations);
        let asked = self.under_way.one();
        async move {
            let _until_then = asked;
            let answer = client
                .execute(request.map_err(NoAnswer::new)?)
                .await
                .map_err(NoAnswer::new)?;
            let status = answer.status();
            let headers = answer.headers().clone();
            let bytes = answer.bytes().await.map_err(NoAnswer::new)?;
            let text = String::from_utf8_lossy(&bytes);
            let header = headers
                .get(VIOLATIONS)
                .and_then(|header| header.to_str().ok());
            // Warnings are about the document itself: it writes ranges of status codes with small letters.
            let header = header.filter(|header| header.contains(r#""severity":"Error""#));
            // With `--errors` the proxy answers with an error of its own.
            let found = header.or_else(|| text.contains("stoplight.io").then_some(&*text));
            if let Some(found) = found {
                violations.lock().insert(format!("{what}: {found}"));
            }
            let mut response = http::Response::new(bytes);
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            Ok(response)
        }
        .boxed()
    }
}
