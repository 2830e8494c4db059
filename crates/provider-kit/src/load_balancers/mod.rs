//! Load balancers for any cloud: ordered, idempotent operations that lead from the observed to the desired state.
//!
//! A provider describes its cloud in a [`LoadBalancerCloud`], with [`Resource`]s; [`LoadBalancerEngine`] implements
//! [`LoadBalancers`](cloud_provider::LoadBalancers) on top of it. This implementation, the *engine*, takes care of:
//!
//! * **Order.** [`plan`] compares two [`ResourceGraph`]s of [`ResourceKey`]s. The operations are safe at every step,
//!   and may be interrupted after any of them: the next plan continues from there (INV-2). A plan after all operations
//!   is empty.
//! * **Ownership** (D-11, INV-7). A load balancer with our [`OwnerTags`] is ours. A load balancer with the legacy owner
//!   tag and without owner tags is ours too, and gets owner tags along with its next change. A load balancer with the
//!   owner tags of another cluster, or of another existing Service, is refused and never changed. A load balancer that
//!   a deleted Service of this cluster left under our name is adopted.
//! * **Cost** (INV-8). All Services share one cache: one list at the start of the process, no read for a change within
//!   [`MAX_AGE`], few single reads for few Services later on, and one request for all Services that wait for the cloud.
//! * **Certainty.** Lists may lag behind. Before a deletion, before an empty answer is returned, after a conflict and
//!   after any request whose outcome is unknown (an error, a lost answer, a dropped call), load balancers are read by
//!   name and ID. A *conflict* on creation means that the load balancer exists: it is read, and ours if it carries our
//!   owner tags.
//! * **Control reads.** A load balancer that a Service had and that is not found counts as deleted only if the cloud
//!   still shows a machine of the cluster; a credential of the wrong project finds neither.
//! * **Waiting.** While the cloud is changing a load balancer, the controller's worker is released, and all load
//!   balancers that are waited for are polled with one request (INV-6). A load balancer that failed and never worked is
//!   created again, if the provider [allows it](LoadBalancerCloud::recovery).
//! * **Sharing.** A load balancer that several Services share ([`LoadBalancerCloud::lock`]) is changed for one Service
//!   after the other, each time from its current state. The resources of other Services
//!   ([`ObservedLoadBalancer::foreign`]) stay, and the desired state can be [fitted](LoadBalancerCloud::fit) to the
//!   observed one.
//! * **Moves.** A Service may [request a load balancer](Naming::requested_id). The old load balancer stays in use until
//!   the requested one works and its address is in the Service's status; then the resources of the old one that the
//!   Service owns are deleted.
//! * **Replacements.** A load balancer that [must be replaced](LoadBalancerCloud::replacement) is replaced by a new one
//!   first, as in a move. An interruption is reported before the old one is deleted.
//! * **Twins.** A second load balancer with a Service's owner tags is deleted by an `ensure` only if it is proven that
//!   this program left it behind in a move. Any other twin stays, and is reported.
//! * **Targets.** The controller decides which Nodes are targets, and an empty set is applied. An unknown set is not
//!   empty: see [`machine_ids`] (P-25).
//!
//! # One request, or many
//!
//! [`LoadBalancerCloud::apply`] gets all remaining operations, and returns how many it has carried out. A cloud that
//! takes the whole state in one request uses [`WholeObjects`]. A cloud with one request for each resource carries out
//! the first operation only. A cloud that creates the whole resource graph with one POST and changes it resource by
//! resource does the former for `Create` of [`ResourceKey::Balancer`] and the latter for the rest. A load balancer that
//! is [`State::Busy`] afterwards is waited for before the next request.
//!
//! ```
//! use cloud_provider::{Result, Service, async_trait};
//! use provider_kit::annotations::{Annotations, Parsed};
//! use provider_kit::load_balancers::{
//!     ObservedLoadBalancer, Applied, Attributes, Change, DesiredStateInput, LoadBalancerCloud, NameUniqueness, Query, ServicePort, ResourceGraph, machine_ids,
//!     service_ports,
//! };
//! use provider_kit::paging::ListResult;
//! # use provider_kit::provider_id::ProviderIds;
//! # const IDS: ProviderIds = ProviderIds { scheme: "acme", form: "<number>", valid: |_| true };
//!
//! struct Acme { /* a Transport */ }
//! # impl Acme {
//! #     async fn put(&self, _: Option<&str>, _: ObservedLoadBalancer) -> Result<ObservedLoadBalancer> { Ok(ObservedLoadBalancer::default()) }
//! #     async fn remove(&self, _: Option<&str>) -> Result<()> { Ok(()) }
//! # }
//!
//! #[async_trait]
//! impl LoadBalancerCloud for Acme {
//!     type Spec = Vec<ServicePort>;
//!
//!     fn name_uniqueness(&self) -> NameUniqueness {
//!         NameUniqueness::Unique
//!     }
//!
//!     fn spec(&self, service: &Service) -> Parsed<Vec<ServicePort>> {
//!         let mut annotations = Annotations::of(service);
//!         let ports = service_ports(service, &["TCP"]);
//!         let ports = ports.map_err(|error| annotations.mistake(error.to_string())).unwrap_or_default();
//!         annotations.parsed(ports)
//!     }
//!
//!     async fn desired(&self, input: &DesiredStateInput<'_, Vec<ServicePort>>) -> Result<ResourceGraph> {
//!         let targets = machine_ids(input.request.nodes, &IDS);
//!         let mut graph = ResourceGraph::default().balancer(Attributes::default()).pool("main", Attributes::default(), targets);
//!         for port in input.spec {
//!             let settings = Attributes::default().set("target_port", port.node_port);
//!             graph = graph.listener(port.number, port.protocol, "main", settings);
//!         }
//!         Ok(graph)
//!     }
//!
//! #   async fn read(&self, _: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> { unimplemented!() }
//!     // read …
//!
//!     async fn apply(&self, change: Change<'_>, _spec: &Vec<ServicePort>) -> Result<Applied> {
//!         let id = change.actual.map(|actual| &*actual.id);
//!         match change.outcome_of_all() {
//!             Some(outcome) => Ok(Applied::all(change, self.put(id, outcome).await?)),
//!             None => self.remove(id).await.map(|()| Applied::Gone),
//!         }
//!     }
//! }
//! ```

mod adoption;
mod attributes;
mod balancer_sync;
mod balancers;
mod cache;
mod change;
mod change_log;
mod cloud;
mod control_read;
mod describe;
mod dyn_cloud;
mod left_out;
mod locks;
mod machines;
mod model;
mod naming;
mod objects;
mod orphans;
mod ownership;
mod plan;
mod ports;
mod recheck;
mod refused;
mod resource;
mod run;
mod service_sync;
mod sorted_map;
mod step;
mod surplus;
mod sync_errors;
mod sync_goal;
mod tags;
mod targets;

pub use adoption::{check_adoptable_tag, check_adoption, stays};
pub use attributes::{Attributes, Difference, sorted_set};
pub use balancers::LoadBalancerEngine;
pub use cache::{MAX_AGE, SETTLING};
pub use change::{Applied, Change};
pub use cloud::{
    Adoption, DesiredStateInput, Detail, LoadBalancerCloud, NameUniqueness, Notice, Options,
    Published, Query, Recovery, Replacement, Scope,
};
pub use control_read::check_account;
pub use machines::Machines;
pub use model::{
    Auxiliary, ObservedLoadBalancer, OwnerTags, POOL, Port, ResourceGraph, ResourceKey, State,
};
pub use naming::Naming;
pub use objects::{Object, ObjectApi, Paths, WholeObjects, numeric};
pub use ownership::Identity;
pub use plan::{Operation, plan, plan_removal, removals_first, steps};

#[cfg(test)]
mod tests;
pub use ports::{ServicePort, each_port, service_ports};
pub use refused::without_refused;
pub use resource::{Field, Resource, filled};
pub use sorted_map::SortedMap;
pub use tags::{ReservedTags, TagRecord, changed_tags, tag_key, tag_text};
pub use targets::{TargetSets, Targets, machine_ids};
