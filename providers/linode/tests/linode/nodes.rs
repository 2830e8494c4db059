//! Nodes: addresses, labels, annotations and routes.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, CloudProvider, InstanceMetadata, InstanceState, LookupRequest, MetadataLevel,
    Node, NodeAddress, Result, Route,
};
use linode_fake::Fault;
use serde_json::json;

use crate::harness::{Harness, cluster};

const EVERYTHING: LookupRequest = LookupRequest {
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

fn shown(addresses: &[NodeAddress]) -> Vec<String> {
    addresses
        .iter()
        .map(|address| format!("{} {}", address.kind.as_str(), address.address))
        .collect()
}

fn named(name: &str) -> Node {
    Node {
        name: name.into(),
        ..Node::default()
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_come_in_the_order_of_the_go_program() {
    let addresses = [NodeAddress::new(AddressType::InternalIP, "172.16.0.9")].into();
    let harness = Harness::new();
    let found = metadata(
        &harness,
        Node {
            addresses,
            ..named("worker-1")
        },
    )
    .await;
    assert_eq!(
        (&*found.instance_type, &*found.region),
        ("g6-standard-4", "us-east")
    );
    assert_eq!(
        found.additional_labels["node.k8s.linode.com/host-uuid"],
        "host-7000001"
    );
    let plain = [
        "Hostname worker-1",
        "ExternalIP 203.0.0.1",
        "InternalIP 192.168.0.1",
        "ExternalIP 2600:3c03::1",
    ];
    assert_eq!(
        shown(&found.node_addresses),
        [&plain[..], &["InternalIP 172.16.0.9"]].concat()
    );

    let vpc = metadata(
        &Harness::new().set("--vpc-names", "pods"),
        named("worker-1"),
    )
    .await;
    let ipv4 = ["InternalIP 10.0.0.1"];
    let ipv6 = ["InternalIP 2600:3c0f:7:1::5"];
    assert_eq!(
        shown(&vpc.node_addresses),
        [&plain[..1], &ipv4, &plain[1..3], &ipv6, &plain[3..]].concat()
    );
    let external = metadata(
        &Harness::new().set("LINODE_EXTERNAL_SUBNET", "192.168.0.0/16"),
        named("worker-1"),
    )
    .await;
    assert_eq!(shown(&external.node_addresses)[2], "ExternalIP 192.168.0.1");
}

#[tokio::test(start_paused = true)]
async fn node_of_another_name_is_found_by_its_public_address_only() {
    let harness = Harness::new();
    let node = |ip: &str| Node {
        addresses: [NodeAddress::new(AddressType::InternalIP, ip)].into(),
        ..named("other")
    };
    assert_eq!(
        metadata(&harness, node("203.0.0.2")).await.provider_id,
        "linode://7000002"
    );
    assert!(matches!(
        state(&harness, node("192.168.0.2")).await,
        Ok(InstanceState::Gone(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn linode_without_the_tag_is_not_gone() {
    let harness = Harness::new().set("--linode-tag-filter", "staging");
    let node = Node {
        provider_id: "linode://7000001".into(),
        ..named("worker-1")
    };
    assert!(matches!(
        state(&harness, node).await,
        Ok(InstanceState::Present { .. })
    ));
    for id in ["linode://", "linode://abc"] {
        assert!(
            state(
                &harness,
                Node {
                    provider_id: id.into(),
                    ..named("worker-1")
                }
            )
            .await
            .is_err(),
            "{id}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn label_and_annotations_are_written_once() {
    let harness = Harness::new();
    let _provider = harness.started().await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    let patches = harness.patches();
    assert_eq!(patches.len(), 2, "{patches:?}");
    assert_eq!(patches[0].0, "/api/v1/nodes/worker-1");
    let annotations = json!({"node.k8s.linode.com/private-ip": "192.168.0.1", "node.k8s.linode.com/public-ipv6": "2600:3c03::1/128"});
    assert_eq!(patches[0].1["metadata"]["annotations"], annotations);
}

#[tokio::test(start_paused = true)]
async fn routes_are_ranges_of_the_vpc_interface_of_either_generation() {
    for generation in ["legacy_config", "linode"] {
        let harness = Harness::new()
            .set("--vpc-names", "pods")
            .set("--enable-route-controller", "true");
        for linode in &mut harness.fake.lock().linodes {
            linode["interface_generation"] = generation.into();
        }
        let provider = harness.started().await;
        let routes = provider.routes().unwrap();
        for cidr in ["10.244.0.0/24", "10.244.9.0/24", "fd00::/64"] {
            let route = Route {
                target_node: "worker-1".into(),
                destination_cidr: cidr.into(),
                ..Route::default()
            };
            routes.create(&cluster(), "", &route).await.unwrap();
        }
        assert_eq!(
            harness.linode("worker-1")["vpc"]["ranges"],
            json!(["10.244.0.0/24", "10.244.9.0/24"])
        );
        let listed = routes.list(&cluster()).await.unwrap();
        assert_eq!(listed.len(), 3, "{listed:?}");
        assert!(
            listed.iter().all(|route| route.target_node == "worker-1"),
            "{listed:?}"
        );
        for route in &listed {
            routes.delete(&cluster(), route).await.unwrap();
        }
        assert_eq!(
            harness.linode("worker-1")["vpc"]["ranges"],
            json!([]),
            "{generation}"
        );
        assert!(routes.list(&cluster()).await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_get_pod_ranges_that_no_other_node_has() {
    let harness = Harness::new()
        .set("--vpc-names", "pods")
        .set("--allocate-node-cidrs", "true");
    let used = Node {
        name: "old".into(),
        uid: "old".into(),
        pod_cidrs: ["10.244.0.0/24".into()].into(),
        ..Node::default()
    };
    harness.cluster.set_node(used);
    let _provider = harness.started().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let patches = harness.patches();
    let ranges: Vec<_> = patches
        .iter()
        .map(|(_, patch)| patch["spec"]["podCIDRs"].clone())
        .collect();
    let of = |name: &str| {
        harness.linode(name)["vpc"]["ipv6"]
            .as_str()
            .unwrap()
            .replace("::/64", ":0:c::/112")
    };
    let expected = [
        json!(["10.244.1.0/24", of("worker-1")]),
        json!(["10.244.2.0/24", of("worker-2")]),
    ];
    assert_eq!(
        ranges, expected,
        "each once, though the cache does not show them yet"
    );
}

#[tokio::test(start_paused = true)]
async fn node_without_a_free_range_gets_an_event() {
    let harness = Harness::new()
        .set("--allocate-node-cidrs", "true")
        .set("--node-cidr-mask-size-ipv4", "16");
    let _provider = harness.started().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let events = harness.events();
    assert_eq!(
        events
            .iter()
            .filter(|event| event.starts_with("CIDRNotAvailable"))
            .count(),
        1,
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn program_stops_when_the_token_is_not_valid_any_more() {
    let harness = Harness::new().set("--enable-token-health-checker", "true");
    let _provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::status("GET /profile", 500).times(20));
    tokio::time::sleep(Duration::from_secs(310)).await;
    assert!(
        !harness.shutdown.is_cancelled(),
        "another error is a warning"
    );
    harness.fake.fault_injector().clear_faults();
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused_as("GET /profile", 401, "", "Invalid Token"));
    tokio::time::sleep(Duration::from_secs(310)).await;
    assert!(harness.shutdown.is_cancelled());
}
