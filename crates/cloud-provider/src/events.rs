//! Events that a provider writes on Nodes and Services.

use crate::{Node, Service};

/// What an event is about.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// A Node.
    Node(&'a Node),
    /// A Service.
    Service(&'a Service),
}

/// Whether an event tells of something usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Writes events on behalf of a provider, in the background. Equal ones are counted on one object, as `kubectl` shows them.
///
/// ```
/// use cloud_provider::{About, EventKind, Events, Node};
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Remember(Mutex<Vec<String>>);
///
/// impl Events for Remember {
///     fn record(&self, component: &str, _: About<'_>, _: EventKind, reason: &str, message: &str) {
///         self.0.lock().unwrap().push(format!("{component}: {reason}: {message}"));
///     }
/// }
///
/// let events = Remember::default();
/// events.record("acme", About::Node(&Node::default()), EventKind::Warning, "NoSuchZone", "zone \"x\" does not exist");
/// assert_eq!(events.0.into_inner().unwrap(), ["acme: NoSuchZone: zone \"x\" does not exist"]);
/// ```
pub trait Events: Send + Sync {
    /// Writes an event. Does not wait; what cannot be written is lost. `component`: the event's source, such as the name of
    /// the program that wrote these events before; `reason`: one word in `UpperCamelCase`.
    fn record(&self, component: &str, about: About<'_>, kind: EventKind, reason: &str, message: &str);
}

/// Nobody reads them: for `plan`, `doctor` and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn record(&self, _component: &str, _about: About<'_>, _kind: EventKind, _reason: &str, _message: &str) {}
}
