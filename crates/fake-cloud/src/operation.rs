//! What the cloud does in the background: it takes its time, and may fail.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::fault::Effects;

/// Something that goes on in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it is over.
    pub ends: Instant,
    /// The code with which it fails then; `None`: it does not.
    pub error: Option<String>,
}

impl Operation {
    /// One that takes so long from now on, and ends as the faults say.
    #[must_use]
    pub fn begin(time: Duration, effects: &Effects) -> Self {
        Self { ends: Instant::now() + time, error: effects.error() }
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ends <= Instant::now()
    }
}

/// Operations by the id of what they are done to, of which each is in one at a time.
#[derive(Debug, Default)]
pub struct Operations {
    running: BTreeMap<String, Operation>,
    /// None of them ends any more.
    pub is_frozen: bool,
}

impl Operations {
    /// Begins one, in place of the one that is under way.
    pub fn begin(&mut self, id: &str, time: Duration, effects: &Effects) {
        self.running.insert(id.to_owned(), Operation::begin(time, effects));
    }

    /// Forgets the one on this: it is gone.
    pub fn forget(&mut self, id: &str) {
        self.running.remove(id);
    }

    /// Those that are over; they are not told again.
    pub fn finished(&mut self) -> Vec<(String, Operation)> {
        if self.is_frozen {
            return Vec::new();
        }
        self.running.extract_if(.., |_, it| it.is_over()).collect()
    }
}
