//! Events that are true again at each pass, told once an hour.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cloud_provider::About;
use provider_kit::events::EventWriter;
use tokio::time::Instant;

const AGAIN: Duration = Duration::from_secs(3600);
/// From so many on, old ones are sorted out.
const MANY: usize = 4096;

pub(super) struct Notices {
    events: EventWriter,
    hasher: RandomState,
    told: Mutex<HashMap<u64, Instant>>,
}

impl Notices {
    pub(super) fn new(events: EventWriter) -> Self {
        Self { events, hasher: RandomState::new(), told: Mutex::default() }
    }

    /// Writes an event, unless the same was told within the hour.
    pub(super) fn warn(&self, about: About<'_>, reason: &str, message: &str) {
        self.write(about, reason, message, message);
    }

    /// The same, but whatever the reason was about before.
    pub(super) fn warn_once(&self, about: About<'_>, reason: &str, message: &str) {
        self.write(about, reason, message, "");
    }

    fn write(&self, about: About<'_>, reason: &str, message: &str, same: &str) {
        let object = match about {
            About::Node(node) => (&*node.uid, &*node.name),
            About::Service(service) => (service.metadata.uid.as_deref().unwrap_or_default(), ""),
        };
        let key = self.hasher.hash_one((object, reason, same));
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MANY {
            told.retain(|_, at| at.elapsed() < AGAIN);
        }
        let is_new = told.get(&key).is_none_or(|at| at.elapsed() >= AGAIN);
        if is_new {
            told.insert(key, Instant::now());
            drop(told);
            self.events.warning(about, reason, message);
        }
    }
}
