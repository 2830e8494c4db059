//! The contract between ccm-rs and a cloud.
//!
//! A *provider* adds support for one cloud. It implements [`CloudProvider`] and those capabilities that its cloud has:
//!
//! | capability | purpose |
//! |---|---|
//! | [`Instances`] | provider ID, addresses and labels of Nodes; Nodes whose instance is gone or shut down |
//! | [`LoadBalancers`] | Services of type `LoadBalancer` |
//! | [`Routes`] | Pod CIDRs in the cloud's network |
//! | [`Volumes`] | zone and region of PersistentVolumes |
//! | [`Clusters`] | not used by any controller; kept for ported providers |
//!
//! Three rules keep clusters alive:
//!
//! * **An error does not mean "gone".** [`Instances::lookup`] returns *present*, *gone* or an error, which means
//!   "unknown". [`Gone`] can only be created from the cloud's own "no such ID" or "no such name", or from a list that
//!   was read to its end ([`Listing`]).
//! * **Every call may be repeated.** Calls are idempotent and may be dropped at any await point; objects that were
//!   created are found again by their owner tags.
//! * **Objects are shared.** Nodes and Services come from the cache and are read-only.
//!
//! Providers written for the older Go interfaces are ported with the adapters [`V1`] and [`V2`]. This crate does no
//! I/O; building blocks for HTTP APIs are in `provider-kit`.
//!
//! Comments cite rules by their IDs, such as `PROV-n`. `docs/rules/README.md` lists the prefixes, and the page of each;
//! `D-n` is a decision in `docs/decisions.md`.
//!
//! # A whole provider
//!
//! ```
//! use std::sync::Arc;
//! use cloud_provider::{async_trait, CloudProvider, InstanceMetadata, Instances, InstancesV2, Node, Registry, Result, V2};
//!
//! struct Machines;
//!
//! #[async_trait]
//! impl InstancesV2 for Machines {
//!     async fn instance_exists(&self, _node: &Node) -> Result<bool> { Ok(true) }
//!     async fn instance_shutdown(&self, _node: &Node) -> Result<bool> { Ok(false) }
//!     async fn instance_metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>> {
//!         Ok(Some(InstanceMetadata { provider_id: format!("acme://{}", node.name), ..Default::default() }))
//!     }
//! }
//!
//! struct Acme { machines: V2<Machines> }
//!
//! impl CloudProvider for Acme {
//!     fn name(&self) -> &str { "acme" }
//!     fn instances(&self) -> Option<&dyn Instances> { Some(&self.machines) }
//! }
//!
//! let mut registry = Registry::new();
//! registry.register("acme", |_setup| Ok(Arc::new(Acme { machines: V2(Machines) })));
//! ```

mod addresses;
mod adoptable_tag;
mod clusters;
mod counted;
mod description;
mod diagnosis;
mod environment;
mod error;
mod events;
mod excerpt;
mod fence;
pub mod files;
pub mod go_duration;
mod hint;
mod instances;
mod listing;
mod load_balancers;
pub mod names;
mod node;
mod owned;
mod provider;
mod registry;
mod request_id;
mod routes;
#[cfg(feature = "scripted")]
pub mod scripted;
mod setup;
mod string_map;
mod v1;
mod v2;
mod visible;
mod volumes;

pub use addresses::{add_addresses, addresses_for_node_ip};
pub use adoptable_tag::AdoptableTag;
/// The attribute that makes the `async fn` of these traits work behind `dyn`.
pub use async_trait::async_trait;
pub use clusters::Clusters;
pub use counted::counted;
pub use description::{LoadBalancerDescription, Ownership, TargetDescription, TargetHealth};
pub use diagnosis::{Finding, Severity};
pub use environment::Environment;
pub use error::{Error, Result};
pub use events::{EventKind, EventSubject, Events, NoEvents};
pub use excerpt::{LONGEST_EXCERPT, excerpt};
pub use fence::Fence;
pub use hint::closest;
pub use instances::{
    InstanceMetadata, InstanceState, Instances, LookupRequest, MetadataLevel, single_answer,
};
pub use listing::{CompleteListing, Gone, Listing};
pub use load_balancers::{
    Goal, LoadBalancerIngress, LoadBalancerRequest, LoadBalancerStatus, LoadBalancerWarning,
    LoadBalancers, Plan, PlanAction, PlanStep, Service, ServiceReview, SyncCallbacks,
    TargetIdentity, default_load_balancer_name, is_default_load_balancer_name,
};
pub use node::{AddressType, ConditionStatus, NetworkCondition, Node, NodeAddress, Taint};
pub use owned::{OwnedResource, Owner, RemovalOutcome};
pub use provider::{Caches, ClientBuilder, CloudProvider, Cluster, Context, KubernetesApi, Reload};
pub use registry::{ConfigFile, Factory, Registry};
pub use request_id::without_request_ids;
pub use routes::{Route, Routes};
pub use setup::{CloudMetrics, NoCloudMetrics, ProviderSeries, SeriesKind, Setup};
pub use string_map::StringMap;
pub use v1::{InstancesV1, NO_INSTANCES, V1, Zone, Zones};
pub use v2::{InstancesV2, V2};
pub use visible::{is_visible, visible, write_visibly};
pub use volumes::{PersistentVolume, Volumes};
