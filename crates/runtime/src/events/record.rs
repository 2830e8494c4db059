//! Events before they are merged and sent: type, reason, message and object.

use std::fmt;

use jiff::Timestamp;
use kube::Resource;

/// Type of an event: normal operation, or a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Normal operation, nothing to do.
    Normal,
    /// A problem that an operator should investigate.
    Warning,
}

impl EventType {
    /// Returns the name in the Kubernetes API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The object that an event is about.
///
/// ```
/// use runtime::events::ObjectRef;
///
/// let node = ObjectRef::node("worker-1", "6e2b");
/// assert_eq!(node.event_namespace(), "default", "Nodes have no namespace, their events need one");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// `v1`, or `<group>/<version>`.
    pub api_version: String,
    /// The kind, as in `Node`.
    pub kind: String,
    /// The namespace; empty if it has none.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The UID; empty if not known.
    pub uid: String,
    /// Resource version of the object; empty if not known. It does not distinguish objects when events are merged.
    pub resource_version: String,
}

impl ObjectRef {
    /// Returns a reference to a Node.
    #[must_use]
    pub fn node(name: &str, uid: &str) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: name.into(),
            uid: uid.into(),
            ..Self::default()
        }
    }

    /// Returns a reference to any object of the API.
    #[must_use]
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            resource_version: text(&meta.resource_version),
        }
    }

    /// Returns the namespace of events about it: its own, or `default`.
    #[must_use]
    pub fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() {
            "default"
        } else {
            &self.namespace
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

/// An event as it was recorded, before anything is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The component that recorded it.
    pub component: String,
    /// The object it is about.
    pub regarding: ObjectRef,
    /// Type of the event.
    pub type_: EventType,
    /// Reason of the event in one word, for machines.
    pub reason: String,
    /// Description of the event, for people.
    pub message: String,
    /// Time of the event.
    pub time: Timestamp,
}
