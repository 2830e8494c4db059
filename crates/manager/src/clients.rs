//! Kubernetes clients: one for each component, all from the same configuration.

use std::sync::Arc;

use cloud_provider::{ClientBuilder, Error, Fence, KubernetesApi, Result, async_trait};
use kube::Client;
use kube::client::Body;
use runtime::client::{ClientError, ClientOptions, Limits, RequestMetrics, UserAgent, connect, wrap};

/// `host` of the metrics of an API server inside this process.
const IN_PROCESS: &str = "in-process";

/// Makes clients.
#[derive(Clone)]
pub enum Clients {
    /// For a server that a configuration leads to. Each component identifies itself in its `User-Agent`.
    Configured(Box<ClientOptions>),
    /// One client for everybody: an API server inside this process.
    Shared(Client),
}

/// What a client tells and asks on the way of each request.
#[derive(Clone)]
pub(crate) struct Wiring {
    /// Hears of each request.
    pub(crate) metrics: Arc<dyn RequestMetrics>,
    /// Whether what changes something may be sent (INV-4); `None`: nobody asks.
    pub(crate) fence: Option<Fence>,
}

impl Clients {
    /// A client for one component.
    pub(crate) async fn client(&self, component: &str, wiring: Wiring) -> Result<Client, ClientError> {
        match self {
            Self::Configured(options) => {
                let fence = wiring.fence.unwrap_or_else(|| options.fence.clone());
                connect(&ClientOptions { fence, ..(**options).clone() }, component, wiring.metrics).await
            }
            Self::Shared(client) => Ok(match wiring.fence {
                None => client.clone(),
                Some(fence) => {
                    let limits = Limits { single_attempt: true, fence, ..Limits::default() };
                    wrap(client, IN_PROCESS, &UserAgent::default().with_suffix(component), &limits, wiring.metrics)
                }
            }),
        }
    }

    /// A client of the same configuration with other limits and another time-out (APP-40).
    pub(crate) fn with(&self, change: impl FnOnce(&ClientOptions) -> ClientOptions) -> Self {
        match self {
            Self::Configured(options) => Self::Configured(Box::new(change(options))),
            Self::Shared(client) => Self::Shared(client.clone()),
        }
    }
}

/// What a provider gets of it (PROV-10): a client of its own.
pub(crate) struct ForProvider(pub(crate) Client);

impl ClientBuilder for ForProvider {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(Api(self.0.clone())))
    }
}

struct Api(Client);

#[async_trait]
impl KubernetesApi for Api {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let failed = |error: kube::Error| Error::other(runtime::api_error::api_error(&error).to_string());
        let response = self.0.send(request.map(Body::from)).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        let body = body.collect_bytes().await.map_err(failed)?;
        Ok(http::Response::from_parts(head, body.to_vec()))
    }
}
