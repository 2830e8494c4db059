//! Events on Nodes and Services, from whatever part of a provider has something to say.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cloud_provider::{About, EventKind, Events};

/// More than this are not kept: then what is known may be told once more.
const MANY: usize = 65_536;

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

/// Warnings that are found again at each pass over an object: each is written once in a life of the process, and what a look
/// at something that stood already finds is not written at all.
///
/// ```
/// use cloud_provider::{About, Node};
/// use provider_kit::events::{EventWriter, Notices};
///
/// let notices = Notices::new(EventWriter::new("acme-cloud-controller-manager"));
/// let node = Node::default();
/// assert!(notices.warn(true, About::Node(&node), "NoSuchZone", "zone \"x\" does not exist"));
/// assert!(!notices.warn(true, About::Node(&node), "NoSuchZone", "zone \"x\" does not exist"));
/// assert!(!notices.warn(false, About::Node(&node), "Small", "it is small, as it was before we came"));
/// assert!(!notices.warn(true, About::Node(&node), "Small", "it is small, as it was before we came"));
/// ```
#[derive(Debug)]
pub struct Notices {
    events: EventWriter,
    hasher: RandomState,
    known: Mutex<HashSet<u64>>,
}

impl Notices {
    /// Writes to `events`; nothing is told yet.
    #[must_use]
    pub fn new(events: EventWriter) -> Self {
        Self { events, hasher: RandomState::new(), known: Mutex::default() }
    }

    /// Writes a warning, unless the same is known of this object; whether it did. `is_news`: else it becomes known unwritten.
    pub fn warn(&self, is_news: bool, about: About<'_>, reason: &str, message: &str) -> bool {
        let is_written = self.is_first(about, reason, message) && is_news;
        if is_written {
            self.events.warning(about, reason, message);
        }
        is_written
    }

    /// Whether this is the first time that so much is said of an object.
    pub fn is_first(&self, about: About<'_>, reason: &str, message: &str) -> bool {
        let object = match about {
            About::Node(node) => (&*node.uid, &*node.name),
            About::Service(service) => (service.metadata.uid.as_deref().unwrap_or_default(), ""),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MANY {
            known.clear();
        }
        known.insert(self.hasher.hash_one((object, reason, message)))
    }
}
