//! The result of a machine lookup.

use std::ops::Deref;
use std::sync::Arc;

use cloud_provider::Gone;

use super::{Machine, Snapshot};

/// The result of a machine lookup. A failed lookup is an error instead.
pub enum Found<M> {
    /// A machine that exists.
    Present(MachineRef<M>),
    /// Proof that the machine does not exist.
    Gone(Gone),
}

/// A machine, shared with the list or the single read that it comes from. Cheap to clone.
pub struct MachineRef<M>(Place<M>);

enum Place<M> {
    Listed(Arc<Snapshot<M>>, u32),
    Single(Arc<M>),
}

impl<M> MachineRef<M> {
    pub(super) fn listed(snapshot: &Arc<Snapshot<M>>, at: u32) -> Self {
        Self(Place::Listed(Arc::clone(snapshot), at))
    }

    pub(super) fn single(machine: Arc<M>) -> Self {
        Self(Place::Single(machine))
    }
}

impl<M: Machine> Deref for MachineRef<M> {
    type Target = M;

    fn deref(&self) -> &M {
        match &self.0 {
            Place::Listed(snapshot, at) => snapshot.at(*at),
            Place::Single(machine) => machine,
        }
    }
}

impl<M> Clone for MachineRef<M> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Place::Listed(snapshot, at) => Place::Listed(Arc::clone(snapshot), *at),
            Place::Single(machine) => Place::Single(Arc::clone(machine)),
        })
    }
}
