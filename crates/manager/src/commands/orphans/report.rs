//! The orphans found, and the results of their deletion.

use cloud_provider::{Cluster, OwnedResource};
use jiff::Timestamp;

/// The orphans of a cluster.
#[derive(Clone, Debug)]
pub struct OrphanReport {
    /// Name of the cloud provider.
    pub provider: String,
    /// Cluster that the owner tags name.
    pub cluster: Cluster,
    /// Time at which the cloud was read.
    pub time: Timestamp,
    /// Resources without an owner.
    pub orphans: Vec<Orphan>,
    /// If not set, the provider cannot list load balancers by their owner tags.
    pub is_supported: bool,
    /// If set, more than half of at least four resources of the cluster have no owner, so that an operator must confirm
    /// the deletion.
    pub are_too_many: bool,
    /// Remarks about the list.
    pub notes: Vec<String>,
    /// Reasons why the list is incomplete. Nothing is deleted in that case.
    pub errors: Vec<String>,
}

/// A resource without an owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Orphan {
    /// Resource without an owner.
    pub resource: OwnedResource,
    /// State of the deletion.
    pub state: OrphanState,
}

/// State of an orphan before and after a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanState {
    /// The orphan can be deleted.
    Deletable,
    /// The orphan is kept, for this reason.
    Kept(String),
    /// The orphan was deleted.
    Deleted,
    /// The owner tags were removed, and the resource stays.
    Released,
    /// The resource no longer existed when it was to be deleted.
    NotFound,
    /// The deletion failed, for this reason.
    Failed(String),
    /// The orphan was not reached, because an earlier deletion failed or was the last.
    NotTried,
}

impl OrphanState {
    /// Returns `true` if no deletion is outstanding.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Deleted | Self::Released | Self::NotFound)
    }
}

impl OrphanReport {
    pub(super) fn new(provider: &str, cluster: &Cluster, time: Timestamp) -> Self {
        let provider = provider.to_owned();
        let cluster = cluster.clone();
        Self {
            provider,
            cluster,
            time,
            orphans: Vec::new(),
            is_supported: true,
            are_too_many: false,
            notes: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Returns the number of orphans in such a state.
    pub fn count(&self, is_wanted: impl Fn(&OrphanState) -> bool) -> usize {
        self.orphans
            .iter()
            .filter(|orphan| is_wanted(&orphan.state))
            .count()
    }

    /// Returns the exit code: 0 if no orphans are left, 2 if there are orphans, 1 if a read or a deletion failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let has_failed =
            |state: &OrphanState| matches!(state, OrphanState::Failed(_) | OrphanState::NotTried);
        match self.count(OrphanState::is_over) {
            _ if !self.errors.is_empty() || self.count(has_failed) > 0 => 1,
            over if over < self.orphans.len() => 2,
            _ => 0,
        }
    }
}
