//! Topology labels of volumes.

use std::collections::BTreeMap;

use async_trait::async_trait;
pub use k8s_openapi::api::core::v1::PersistentVolume;

use crate::Result;

/// Volumes of a cloud (PROV-64, D-14).
///
/// ```
/// use cloud_provider::{async_trait, PersistentVolume, Result, Volumes};
/// use std::collections::BTreeMap;
///
/// struct Acme;
///
/// #[async_trait]
/// impl Volumes for Acme {
///     async fn labels(&self, _volume: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>> {
///         Ok(Some([("topology.kubernetes.io/zone".into(), "z1".into())].into()))
///     }
/// }
/// ```
#[async_trait]
pub trait Volumes: Send + Sync {
    /// Returns the zone and region labels of this volume, from which its node affinity is derived. Several zones are
    /// joined by [`ZONE_DELIMITER`](crate::names::ZONE_DELIMITER). `None` if the volume does not belong to this cloud.
    ///
    /// # Errors
    /// The cloud's answer, if the volume could not be read.
    async fn labels(&self, volume: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>>;
}
