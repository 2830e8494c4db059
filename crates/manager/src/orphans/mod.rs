//! Resources of the cloud that carry owner tags of the cluster, and whose owner in Kubernetes no longer exists.
//!
//! The running manager counts orphaned load balancers from what it has read anyway (`watch`); `cloud-controller-manager orphans`
//! lists them and orphaned routes, and deletes them on demand.
//!
//! # Certainty
//!
//! * The cloud is read before Kubernetes. A manager creates nothing for a Service that is not in the API server yet, so what
//!   carries a UID that no Service of the later list has is not just being created: its Service was deleted.
//! * The owner tags name the cluster by the UID of its namespace `kube-system`. What names it by its name alone is listed and kept:
//!   another cluster may have the same name.
//! * What is younger than ten minutes is kept, and what a Service may take over (by its name, its ID or a legacy owner tag) is
//!   kept, too.
//! * Right before each deletion the cluster's UID, the Services (or Nodes) and the resource itself are read again.

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
pub(crate) use watch::{Orphans, advice, orphans_among};

/// The name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "orphans";
