//! What a provider is made from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{ConfigFile, Fence};

/// What a provider is made from.
///
/// ```
/// use cloud_provider::{ConfigFile, Setup};
///
/// let setup = Setup::of(ConfigFile { path: "/etc/cloud.yaml".into(), text: "token: s3cret".into() });
/// assert!(setup.fence.is_open() && !format!("{setup:?}").contains("s3cret"));
/// ```
#[derive(Clone)]
pub struct Setup {
    /// `--cloud-config`: `None` if no file was given, which is not the same as an empty one (PROV-1).
    pub config: Option<ConfigFile>,
    /// Whether the cloud may be changed now (INV-4).
    pub fence: Fence,
    /// Hears of the requests to the cloud.
    pub metrics: Arc<dyn CloudMetrics>,
}

impl Setup {
    /// With this configuration; changes are allowed, nothing is measured.
    #[must_use]
    pub fn of(config: ConfigFile) -> Self {
        Self { config: Some(config), ..Self::default() }
    }
}

impl Default for Setup {
    /// Without a configuration; changes are allowed, nothing is measured.
    fn default() -> Self {
        Self { config: None, fence: Fence::open(), metrics: Arc::new(NoCloudMetrics) }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("config", &self.config).field("fence", &self.fence).finish_non_exhaustive()
    }
}

/// Hears of each request to the cloud (MET-41). A label is an operation, such as `GET /v1/machines/{}`: never an id.
///
/// Hooks are called on the way of requests: they update a number and return.
pub trait CloudMetrics: Send + Sync {
    /// A request was answered with `status`, or got no answer, after `took`. Each try counts.
    fn finished(&self, _operation: &str, _status: Option<u16>, _took: Duration) {}
    /// The cloud asked for a pause: nothing is sent for `pause`.
    fn paused(&self, _pause: Duration) {}
    /// The cloud said how many requests it will still answer before the next pause.
    fn remaining(&self, _requests: u64) {}
    /// A look-up was answered from what is remembered (`true`), or needed a request.
    fn cached(&self, _hit: bool) {}
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCloudMetrics;

impl CloudMetrics for NoCloudMetrics {}
