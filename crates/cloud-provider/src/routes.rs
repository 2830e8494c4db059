//! The cloud's routes for Pod CIDRs.

use async_trait::async_trait;

use crate::{Cluster, Error, NodeAddress, OwnedResource, Removal, Result};

/// A route of the cloud: traffic for one Pod CIDR goes to one Node (PROV-60).
///
/// ```
/// use cloud_provider::Route;
///
/// let route = Route {
///     target_node: "worker-1".into(),
///     destination_cidr: "10.244.3.0/24".into(),
///     owned: Some(true),
///     ..Route::default()
/// };
/// assert!(!route.blackhole);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The cloud's name for it; empty in a request to create one.
    pub name: String,
    /// The Node that it leads to; empty if the cloud's target is no known Node.
    pub target_node: String,
    /// Whether the provider fills and honours [`target_node_addresses`](Self::target_node_addresses), so that a changed
    /// next hop makes the controller replace the route. Providers of this project always do (D-5).
    pub enable_node_addresses: bool,
    /// The next hop's addresses. Where [`owned`](Self::owned) is told, each must be an address of the Node of its kind;
    /// where it is not, they are compared with all of the Node's addresses (ROUTE-23).
    pub target_node_addresses: Vec<NodeAddress>,
    /// The Pod CIDR.
    pub destination_cidr: String,
    /// A route that leads nowhere, because its machine is gone.
    pub blackhole: bool,
    /// Whether it is this cluster's: `None` → judged by its range as the reference does, `Some(false)` → never deleted
    /// (P-32, INV-7).
    pub owned: Option<bool>,
}

/// Routes of a cloud. Creates and deletes of different routes run at the same time (PROV-61).
///
/// ```
/// use cloud_provider::{async_trait, Cluster, Result, Route, Routes};
///
/// struct Acme;
///
/// #[async_trait]
/// impl Routes for Acme {
///     async fn list(&self, _cluster: &Cluster) -> Result<Vec<Route>> { Ok(vec![]) }
///     async fn create(&self, _cluster: &Cluster, _hint: &str, _route: &Route) -> Result<()> { Ok(()) }
///     async fn delete(&self, _cluster: &Cluster, _route: &Route) -> Result<()> { Ok(()) }
/// }
/// ```
#[async_trait]
pub trait Routes: Send + Sync {
    /// All routes of the cluster, blackholes included (PROV-57).
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>>;
    /// Creates a route. `hint` is the Node's UID, the same for both CIDRs of a dual-stack Node (PROV-58).
    async fn create(&self, cluster: &Cluster, hint: &str, route: &Route) -> Result<()>;
    /// Deletes a route, an element of an earlier [`list`](Self::list) (PROV-59).
    async fn delete(&self, cluster: &Cluster, route: &Route) -> Result<()>;

    /// Reads all routes with an owner tag of this cluster, whether their Nodes exist or not. None in a cloud whose routes have no
    /// tags: there nothing but a range of addresses tells whose a route is.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn owned(&self, _cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        Ok(Vec::new())
    }

    /// Deletes one of them, which is read again first.
    ///
    /// # Errors
    /// The cloud's answer; *not implemented* by default.
    async fn delete_owned(&self, _cluster: &Cluster, _resource: &OwnedResource) -> Result<Removal> {
        Err(Error::not_implemented())
    }
}
