//! Kubernetes clients: one for each component, all from the same configuration.

use std::sync::Arc;

use cloud_provider::{ClientBuilder, Error, Fence, KubernetesApi, Result, async_trait};
use kube::Client;
use kube::client::Body;
use runtime::client::{
    ClientError, ClientOptions, Limits, RequestMetrics, UserAgent, connect, wrap,
};
use tokio::sync::OnceCell;

use crate::controller_set::Settings;

/// Value of the label `host` for an API server inside this process.
const IN_PROCESS: &str = "in-process";

/// A factory of Kubernetes clients.
#[derive(Clone)]
pub enum Clients {
    /// Clients of a configured server. Each component identifies itself in its `User-Agent`.
    Configured(Box<ClientOptions>),
    /// A client that all components share, for an API server inside this process.
    Shared(Client),
}

/// Metrics and fence of a client.
#[derive(Clone)]
pub(crate) struct Wiring {
    /// Metrics of each request.
    pub(crate) metrics: Arc<dyn RequestMetrics>,
    /// Fence that permits or refuses changes (INV-4); `None` permits all.
    pub(crate) fence: Option<Fence>,
}

impl Clients {
    /// Returns a client for one component.
    pub(crate) async fn client(
        &self,
        component: &str,
        wiring: Wiring,
    ) -> Result<Client, ClientError> {
        match self {
            Self::Configured(options) => {
                let fence = wiring.fence.unwrap_or_else(|| options.fence.clone());
                connect(
                    &ClientOptions {
                        fence,
                        ..(**options).clone()
                    },
                    component,
                    wiring.metrics,
                )
                .await
            }
            Self::Shared(client) => Ok(match wiring.fence {
                None => client.clone(),
                Some(fence) => {
                    let limits = Limits {
                        single_attempt: true,
                        fence,
                        ..Limits::default()
                    };
                    wrap(
                        client,
                        IN_PROCESS,
                        &UserAgent::default().with_suffix(component),
                        &limits,
                        wiring.metrics,
                    )
                }
            }),
        }
    }

    /// Returns clients of the same server with other options, such as limits or a timeout (APP-40).
    pub(crate) fn with(&self, change: impl FnOnce(&ClientOptions) -> ClientOptions) -> Self {
        match self {
            Self::Configured(options) => Self::Configured(Box::new(change(options))),
            Self::Shared(client) => Self::Shared(client.clone()),
        }
    }
}

/// The Kubernetes clients that a provider gets (PROV-10).
pub(crate) enum ProviderClients {
    /// A client that all components of the provider share.
    Shared(Client),
    /// A client for each component that the provider names, with its own ServiceAccount if the flags say so (APP-50).
    PerComponent(Box<Settings>),
}

impl ClientBuilder for ProviderClients {
    fn client(&self, component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(match self {
            Self::Shared(client) => Api {
                cell: client.clone().into(),
                maker: None,
            },
            Self::PerComponent(settings) => Api {
                cell: OnceCell::new(),
                maker: Some((settings.clone(), component.to_owned())),
            },
        }))
    }
}

/// A client that is created at its first use, so that no ServiceAccount is created that is never used (DEP-10).
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
        self.cell
            .get_or_try_init(make)
            .await
            .map_err(|error| Error::other(format!("{error:#}")))
    }
}

#[async_trait]
impl KubernetesApi for Api {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let failed =
            |error: kube::Error| Error::other(runtime::api_error::api_error(&error).to_string());
        let response = self
            .client()
            .await?
            .send(request.map(Body::from))
            .await
            .map_err(failed)?;
        let (head, body) = response.into_parts();
        let body = body.collect_bytes().await.map_err(failed)?;
        Ok(http::Response::from_parts(head, body.to_vec()))
    }
}
