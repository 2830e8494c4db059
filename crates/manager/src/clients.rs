//! Kubernetes clients: one for each component, all from the same configuration.

use std::sync::Arc;

use cloud_provider::{ClientBuilder, Error, Fence, KubernetesApi, Result, async_trait};
use kube::Client;
use kube::client::Body;
use runtime::client::{ClientError, ClientOptions, Limits, RequestMetrics, UserAgent, connect, wrap};
use tokio::sync::OnceCell;

use crate::controllers_task::Settings;

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

/// What a provider gets of it (PROV-10).
pub(crate) enum ForProvider {
    /// One client, whatever it asks for.
    Given(Client),
    /// A client for each component that it names, with an account of its own where flags say so (APP-50).
    Own(Box<Settings>),
}

impl ClientBuilder for ForProvider {
    fn client(&self, component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(match self {
            Self::Given(client) => Api { cell: client.clone().into(), maker: None },
            Self::Own(settings) => Api { cell: OnceCell::new(), maker: Some((settings.clone(), component.to_owned())) },
        }))
    }
}

/// A client that is made when it is first used: an account that nobody uses must not be asked for (DEP-10).
struct Api {
    cell: OnceCell<Client>,
    maker: Option<(Box<Settings>, String)>,
}

impl Api {
    async fn client(&self) -> Result<&Client> {
        let make = async || match &self.maker {
            Some((settings, component)) => settings.client_of_its_own(component).await,
            None => Err(anyhow::anyhow!("there is no client")),
        };
        self.cell.get_or_try_init(make).await.map_err(|error| Error::other(format!("{error:#}")))
    }
}

#[async_trait]
impl KubernetesApi for Api {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let failed = |error: kube::Error| Error::other(runtime::api_error::api_error(&error).to_string());
        let response = self.client().await?.send(request.map(Body::from)).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        let body = body.collect_bytes().await.map_err(failed)?;
        Ok(http::Response::from_parts(head, body.to_vec()))
    }
}
