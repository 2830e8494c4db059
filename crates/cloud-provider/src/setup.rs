//! What a provider is made from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{ConfigFile, Environment, Fence};

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
    /// The environment variables; empty unless the program hands over its own.
    pub environment: Environment,
    /// `--cluster-cidr` as it was given, an empty one included; `None` if nobody asked the flags. For a provider that has
    /// routes only if it is this or that; [`Context`](crate::Context) has the ranges.
    pub cluster_cidr: Option<String>,
    /// What the user wants to stand in the User-Agent of requests to the cloud, before what the provider says.
    pub user_agent: Vec<String>,
    /// Longest time of a call to the cloud, which is then sent once; `None`: as the provider finds right. Set where a person waits
    /// for the answer.
    pub call_timeout: Option<Duration>,
    /// The flags of this cloud's Go cloud-controller-manager that were given, by name with its dashes: `--vpc-names`.
    pub flags: Environment,
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
        Self {
            config: None,
            environment: Environment::default(),
            cluster_cidr: None,
            user_agent: Vec::new(),
            call_timeout: None,
            flags: Environment::default(),
            fence: Fence::open(),
            metrics: Arc::new(NoCloudMetrics),
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, environment, cluster_cidr, user_agent, flags, call_timeout, fence, metrics: _ } = self;
        let mut debug = f.debug_struct("Setup");
        debug.field("config", config).field("environment", environment).field("cluster_cidr", cluster_cidr);
        debug
            .field("user_agent", user_agent)
            .field("flags", flags)
            .field("call_timeout", call_timeout)
            .field("fence", fence)
            .finish_non_exhaustive()
    }
}

/// Hears of each request to the cloud (MET-41). A label is an operation, such as `GET /v1/machines/{}`: never an id.
///
/// Hooks are called on the way of requests: they update a number and return.
pub trait CloudMetrics: Send + Sync {
    /// A request is being sent; [`finished`](Self::finished) follows, unless the call is dropped: then
    /// [`abandoned`](Self::abandoned).
    fn started(&self, _operation: &str) {}
    /// A request that was [`started`](Self::started) is no longer waited for.
    fn abandoned(&self, _operation: &str) {}
    /// A request was answered with `status`, or got no answer, after `took`. Each try counts.
    fn finished(&self, _operation: &str, _status: Option<u16>, _took: Duration) {}
    /// The cloud asked for a pause: nothing is sent for `pause`.
    fn paused(&self, _pause: Duration) {}
    /// The cloud said how many requests it will still answer before the next pause.
    fn remaining(&self, _requests: u64) {}
    /// A look-up was answered from what is remembered (`true`), or needed a request.
    fn cached(&self, _hit: bool) {}
    /// A credential in a file is another one: it is in use, or was not accepted. That is told with each try.
    fn credential_changed(&self, _is_in_use: bool) {}
    /// Adds `value` to a series of the provider's own: what its users' dashboards know from the program that ran this cloud
    /// before. `labels`: one value for each of the series' labels, few distinct ones.
    fn record(&self, _series: &'static ProviderSeries, _labels: &[&str], _value: f64) {}
}

/// A series of a provider's own.
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
    /// Its name, in the form of Prometheus.
    pub name: &'static str,
    /// Its type.
    pub kind: SeriesKind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// Type of a [`ProviderSeries`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeriesKind {
    /// Only grows: values are added.
    Counter,
    /// Goes up and down: values, negative ones too, are added.
    Gauge,
    /// Values are counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCloudMetrics;

impl CloudMetrics for NoCloudMetrics {}
