//! Events on Nodes and Services, from whatever part of a provider has something to say.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cloud_provider::{About, EventKind, Events, Node, Service};

use crate::status::shown;

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

    /// Returns the source of the events, which is also the name of the component towards the Kubernetes API.
    #[must_use]
    pub fn component(&self) -> &'static str {
        self.component
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

/// What users are to be told of a Service, gathered while it is found out what that wants: told when all of it holds.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::events::{EventWriter, Notes, Notices};
///
/// let (notices, mut notes) = (Notices::new(EventWriter::new("acme-cloud-controller-manager")), Notes::default());
/// notes.warn("NoSuchSize", "size \"x\" does not exist; the default is taken");
/// notices.tell(&Service::default(), "", &notes);
/// ```
#[derive(Debug, Default)]
pub struct Notes(Vec<(Option<Arc<Node>>, &'static str, String)>);

impl Notes {
    /// To be told on the Service.
    pub fn warn(&mut self, reason: &'static str, text: impl Into<String>) {
        self.0.push((None, reason, text.into()));
    }

    /// To be told on a Node.
    pub fn warn_node(&mut self, node: &Arc<Node>, reason: &'static str, text: impl Into<String>) {
        self.0.push((Some(Arc::clone(node)), reason, text.into()));
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

    /// Writes those notes that are new. What was so when this process came is no news of a Service that is reached already, or
    /// each restart would tell it of all of them. `look`: what was looked at, where that is not all there is to see.
    pub fn tell(&self, service: &Service, look: &str, notes: &Notes) {
        let is_first_look = self.is_first(About::Service(service), "", look);
        self.tell_now(!is_first_look || shown(service).is_empty(), service, notes);
    }

    /// The same, where it is known whether they are news.
    pub fn tell_now(&self, is_news: bool, service: &Service, notes: &Notes) {
        for (node, reason, text) in &notes.0 {
            let about = node.as_deref().map_or(About::Service(service), About::Node);
            self.warn(is_news, about, reason, text);
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Events for Seen {
        fn record(&self, _: &str, about: About<'_>, _: EventKind, reason: &str, _: &str) {
            let node = matches!(about, About::Node(_));
            self.0.lock().unwrap().push(format!("{reason}{}", if node { " on its Node" } else { "" }));
        }
    }

    #[test]
    fn what_was_so_at_the_first_look_at_a_service_that_is_reached_is_no_news() {
        let service = |uid: &str, ingress: serde_json::Value| -> Service {
            serde_json::from_value(json!({"metadata": {"uid": uid}, "status": {"loadBalancer": {"ingress": ingress}}}))
                .unwrap()
        };
        let (old, new) = (service("old", json!([{"ip": "192.0.2.1"}])), service("new", json!([])));
        let (seen, writer) = (Arc::new(Seen::default()), EventWriter::new("acme"));
        let (events, notices) = (Arc::clone(&seen) as Arc<dyn Events>, Notices::new(writer.clone()));
        writer.connect(&events);
        let note = |reason| {
            let mut notes = Notes::default();
            notes.warn(reason, "text");
            notes
        };
        let told = || std::mem::take(&mut *seen.0.lock().unwrap());
        notices.tell(&old, "", &note("Small"));
        assert!(told().is_empty(), "it was so before");
        notices.tell(&old, "", &note("Small"));
        notices.tell(&old, "", &note("Large"));
        assert_eq!(told(), ["Large"]);
        notices.tell(&old, "targets", &note("NoTarget"));
        assert!(told().is_empty(), "what was not looked at before");
        let mut notes = note("Small");
        notes.warn_node(&Arc::new(Node::default()), "Unknown", "text");
        notices.tell(&new, "", &notes);
        assert_eq!(told(), ["Small", "Unknown on its Node"]);
        notices.tell_now(true, &old, &note("Gone"));
        assert_eq!(told(), ["Gone"]);
    }
}
