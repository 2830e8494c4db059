//! Nodes: look-up by name and UUID, addresses, labels.

use std::sync::Arc;

use cloud_provider::{
    CloudProvider, InstanceMetadata, InstanceState, LookupRequest, MetadataLevel, Node,
    NodeAddress, Result,
};
use rancher_fake::ENVIRONMENT;
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
async fn each_address_is_external_and_internal_and_the_name_comes_last() {
    let harness = Harness::new();
    harness.fake.lock().hosts[0]["addresses"] = json!(["10.1.0.1", "192.0.2.7"]);
    let found = metadata(&harness, named("worker-1")).await;
    let expected = [
        "ExternalIP 10.1.0.1",
        "InternalIP 10.1.0.1",
        "ExternalIP 192.0.2.7",
        "InternalIP 192.0.2.7",
        "Hostname worker-1",
    ];
    assert_eq!(shown(&found.node_addresses), expected);
    assert_eq!(
        (&*found.instance_type, &*found.zone, &*found.region),
        ("rancher", "rack-1", "north")
    );
    assert_eq!(
        found.provider_id,
        format!(
            "rancher://{}",
            harness.host("worker-1")["uuid"].as_str().unwrap()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn host_whose_addresses_cannot_be_read_keeps_no_other_one_from_being_read() {
    for lacks_link in [true, false] {
        let harness = Harness::new();
        {
            let mut cloud = harness.fake.lock();
            cloud.ignores_include = true;
            cloud.hosts[1]["lacksAddressLink"] = lacks_link.into();
            if !lacks_link {
                cloud.hosts[1]["isLeaving"] = true.into();
            }
        }
        let found = metadata(&harness, named("worker-1")).await;
        assert!(!found.node_addresses.is_empty());
        let error = state(&harness, named("worker-2"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("has no IP addresses"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn labels_and_instance_type_are_configurable() {
    let mut harness = Harness::new();
    harness.file = Some(
        "[Global]\nzone-label = rack\nregion-label = none\ninstance-type = driver\n".to_owned(),
    );
    harness.fake.lock().hosts[0]["labels"] = json!({"rack": "r7"});
    let found = metadata(&harness, named("worker-1")).await;
    assert_eq!(
        (&*found.instance_type, &*found.zone, &*found.region),
        ("generic", "r7", "")
    );
}

#[tokio::test(start_paused = true)]
async fn domain_of_one_side_does_not_count() {
    for (hostname, node, is_found) in [
        ("a.example.org", "a.example.org", true),
        ("a.example.org", "A", true),
        ("a", "a.example.org", true),
        ("a.example.org", "a.example.com", false),
        ("ab", "a", false),
    ] {
        let harness = Harness::new();
        harness.fake.lock().add_host(ENVIRONMENT, hostname);
        let found = state(&harness, named(node)).await.unwrap();
        assert_eq!(
            !matches!(found, InstanceState::Gone(_)),
            is_found,
            "{hostname} {node}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn name_that_several_hosts_have_is_an_error() {
    let harness = Harness::new();
    harness
        .fake
        .lock()
        .add_host(ENVIRONMENT, "worker-1.example.org");
    let error = state(&harness, named("worker-1"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("worker-1.example.org") && error.contains("rename one of them"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn host_without_addresses_is_an_error_and_not_gone() {
    let harness = Harness::new();
    harness.fake.lock().hosts[0]["addresses"] = json!([]);
    let error = state(&harness, named("worker-1"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no IP addresses"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn addresses_that_a_list_lacks_are_read_by_the_link() {
    let harness = Harness::new();
    harness.fake.lock().ignores_include = true;
    let found = metadata(&harness, named("worker-2")).await;
    assert_eq!(found.node_addresses.len(), 3);
    assert!(
        harness
            .fake
            .fault_injector()
            .count("GET /hosts/{id}/ipaddresses")
            > 0
    );
}

#[tokio::test(start_paused = true)]
async fn state_of_a_host_decides_about_existence_and_shutdown() {
    for (state_of_host, agent, expected) in [
        ("active", "active", Some(false)),
        ("reconnecting", "reconnecting", Some(false)),
        ("inactive", "active", Some(true)),
        ("deactivating", "active", Some(true)),
        ("active", "disconnected", Some(true)),
        ("removing", "active", None),
        ("purged", "active", None),
    ] {
        let harness = Harness::new();
        let uuid = harness.host("worker-1")["uuid"].clone();
        {
            let mut cloud = harness.fake.lock();
            (cloud.hosts[0]["state"], cloud.hosts[0]["agentState"]) =
                (state_of_host.into(), agent.into());
        }
        let node = Node {
            provider_id: format!("rancher://{}", uuid.as_str().unwrap()).into(),
            ..named("worker-1")
        };
        let shutdown = match state(&harness, node).await.unwrap() {
            InstanceState::Present { shutdown, .. } => shutdown,
            InstanceState::Gone(_) => None,
        };
        assert_eq!(shutdown, expected, "{state_of_host} {agent}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_hosts_are_read() {
    let harness = Harness::new();
    (0..230).for_each(|number| {
        drop(
            harness
                .fake
                .lock()
                .add_host(ENVIRONMENT, &format!("more-{number}")),
        );
    });
    let nodes: Vec<_> = (0..230)
        .map(|number| Arc::new(named(&format!("more-{number}"))))
        .collect();
    let provider = harness.started().await;
    let found = provider
        .instances()
        .unwrap()
        .lookup(&nodes, EVERYTHING)
        .await;
    assert!(
        found
            .iter()
            .all(|state| matches!(state, Ok(InstanceState::Present { .. }))),
        "{found:?}"
    );
    assert!(harness.fake.fault_injector().count("GET /hosts") <= 6);
}
