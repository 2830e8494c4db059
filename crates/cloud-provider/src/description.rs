//! Descriptions of a Service's load balancers, for people: the answer of [`LoadBalancers::describe`](crate::LoadBalancers).

/// A load balancer that belongs to a Service, or that has its name.
///
/// ```
/// use cloud_provider::{LoadBalancerDescription, Ownership};
///
/// let balancer = LoadBalancerDescription { id: "4711".into(), name: "web".into(), ..Default::default() };
/// assert_eq!((balancer.ownership, balancer.targets.len()), (Ownership::Own, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerDescription {
    /// ID in the cloud.
    pub id: String,
    /// Name in the cloud.
    pub name: String,
    /// Owner, according to the owner tags.
    pub ownership: Ownership,
    /// State in the cloud's words: `ready`, `busy`, or the reason of a failure.
    pub state: String,
    /// Keys and values of the owner tags, legacy owner tags included.
    pub owner_tags: Vec<(String, String)>,
    /// Addresses and host names.
    pub addresses: Vec<String>,
    /// Ports that accept traffic, such as `443/TCP`.
    pub listeners: Vec<String>,
    /// Targets of all pools.
    pub targets: Vec<TargetDescription>,
    /// Error of the read of the targets' health, if it failed.
    pub health_error: Option<String>,
}

/// Owner of a load balancer, seen from one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The Service that the description is for.
    #[default]
    Own,
    /// The Service that the description is for, which uses another load balancer, with a sentence that names both and a
    /// remedy. It is neither changed nor deleted.
    Twin(String),
    /// No owner; the next sync adopts the load balancer.
    Free,
    /// A different Service, cluster or person, with a sentence that names the owner and a remedy.
    Foreign(String),
}

/// Target of a load balancer, with its Node and its health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDescription {
    /// The target as the cloud names it: the ID of a machine, or an address.
    pub target: String,
    /// Name of the Node behind the target, if exactly one fits.
    pub node: Option<String>,
    /// Health of the target; `None` if the cloud does not report it.
    pub health: Option<TargetHealth>,
}

/// Result of a load balancer's health checks of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetHealth {
    /// If set, the target gets traffic.
    pub is_healthy: bool,
    /// Details in the cloud's words; may be empty.
    pub detail: String,
}
