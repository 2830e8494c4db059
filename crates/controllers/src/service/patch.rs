//! Patches of `services/NAME/status` with strategic merge directives, so that concurrent writes of others survive
//! (HELP-60, HELP-61, D-8, SVC-99).
//!
//! The patches change only finalizers, `status.loadBalancer`, this controller's condition and the annotations that the
//! provider asks for. The status subresource ignores only changes of the spec, so these writes need no further
//! permission.

use std::collections::BTreeMap;

use cloud_provider::names::{ANNOTATION_LOAD_BALANCER_ID, FINALIZER_LOAD_BALANCER};
use cloud_provider::{LoadBalancerIngress, Service};
use serde_json::{Map, Value, json};

use crate::service::wants::has_finalizer;

/// Subresource for all writes, because an operator's Role may allow no other (SVC-99).
pub const SUBRESOURCE: &str = "status";

/// Returns the patch that turns the finalizers, annotations and load balancer addresses of `old` into those of `new`;
/// empty if nothing changes. The spec is ignored.
#[must_use]
pub fn difference(old: &Service, new: &Service) -> Value {
    let mut patch = Map::new();
    insert_finalizers(&mut patch, finalizers(old), finalizers(new));
    insert_ingress(&mut patch, ingress(old), ingress(new));
    let mut patch = Value::Object(patch);
    let of = |service: &Service| service.metadata.annotations.clone().unwrap_or_default();
    let removed = of(old).into_keys().map(|key| (key, None));
    annotate(
        &mut patch,
        old,
        &removed
            .chain(of(new).into_iter().map(|(key, value)| (key, Some(value))))
            .collect(),
    );
    patch
}

/// Returns the patch that appends the finalizer; `None` if the Service has it (SVC-50).
#[must_use]
pub fn add_finalizer(service: &Service) -> Option<Value> {
    if has_finalizer(service) {
        return None;
    }
    let before = finalizers(service);
    let after = [before, &[FINALIZER_LOAD_BALANCER.to_owned()]].concat();
    let mut patch = Map::new();
    insert_finalizers(&mut patch, before, &after);
    Some(Value::Object(patch))
}

/// Returns the patch that removes all occurrences of the finalizer; `None` if there is none (SVC-46).
#[must_use]
pub fn remove_finalizer(service: &Service) -> Option<Value> {
    if !has_finalizer(service) {
        return None;
    }
    let before = finalizers(service);
    let after: Vec<_> = before
        .iter()
        .filter(|finalizer| *finalizer != FINALIZER_LOAD_BALANCER)
        .cloned()
        .collect();
    let mut patch = Map::new();
    insert_finalizers(&mut patch, before, &after);
    Some(Value::Object(patch))
}

/// Returns the patch that writes these addresses; `None` if the Service has them, after defaulting by the API server
/// (SVC-55, SVC-56, D-8).
#[must_use]
pub fn set_ingress(service: &Service, wanted: &[LoadBalancerIngress]) -> Option<Value> {
    let mut patch = Map::new();
    insert_ingress(&mut patch, ingress(service), wanted);
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Annotations to write for a provider; `None` removes the annotation.
pub type Annotations = BTreeMap<&'static str, Option<String>>;

/// Adds annotations to a patch, as far as the Service does not have them.
pub(super) fn annotate<K: AsRef<str>>(
    patch: &mut Value,
    service: &Service,
    asked: &BTreeMap<K, Option<String>>,
) {
    let present = service.metadata.annotations.as_ref();
    for (key, value) in asked {
        let key = key.as_ref();
        if present.and_then(|present| present.get(key)) != value.as_ref() {
            patch["metadata"]["annotations"][key] = json!(value);
        }
    }
}

/// Returns `true` if the ID of the load balancer must be written: with the first address, after a change of the load
/// balancer, and if an ID is present already. Services in an upgraded cluster are not written only for their ID.
pub(super) fn id_is_due(service: &Service, is_changed: bool) -> bool {
    is_changed || ingress(service).is_empty() || shows_id(service)
}

/// Returns the annotations of a Service whose load balancer is deleted.
pub(super) fn no_id() -> Annotations {
    BTreeMap::from([(ANNOTATION_LOAD_BALANCER_ID, None)])
}

fn shows_id(service: &Service) -> bool {
    service
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|present| present.contains_key(ANNOTATION_LOAD_BALANCER_ID))
}

/// Returns the addresses in the Service's status.
pub(super) fn ingress(service: &Service) -> &[LoadBalancerIngress] {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default()
}

fn finalizers(service: &Service) -> &[String] {
    service.metadata.finalizers.as_deref().unwrap_or_default()
}

/// Adds a list that is merged by value: items to add, items to delete and, if any item is kept, the order.
fn insert_finalizers(patch: &mut Map<String, Value>, old: &[String], new: &[String]) {
    let added: Vec<_> = new
        .iter()
        .filter(|finalizer| !old.contains(finalizer))
        .collect();
    let mut removed: Vec<_> = old
        .iter()
        .filter(|finalizer| !new.contains(finalizer))
        .collect();
    removed.sort_unstable();
    removed.dedup();
    let mut metadata = Map::new();
    if (!added.is_empty() || !removed.is_empty()) && !old.is_empty() && !new.is_empty() {
        metadata.insert("$setElementOrder/finalizers".into(), json!(new));
    }
    if !added.is_empty() {
        metadata.insert("finalizers".into(), json!(added));
    }
    if !removed.is_empty() {
        metadata.insert("$deleteFromPrimitiveList/finalizers".into(), json!(removed));
    }
    if !metadata.is_empty() {
        patch.insert("metadata".into(), Value::Object(metadata));
    }
}

/// Adds a list that is replaced as a whole; an empty list is cleared.
fn insert_ingress(
    patch: &mut Map<String, Value>,
    old: &[LoadBalancerIngress],
    new: &[LoadBalancerIngress],
) {
    if same_ingress(&as_stored(old), &as_stored(new)) {
        return;
    }
    let ingress = if new.is_empty() {
        Value::Null
    } else {
        json!(new)
    };
    patch.insert(
        "status".into(),
        json!({"loadBalancer": {"ingress": ingress}}),
    );
}

/// Returns `true` if two lists have the same entries in the same order (HELP-58). A missing `ipMode` differs from a set
/// one; missing ports equal an empty list.
#[must_use]
pub fn same_ingress(a: &[LoadBalancerIngress], b: &[LoadBalancerIngress]) -> bool {
    let same = |a: &LoadBalancerIngress, b: &LoadBalancerIngress| {
        text(&a.ip) == text(&b.ip)
            && text(&a.hostname) == text(&b.hostname)
            && a.ip_mode == b.ip_mode
            && a.ports.as_deref().unwrap_or_default() == b.ports.as_deref().unwrap_or_default()
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Returns the entries with the default that the API server sets on an entry with an address: `ipMode: VIP` (SVC-56).
fn as_stored(ingress: &[LoadBalancerIngress]) -> Vec<LoadBalancerIngress> {
    let mut ingress = ingress.to_vec();
    for entry in &mut ingress {
        if entry.ip_mode.is_none() && !text(&entry.ip).is_empty() {
            entry.ip_mode = Some("VIP".to_owned());
        }
    }
    ingress
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(finalizers: &[&str], ingress: &Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "finalizers": finalizers},
            "status": {"loadBalancer": {"ingress": ingress}},
        }))
        .unwrap()
    }

    fn entries(ingress: &Value) -> Vec<LoadBalancerIngress> {
        serde_json::from_value(ingress.clone()).unwrap()
    }

    #[test]
    fn finalizers_come_and_go_by_directive() {
        const OURS: &str = FINALIZER_LOAD_BALANCER;
        let table = [
            (vec![], Some(json!({"metadata": {"finalizers": [OURS]}}))),
            (
                vec!["a"],
                Some(
                    json!({"metadata": {"$setElementOrder/finalizers": ["a", OURS], "finalizers": [OURS]}}),
                ),
            ),
            (vec!["a", OURS], None),
        ];
        for (finalizers, patch) in table {
            assert_eq!(
                add_finalizer(&service(&finalizers, &json!([]))),
                patch,
                "{finalizers:?}"
            );
        }
        let table = [
            (vec!["a"], None),
            (
                vec![OURS],
                Some(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [OURS]}})),
            ),
            (
                vec![OURS, OURS],
                Some(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [OURS]}})),
            ),
            (
                vec!["a", OURS, "b"],
                Some(json!({"metadata": {
                    "$setElementOrder/finalizers": ["a", "b"], "$deleteFromPrimitiveList/finalizers": [OURS]}})),
            ),
        ];
        for (finalizers, patch) in table {
            assert_eq!(
                remove_finalizer(&service(&finalizers, &json!([]))),
                patch,
                "{finalizers:?}"
            );
        }
    }

    #[test]
    fn only_annotations_that_differ_are_written() {
        let service: Service = serde_json::from_value(
            json!({"metadata": {"annotations": {"same": "1", "other": "1", "gone": "1"}}}),
        )
        .unwrap();
        let text = |value: &str| Some(value.to_owned());
        let asked = [
            ("same", text("1")),
            ("other", text("2")),
            ("gone", None),
            ("new", text("")),
            ("never", None),
        ];
        let mut patch = json!({});
        annotate(&mut patch, &service, &asked.into());
        assert_eq!(
            patch,
            json!({"metadata": {"annotations": {"other": "2", "gone": null, "new": ""}}})
        );
        let mut patch = json!({});
        annotate(&mut patch, &service, &[("same", text("1"))].into());
        assert_eq!(patch, json!({}));
    }

    #[test]
    fn a_difference_carries_annotations_though_the_spec_differs_too() {
        let service = |annotations: &Value, class: &str| -> Service {
            let spec = json!({"loadBalancerClass": class});
            serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec}))
                .unwrap()
        };
        let old = service(&json!({"same": "1", "other": "1", "gone": "1"}), "a");
        let new = service(&json!({"same": "1", "other": "2", "new": "1"}), "b");
        let annotations = json!({"other": "2", "gone": null, "new": "1"});
        assert_eq!(
            difference(&old, &new),
            json!({"metadata": {"annotations": annotations}})
        );
        assert_eq!(difference(&new, &new), json!({}));
    }

    #[test]
    fn default_of_the_api_server_is_no_change() {
        let table = [
            (
                json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]),
                json!([{"ip": "192.0.2.1"}]),
                false,
            ),
            (
                json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]),
                json!([{"ip": "192.0.2.1", "ipMode": "Proxy"}]),
                true,
            ),
            (
                json!([{"ip": "192.0.2.1"}]),
                json!([{"ip": "192.0.2.1", "ports": []}]),
                false,
            ),
            (
                json!([{"hostname": "a"}]),
                json!([{"hostname": "a", "ipMode": "VIP"}]),
                true,
            ),
            (
                json!([{"hostname": "a"}, {"hostname": "b"}]),
                json!([{"hostname": "b"}, {"hostname": "a"}]),
                true,
            ),
            (json!([]), json!([]), false),
        ];
        for (has, wanted, changes) in table {
            let patch = set_ingress(&service(&[], &has), &entries(&wanted));
            assert_eq!(patch.is_some(), changes, "{has} → {wanted}");
        }
        let cleared = set_ingress(&service(&[], &json!([{"hostname": "a"}])), &[]);
        assert_eq!(
            cleared,
            Some(json!({"status": {"loadBalancer": {"ingress": null}}}))
        );
    }
}
