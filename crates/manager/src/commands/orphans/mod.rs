//! Resources in the cloud that have owner tags of the cluster, but whose owner in Kubernetes no longer exists.
//!
//! The running manager counts orphaned load balancers from its caches (`watch`); `cloud-controller-manager orphans`
//! lists orphaned load balancers and routes, and deletes them on demand.
//!
//! # Certainty
//!
//! * The cloud is read before Kubernetes. A manager creates nothing for a Service that is not in the API server yet, so
//!   a resource with the UID of a Service that the later list lacks is not just being created: its Service was deleted.
//! * Owner tags name the cluster by the UID of its namespace `kube-system`. Resources that name the cluster only by its
//!   name are listed and kept, because another cluster may have the same name.
//! * Resources younger than ten minutes are kept, as are resources that a Service may adopt by name, ID or legacy owner
//!   tag.
//! * The cluster's UID, the Services (or Nodes) and the resource itself are read again right before each deletion.

mod command;
mod delete;
mod find;
mod judge;
mod output;
mod report;
mod watch;

pub(crate) use command::main;
pub use delete::delete;
pub use find::find;
pub use output::{JSON_VERSION, json, text};
pub use report::{Orphan, OrphanReport, OrphanState};
pub(crate) use watch::{OrphanCounter, advice, orphans_among};

/// Name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "orphans";
