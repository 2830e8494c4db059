//! Events on Nodes and Services, from whatever part of a provider has something to say.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cloud_provider::{About, EventKind, Events};
use tokio::time::Instant;

/// What is still true is told again after this time.
const AGAIN: Duration = Duration::from_secs(3600);
/// From so many on, old ones are sorted out.
const MANY: usize = 4096;

/// Writes events as one component. Made with the provider, before there is anything to write to; clones write to the same.
///
/// ```
/// use cloud_provider::{About, Context, Node};
/// use provider_kit::events::EventWriter;
///
/// let events = EventWriter::new("acme-cloud-controller-manager");
/// // In `CloudProvider::initialize`: events.connect(&context.events);
/// events.warning(About::Node(&Node::default()), "NoSuchZone", "zone \"x\" does not exist; use a, b or c");
/// ```
#[derive(Clone)]
pub struct EventWriter {
    component: &'static str,
    events: Arc<OnceLock<Arc<dyn Events>>>,
}

impl EventWriter {
    /// One that writes to the log only, until it is [connected](Self::connect). `component`: the events' source.
    #[must_use]
    pub fn new(component: &'static str) -> Self {
        Self { component, events: Arc::default() }
    }

    /// From now on events are written.
    pub fn connect(&self, events: &Arc<dyn Events>) {
        self.events.get_or_init(|| Arc::clone(events));
    }

    /// Somebody should look at this.
    pub fn warning(&self, about: About<'_>, reason: &str, message: impl AsRef<str>) {
        self.record(about, EventKind::Warning, reason, message.as_ref());
    }

    /// Something usual.
    pub fn normal(&self, about: About<'_>, reason: &str, message: impl AsRef<str>) {
        self.record(about, EventKind::Normal, reason, message.as_ref());
    }

    fn record(&self, about: About<'_>, kind: EventKind, reason: &str, message: &str) {
        let (object, name) = match about {
            About::Node(node) => ("node", &*node.name),
            About::Service(service) => ("service", service.metadata.name.as_deref().unwrap_or_default()),
        };
        match kind {
            EventKind::Warning => tracing::warn!(object, name, reason, "{message}"),
            EventKind::Normal => tracing::info!(object, name, reason, "{message}"),
        }
        if let Some(events) = self.events.get() {
            events.record(self.component, about, kind, reason, message);
        }
    }
}

impl fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventWriter({})", self.component)
    }
}

/// Warnings that are found again at each pass over an object, and are written once an hour.
///
/// ```
/// use cloud_provider::{About, Node};
/// use provider_kit::events::{EventWriter, Notices};
///
/// let notices = Notices::new(EventWriter::new("acme-cloud-controller-manager"));
/// let node = Node::default();
/// assert!(notices.warn(About::Node(&node), "NoSuchZone", "zone \"x\" does not exist"));
/// assert!(!notices.warn(About::Node(&node), "NoSuchZone", "zone \"x\" does not exist"));
/// assert!(notices.warn_once(About::Node(&node), "Full", "there was no room for a"));
/// assert!(!notices.warn_once(About::Node(&node), "Full", "there was no room for b"));
/// ```
#[derive(Debug)]
pub struct Notices {
    events: EventWriter,
    hasher: RandomState,
    told: Mutex<HashMap<u64, Instant>>,
}

impl Notices {
    /// Writes to `events`; nothing is told yet.
    #[must_use]
    pub fn new(events: EventWriter) -> Self {
        Self { events, hasher: RandomState::new(), told: Mutex::default() }
    }

    /// Writes a warning unless the same was told of this object within the hour; whether it did.
    pub fn warn(&self, about: About<'_>, reason: &str, message: &str) -> bool {
        self.write(about, reason, message, message)
    }

    /// The same, but one message of this reason is as good as another.
    pub fn warn_once(&self, about: About<'_>, reason: &str, message: &str) -> bool {
        self.write(about, reason, message, "")
    }

    fn write(&self, about: About<'_>, reason: &str, message: &str, same: &str) -> bool {
        let object = match about {
            About::Node(node) => (&*node.uid, &*node.name),
            About::Service(service) => (service.metadata.uid.as_deref().unwrap_or_default(), ""),
        };
        let key = self.hasher.hash_one((object, reason, same));
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MANY {
            told.retain(|_, at| at.elapsed() < AGAIN);
        }
        if told.get(&key).is_some_and(|at| at.elapsed() < AGAIN) {
            return false;
        }
        told.insert(key, Instant::now());
        drop(told);
        self.events.warning(about, reason, message);
        true
    }
}
