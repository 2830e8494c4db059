//! Kubernetes clients: one for each component, all from the same configuration.

use std::sync::Arc;

use cloud_provider::{ClientBuilder, Error, KubernetesApi, Result, async_trait};
use kube::Client;
use kube::client::Body;
use runtime::client::{ClientError, ClientOptions, RequestMetrics, connect};

/// Makes clients.
#[derive(Clone)]
pub enum Clients {
    /// For a server that a configuration leads to. Each component identifies itself in its `User-Agent`.
    Configured(Box<ClientOptions>),
    /// One client for everybody: an API server inside this process.
    Shared(Client),
}

impl Clients {
    /// A client for one component, and who hears of its requests.
    pub(crate) async fn client(
        &self,
        component: &str,
        metrics: Arc<dyn RequestMetrics>,
    ) -> Result<Client, ClientError> {
        match self {
            Self::Configured(options) => connect(options, component, metrics).await,
            Self::Shared(client) => Ok(client.clone()),
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
