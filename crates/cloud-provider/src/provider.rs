//! The root of the contract: what a provider is and what it is given.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{Clusters, ConfigFile, Events, Finding, Instances, LoadBalancers, Node, Result, Routes, Service, Volumes};

/// A cloud.
///
/// A provider offers what its cloud can do as capabilities; what it does not offer is left out and the controller for it
/// does not start. Accessors are called often, must be cheap and must always give the same answer (PROV-19).
///
/// ```
/// use cloud_provider::{async_trait, CloudProvider, Context, Instances, Result};
///
/// struct Acme { machines: Machines }
/// # struct Machines;
/// # #[async_trait] impl Instances for Machines {
/// #     async fn lookup(&self, _: &[std::sync::Arc<cloud_provider::Node>], _: cloud_provider::Want)
/// #         -> Vec<Result<cloud_provider::InstanceState>> { vec![] } }
///
/// #[async_trait]
/// impl CloudProvider for Acme {
///     fn name(&self) -> &str { "acme" }
///     fn instances(&self) -> Option<&dyn Instances> { Some(&self.machines) }
/// }
/// ```
#[async_trait]
pub trait CloudProvider: Send + Sync + 'static {
    /// A stable id; by convention also the scheme of its provider ids (PROV-17).
    fn name(&self) -> &str;

    /// Returns `true` if the cluster's resources can be told from another cluster's. `false` is fatal if the provider
    /// [needs](Self::needs_cluster_id) it, unless `--allow-untagged-cloud` (PROV-7, PROV-18).
    fn has_cluster_id(&self) -> bool {
        true
    }

    /// Returns `true` if the owner of a cloud resource is recognised by the ID of its cluster. Return `false` if owner tags
    /// name the Service itself: the program then starts without a cluster ID and without `--allow-untagged-cloud`.
    fn needs_cluster_id(&self) -> bool {
        true
    }

    /// Called once, after leadership is acquired and before any controller starts (PROV-10). Check the credential here,
    /// with one cheap request, so that a wrong one is said at once. Background tasks end with `context.shutdown`.
    ///
    /// # Errors
    /// Ends the process, with this text.
    async fn initialize(&self, _context: &Context) -> Result<()> {
        Ok(())
    }

    /// Called once, right after [`initialize`](Self::initialize), with the caches that the controllers use (PROV-20).
    fn set_caches(&self, _caches: Arc<dyn Caches>) {}

    /// What the provider can find out about itself for `doctor`: the credential, its permissions, the network, names. It
    /// changes nothing, and may be called without [`initialize`](Self::initialize) before it.
    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// The file of `--cloud-config` has changed: take it over without a restart. Called one at a time, on every replica,
    /// while other calls are under way. Check all of it first, and replace what is used only then.
    ///
    /// # Errors
    /// What is wrong with it, without quoting what may be secret; the provider goes on with what it had.
    async fn reload(&self, _config: &ConfigFile) -> Result<Reload> {
        Ok(Reload::NeedsRestart)
    }

    /// Files that were read beside that of `--cloud-config`, such as certificates that it names: they are followed with it, and
    /// [`reload`](Self::reload) is called when one of them changes.
    fn config_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Where the users of this cloud expect the metrics over plain HTTP, as `host:port` or `:port`; `None`: nowhere but on
    /// the secure port. `--metrics-bind-address` goes before it. A port that is taken costs a warning.
    fn metrics_address(&self) -> Option<String> {
        None
    }

    /// Machines (PROV-12, PROV-13). The node controllers need them (PROV-21).
    fn instances(&self) -> Option<&dyn Instances> {
        None
    }
    /// Load balancers (PROV-11).
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        None
    }
    /// Routes (PROV-16).
    fn routes(&self) -> Option<&dyn Routes> {
        None
    }
    /// Volumes (PROV-64).
    fn volumes(&self) -> Option<&dyn Volumes> {
        None
    }
    /// Clusters (PROV-15).
    fn clusters(&self) -> Option<&dyn Clusters> {
        None
    }

    /// Whether a Node is, or may turn out to be, a machine of this cloud. A Node whose provider id has another scheme
    /// belongs to somebody else and is left alone (P-15).
    fn owns(&self, node: &Node) -> bool {
        node.provider_id_scheme().is_none_or(|scheme| scheme == self.name())
    }
}

/// What came of a changed configuration ([`CloudProvider::reload`]).
///
/// ```
/// use cloud_provider::{CloudProvider, ConfigFile, Error, Reload, Result, async_trait};
/// use std::sync::RwLock;
///
/// struct Acme { zone: RwLock<String> }
///
/// #[async_trait]
/// impl CloudProvider for Acme {
///     fn name(&self) -> &str { "acme" }
///     async fn reload(&self, config: &ConfigFile) -> Result<Reload> {
///         let zone = config.text.strip_prefix("zone: ").ok_or_else(|| Error::invalid("`zone` is missing"))?;
///         *self.zone.write().map_err(|_| Error::other("poisoned"))? = zone.trim().to_owned();
///         Ok(Reload::Done)
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It is in use.
    Done,
    /// This provider reads it only when it starts.
    NeedsRestart,
}

/// The cluster that a request is for.
///
/// ```
/// use cloud_provider::Cluster;
///
/// let cluster = Cluster { name: "kubernetes".into(), id: Some("4f2c7b5e-0d4e-4b59-9d0c-0f6f1f0f8a11".into()) };
/// let mark = cluster.id.as_deref().unwrap_or(&cluster.name);
/// assert_eq!(mark.len(), 36);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `--cluster-name`. Part of resource names in many clouds; two clusters may have the same by mistake (P-21).
    pub name: String,
    /// UID of namespace `kube-system`: what tells clusters apart. `None` where it may not be read (D-11).
    pub id: Option<String>,
}

/// What a provider is given when it starts.
///
/// ```
/// use cloud_provider::{Context, Error, Result};
///
/// async fn secret(context: &Context) -> Result<Vec<u8>> {
///     let api = context.clients.client("acme")?;
///     let path = "/api/v1/namespaces/kube-system/secrets/acme";
///     let request = http::Request::get(path).body(vec![]).map_err(|err| Error::other(err.to_string()))?;
///     Ok(api.send(request).await?.into_body())
/// }
/// ```
#[derive(Clone)]
pub struct Context {
    /// The cluster.
    pub cluster: Cluster,
    /// `--cluster-cidr`: the ranges of the Pod network, as `10.244.0.0/16`; none where the flag says nothing useful.
    pub cluster_cidrs: Vec<String>,
    /// Access to the Kubernetes API, one client for each component name.
    pub clients: Arc<dyn ClientBuilder>,
    /// Events on Nodes and Services.
    pub events: Arc<dyn Events>,
    /// Ends background tasks.
    pub shutdown: CancellationToken,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// Hands out access to the Kubernetes API (PROV-10).
///
/// ```
/// use cloud_provider::{ClientBuilder, Error, KubernetesApi, Result};
/// use std::sync::Arc;
///
/// struct NoAccess;
///
/// impl ClientBuilder for NoAccess {
///     fn client(&self, component: &str) -> Result<Arc<dyn KubernetesApi>> {
///         Err(Error::unauthorized(format!("{component} has no access to the Kubernetes API")))
///     }
/// }
/// ```
pub trait ClientBuilder: Send + Sync {
    /// A client that identifies itself as `component`.
    ///
    /// # Errors
    /// If there is no access for it.
    fn client(&self, component: &str) -> Result<Arc<dyn KubernetesApi>>;
}

/// The Kubernetes API as plain HTTP, so that the contract does not tie a provider to a client library.
///
/// ```
/// use cloud_provider::{async_trait, KubernetesApi, Result};
///
/// struct Empty;
///
/// #[async_trait]
/// impl KubernetesApi for Empty {
///     async fn send(&self, _request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
///         Ok(http::Response::new(b"{}".to_vec()))
///     }
/// }
/// ```
#[async_trait]
pub trait KubernetesApi: Send + Sync {
    /// Sends a request; the URI is a path such as `/api/v1/namespaces/kube-system/secrets/cloud`.
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>>;
}

/// A read-only view of the controllers' caches.
///
/// ```
/// use cloud_provider::Caches;
///
/// fn ready(caches: &dyn Caches) -> usize {
///     caches.nodes().iter().filter(|node| node.ready == cloud_provider::ConditionStatus::True).count()
/// }
/// ```
pub trait Caches: Send + Sync {
    /// All Nodes.
    fn nodes(&self) -> Vec<Arc<Node>>;
    /// The Node of this name.
    fn node(&self, name: &str) -> Option<Arc<Node>>;
    /// All Services; empty where the service controller does not run.
    fn services(&self) -> Vec<Arc<Service>>;
}
