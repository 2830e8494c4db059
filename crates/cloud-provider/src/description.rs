//! Descriptions of a Service's load balancers, for people: the answer of [`LoadBalancers::describe`](crate::LoadBalancers).

/// A load balancer that is a Service's, or stands where its own would be.
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
    /// Owner, as the owner tags tell.
    pub ownership: Ownership,
    /// State in the cloud's words: `ready`, `busy`, or why it failed.
    pub state: String,
    /// Keys and values of the owner tags, legacy owner tags included.
    pub owner_tags: Vec<(String, String)>,
    /// Addresses and host names.
    pub addresses: Vec<String>,
    /// Ports that take traffic, as `443/TCP`.
    pub listeners: Vec<String>,
    /// Targets of all pools.
    pub targets: Vec<TargetDescription>,
    /// Error that kept the health of the targets from being read.
    pub health_error: Option<String>,
}

/// Owner of a load balancer, seen from one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The Service that was asked about.
    #[default]
    Own,
    /// No owner; the next sync takes the load balancer over.
    Free,
    /// A different Service, cluster or person: the sentence that says whose it is and what to do.
    Foreign(String),
}

/// Target of a load balancer, with its Node and its health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDescription {
    /// The target as the cloud names it: the ID of a machine, or an address.
    pub target: String,
    /// Name of the Node behind the target, if exactly one fits.
    pub node: Option<String>,
    /// Health; `None` if the cloud does not tell.
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
