//! A relay between the program under test and the cloud: every request passes a [`FaultInjector`], which counts it and can end the
//! program's life at it. The catalogue of the relay leads to the relay.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use ccm_conformance::fault_injector::{FaultInjector, Side};
use embedded_apiserver::ApiServer;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::{Service, ServiceExt};

use crate::cloud::{Api, Cloud};

/// A server on a free port until it is dropped.
pub(crate) struct Served {
    /// `http://127.0.0.1:port`.
    pub(crate) address: String,
    _until: DropGuard,
}

impl Served {
    /// Serves what passes the injector.
    async fn start<S>(make: impl FnOnce(String) -> S) -> Result<Self>
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let service = make(address.clone());
        let router = Router::new().fallback(move |request: Request<Body>| {
            let service = service.clone();
            async move {
                let answer = service.oneshot(request).await;
                Ok::<_, Infallible>(
                    answer.unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response()),
                )
            }
        });
        let shutdown = CancellationToken::new();
        let until = shutdown.clone().drop_guard();
        tokio::spawn(async move {
            // Watches never end by themselves.
            tokio::select! {
                _ = axum::serve(listener, router).into_future() => {}
                () = shutdown.cancelled() => {}
            }
        });
        Ok(Self {
            address,
            _until: until,
        })
    }

    /// Starts a relay to the Kubernetes API behind the injector.
    pub(crate) async fn kubernetes(api: &ApiServer, injector: &FaultInjector) -> Result<Self> {
        let gated = injector.before(Side::Kubernetes, api.service());
        Self::start(|_| gated).await
    }

    /// Starts a relay to the cloud behind the injector; issued tokens are recorded in `tokens`.
    pub(crate) async fn cloud(
        cloud: &Cloud,
        injector: &FaultInjector,
        tokens: &Tokens,
    ) -> Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(120))
            .build()?;
        let origins = cloud.origins();
        let tokens = tokens.clone();
        Self::start(|address| {
            let far = Far {
                client,
                origins: Arc::new(origins),
                address,
                tokens,
            };
            injector.before(Side::Cloud, far)
        })
        .await
    }
}

/// The tokens that were given to the program. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Arc<Mutex<Given>>);

#[derive(Debug, Default)]
struct Given {
    tokens: Vec<String>,
    /// Number of the first tokens that are invalid.
    spoiled: usize,
}

impl Tokens {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.lock()
    }

    /// Returns the number of tokens.
    pub(crate) fn count(&self) -> usize {
        self.given().tokens.len()
    }

    /// Replaces the tokens that were issued so far by invalid ones on their way to the cloud: services accept a token
    /// for minutes after it was revoked.
    pub(crate) fn spoil(&self) {
        let mut given = self.given();
        given.spoiled = given.tokens.len();
    }

    fn note(&self, token: &str) {
        self.given().tokens.push(token.to_owned());
    }

    fn is_spoiled(&self, token: &[u8]) -> bool {
        let given = self.given();
        given.tokens[..given.spoiled]
            .iter()
            .any(|other_token| other_token.as_bytes() == token)
    }
}

/// The cloud, where paths begin with the name of the service.
#[derive(Clone)]
struct Far {
    client: reqwest::Client,
    origins: Arc<BTreeMap<Api, String>>,
    address: String,
    tokens: Tokens,
}

impl Far {
    async fn carry(self, request: Request<Full<Bytes>>) -> Result<Response<Body>> {
        let (mut head, body) = request.into_parts();
        let target = head
            .uri
            .path_and_query()
            .map_or("/", |path_and_query| path_and_query.as_str());
        let (service, rest) = target
            .trim_start_matches('/')
            .split_once('/')
            .unwrap_or((target.trim_matches('/'), ""));
        let Some((_, origin)) = self.origins.iter().find(|(api, _)| api.kind() == service) else {
            return Ok((StatusCode::NOT_FOUND, format!("no service {service}")).into_response());
        };
        head.uri = format!("{origin}/{rest}").parse()?;
        for name in [
            header::HOST,
            header::CONTENT_LENGTH,
            header::CONNECTION,
            header::ACCEPT_ENCODING,
        ] {
            head.headers.remove(name);
        }
        if let Some(token) = head.headers.get_mut("x-auth-token")
            && self.tokens.is_spoiled(token.as_bytes())
        {
            *token = HeaderValue::from_static("spoiled");
        }
        let body = body.collect().await?.to_bytes();
        let answer = self
            .client
            .execute(reqwest::Request::try_from(Request::from_parts(head, body))?)
            .await?;
        let status = answer.status();
        let mut headers = answer.headers().clone();
        for name in [
            header::CONTENT_LENGTH,
            header::CONNECTION,
            header::TRANSFER_ENCODING,
        ] {
            headers.remove(name);
        }
        if let Some(token) = headers
            .get("x-subject-token")
            .and_then(|header| header.to_str().ok())
        {
            self.tokens.note(token);
        }
        let mut text = answer.text().await?;
        for (api, origin) in self.origins.iter() {
            if text.contains(origin) {
                text = text.replace(origin, &format!("{}/{}", self.address, api.kind()));
            }
        }
        let mut response = Response::new(Body::from(text));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Ok(response)
    }
}

impl Service<Request<Full<Bytes>>> for Far {
    type Response = Response<Body>;
    type Error = anyhow::Error;
    type Future = BoxFuture<'static, Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        self.clone().carry(request).boxed()
    }
}
