//! Operations that the cloud carries out in the background: they take time, and may fail.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::fault::Effects;

/// An operation in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Time at which the operation ends.
    pub ends: Instant,
    /// Error code with which the operation fails at the end; `None` if it succeeds.
    pub error: Option<String>,
}

impl Operation {
    /// Returns an operation that takes `time` from now on, and fails if the faults say so.
    #[must_use]
    pub fn begin(time: Duration, effects: &Effects) -> Self {
        Self {
            ends: Instant::now() + time,
            error: effects.error(),
        }
    }

    /// Returns `true` if the operation has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ends <= Instant::now()
    }
}

/// Operations by the ID of their object; each object has one at a time.
#[derive(Debug, Default)]
pub struct Operations {
    running: BTreeMap<String, Operation>,
    /// If set, no operation ends any more.
    pub is_frozen: bool,
}

impl Operations {
    /// Starts an operation, replacing the object's current one.
    pub fn begin(&mut self, id: &str, time: Duration, effects: &Effects) {
        self.running
            .insert(id.to_owned(), Operation::begin(time, effects));
    }

    /// Forgets the operation of an object that was deleted.
    pub fn forget(&mut self, id: &str) {
        self.running.remove(id);
    }

    /// Returns and removes the operations that have ended.
    pub fn finished(&mut self) -> Vec<(String, Operation)> {
        if self.is_frozen {
            return Vec::new();
        }
        self.running
            .extract_if(.., |_, operation| operation.is_over())
            .collect()
    }
}
