//! The cloud's routes for Pod CIDRs.

use async_trait::async_trait;

use crate::{Cluster, Error, NodeAddress, OwnedResource, RemovalOutcome, Result};

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
    /// Name of the route in the cloud; empty in a request to create a route.
    pub name: String,
    /// Name of the Node that the route leads to; empty if its target is no known Node.
    pub target_node: String,
    /// If set, the provider supports [`target_node_addresses`](Self::target_node_addresses): `list` fills the field,
    /// and `create` uses it. Then the controller replaces the route when its next hop changes. Providers of this
    /// project always set it (D-5).
    pub enable_node_addresses: bool,
    /// Addresses of the next hop. If [`owned`](Self::owned) is set, each must be an address of the Node of the same
    /// type; otherwise they are compared with all of the Node's addresses (ROUTE-23).
    pub target_node_addresses: Vec<NodeAddress>,
    /// The Pod CIDR of the route.
    pub destination_cidr: String,
    /// If set, the route leads nowhere, because its machine no longer exists.
    pub blackhole: bool,
    /// `Some(true)` if the route is this cluster's, `Some(false)` if it belongs to another owner and must never be
    /// deleted (P-32, INV-7). `None` if the cloud cannot tell; such a route is only deleted if its range lies in
    /// `--cluster-cidr`, as in the Go cloud controller manager.
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
    /// Returns all routes of the cluster, including black holes (PROV-57). A partial list must be an error, because
    /// missing routes would be created again.
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>>;
    /// Creates a route. `hint` is the Node's UID, the same for both CIDRs of a dual-stack Node (PROV-58).
    async fn create(&self, cluster: &Cluster, hint: &str, route: &Route) -> Result<()>;
    /// Deletes a route that an earlier [`list`](Self::list) returned (PROV-59).
    async fn delete(&self, cluster: &Cluster, route: &Route) -> Result<()>;

    /// Reads all routes with an owner tag of this cluster, whether their Nodes exist or not. Empty in a cloud whose
    /// routes have no tags, because a range of addresses alone does not identify the owner.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn owned(&self, _cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        Ok(Vec::new())
    }

    /// Deletes a route that [`owned`](Self::owned) returned. The route is read again first, and deleted only if its
    /// owner tag is still the same.
    ///
    /// # Errors
    /// The cloud's answer; *not implemented* by default.
    async fn delete_owned(
        &self,
        _cluster: &Cluster,
        _resource: &OwnedResource,
    ) -> Result<RemovalOutcome> {
        Err(Error::not_implemented())
    }
}
