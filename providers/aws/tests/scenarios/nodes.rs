//! Nodes of Fargate, and labels of zones and of the network.

use std::sync::Arc;

use aws_fake::Fault;
use cloud_provider::{CloudProvider, InstanceMetadata, InstanceState, LookupRequest, Node, Result};
use provider_aws::Ec2;

use crate::harness::{Harness, node, node_of};

const TOPOLOGY: &str = "GET /ec2/DescribeInstanceTopology";
const LAYER: &str = "topology.k8s.aws/network-node-layer-";

async fn state(provider: &Ec2, node: &Arc<Node>) -> Result<InstanceState> {
    provider
        .instances()
        .unwrap()
        .lookup(
            std::slice::from_ref(node),
            LookupRequest {
                shutdown: true,
                ..LookupRequest::METADATA
            },
        )
        .await
        .remove(0)
}

async fn metadata(provider: &Ec2, node: Node) -> InstanceMetadata {
    match state(provider, &Arc::new(node)).await.unwrap() {
        InstanceState::Present { metadata, .. } => *metadata.unwrap(),
        other @ InstanceState::Gone(_) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_fargate_have_the_addresses_of_their_interface_and_never_are_shut_down() {
    let harness = Harness::new();
    harness.fake.lock().add_interface("10.0.0.77");
    let provider = harness.start().await.unwrap();
    for id in [
        "fargate-10.0.0.77",
        "fargate-ip-10-0-0-77.us-east-1.compute.internal",
    ] {
        let found = state(&provider, &Arc::new(node("fargate", id)))
            .await
            .unwrap();
        let InstanceState::Present {
            shutdown, metadata, ..
        } = found
        else {
            panic!("{found:?}")
        };
        let metadata = metadata.unwrap();
        let addresses: Vec<_> = metadata
            .node_addresses
            .iter()
            .map(|address| format!("{} {}", address.kind.as_str(), address.address))
            .collect();
        assert_eq!(
            addresses,
            [
                "InternalIP 10.0.0.77",
                "InternalDNS ip-10-0-0-77.ec2.internal"
            ]
        );
        assert_eq!(
            (&*metadata.zone, &*metadata.instance_type, shutdown),
            ("us-east-1a", "", Some(false))
        );
    }
    let gone = state(&provider, &Arc::new(node("fargate", "fargate-10.0.0.78")))
        .await
        .unwrap();
    assert!(matches!(gone, InstanceState::Gone(_)), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn new_nodes_get_labels_of_zone_and_network_and_known_ones_cost_no_request() {
    let harness = Harness::new();
    let id = harness.add_node("gpu");
    harness.change_instances(|instance| {
        if instance["privateDnsName"] == "gpu" {
            instance["instanceType"] = "p5.48xlarge".into();
        }
    });
    let provider = harness.start().await.unwrap();
    let labels = metadata(&provider, node("gpu", &id))
        .await
        .additional_labels;
    let expected = [(1, "nn-1"), (2, "nn-12"), (3, "nn-123")];
    for (layer, place) in expected {
        assert_eq!(labels[&format!("{LAYER}{layer}")], place);
    }
    assert_eq!(labels["topology.k8s.aws/zone-id"], "use1-az2");
    harness.fake.fault_injector().forget_requests();
    let known = Node {
        labels: labels.into_iter().collect(),
        ..node("gpu", &id)
    };
    assert!(
        metadata(&provider, known)
            .await
            .additional_labels
            .is_empty()
    );
    assert_eq!(harness.fake.fault_injector().count(TOPOLOGY), 0);
}

#[tokio::test(start_paused = true)]
async fn type_without_topology_is_asked_about_once() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    for name in ["worker-1", "worker-2", "worker-1"] {
        let node = harness.node(name);
        let labels = metadata(&provider, node).await.additional_labels;
        assert_eq!(labels.len(), 1, "the ID of the zone alone: {labels:?}");
    }
    assert_eq!(harness.fake.fault_injector().count(TOPOLOGY), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_topology_keeps_only_nodes_waiting_that_must_have_it() {
    let harness = Harness::new();
    let gpu = harness.add_node("gpu");
    harness.change_instances(|instance| {
        if instance["privateDnsName"] == "gpu" {
            instance["instanceType"] = "trn1.32xlarge".into();
        }
    });
    let provider = harness.start().await.unwrap();
    harness
        .fake
        .fault_injector()
        .fail(Fault::code(TOPOLOGY, "InternalError"));
    assert_eq!(
        metadata(&provider, harness.node("worker-1"))
            .await
            .additional_labels
            .len(),
        1
    );
    let error = state(&provider, &Arc::new(node("gpu", &gpu)))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("place in the network"), "{error}");
    harness.fake.fault_injector().clear_faults();
    harness
        .fake
        .fault_injector()
        .fail(Fault::code(TOPOLOGY, "UnauthorizedOperation"));
    let labels = metadata(&provider, node("gpu", &gpu))
        .await
        .additional_labels;
    assert_eq!(
        labels.len(),
        1,
        "a role without the permission is no failure: {labels:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn provider_id_of_another_place_is_no_proof_that_an_instance_is_gone() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    for (id, place) in [
        ("aws:///eu-west-1a/i-0123456789abcdef0", "region eu-west-1"),
        (
            "aws://444455556666/us-east-1a/i-0123456789abcdef0",
            "account \"444455556666\"",
        ),
    ] {
        let nodes = [Arc::new(node_of("elsewhere", id))];
        let states = provider
            .instances()
            .unwrap()
            .lookup(&nodes, LookupRequest::METADATA)
            .await;
        let error = states[0].as_ref().unwrap_err().to_string();
        assert!(error.contains(place), "{error}");
    }
}
