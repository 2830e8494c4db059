//! Events on Nodes and Services, from whatever part of a provider has something to say.

use std::fmt;
use std::sync::{Arc, OnceLock};

use cloud_provider::{About, EventKind, Events};

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
