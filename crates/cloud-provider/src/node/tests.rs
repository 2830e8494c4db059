use super::*;

fn node(json: &str) -> Node {
    serde_json::from_str(json).unwrap()
}

#[test]
fn full_node_is_reduced_to_the_fields_that_are_read() {
    let node = node(
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"7",
        "creationTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2024-01-02T00:00:00Z",
        "labels":{"a":"b"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","x":"y"},
        "managedFields":[{"manager":"kubelet"}]},
        "spec":{"providerID":"p://1","podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"unschedulable":true,
        "taints":[{"key":"k","value":"v","effect":"NoExecute","timeAdded":"2024-01-01T00:00:00Z"}]},
        "status":{"capacity":{"cpu":"2"},"addresses":[{"type":"Hostname","address":"n"},{"type":"Odd","address":"o"}],
        "conditions":[{"type":"Ready","status":"False"},{"type":"Ready","status":"True"},
        {"type":"NetworkUnavailable","status":"True","reason":"NoRouteCreated"}],"images":[{"names":["i"],"sizeBytes":1}]}}"#,
    );
    assert!(node.terminating && node.unschedulable);
    assert_eq!(
        node.ready,
        ConditionStatus::False,
        "the first Ready condition counts"
    );
    let unavailable = NetworkCondition {
        status: ConditionStatus::True,
        reason: "NoRouteCreated".into(),
    };
    assert_eq!(node.network_unavailable, Some(unavailable));
    assert_eq!(node.annotations.iter().collect::<Vec<_>>(), [("x", "y")]);
    assert_eq!(&*node.pod_cidrs, ["10.0.0.0/24".into()]);
    assert_eq!(node.addresses[1].kind, AddressType::Other("Odd".into()));
    assert_eq!(node.provider_id_scheme(), Some("p"));
    assert_eq!(node.created.unwrap().to_string(), "2024-01-01T00:00:00Z");
}

#[test]
fn almost_empty_node_is_parsed() {
    let node = node(
        r#"{"metadata":{"name":"n","labels":null},"spec":{"taints":null},"status":{"addresses":null}}"#,
    );
    assert_eq!(node.provider_id(), None);
    assert_eq!(node.ready, ConditionStatus::Unknown);
    assert!(node.taints.is_empty() && node.addresses.is_empty() && !node.is_uninitialized());
}

#[test]
fn system_uuid_is_kept_only_without_a_provider_id() {
    let text = |id: &str| {
        format!(
            r#"{{"metadata":{{"name":"n"}},"spec":{{"providerID":"{id}"}},"status":{{"nodeInfo":{{"systemUUID":"u"}}}}}}"#
        )
    };
    assert_eq!(&*node(&text("")).system_uuid, "u");
    assert_eq!(&*node(&text("acme://1")).system_uuid, "");
}

#[test]
fn uninitialized_taint_counts_with_any_value_and_effect() {
    for taint in [
        r#"{"key":"node.cloudprovider.kubernetes.io/uninitialized","effect":"NoExecute"}"#,
        r#"{"key":"node.cloudprovider.kubernetes.io/uninitialized","value":"x","effect":"NoSchedule"}"#,
    ] {
        assert!(
            node(&format!(
                r#"{{"metadata":{{"name":"n"}},"spec":{{"taints":[{taint}]}}}}"#
            ))
            .is_uninitialized()
        );
    }
}

#[test]
fn a_taint_is_written_as_it_was_read() {
    for taint in [
        r#"{"key":"a","effect":"NoSchedule"}"#,
        r#"{"key":"a","value":"1","effect":"NoSchedule"}"#,
    ] {
        let parsed: Taint = serde_json::from_str(taint).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), taint);
    }
}
