//! Reports Nodes whose deletion is held because many vanished from the API at once (INV-9, D-221).

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Node;
use controllers::EventReason;
use parking_lot::Mutex;
use runtime::cache::HoldObserver;
use runtime::events::{EventRecorder, EventType, ObjectRef};

/// Maximum number of Nodes that get an event; the log record counts all of them.
const EVENTS: usize = 20;

/// Records events on Nodes whose deletion is held. The log records come from the cache.
pub(crate) struct HeldNodes {
    events: EventRecorder,
    delay: Duration,
    /// Nodes that got an event.
    told: Mutex<Vec<Arc<Node>>>,
}

impl HeldNodes {
    pub(crate) fn new(events: EventRecorder, delay: Duration) -> Self {
        Self {
            events,
            delay,
            told: Mutex::default(),
        }
    }

    fn event(&self, node: &Node, kind: EventType, reason: EventReason, message: String) {
        self.events.event(
            &ObjectRef::node(&node.name, &node.uid),
            kind,
            reason.as_str(),
            message,
        );
    }
}

impl HoldObserver<Node> for HeldNodes {
    fn held(&self, nodes: &[Arc<Node>], present: usize) {
        let missing = nodes.len();
        let of = nodes.len() + present;
        let seconds = self.delay.as_secs();
        let mut told = self.told.lock();
        for node in nodes.iter().take(EVENTS) {
            let message = format!(
                "Node vanished from the Kubernetes API without being deleted, together with others ({missing} of {of}); it stays a \
                 target of load balancers and routes until a second list after {seconds} s confirms that it is gone"
            );
            self.event(node, EventType::Warning, EventReason::NodeVanished, message);
            told.push(Arc::clone(node));
        }
    }

    fn ended(&self, gone: &[Arc<Node>]) {
        let told = std::mem::take(&mut *self.told.lock());
        for node in told {
            if gone.iter().any(|gone| gone.uid == node.uid) {
                let message =
                    "A second list did not show the Node either; it is treated as deleted"
                        .to_owned();
                self.event(
                    &node,
                    EventType::Warning,
                    EventReason::VanishedNodeGone,
                    message,
                );
            } else {
                let message = "The Node is no longer held: the Kubernetes API shows it again, or reported its deletion";
                self.event(
                    &node,
                    EventType::Normal,
                    EventReason::VanishedNodeReturned,
                    message.to_owned(),
                );
            }
        }
    }
}
