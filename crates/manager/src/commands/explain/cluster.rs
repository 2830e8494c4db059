//! Reads about one object from the Kubernetes API: its events, the lease and the Node with all its fields.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use runtime::api_error::{api_error, is_not_found};

use super::Subject;
use super::facts::{EventFact, Leader};
use super::read::Reader;
use crate::commands::doctor::{ElectedBy, age};
use crate::commands::seconds;

/// Maximum number of events that are read.
const EVENTS: u32 = 500;

/// An object that exists in the API.
pub(super) struct Existing {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) created: Option<Timestamp>,
}

impl Existing {
    /// Returns `true` if an event about an object of this name is about this object. The kubelet writes the name of its
    /// Node as the UID, so the time decides about its events.
    fn is_meant_by(&self, event: &Event) -> bool {
        match event.involved_object.uid.as_deref() {
            None | Some("") => self.is_later(event),
            Some(uid) if uid == self.name => self.is_later(event),
            Some(uid) => uid == self.uid,
        }
    }

    fn is_later(&self, event: &Event) -> bool {
        let last = EventFact::from(event.clone()).last;
        last.zip(self.created)
            .is_none_or(|(last, created)| last >= created)
    }
}

impl Reader<'_> {
    /// Returns the leader, according to the lease.
    pub(super) async fn leader(&self) -> Leader {
        let Some(ElectedBy {
            namespace, name, ..
        }) = &self.lease
        else {
            return Leader::Unknown("no lease is used (--leader-elect=false)".to_owned());
        };
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), namespace);
        match leases.get(name).await {
            Ok(lease) => match age(&lease, self.now) {
                Some((holder, renewed, lasts)) if renewed <= lasts => Leader::Leads {
                    holder: holder.to_owned(),
                    renewed,
                },
                Some((holder, renewed, _)) => Leader::Nobody(format!(
                    "lease {namespace}/{name} is held by {holder}, which has not renewed it for {}",
                    seconds(renewed)
                )),
                None => Leader::Nobody(format!("lease {namespace}/{name} is held by nobody")),
            },
            Err(error) if is_not_found(&error) => {
                Leader::Nobody(format!("there is no lease {namespace}/{name}"))
            }
            Err(error) => Leader::Unknown(format!(
                "lease {namespace}/{name} cannot be read: {}",
                api_error(&error)
            )),
        }
    }

    /// Returns the events about an object, the newest first. Events about Nodes are in namespace `default`. Events about
    /// an earlier object of the same name are left out, unless the object does not exist now.
    pub(super) async fn events(
        &self,
        subject: &Subject,
        now: Option<&Existing>,
    ) -> Result<Vec<EventFact>, String> {
        let namespace = Some(subject.namespace())
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let kind = subject.kind();
        let name = subject.name();
        let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
        match events
            .list(&ListParams::default().fields(&selector).limit(EVENTS))
            .await
        {
            Ok(found) => {
                let about = found
                    .items
                    .into_iter()
                    .filter(|event| now.is_none_or(|existing| existing.is_meant_by(event)));
                let mut found: Vec<EventFact> = about.map(EventFact::from).collect();
                found.sort_by_key(|event| std::cmp::Reverse(event.last));
                Ok(found)
            }
            Err(error) => Err(format!(
                "events in namespace {namespace:?} cannot be read: {}; the identity needs the verb \"list\" on them. What only \
                 events tell is missing",
                api_error(&error)
            )),
        }
    }

    /// Returns the Node as the API returns it. The cached form lacks finalizers and the times of conditions.
    pub(super) async fn node_object(&self, name: &str) -> Result<serde_json::Value, String> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
        let nodes: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let object = nodes
            .get(name)
            .await
            .map_err(|error| format!("cannot read Node {name}: {}", api_error(&error)))?;
        serde_json::to_value(object).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_an_earlier_node_of_the_name_are_left_out() {
        let created = "2026-01-02T00:00:00Z".parse().ok();
        let node = Existing {
            name: "worker-1".into(),
            uid: "new".into(),
            created,
        };
        for (uid, day, expected) in [
            ("new", 2, true),
            ("new", 1, true),
            ("old", 3, false),
            ("worker-1", 3, true),
            ("worker-1", 1, false),
            ("", 3, true),
            ("", 1, false),
        ] {
            let event = json!({
                "metadata": {"name": "e"},
                "involvedObject": {"kind": "Node", "name": "worker-1", "uid": uid},
                "lastTimestamp": format!("2026-01-0{day}T00:00:00Z"),
            });
            assert_eq!(
                node.is_meant_by(&serde_json::from_value(event).unwrap()),
                expected,
                "{uid:?} {day}"
            );
        }
    }
}
