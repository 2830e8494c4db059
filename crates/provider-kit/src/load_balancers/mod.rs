//! Load balancers for any cloud: from what a Service wants and what the cloud has to ordered, idempotent operations.
//!
//! A provider describes its cloud in a [`LoadBalancerCloud`], with [`Resource`]s; [`Balancers`] makes [`LoadBalancers`](cloud_provider::LoadBalancers) of
//! it. What a provider need not think of any more:
//!
//! * **Order.** [`plan`] compares two [`Tree`]s of [`Part`]s; the operations are safe at every step, and can be broken off
//!   after any of them: the next plan goes on from there (INV-2). Planned again after all is done, there is nothing to do.
//! * **Ownership** (D-11, INV-7). What carries our [`OwnerTags`] is ours. What carries the legacy owner tag and no mark is
//!   ours too, and is marked along with its next real change. What is marked for another cluster, or for another live
//!   Service, is refused and never changed; what a dead Service of this cluster left under our name is taken over.
//! * **Cost** (INV-8). All Services share what was read: one list for a start of the program, no read at all for a change
//!   within [`MAX_AGE`], few single reads for few Services later on, and one request for all that wait for the cloud.
//! * **Certainty.** Lists may lag behind. Before anything is deleted, before it is said that nothing is there, after a
//!   conflict and after any request whose outcome is not known (an error, a lost answer, a dropped call) it is read by name
//!   and by id. *Conflict* on the making means that it exists: it is read, and ours if it carries our mark.
//! * **No empty answer is believed by itself.** A load balancer that a Service had and that is not found is gone only if the
//!   cloud still shows a machine of the cluster; a credential of the wrong project finds neither.
//! * **Patience.** While the cloud is at work the controller's worker does something else, and all that wait are looked at
//!   with one request (INV-6). One that failed and never worked is made anew, if the provider [says so](LoadBalancerCloud::recovery).
//! * **Sharing.** What several Services share ([`LoadBalancerCloud::lock`]) is changed for one after the other, each from what the one
//!   before left; parts of others ([`Actual::foreign`]) stay, and what is wanted can be
//!   [fitted](LoadBalancerCloud::fit) to what is there.
//! * **Moves.** A Service may [say which one](Naming::requested_id) it wants. If it has another one, that serves on until the
//!   new one stands and its address is on the Service; then it goes, as far as it is the Service's.
//! * **Targets.** The controller decides who is a target; an empty set is obeyed. A set that nobody knows is not empty: see
//!   [`machine_ids`] (P-25).
//!
//! # One request, or many
//!
//! [`LoadBalancerCloud::apply`] is handed all operations that are left, and says how many it has done. A cloud that takes the
//! whole state in one request uses [`WholeObjects`]; one with a request for each part looks at the first operation only; one that
//! makes the whole tree with one POST and changes part by part does the one for `Create` of [`Part::Balancer`] and the other for
//! the rest. What is [`State::Busy`] afterwards is awaited before the next.
//!
//! ```
//! use cloud_provider::{Result, Service, async_trait};
//! use provider_kit::annotations::{Annotations, Parsed};
//! use provider_kit::load_balancers::{
//!     Actual, Applied, Attributes, Change, Desire, LoadBalancerCloud, Names, Query, ServicePort, Tree, machine_ids,
//!     service_ports,
//! };
//! use provider_kit::paging::Reading;
//! # use provider_kit::provider_id::ProviderIds;
//! # const IDS: ProviderIds = ProviderIds { scheme: "acme", form: "<number>", valid: |_| true };
//!
//! struct Acme { /* a Transport */ }
//! # impl Acme {
//! #     async fn put(&self, _: Option<&str>, _: Actual) -> Result<Actual> { Ok(Actual::default()) }
//! #     async fn remove(&self, _: Option<&str>) -> Result<()> { Ok(()) }
//! # }
//!
//! #[async_trait]
//! impl LoadBalancerCloud for Acme {
//!     type Spec = Vec<ServicePort>;
//!
//!     fn names(&self) -> Names {
//!         Names::Unique
//!     }
//!
//!     fn spec(&self, service: &Service) -> Parsed<Vec<ServicePort>> {
//!         let mut annotations = Annotations::of(service);
//!         let ports = service_ports(service, &["TCP"]);
//!         let ports = ports.map_err(|error| annotations.mistake(error.to_string())).unwrap_or_default();
//!         annotations.parsed(ports)
//!     }
//!
//!     async fn desired(&self, desire: &Desire<'_, Vec<ServicePort>>) -> Result<Tree> {
//!         let targets = machine_ids(desire.request.nodes, &IDS);
//!         let mut tree = Tree::default().balancer(Attributes::default()).pool("main", Attributes::default(), targets);
//!         for port in desire.spec {
//!             let settings = Attributes::default().set("target_port", port.node_port);
//!             tree = tree.listener(port.number, port.protocol, "main", settings);
//!         }
//!         Ok(tree)
//!     }
//!
//! #   async fn read(&self, _: Query<'_>) -> Result<Reading<Actual>> { unimplemented!() }
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

mod aim;
mod attributes;
mod balancer_sync;
mod balancers;
mod change;
mod change_log;
mod cloud;
mod control_read;
mod describe;
mod erased;
mod known;
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
mod resource;
mod run;
mod service_sync;
mod sorted_map;
mod step;
mod targets;

pub use attributes::{Attributes, Difference, in_order};
pub use balancers::Balancers;
pub use change::{Applied, Change};
pub use cloud::{
    Adoption, Desire, Detail, LoadBalancerCloud, Names, Notice, Options, Published, Query, Recovery, Scope,
};
pub use known::{MAX_AGE, SETTLING};
pub use machines::Machines;
pub use model::{Actual, Auxiliary, OwnerTags, POOL, Part, Port, State, Tree};
pub use naming::Naming;
pub use objects::{Object, ObjectApi, Paths, WholeObjects, numeric};
pub use ownership::Identity;
pub use plan::{Operation, plan, plan_removal, removals_first, steps};

#[cfg(test)]
mod tests;
pub use ports::{ServicePort, each_port, service_ports};
pub use resource::{Field, Resource, filled};
pub use sorted_map::SortedMap;
pub use targets::{TargetSets, Targets, machine_ids};
