//! Nodes: provider IDs, addresses, labels, shutdown, and routes.

use std::sync::Arc;

use alibaba_fake::Fault;
use cloud_provider::{
    AddressType, CloudProvider, InstanceMetadata, InstanceState, LookupRequest, MetadataLevel,
    Node, NodeAddress, Result,
};
use serde_json::json;

use crate::harness::Harness;

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

fn with_id(provider_id: &str) -> Node {
    Node {
        name: "node".into(),
        provider_id: provider_id.into(),
        ..Node::default()
    }
}

fn with_ip(ip: &str) -> Node {
    Node {
        name: "node".into(),
        addresses: [NodeAddress::new(AddressType::InternalIP, ip)].into(),
        ..Node::default()
    }
}

#[tokio::test(start_paused = true)]
async fn both_forms_of_the_provider_id_name_the_instance() {
    let harness = Harness::new();
    let id = harness.instance("worker-1")["InstanceId"]
        .as_str()
        .unwrap()
        .to_owned();
    for form in [
        format!("cn-hangzhou.{id}"),
        format!("alicloud://cn-hangzhou.{id}"),
        format!("cn-hangzhou.{id}.more"),
    ] {
        let found = metadata(&harness, with_id(&form)).await;
        assert_eq!(found.provider_id, format!("cn-hangzhou.{id}"), "{form}");
        assert_eq!(
            (&*found.instance_type, &*found.zone, &*found.region),
            ("ecs.g7.large", "cn-hangzhou-b", "cn-hangzhou")
        );
        assert_eq!(
            found.additional_labels["node.alibabacloud.com/instance-charge-type"],
            "PostPaid"
        );
        let shown: Vec<_> = found
            .node_addresses
            .iter()
            .map(|address| format!("{} {}", address.kind.as_str(), address.address))
            .collect();
        assert_eq!(shown, ["ExternalIP 203.0.0.1", "InternalIP 10.0.0.1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn ipv6_addresses_follow_with_the_feature_gate() {
    let harness = Harness::new().with("featureGates", "IPv6DualStack=true");
    let found = metadata(&harness, with_ip("10.0.0.1")).await;
    let shown: Vec<_> = found
        .node_addresses
        .iter()
        .map(|address| format!("{} {}", address.kind.as_str(), address.address))
        .collect();
    assert_eq!(
        shown,
        [
            "ExternalIP 203.0.0.1",
            "InternalIP 10.0.0.1",
            "InternalIP fd00::1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_clouds_and_excluded_nodes_are_never_gone() {
    let harness = Harness::new();
    for node in [with_id("ack-hybrid://x"), with_id("nodot")] {
        assert!(state(&harness, node).await.unwrap_err().is_invalid());
    }
    let labels = [("service.alibabacloud.com/exclude-node", "")]
        .into_iter()
        .collect();
    let excluded = Node {
        labels,
        ..with_id("cn-hangzhou.i-gone")
    };
    let provider = harness.started().await;
    assert_eq!(
        [&excluded, &with_id("cn-hangzhou.i-1")].map(|node| provider.owns_node(node)),
        [false, true]
    );
    let error = state(&harness, excluded).await.unwrap_err();
    assert!(error.to_string().contains("is not managed"), "{error}");
    assert!(matches!(
        state(&harness, with_id("cn-hangzhou.i-gone")).await,
        Ok(InstanceState::Gone(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn lingjun_node_keeps_its_addresses_and_is_gone_when_the_cloud_says_so() {
    let harness = Harness::new();
    harness.fake.lock().add(
        "lingjun",
        json!({"NodeId": "e01-cn-1", "OperatingState": "Using"}),
    );
    let node = |id: &str, label: &str| {
        let labels = [("alibabacloud.com/lingjun-worker", "true"), (label, "")]
            .into_iter()
            .collect();
        Node {
            labels,
            provider_id: id.into(),
            ..with_ip("10.9.0.1")
        }
    };
    let found = metadata(&harness, node("e01-cn-1", "x")).await;
    assert_eq!(
        (&*found.provider_id, &*found.node_addresses[0].address),
        ("e01-cn-1", "10.9.0.1")
    );
    assert!(matches!(
        state(&harness, node("e01-cn-2", "x")).await,
        Ok(InstanceState::Gone(_))
    ));
    let error = state(
        &harness,
        node("e01-cn-1", "alibabacloud.com/lingjun-tianwen-environment"),
    )
    .await
    .unwrap_err();
    assert!(error.to_string().contains("is not managed"), "{error}");
    assert!(
        state(&harness, with_id("e01-cn-1"))
            .await
            .unwrap_err()
            .is_invalid(),
        "without the label"
    );
    let provider = harness.started().await;
    let nodes = [
        with_ip("10.0.0.1"),
        node("e01-cn-1", "x"),
        with_ip("10.0.0.2"),
    ]
    .map(Arc::new);
    let states = provider
        .instances()
        .unwrap()
        .lookup(&nodes, EVERYTHING)
        .await;
    assert!(
        states
            .iter()
            .all(|state| matches!(state, Ok(InstanceState::Present { .. }))),
        "{states:?}"
    );
    harness
        .fake
        .fault_injector()
        .fail(Fault::code("GET /eflo/DescribeNode", "Forbidden.RAM").times(9));
    let failed = provider
        .instances()
        .unwrap()
        .lookup(&nodes[1..2], EVERYTHING)
        .await
        .remove(0);
    assert!(failed.unwrap_err().is_unauthorized());
}

#[tokio::test(start_paused = true)]
async fn node_without_provider_id_is_found_by_its_internal_address() {
    let harness = Harness::new();
    let id = harness.instance("worker-2")["InstanceId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        metadata(&harness, with_ip("10.0.0.2")).await.provider_id,
        format!("cn-hangzhou.{id}")
    );
}

#[tokio::test(start_paused = true)]
async fn node_without_provider_id_is_not_gone_without_its_instance_in_the_list() {
    let harness = Harness::new();
    let error = state(&harness, with_ip("10.9.9.9"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("0 instances have its internal address 10.9.9.9"),
        "{error}"
    );
    harness
        .fake
        .lock()
        .each("instance")
        .iter_mut()
        .for_each(|instance| instance["Tags"] = json!({"Tag": []}));
    let error = state(&harness, with_ip("10.0.0.1"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("the tag ack.aliyun.com"), "{error}");
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::status("GET /ecs/DescribeInstances", 400).times(1000));
    let node = Arc::new(with_ip("10.0.0.1"));
    let failed = provider
        .instances()
        .unwrap()
        .lookup(&[node], EVERYTHING)
        .await
        .remove(0);
    assert!(failed.is_err(), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn instance_of_another_region_is_found_there() {
    let harness = Harness::new();
    let id = harness.instance("worker-1")["InstanceId"]
        .as_str()
        .unwrap()
        .to_owned();
    harness.fake.lock().each("instance")[0]["RegionId"] = "cn-beijing".into();
    let found = metadata(&harness, with_id(&format!("cn-beijing.{id}"))).await;
    assert_eq!(
        (found.provider_id, &*found.region),
        (format!("cn-beijing.{id}"), "cn-beijing")
    );
    assert!(matches!(
        state(&harness, with_id("cn-beijing.i-gone")).await,
        Ok(InstanceState::Gone(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn address_that_the_kubelet_chose_comes_first_and_must_be_one_of_the_instance() {
    let harness = Harness::new();
    let node = |ip: &str| {
        let annotations = [("alpha.kubernetes.io/provided-node-ip", ip)]
            .into_iter()
            .collect();
        Node {
            annotations,
            ..with_ip("10.0.0.1")
        }
    };
    assert_eq!(
        &*metadata(&harness, node("10.0.0.1")).await.node_addresses[0].address,
        "10.0.0.1"
    );
    let error = state(&harness, node("192.0.2.9"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("it has 203.0.0.1, 10.0.0.1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn stopped_instance_is_shut_down_and_a_stopping_one_is_not() {
    let harness = Harness::new();
    for (status, expected) in [
        ("Stopped", true),
        ("Stopping", false),
        ("Starting", false),
        ("Running", false),
    ] {
        harness
            .fake
            .lock()
            .each("instance")
            .iter_mut()
            .for_each(|instance| instance["Status"] = status.into());
        let found = state(&harness, with_ip("10.0.0.1")).await.unwrap();
        assert!(
            matches!(found, InstanceState::Present { shutdown: Some(it), .. } if it == expected),
            "{status}: {found:?}"
        );
    }
}
