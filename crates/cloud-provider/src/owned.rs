//! Resources with the owner tags of a cluster, as the subcommand `orphans` reads and deletes them.

use jiff::Timestamp;

/// A resource of the cloud with owner tags of a cluster.
///
/// ```
/// use cloud_provider::{OwnedResource, Owner};
///
/// let route = OwnedResource {
///     kind: "route",
///     id: "r-1".into(),
///     name: "10.244.7.0/24".into(),
///     cluster: "5c1d0f9a-…".into(),
///     owner: Owner::PodCidr("10.244.7.0/24".into()),
///     ..OwnedResource::default()
/// };
/// assert_eq!(route.to_string(), r#"route "10.244.7.0/24" (r-1)"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedResource {
    /// Kind of the resource: `load balancer`, `route`.
    pub kind: &'static str,
    /// ID, as the provider knows it.
    pub id: String,
    /// Name and ID in the cloud, if they differ from `name` and `id`: for one Service's share of a load balancer, those
    /// of the load balancer.
    pub cloud_name_and_id: Option<(String, String)>,
    /// Name, as the provider knows it.
    pub name: String,
    /// Cluster in the owner tags: its ID, or its name if the ID could not be read when the tags were written.
    pub cluster: String,
    /// Owner in the owner tags.
    pub owner: Owner,
    /// Namespace and name of the owning Service, if the owner tags contain them: `shop/web`.
    pub owner_name: Option<String>,
    /// Time of creation, if the cloud shows it.
    pub created: Option<Timestamp>,
    /// Addresses and host names.
    pub addresses: Vec<String>,
    /// Settings that decide about the price, and other facts that help to identify the resource: name and value.
    pub details: Vec<(String, String)>,
    /// Auxiliary resources that are deleted with it: `security group "lb-sg-web"`.
    pub auxiliaries: Vec<String>,
    /// If set, the resource was adopted and not created for its owner. Instead of being deleted, it loses its owner
    /// tags.
    pub is_adopted: bool,
    /// Namespace and name of an existing Service that may adopt the resource, for example because of its name:
    /// `shop/web`. Such a resource is not deleted.
    pub adopting_service: Option<String>,
}

impl std::fmt::Display for OwnedResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, id) = self
            .cloud_name_and_id
            .as_ref()
            .map_or((&self.name, &self.id), |(name, id)| (name, id));
        write!(f, "{} {name:?} ({id})", self.kind)
    }
}

/// The owner of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The owner tags name only the cluster.
    #[default]
    Unnamed,
    /// The Service of this UID.
    Service(String),
    /// The Node with this Pod CIDR.
    PodCidr(String),
}

/// The outcome of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalOutcome {
    /// The resource was deleted.
    Deleted,
    /// The owner tags were removed, together with all parts that only the owner used. The resource still exists,
    /// because it was adopted or has other users.
    Released,
    /// The resource did not exist any more.
    NotFound,
}
