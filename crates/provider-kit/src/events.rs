//! Events on Nodes and Services, from any part of a provider.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use cloud_provider::{EventKind, EventSubject, Events, Node, Service};
use parking_lot::Mutex;

use crate::status::shown;

/// The number of warnings that are remembered; beyond it, a known warning may be written again.
const MANY: usize = 65_536;

/// A recorder of events for one component. Created with the provider, before events can be recorded; clones share the
/// connection.
///
/// ```
/// use cloud_provider::{EventSubject, Context, Node};
/// use provider_kit::events::EventWriter;
///
/// let events = EventWriter::new("acme-cloud-controller-manager");
/// // In `CloudProvider::initialize`: events.connect(&context.events);
/// events.warning(EventSubject::Node(&Node::default()), "NoSuchZone", "zone \"x\" does not exist; use a, b or c");
/// ```
#[derive(Clone)]
pub struct EventWriter {
    component: &'static str,
    events: Arc<OnceLock<Arc<dyn Events>>>,
}

impl EventWriter {
    /// Returns a recorder that only logs, until it is [connected](Self::connect). `component` is the events' source.
    #[must_use]
    pub fn new(component: &'static str) -> Self {
        Self {
            component,
            events: Arc::default(),
        }
    }

    /// Returns the source of the events, which is also the name of the component towards the Kubernetes API.
    #[must_use]
    pub fn component(&self) -> &'static str {
        self.component
    }

    /// Connects the recorder: from now on, events are recorded.
    pub fn connect(&self, events: &Arc<dyn Events>) {
        self.events.get_or_init(|| Arc::clone(events));
    }

    /// Records a warning event, which needs a user's attention.
    pub fn warning(&self, subject: EventSubject<'_>, reason: &str, message: impl AsRef<str>) {
        self.record(subject, EventKind::Warning, reason, message.as_ref());
    }

    /// Records a normal event.
    pub fn normal(&self, subject: EventSubject<'_>, reason: &str, message: impl AsRef<str>) {
        self.record(subject, EventKind::Normal, reason, message.as_ref());
    }

    fn record(&self, subject: EventSubject<'_>, kind: EventKind, reason: &str, message: &str) {
        let (object, name) = match subject {
            EventSubject::Node(node) => ("node", &*node.name),
            EventSubject::Service(service) => (
                "service",
                service.metadata.name.as_deref().unwrap_or_default(),
            ),
        };
        match kind {
            EventKind::Warning => tracing::warn!(object, name, reason, "{message}"),
            EventKind::Normal => tracing::info!(object, name, reason, "{message}"),
        }
        if let Some(events) = self.events.get() {
            events.record(self.component, subject, kind, reason, message);
        }
    }
}

impl fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventWriter({})", self.component)
    }
}

/// Warnings about a Service, collected while its spec is evaluated and written when the evaluation succeeds.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::events::{EventWriter, PendingEvents, EventDeduplicator};
///
/// let (deduplicator, mut pending_events) = (EventDeduplicator::new(EventWriter::new("acme-cloud-controller-manager")), PendingEvents::default());
/// pending_events.warn("NoSuchSize", "size \"x\" does not exist; the default is taken");
/// deduplicator.record_new(&Service::default(), "", &pending_events);
/// ```
#[derive(Debug, Default)]
pub struct PendingEvents(Vec<(Option<Arc<Node>>, &'static str, String)>);

impl PendingEvents {
    /// Adds a warning event for the Service.
    pub fn warn(&mut self, reason: &'static str, text: impl Into<String>) {
        self.0.push((None, reason, text.into()));
    }

    /// Adds a warning event for a Node.
    pub fn warn_node(&mut self, node: &Arc<Node>, reason: &'static str, text: impl Into<String>) {
        self.0.push((Some(Arc::clone(node)), reason, text.into()));
    }
}

/// A recorder for warnings that each sync finds again. Each warning is written once per run of the process. A warning
/// of the first sync of an object that already works is not written at all, because an earlier run has reported it.
///
/// ```
/// use cloud_provider::{EventSubject, Node};
/// use provider_kit::events::{EventWriter, EventDeduplicator};
///
/// let deduplicator = EventDeduplicator::new(EventWriter::new("acme-cloud-controller-manager"));
/// let node = Node::default();
/// assert!(deduplicator.warn(true, EventSubject::Node(&node), "NoSuchZone", "zone \"x\" does not exist"));
/// assert!(!deduplicator.warn(true, EventSubject::Node(&node), "NoSuchZone", "zone \"x\" does not exist"));
/// assert!(!deduplicator.warn(false, EventSubject::Node(&node), "Small", "it is small, as it was before we came"));
/// assert!(!deduplicator.warn(true, EventSubject::Node(&node), "Small", "it is small, as it was before we came"));
/// ```
#[derive(Debug)]
pub struct EventDeduplicator {
    events: EventWriter,
    hasher: RandomState,
    known: Mutex<HashSet<u64>>,
}

impl EventDeduplicator {
    /// Returns an empty memory that writes to `events`.
    #[must_use]
    pub fn new(events: EventWriter) -> Self {
        Self {
            events,
            hasher: RandomState::new(),
            known: Mutex::default(),
        }
    }

    /// Writes a warning, unless it is already known for this object; returns `true` if it was written. Unless `report`
    /// is set, the warning becomes known without being written.
    pub fn warn(
        &self,
        report: bool,
        subject: EventSubject<'_>,
        reason: &str,
        message: &str,
    ) -> bool {
        let is_written = self.is_first(subject, reason, message) && report;
        if is_written {
            self.events.warning(subject, reason, message);
        }
        is_written
    }

    /// Writes the events that are new. The first evaluation of a Service that already has an address writes nothing:
    /// their causes existed before this process started, and each restart would report all of them again. `scope` names
    /// the part of the Service that was evaluated; empty if all of it was.
    pub fn record_new(&self, service: &Service, scope: &str, pending_events: &PendingEvents) {
        let is_first_time = self.is_first(EventSubject::Service(service), "", scope);
        self.record_if(
            !is_first_time || shown(service).is_empty(),
            service,
            pending_events,
        );
    }

    /// Writes the events that are new, if `report` is set; otherwise, only remembers them.
    pub fn record_if(&self, report: bool, service: &Service, pending_events: &PendingEvents) {
        for (node, reason, text) in &pending_events.0 {
            let subject = node
                .as_deref()
                .map_or(EventSubject::Service(service), EventSubject::Node);
            self.warn(report, subject, reason, text);
        }
    }

    /// Returns `true` the first time that this message is given for an object.
    pub fn is_first(&self, subject: EventSubject<'_>, reason: &str, message: &str) -> bool {
        let object = match subject {
            EventSubject::Node(node) => (&*node.uid, &*node.name),
            EventSubject::Service(service) => {
                (service.metadata.uid.as_deref().unwrap_or_default(), "")
            }
        };
        let mut known = self.known.lock();
        if known.len() >= MANY {
            known.clear();
        }
        known.insert(self.hasher.hash_one((object, reason, message)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Events for Seen {
        fn record(&self, _: &str, subject: EventSubject<'_>, _: EventKind, reason: &str, _: &str) {
            let node = matches!(subject, EventSubject::Node(_));
            self.0.lock().push(format!(
                "{reason}{}",
                if node { " on its Node" } else { "" }
            ));
        }
    }

    #[test]
    fn condition_from_before_the_start_is_not_reported() {
        let service = |uid: &str, ingress: serde_json::Value| -> Service {
            serde_json::from_value(
                json!({"metadata": {"uid": uid}, "status": {"loadBalancer": {"ingress": ingress}}}),
            )
            .unwrap()
        };
        let old = service("old", json!([{"ip": "192.0.2.1"}]));
        let new = service("new", json!([]));
        let seen = Arc::new(Seen::default());
        let writer = EventWriter::new("acme");
        let events = Arc::clone(&seen) as Arc<dyn Events>;
        let deduplicator = EventDeduplicator::new(writer.clone());
        writer.connect(&events);
        let note = |reason| {
            let mut pending_events = PendingEvents::default();
            pending_events.warn(reason, "text");
            pending_events
        };
        let recorded = || std::mem::take(&mut *seen.0.lock());
        deduplicator.record_new(&old, "", &note("Small"));
        assert!(recorded().is_empty(), "the condition existed before");
        deduplicator.record_new(&old, "", &note("Small"));
        deduplicator.record_new(&old, "", &note("Large"));
        assert_eq!(recorded(), ["Large"]);
        deduplicator.record_new(&old, "targets", &note("NoTarget"));
        assert!(
            recorded().is_empty(),
            "a first pass over another part reports nothing"
        );
        let mut pending_events = note("Small");
        pending_events.warn_node(&Arc::new(Node::default()), "Unknown", "text");
        deduplicator.record_new(&new, "", &pending_events);
        assert_eq!(recorded(), ["Small", "Unknown on its Node"]);
        deduplicator.record_if(true, &old, &note("Gone"));
        assert_eq!(recorded(), ["Gone"]);
    }
}
