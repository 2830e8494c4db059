//! The root of the contract: the provider trait, and the input of a provider.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{
    Clusters, ConfigFile, Events, Finding, Instances, LoadBalancers, Node, Result, Routes, Service,
    Volumes,
};

/// A provider of one cloud.
///
/// A provider offers the abilities of its cloud as capabilities. A capability that it does not offer is left out, and
/// the controller for it does not start. Accessors are called often, must be cheap and must always return the same
/// value (PROV-19).
///
/// ```
/// use cloud_provider::{async_trait, CloudProvider, Context, Instances, Result};
///
/// struct Acme { machines: Machines }
/// # struct Machines;
/// # #[async_trait] impl Instances for Machines {
/// #     async fn lookup(&self, _: &[std::sync::Arc<cloud_provider::Node>], _: cloud_provider::LookupRequest)
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
    /// Returns a stable ID; by convention also the scheme of the cloud's provider IDs (PROV-17).
    fn name(&self) -> &str;

    /// Returns `true` if the cluster's resources can be distinguished from another cluster's. Called after
    /// [`initialize`](Self::initialize), so that a provider can find the ID in the cloud. `false` is fatal if the provider
    /// [needs](Self::needs_cluster_id) a cluster ID, unless `--allow-untagged-cloud` is set (PROV-7, PROV-18).
    fn has_cluster_id(&self) -> bool {
        true
    }

    /// Returns `true` if the owner of a cloud resource is identified by the ID of its cluster. Return `false` if owner
    /// tags name the Service itself: the program then starts without a cluster ID and without `--allow-untagged-cloud`.
    fn needs_cluster_id(&self) -> bool {
        true
    }

    /// Initializes the provider. Called once, after leadership is acquired and before any controller starts (PROV-10).
    /// Check the credential here, with one cheap request, so that a wrong one is reported at once. Find here what the
    /// configuration leaves open (cluster ID, region, network), so that a missing fact is reported at once, too; an error
    /// that [is unanswered](crate::Error::is_unanswered) is tried again. Background tasks end with `context.shutdown`.
    ///
    /// # Errors
    /// An error ends the process, and its text is logged.
    async fn initialize(&self, _context: &Context) -> Result<()> {
        Ok(())
    }

    /// Sets the caches that the controllers use. Called once, right after [`initialize`](Self::initialize) (PROV-20).
    fn set_caches(&self, _caches: Arc<dyn Caches>) {}

    /// Checks the provider for `doctor`: the credential, its permissions, the network, names. The method is read-only,
    /// and may be called without [`initialize`](Self::initialize).
    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Reloads the file of `--cloud-config` after a change, without a restart. Called one at a time, on every replica,
    /// while other calls are in flight. Check all of the file first, and replace the settings only then.
    ///
    /// # Errors
    /// The mistakes in the file, without quoting possible secrets; the provider continues with the old settings.
    async fn reload(&self, _config: &ConfigFile) -> Result<Reload> {
        Ok(Reload::NeedsRestart)
    }

    /// Returns the files that were read in addition to that of `--cloud-config`, such as certificates that it names.
    /// They are watched, too, and [`reload`](Self::reload) is called when one of them changes.
    fn config_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the address at which users of this cloud expect metrics over plain HTTP, as `host:port` or `:port`;
    /// `None` if they are only served on the secure port. `--metrics-bind-address` takes precedence. A port that is in
    /// use causes a warning.
    fn metrics_address(&self) -> Option<String> {
        None
    }

    /// Returns the machines of the cloud (PROV-12, PROV-13). The node controllers need them (PROV-21).
    fn instances(&self) -> Option<&dyn Instances> {
        None
    }
    /// Returns the load balancers of the cloud (PROV-11).
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        None
    }
    /// Returns the routes of the cloud (PROV-16).
    fn routes(&self) -> Option<&dyn Routes> {
        None
    }
    /// Returns the volumes of the cloud (PROV-64).
    fn volumes(&self) -> Option<&dyn Volumes> {
        None
    }
    /// Returns the clusters of the cloud (PROV-15).
    fn clusters(&self) -> Option<&dyn Clusters> {
        None
    }

    /// Returns `true` if a Node is, or may turn out to be, a machine of this cloud. A Node whose provider ID has
    /// another scheme belongs to another provider and is left alone (P-15).
    fn owns_node(&self, node: &Node) -> bool {
        node.provider_id_scheme()
            .is_none_or(|scheme| scheme == self.name())
    }
}

/// The outcome of a reload of the configuration ([`CloudProvider::reload`]).
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
    /// The new configuration is in use.
    Done,
    /// The provider reads its configuration only when it starts.
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
    /// The value of `--cluster-name`. Part of resource names in many clouds; two clusters may have the same name by
    /// mistake (P-21).
    pub name: String,
    /// UID of the namespace `kube-system`, which distinguishes clusters. `None` if the process is not permitted to read
    /// that namespace (D-11).
    pub id: Option<String>,
}

/// The process context that a provider gets when it is initialized.
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
    /// The cluster that the process manages.
    pub cluster: Cluster,
    /// Ranges of the Pod network from `--cluster-cidr`, such as `10.244.0.0/16`; empty if the flag has no valid range.
    pub cluster_cidrs: Vec<String>,
    /// Access to the Kubernetes API, with one client for each component name.
    pub clients: Arc<dyn ClientBuilder>,
    /// Recorder of events on Nodes and Services.
    pub events: Arc<dyn Events>,
    /// Token that ends background tasks.
    pub shutdown: CancellationToken,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// A builder of clients of the Kubernetes API (PROV-10).
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
    /// Returns a client that identifies itself as `component`.
    ///
    /// # Errors
    /// An error if the component has no access.
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
    /// Sends a request; the URI is a path such as `/api/v1/namespaces/kube-system/secrets/cloud`. An answer with an
    /// error status, such as 404, is returned as a response.
    ///
    /// # Errors
    /// An error if the API server did not answer.
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
    /// Returns all cached Nodes.
    fn nodes(&self) -> Vec<Arc<Node>>;
    /// Returns the Node of this name.
    fn node(&self, name: &str) -> Option<Arc<Node>>;
    /// Returns all cached Services; empty if the service controller does not run.
    fn services(&self) -> Vec<Arc<Service>>;
}
