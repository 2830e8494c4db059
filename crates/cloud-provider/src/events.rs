//! Events that a provider records on Nodes and Services.

use crate::{Node, Service};

/// The object of an event.
#[derive(Clone, Copy, Debug)]
pub enum EventSubject<'a> {
    /// An event about a Node.
    Node(&'a Node),
    /// An event about a Service.
    Service(&'a Service),
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// An event in normal operation.
    Normal,
    /// An event that needs a user's attention.
    Warning,
}

/// A recorder of events on behalf of a provider. Events are written in the background; repetitions of an event increase
/// the `count` of one Event object.
///
/// ```
/// use cloud_provider::{EventSubject, EventKind, Events, Node};
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Remember(Mutex<Vec<String>>);
///
/// impl Events for Remember {
///     fn record(&self, component: &str, _: EventSubject<'_>, _: EventKind, reason: &str, message: &str) {
///         self.0.lock().unwrap().push(format!("{component}: {reason}: {message}"));
///     }
/// }
///
/// let events = Remember::default();
/// events.record("acme", EventSubject::Node(&Node::default()), EventKind::Warning, "NoSuchZone", "zone \"x\" does not exist");
/// assert_eq!(events.0.into_inner().unwrap(), ["acme: NoSuchZone: zone \"x\" does not exist"]);
/// ```
pub trait Events: Send + Sync {
    /// Records an event. Does not block; an event that cannot be written is lost. `component` is the event's source,
    /// such as the name of the Go program that wrote these events before; `reason` is one word in `UpperCamelCase`.
    fn record(
        &self,
        component: &str,
        subject: EventSubject<'_>,
        kind: EventKind,
        reason: &str,
        message: &str,
    );
}

/// A recorder that drops all events: for `plan`, `doctor` and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn record(
        &self,
        _component: &str,
        _subject: EventSubject<'_>,
        _kind: EventKind,
        _reason: &str,
        _message: &str,
    ) {
    }
}
