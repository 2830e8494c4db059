//! Clusters that a cloud knows. No controller uses them; kept for providers that are ported (PROV-63).

use async_trait::async_trait;

use crate::Result;

/// Clusters of a cloud.
///
/// ```
/// use cloud_provider::{async_trait, Clusters, Result};
///
/// struct Acme;
///
/// #[async_trait]
/// impl Clusters for Acme {
///     async fn list(&self) -> Result<Vec<String>> { Ok(vec!["prod".into()]) }
///     async fn master(&self, cluster: &str) -> Result<String> { Ok(format!("{cluster}.example.test")) }
/// }
/// ```
#[async_trait]
pub trait Clusters: Send + Sync {
    /// Returns the names of the clusters.
    async fn list(&self) -> Result<Vec<String>>;
    /// Returns the address of a cluster's control plane.
    async fn master(&self, cluster: &str) -> Result<String>;
}
