use serde_json::json;

use super::*;

/// A test case: description, type, object, patch, result.
struct Row(&'static str, &'static str, Value, Value, Value);

fn rows() -> Vec<Row> {
    let ready = json!({"type": "Ready", "status": "True"});
    let disk = json!({"type": "DiskPressure", "status": "False"});
    vec![
        Row(
            "fields merge and null removes",
            "core.v1.Node",
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            json!({"metadata": {"labels": {"b": null, "c": "3"}}}),
            json!({"metadata": {"labels": {"a": "1", "c": "3"}}}),
        ),
        Row(
            "conditions merge by type",
            "core.v1.Node",
            json!({"status": {"conditions": [disk, ready]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"status": {"conditions": [disk, {"type": "Ready", "status": "False"}]}}),
        ),
        Row(
            "a new item goes before what only the server has",
            "core.v1.Node",
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
            json!({"status": {"addresses": [{"type": "ExternalIP", "address": "1.1.1.1"}]}}),
            json!({"status": {"addresses": [{"type": "ExternalIP", "address": "1.1.1.1"}, {"type": "InternalIP", "address": "10.0.0.1"}]}}),
        ),
        Row(
            "$patch: replace in a list replaces it",
            "core.v1.Node",
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
            json!({"status": {"addresses": [{"type": "Hostname", "address": "a"}, {"type": "Hostname", "address": "b"}, {"$patch": "replace"}]}}),
            json!({"status": {"addresses": [{"type": "Hostname", "address": "a"}, {"type": "Hostname", "address": "b"}]}}),
        ),
        Row(
            "$patch: delete removes an item",
            "core.v1.Node",
            json!({"status": {"conditions": [disk, ready]}}),
            json!({"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}),
            json!({"status": {"conditions": [disk]}}),
        ),
        Row(
            "taints are replaced",
            "core.v1.Node",
            json!({"spec": {"taints": [{"key": "a"}, {"key": "b"}]}}),
            json!({"spec": {"taints": [{"key": "c"}]}}),
            json!({"spec": {"taints": [{"key": "c"}]}}),
        ),
        Row(
            "finalizers are a set",
            "core.v1.Service",
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["b", "a"]}}),
            json!({"metadata": {"finalizers": ["b", "a"]}}),
        ),
        Row(
            "the last finalizer is deleted by directive",
            "core.v1.Service",
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": []}}),
        ),
        Row(
            "$setElementOrder orders a set",
            "core.v1.Service",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$setElementOrder/finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["c"]}}),
            json!({"metadata": {"finalizers": ["c", "a"]}}),
        ),
        Row(
            "$setElementOrder orders conditions",
            "core.v1.Node",
            json!({"status": {"conditions": [ready, disk]}}),
            json!({"status": {"$setElementOrder/conditions": [{"type": "DiskPressure"}, {"type": "Ready"}], "conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"status": {"conditions": [disk, {"type": "Ready", "status": "False"}]}}),
        ),
        Row(
            "ports merge by port",
            "core.v1.Service",
            json!({"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443}]}}),
            json!({"spec": {"ports": [{"port": 80, "nodePort": 30000}]}}),
            json!({"spec": {"ports": [{"port": 80, "name": "http", "nodePort": 30000}, {"port": 443}]}}),
        ),
        Row(
            "ingress is replaced",
            "core.v1.Service",
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}),
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}]}}}),
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}]}}}),
        ),
        Row(
            "$patch: replace in an object",
            "core.v1.Service",
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}),
            json!({"status": {"loadBalancer": {"$patch": "replace"}}}),
            json!({"status": {"loadBalancer": {}}}),
        ),
        Row(
            "$retainKeys keeps only what it lists",
            "core.v1.Service",
            json!({"spec": {"type": "ClusterIP", "externalName": "x"}}),
            json!({"spec": {"$retainKeys": ["type"], "type": "NodePort"}}),
            json!({"spec": {"type": "NodePort"}}),
        ),
        Row(
            "owners merge by uid",
            "core.v1.ConfigMap",
            json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}, {"uid": "1", "name": "c"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}, {"uid": "1", "name": "c"}]}}),
        ),
        Row(
            "pod CIDRs are a set",
            "core.v1.Node",
            json!({"spec": {"podCIDRs": ["10.0.0.0/24"]}}),
            json!({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}),
            json!({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}),
        ),
        Row(
            "directives in what is new are dropped",
            "core.v1.Node",
            json!({}),
            json!({"status": {"conditions": [{"$patch": "delete", "type": "x"}], "phase": null}}),
            json!({"status": {"conditions": []}}),
        ),
    ]
}

#[test]
fn each_row_of_the_table_merges_as_the_real_server_does() {
    for Row(what, ty, mut object, patch, want) in rows() {
        apply(&mut object, patch, &Schema::get().type_of(ty)).unwrap();
        assert_eq!(object, want, "{what}");
    }
}

#[test]
fn an_item_without_its_merge_key_is_refused() {
    let mut object = json!({"status": {"conditions": [{"type": "Ready"}]}});
    let patch = json!({"status": {"conditions": [{"status": "True"}]}});
    let error = apply(&mut object, patch, &Schema::get().type_of("core.v1.Node")).unwrap_err();
    assert_eq!(
        error,
        "map: map[status:True] does not contain declared merge key: type"
    );
}
