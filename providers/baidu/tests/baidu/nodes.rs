//! Tests of Nodes and routes.

use std::sync::Arc;

use cloud_provider::{
    AddressType, Caches, CloudProvider, InstanceMetadata, InstanceState, LookupRequest,
    MetadataLevel, Node, NodeAddress, Result, Route,
};
use serde_json::{Value, json};

use crate::harness::{Harness, cluster};
use crate::profile::DESCRIPTION;

pub(crate) const EVERYTHING: LookupRequest = LookupRequest {
    existence: true,
    shutdown: true,
    metadata: MetadataLevel::Full,
    fresh: true,
};

async fn state(harness: &Harness, node: Node) -> Result<InstanceState> {
    let provider = harness.started().await;
    provider
        .instances()
        .unwrap()
        .lookup(&[Arc::new(node)], EVERYTHING)
        .await
        .remove(0)
}

async fn metadata(harness: &Harness, node: Node) -> InstanceMetadata {
    match state(harness, node).await.unwrap() {
        InstanceState::Present {
            metadata: Some(metadata),
            ..
        } => *metadata,
        other => panic!("{other:?}"),
    }
}

fn named(name: &str) -> Node {
    Node {
        name: name.into(),
        ..Node::default()
    }
}

fn with_id(id: &str) -> Node {
    Node {
        provider_id: id.into(),
        ..named("worker-1")
    }
}

fn set(harness: &Harness, key: &str, value: impl Into<Value>) {
    harness.fake.lock().instances[0][key] = value.into();
}

#[tokio::test(start_paused = true)]
async fn instance_gives_a_node_its_labels_and_addresses() {
    let harness = Harness::new();
    set(&harness, "publicIp", "203.0.113.7");
    set(&harness, "Ipv6Addresses", json!(["240c::7"]));
    let found = metadata(&harness, named("worker-1")).await;
    assert_eq!(
        (&*found.provider_id, &*found.instance_type),
        ("cce://i-00000001", "bcc.g4.c2m8")
    );
    assert_eq!((&*found.zone, &*found.region), ("cn-bj-a", "bj"));
    let shown: Vec<_> = found
        .node_addresses
        .iter()
        .map(|address| format!("{} {}", address.kind.as_str(), address.address))
        .collect();
    assert_eq!(
        shown,
        [
            "InternalIP 192.168.0.1",
            "InternalIP 240c::7",
            "ExternalIP 203.0.113.7",
            "Hostname worker-1"
        ]
    );
    let legacy = metadata(
        &Harness::new().set("CCE_LEGACY_INSTANCE_TYPE", "true"),
        named("worker-1"),
    )
    .await;
    assert_eq!(legacy.instance_type, "BCC");
}

#[tokio::test(start_paused = true)]
async fn node_is_found_by_host_name_by_address_and_by_provider_id() {
    let harness = Harness::new();
    set(&harness, "name", "another");
    assert_eq!(
        metadata(&harness, named("worker-1")).await.provider_id,
        "cce://i-00000001"
    );
    assert_eq!(
        metadata(&harness, named("192.168.0.2")).await.provider_id,
        "cce://i-00000002"
    );
    let addresses = [NodeAddress::new(AddressType::InternalIP, "192.168.0.2")].into();
    assert_eq!(
        metadata(
            &harness,
            Node {
                addresses,
                ..named("other")
            }
        )
        .await
        .provider_id,
        "cce://i-00000002"
    );
    assert_eq!(
        metadata(&harness, with_id("cce://i-00000002"))
            .await
            .provider_id,
        "cce://i-00000002"
    );
    assert!(matches!(
        state(&harness, named("nobody")).await,
        Ok(InstanceState::Gone(_))
    ));
    assert!(matches!(
        state(&harness, with_id("cce://i-none")).await,
        Ok(InstanceState::Gone(_))
    ));
    for id in ["cce://", "cce://a/b", "other://i-1"] {
        assert!(state(&harness, with_id(id)).await.is_err(), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_of_an_instance_decides_about_its_node() {
    let harness = Harness::new();
    for (status, is_off) in [
        ("Running", false),
        ("Scaling", false),
        ("Error", false),
        ("Stopped", true),
        ("Recycled", true),
    ] {
        set(&harness, "status", status);
        let found = state(&harness, with_id("cce://i-00000001")).await;
        assert!(
            matches!(found, Ok(InstanceState::Present { shutdown: Some(it), .. }) if it == is_off),
            "{status}: {found:?}"
        );
    }
    set(&harness, "status", "Deleted");
    assert!(matches!(
        state(&harness, with_id("cce://i-00000001")).await,
        Ok(InstanceState::Gone(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn deleted_instances_do_not_make_the_list_partial() {
    let harness = Harness::new();
    ["old-1", "old-2"]
        .into_iter()
        .for_each(|name| drop(harness.add_node(name)));
    harness
        .fake
        .lock()
        .instances
        .iter_mut()
        .skip(2)
        .for_each(|instance| instance["status"] = "Deleted".into());
    assert_eq!(
        metadata(&harness, named("worker-1")).await.provider_id,
        "cce://i-00000001"
    );
    assert!(matches!(
        state(&harness, named("nobody")).await,
        Ok(InstanceState::Gone(_))
    ));
}

fn route(node: &str, range: &str) -> Route {
    Route {
        target_node: node.into(),
        destination_cidr: range.into(),
        ..Route::default()
    }
}

fn advertise(harness: &Harness, node: &str, value: &str) {
    let there = harness.cluster.node(node).unwrap();
    let annotations = [(
        "node.alpha.kubernetes.io/advertise-route".to_owned(),
        value.to_owned(),
    )];
    harness.cluster.set_node(Node {
        annotations: annotations.into_iter().collect(),
        ..(*there).clone()
    });
}

#[tokio::test(start_paused = true)]
async fn routes_are_rules_of_the_vpc_with_the_description_of_the_cluster() {
    let harness = Harness::new().set("VpcId", Value::Null);
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    for (node, range) in [("worker-1", "10.244.0.0/24"), ("worker-2", "fd00::/64")] {
        routes
            .create(&cluster(), "", &route(node, range))
            .await
            .unwrap();
    }
    let rules = harness.fake.lock().rules.clone();
    assert_eq!(
        (&rules[0]["nexthopId"], &rules[0]["description"]),
        (&json!("i-00000001"), &json!(DESCRIPTION))
    );
    let patches = harness.cluster.take_patches();
    let patch: Value = serde_json::from_slice(&patches[0].1).unwrap();
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations["node.alpha.kubernetes.io/vpc-id"], "vpc-1");
    assert_eq!(
        annotations["node.alpha.kubernetes.io/vpc-route-rule-id"],
        rules[0]["routeRuleId"]
    );
    let listed = routes.list(&cluster()).await.unwrap();
    assert_eq!(
        listed
            .iter()
            .map(|route| &*route.target_node)
            .collect::<Vec<_>>(),
        ["worker-1", "worker-2"]
    );
    for route in &listed {
        routes.delete(&cluster(), route).await.unwrap();
    }
    assert!(harness.fake.lock().rules.is_empty());
}

#[tokio::test(start_paused = true)]
async fn node_that_is_not_advertised_gets_no_route() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    routes
        .create(&cluster(), "", &route("worker-1", "10.244.0.0/24"))
        .await
        .unwrap();
    advertise(&harness, "worker-1", "false");
    assert!(
        routes.list(&cluster()).await.unwrap()[0].blackhole,
        "the rule is deleted"
    );
    harness.fake.lock().rules.clear();
    routes
        .create(&cluster(), "", &route("worker-1", "10.244.0.0/24"))
        .await
        .unwrap();
    assert!(harness.fake.lock().rules.is_empty());
    advertise(&harness, "worker-1", "maybe");
    let error = routes
        .create(&cluster(), "", &route("worker-1", "10.244.0.0/24"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("\"maybe\" is not true or false"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn rule_of_others_is_kept_and_an_overlap_is_reported_once() {
    let harness = Harness::new();
    harness
        .fake
        .lock()
        .add_rule("i-theirs", "10.244.0.0/16", "auto generated by cce:c-2");
    harness.fake.lock().add_rule("i-theirs", "0.0.0.0/0", "nat");
    harness
        .fake
        .lock()
        .add_rule("i-gone", "10.244.7.0/24", DESCRIPTION);
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    routes
        .create(&cluster(), "", &route("worker-1", "10.244.0.0/24"))
        .await
        .unwrap();
    let listed = routes.list(&cluster()).await.unwrap();
    let of = |range: &str| {
        listed
            .iter()
            .find(|route| route.destination_cidr == range)
            .unwrap()
    };
    assert_eq!(
        (of("10.244.0.0/16").owned, of("10.244.0.0/24").owned),
        (Some(false), Some(true))
    );
    assert!(of("10.244.7.0/24").blackhole, "its instance does not exist");
    routes.list(&cluster()).await.unwrap();
    let events = harness.events();
    let conflicts: Vec<_> = events
        .iter()
        .filter(|event| event.starts_with("RouteTableConflictDetection"))
        .collect();
    assert_eq!(conflicts.len(), 1, "{events:?}");
    assert!(
        routes
            .delete(&cluster(), of("10.244.0.0/16"))
            .await
            .is_err()
    );
}
