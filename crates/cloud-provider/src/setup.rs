//! The setup from which a provider is built.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{AdoptableTag, ConfigFile, Environment, Fence};

/// The setup from which a provider is built.
///
/// ```
/// use cloud_provider::{ConfigFile, Setup};
///
/// let setup = Setup::of(ConfigFile { path: "/etc/cloud.yaml".into(), text: "token: s3cret".into() });
/// assert!(setup.fence.is_open() && !format!("{setup:?}").contains("s3cret"));
/// ```
#[derive(Clone)]
pub struct Setup {
    /// Configuration file of `--cloud-config`; `None` if no file was given, which differs from an empty file (PROV-1).
    pub config: Option<ConfigFile>,
    /// Environment variables; empty unless the program passes its own.
    pub environment: Environment,
    /// Value of `--cluster-cidr` as it was given, even if empty; `None` if flags were not parsed. Only for a provider
    /// that offers routes depending on this flag; others read the parsed ranges from [`Context`](crate::Context).
    pub cluster_cidr: Option<String>,
    /// Products that the user adds to the User-Agent of requests to the cloud, before the provider's own.
    pub user_agent: Vec<String>,
    /// Timeout of a call to the cloud. If set, a failed call is not retried; set it if a person waits for the answer.
    /// `None` for the provider's default timeout, with retries.
    pub call_timeout: Option<Duration>,
    /// Flags of this cloud's Go cloud-controller-manager that were set, by name with its dashes: `--vpc-names`.
    pub flags: Environment,
    /// Tag that a load balancer must have before a Service adopts it; `None` if none is needed.
    pub adoptable_tag: Option<AdoptableTag>,
    /// Fence that allows or forbids changes in the cloud (INV-4).
    pub fence: Fence,
    /// Metrics of requests to the cloud.
    pub metrics: Arc<dyn CloudMetrics>,
}

impl Setup {
    /// Returns a setup with this configuration; changes are allowed, and nothing is measured.
    #[must_use]
    pub fn of(config: ConfigFile) -> Self {
        Self {
            config: Some(config),
            ..Self::default()
        }
    }
}

impl Default for Setup {
    /// Returns a setup without a configuration; changes are allowed, and nothing is measured.
    fn default() -> Self {
        Self {
            config: None,
            environment: Environment::default(),
            cluster_cidr: None,
            user_agent: Vec::new(),
            call_timeout: None,
            flags: Environment::default(),
            adoptable_tag: None,
            fence: Fence::open(),
            metrics: Arc::new(NoCloudMetrics),
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            config,
            environment,
            cluster_cidr,
            user_agent,
            flags,
            adoptable_tag,
            call_timeout,
            fence,
            metrics: _,
        } = self;
        let mut debug = f.debug_struct("Setup");
        debug
            .field("config", config)
            .field("environment", environment)
            .field("cluster_cidr", cluster_cidr);
        debug
            .field("user_agent", user_agent)
            .field("flags", flags)
            .field("adoptable_tag", adoptable_tag)
            .field("call_timeout", call_timeout)
            .field("fence", fence)
            .finish_non_exhaustive()
    }
}

/// Metrics of requests to the cloud (MET-41). A label is an operation, such as `GET /v1/machines/{}`: never an ID.
///
/// The methods are called in the path of requests, so they must only update a number and return.
pub trait CloudMetrics: Send + Sync {
    /// Reports that a request is being sent; [`finished`](Self::finished) follows, or [`abandoned`](Self::abandoned) if
    /// the call is dropped.
    fn started(&self, _operation: &str) {}
    /// Reports that no caller waits for a [`started`](Self::started) request any more.
    fn abandoned(&self, _operation: &str) {}
    /// Reports that a request was answered with `status`, or got no answer, after `took`. Each attempt counts.
    fn finished(&self, _operation: &str, _status: Option<u16>, _took: Duration) {}
    /// Reports that the cloud requested a pause: nothing is sent for `pause`.
    fn paused(&self, _pause: Duration) {}
    /// Reports the number of requests that the cloud will still answer before the next pause.
    fn remaining(&self, _requests: u64) {}
    /// Reports that a lookup was answered from the cache (`true`), or needed a request.
    fn cached(&self, _hit: bool) {}
    /// Reports that the credential in a file changed: the new one is in use, or was rejected. Called for each attempt.
    fn credential_changed(&self, _is_in_use: bool) {}
    /// Adds `value` to a counter or gauge of the provider's own, or observes it in a histogram, for dashboards that
    /// were made for the Go cloud controller manager of this cloud. `labels` has one value for each of the series'
    /// labels, with few distinct values.
    fn record(&self, _series: &'static ProviderSeries, _labels: &[&str], _value: f64) {}
}

/// A metric series of a provider's own.
///
/// ```
/// use cloud_provider::{ProviderSeries, SeriesKind};
///
/// static REQUESTS: ProviderSeries = ProviderSeries {
///     name: "acme_api_requests_total",
///     kind: SeriesKind::Counter,
///     labels: &["code"],
///     help: "Requests to the Acme API.",
/// };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProviderSeries {
    /// Name in Prometheus form.
    pub name: &'static str,
    /// Type of the series.
    pub kind: SeriesKind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Help text, in one sentence.
    pub help: &'static str,
}

/// The type of a [`ProviderSeries`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeriesKind {
    /// A counter: values are added, and it only grows.
    Counter,
    /// A gauge: values, which may be negative, are added.
    Gauge,
    /// A histogram: values are counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// Metrics that drop all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCloudMetrics;

impl CloudMetrics for NoCloudMetrics {}
