//! Names and owner tags by which a Service's load balancer is known.

use cloud_provider::{LoadBalancerIngress, Service, default_load_balancer_name};

use crate::status::shown;

/// The properties by which a Service's load balancer is known, in addition to the owner tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// The name of a new load balancer.
    pub name: String,
    /// Names that a load balancer of the Service may have from earlier times.
    pub former_names: Vec<String>,
    /// The value of the owner tag that the Go cloud controller manager writes; compared with
    /// [`ObservedLoadBalancer::legacy_owner`](super::ObservedLoadBalancer::legacy_owner). A load balancer with this tag
    /// and without owner tags is the Service's own.
    pub legacy_owner: Option<String>,
    /// If set, the legacy owner tag is made from an annotation, such as one with the load balancer's ID. Authors of
    /// Services can write annotations, so the tag counts only for a load balancer that was [created for the
    /// Service](super::Identity::was_created_for); any other one is adopted.
    pub is_legacy_owner_stated: bool,
    /// If set, the name proves nothing: the author of the Service chose it, or it lacks the Service's UID.
    pub is_name_chosen: bool,
    /// If set, ccm-rs writes the legacy owner tag, too, because it searches load balancers by it.
    pub writes_legacy_owner: bool,
    /// The ID of the load balancer that the Service requests, if users can choose. A Service that has another load
    /// balancer moves. Only the part of [`ObservedLoadBalancer::id`](super::ObservedLoadBalancer::id) before the first
    /// `/` is compared.
    pub requested_id: Option<String>,
    /// The ID of the load balancer that an annotation of the cloud records for the Service, if the provider writes one
    /// itself ([`Options::annotates_id`](super::Options::annotates_id)). Of several load balancers of the Service, the
    /// recorded one counts, unless the status shows another one.
    pub recorded_id: Option<String>,
    /// Addresses and host names that the Service shows in its status.
    pub published_addresses: Vec<String>,
    /// The kind of load balancer that the Service requests, in a cloud that has several. A Service whose load balancers
    /// have another [`ObservedLoadBalancer::kind`](super::ObservedLoadBalancer::kind) gets a new one, shows its
    /// address, and then loses the others.
    pub kind: &'static str,
}

impl Naming {
    /// The name `a<UID without dashes>`, no legacy owner tag, and the addresses of the Service's status.
    #[must_use]
    pub fn of(service: &Service) -> Self {
        let address =
            |ingress: &LoadBalancerIngress| ingress.ip.clone().or_else(|| ingress.hostname.clone());
        let published_addresses = shown(service).iter().filter_map(address).collect();
        Self {
            name: default_load_balancer_name(service),
            published_addresses,
            ..Self::default()
        }
    }
}
