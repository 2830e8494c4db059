//! A Kubernetes API that answers all requests with one status, for tests of a provider's reads.

use std::sync::Arc;

use async_trait::async_trait;
use http::StatusCode;

use crate::{ClientBuilder, KubernetesApi, Result};

/// A Kubernetes API whose answers are empty and have this status, such as 403.
#[derive(Clone, Copy, Debug)]
pub struct AnsweringStatus(pub StatusCode);

impl ClientBuilder for AnsweringStatus {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(*self))
    }
}

#[async_trait]
impl KubernetesApi for AnsweringStatus {
    async fn send(&self, _request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let mut response = http::Response::new(Vec::new());
        *response.status_mut() = self.0;
        Ok(response)
    }
}
