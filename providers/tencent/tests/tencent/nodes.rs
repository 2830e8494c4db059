//! Nodes and routes: provider IDs, addresses, states, and the cluster route table.

use std::sync::Arc;

use cloud_provider::{
    AddressType, CloudProvider, InstanceMetadata, InstanceState, LookupRequest, MetadataLevel,
    Node, NodeAddress, Result, Route,
};
use serde_json::{Value, json};
use tencent_fake::{ACCOUNT, Fault, TABLE};

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

fn named(name: &str) -> Node {
    Node {
        name: name.into(),
        ..Node::default()
    }
}

fn with_id(provider_id: &str) -> Node {
    Node {
        provider_id: provider_id.into(),
        ..named("node")
    }
}

#[tokio::test(start_paused = true)]
async fn node_whose_name_is_its_address_is_initialised_as_by_the_go_program() {
    let harness = Harness::new();
    let found = metadata(&harness, named("10.0.0.1")).await;
    assert_eq!(
        found.provider_id,
        "tencentcloud:///ap-guangzhou-4/ins-t0000001"
    );
    assert_eq!(
        (&*found.instance_type, &*found.zone, &*found.region),
        ("S5.MEDIUM4", "ap-guangzhou-4", "ap-guangzhou")
    );
    assert_eq!(
        found.additional_labels["cloud.tencent.com/instance-charge-type"],
        "POSTPAID_BY_HOUR"
    );
    let shown: Vec<_> = found
        .node_addresses
        .iter()
        .map(|address| format!("{} {}", address.kind.as_str(), address.address))
        .collect();
    assert_eq!(
        shown,
        [
            "InternalIP 10.0.0.1",
            "ExternalIP 203.0.0.1",
            "Hostname 10.0.0.1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn node_is_found_by_provider_id_internal_address_and_name() {
    let harness = Harness::new();
    let addresses = [NodeAddress::new(AddressType::InternalIP, "10.0.0.2")].into();
    for node in [
        with_id("tencentcloud:///ap-guangzhou-3/ins-t0000002"),
        with_id("qcloud:///100003/ins-t0000002"),
        with_id("ins-t0000002"),
        Node {
            addresses,
            ..named("other")
        },
        named("worker-2"),
    ] {
        let name = format!("{} {}", node.name, node.provider_id);
        assert_eq!(
            metadata(&harness, node).await.provider_id,
            "tencentcloud:///ap-guangzhou-3/ins-t0000002",
            "{name}"
        );
    }
    assert!(matches!(
        state(&harness, with_id("ins-absent")).await,
        Ok(InstanceState::Gone(_))
    ));
    assert!(matches!(
        state(&harness, named("10.9.9.9")).await,
        Ok(InstanceState::Gone(_))
    ));
    for id in [
        "tencentcloud:///ins-t0000002",
        "tencentcloud:///a/b/ins-t0000002",
        "aws:///a/i-1",
    ] {
        assert!(
            state(&harness, with_id(id)).await.unwrap_err().is_invalid(),
            "{id}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_because_of_one_instance_keeps_no_other_node_from_being_answered() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let nodes = ["ins-t0000001", "ins-absent", "ins-t0000002"].map(|id| Arc::new(with_id(id)));
    let refusal = Fault::code("GET /cvm/DescribeInstances", "InvalidInstanceId.NotFound");
    harness.fake.fault_injector().fail(refusal.times(1));
    let request = LookupRequest {
        metadata: MetadataLevel::No,
        ..EVERYTHING
    };
    let found = provider.instances().unwrap().lookup(&nodes, request).await;
    assert!(
        matches!(found[0], Ok(InstanceState::Present { .. })),
        "{found:?}"
    );
    assert!(matches!(found[1], Ok(InstanceState::Gone(_))), "{found:?}");
    assert!(
        matches!(found[2], Ok(InstanceState::Present { .. })),
        "{found:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn instance_of_another_vpc_is_no_node_and_no_proof_of_absence() {
    let harness = Harness::new();
    {
        let mut cloud = harness.fake.lock();
        cloud.add_instance(ACCOUNT, "worker-1");
        let twin = cloud.each("instance").last_mut().unwrap();
        twin["VirtualPrivateCloud"]["VpcId"] = "vpc-other".into();
        twin["PrivateIpAddresses"] = json!(["10.0.0.1"]);
    }
    assert_eq!(
        metadata(&harness, named("10.0.0.1")).await.provider_id,
        "tencentcloud:///ap-guangzhou-4/ins-t0000001"
    );
    let error = state(&harness, with_id("ins-t0000003"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("vpc-other") && error.contains("vpc_id"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn states_of_instances_are_those_of_their_nodes() {
    let harness = Harness::new();
    for (status, restriction, expected) in [
        ("RUNNING", "NORMAL", Some(false)),
        ("STARTING", "NORMAL", Some(false)),
        ("STOPPING", "NORMAL", Some(false)),
        ("RESCUE_MODE", "NORMAL", Some(false)),
        ("STOPPED", "NORMAL", Some(true)),
        ("SHUTDOWN", "NORMAL", Some(true)),
        ("RUNNING", "EXPIRED", Some(true)),
        ("TERMINATING", "NORMAL", None),
        ("LAUNCH_FAILED", "NORMAL", None),
    ] {
        harness
            .fake
            .lock()
            .each("instance")
            .iter_mut()
            .for_each(|instance| {
                instance["InstanceState"] = status.into();
                instance["RestrictState"] = restriction.into();
            });
        let shown = match state(&harness, with_id("ins-t0000001")).await.unwrap() {
            InstanceState::Present { shutdown, .. } => shutdown,
            InstanceState::Gone(_) => None,
        };
        assert_eq!(shown, expected, "{status} {restriction}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_nodes_are_initialised_by_the_pages_of_one_list() {
    let harness = Harness::new();
    let mut nodes = Vec::new();
    for number in 0..150 {
        harness
            .fake
            .lock()
            .add_instance(ACCOUNT, &format!("more-{number}"));
        let ip = &harness.instance(&format!("more-{number}"))["PrivateIpAddresses"][0];
        nodes.push(Arc::new(named(ip.as_str().unwrap())));
    }
    let provider = harness.started().await;
    let found = provider
        .instances()
        .unwrap()
        .lookup(&nodes, EVERYTHING)
        .await;
    assert!(
        found
            .iter()
            .all(|state| matches!(state, Ok(InstanceState::Present { .. })))
    );
    let reads = harness
        .fake
        .fault_injector()
        .count("GET /cvm/DescribeInstances");
    assert!(
        reads <= 6,
        "two pages, and the instances by their IDs: {reads}"
    );
}

fn route(node: &str, range: &str, ip: &str) -> Route {
    let addresses = vec![NodeAddress::new(AddressType::InternalIP, ip)];
    Route {
        target_node: node.into(),
        destination_cidr: range.into(),
        target_node_addresses: addresses,
        ..Route::default()
    }
}

#[tokio::test(start_paused = true)]
async fn routes_lead_to_the_addresses_of_nodes() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    let cluster = cluster();
    for number in 1..=2 {
        let node = format!("worker-{number}");
        let range = format!("10.244.{number}.0/24");
        routes
            .create(
                &cluster,
                "",
                &route(&node, &range, &format!("10.0.0.{number}")),
            )
            .await
            .unwrap();
    }
    let listed = routes.list(&cluster).await.unwrap();
    let shown: Vec<_> = listed
        .iter()
        .map(|route| format!("{} {}", route.destination_cidr, route.target_node))
        .collect();
    assert_eq!(shown, ["10.244.1.0/24 worker-1", "10.244.2.0/24 worker-2"]);
    let entries = harness.texts(
        "route",
        &["RouteTableName", "DestinationCidrBlock", "GatewayIp"],
    );
    assert_eq!(entries[0], format!("{TABLE} 10.244.1.0/24 10.0.0.1"));
    routes.create(&cluster, "", &listed[0]).await.unwrap();
    routes
        .create(
            &cluster,
            "",
            &route("worker-2", "10.244.1.0/24", "10.0.0.2"),
        )
        .await
        .unwrap();
    let entries = harness.texts("route", &["DestinationCidrBlock", "GatewayIp"]);
    assert_eq!(
        entries,
        ["10.244.1.0/24 10.0.0.2", "10.244.2.0/24 10.0.0.2"],
        "a range leads to one gateway"
    );
    for object in &routes.list(&cluster).await.unwrap() {
        routes.delete(&cluster, object).await.unwrap();
        routes.delete(&cluster, object).await.unwrap();
    }
    assert!(harness.fake.lock().all("route").is_empty());
    let error = routes
        .create(&cluster, "", &route("worker-1", "fd00::/64", "fd01::1"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("IPv6"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn route_that_is_there_already_counts_as_created() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    let cluster = cluster();
    assert!(routes.list(&cluster).await.unwrap().is_empty());
    let there = json!({"RouteTableName": TABLE, "DestinationCidrBlock": "10.244.1.0/24", "GatewayIp": "10.0.0.1"});
    harness.fake.lock().add("route", there);
    routes
        .create(
            &cluster,
            "",
            &route("worker-1", "10.244.1.0/24", "10.0.0.1"),
        )
        .await
        .unwrap();
    assert_eq!(
        harness.texts("route", &["DestinationCidrBlock", "GatewayIp"]),
        ["10.244.1.0/24 10.0.0.1"]
    );
}

#[tokio::test(start_paused = true)]
async fn missing_route_table_is_an_error_or_created() {
    let harness = Harness::new().with("cluster_route_table", "absent");
    let provider = harness.started().await;
    let error = provider
        .routes()
        .unwrap()
        .list(&cluster())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("absent") && error.contains("cluster_route_table"),
        "{error}"
    );
    let harness = harness.with("cluster_route_table_cidr", "10.244.0.0/16");
    let provider = harness.started().await;
    assert!(
        provider
            .routes()
            .unwrap()
            .list(&cluster())
            .await
            .unwrap()
            .is_empty()
    );
    let without = Harness::new()
        .with("cluster_route_table", Value::Null)
        .started()
        .await;
    assert!(without.routes().is_none());
}
