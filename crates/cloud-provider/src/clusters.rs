//! Clusters that a cloud knows of. No controller asks; kept for providers that are ported (PROV-63).

use async_trait::async_trait;

use crate::Result;

/// Clusters of a cloud.
#[async_trait]
pub trait Clusters: Send + Sync {
    /// Their names.
    async fn list(&self) -> Result<Vec<String>>;
    /// Address of a cluster's control plane.
    async fn master(&self, cluster: &str) -> Result<String>;
}
