//! Events that the provider records.

use std::sync::Arc;

use cloud_provider::{EventKind, EventSubject, Events};
use kube::Client;
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, EventSender, EventType, ObjectRef};

use super::PROVIDER_CLIENT;

/// Accepts events at once; merges, counts and limits them like those of a controller.
struct ProviderEvents(EventRecorder);

/// Returns the recorder for a provider, and the task that sends its events.
pub(crate) fn recorder(client: Client) -> (Arc<dyn Events>, EventSender) {
    let (events, sender) =
        runtime::events::recorder(client, PROVIDER_CLIENT, Arc::new(SystemClock));
    (Arc::new(ProviderEvents(events)), sender)
}

impl Events for ProviderEvents {
    fn record(
        &self,
        component: &str,
        subject: EventSubject<'_>,
        kind: EventKind,
        reason: &str,
        message: &str,
    ) {
        let regarding = match subject {
            EventSubject::Node(node) => ObjectRef::node(&node.name, &node.uid),
            EventSubject::Service(service) => ObjectRef::of(service),
        };
        let kind = match kind {
            EventKind::Normal => EventType::Normal,
            EventKind::Warning => EventType::Warning,
        };
        self.0
            .for_component(component)
            .event(&regarding, kind, reason, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::{Node, Service};
    use runtime::events::RecordedEvent;

    #[test]
    fn an_event_has_the_component_that_the_provider_names_and_the_object_it_is_about() {
        let (recorder, written) = EventRecorder::to_memory("x", Arc::new(SystemClock));
        let events = ProviderEvents(recorder);
        let node = Node {
            name: "worker-1".into(),
            uid: "6e2b".into(),
            ..Node::default()
        };
        events.record(
            "acme-ccm",
            EventSubject::Node(&node),
            EventKind::Warning,
            "NoSuchZone",
            "zone x",
        );
        let mut service = Service::default();
        (service.metadata.name, service.metadata.namespace) =
            (Some("web".into()), Some("shop".into()));
        events.record(
            "acme-ccm",
            EventSubject::Service(&service),
            EventKind::Normal,
            "Renamed",
            "a to b",
        );
        let told = |event: &RecordedEvent| {
            let RecordedEvent {
                component,
                regarding,
                type_,
                reason,
                message,
                ..
            } = event;
            format!("{component} {regarding} {type_} {reason} {message}")
        };
        let told: Vec<_> = written.lock().iter().map(told).collect();
        assert_eq!(
            told,
            [
                "acme-ccm Node worker-1 Warning NoSuchZone zone x",
                "acme-ccm Service shop/web Normal Renamed a to b"
            ]
        );
    }
}
