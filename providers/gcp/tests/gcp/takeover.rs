//! Take-over from the Go cloud-controller-manager: `go.json` is what commit 4e245312 of cloud-provider-gcp (1.36) left on this
//! fake: objects of the cloud by path, Nodes and Services as it wrote them.

use std::sync::Arc;

use cloud_provider::{CloudProvider, InstanceState, LookupRequest, MetadataLevel, Node, Service};
use serde_json::{Value, json};

use crate::harness::{Harness, cluster};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gcp/go.json");

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn node(recorded: &Value) -> Arc<Node> {
    let text = |key: &str| recorded[key].as_str().unwrap();
    let labels = [("kubernetes.io/hostname".to_owned(), text("name").to_owned())]
        .into_iter()
        .collect();
    Arc::new(Node {
        name: text("name").into(),
        provider_id: text("providerID").into(),
        labels,
        ..Node::default()
    })
}

#[tokio::test(start_paused = true)]
async fn take_over_from_the_go_program_changes_nothing() {
    let left: Value = serde_json::from_slice(&std::fs::read(RECORDING).unwrap()).unwrap();
    let settings = [("multizone", "true"), ("node-instance-prefix", "worker")];
    let harness = settings
        .into_iter()
        .fold(Harness::new(), |harness, (key, value)| {
            harness.set(key, value)
        });
    harness.fake.lock().objects = serde_json::from_value(left["objects"].clone()).unwrap();
    let nodes: Vec<_> = list(&left["nodes"]).map(node).collect();
    harness.objects.nodes.lock().clone_from(&nodes);
    *harness.objects.config_map.lock() = Some(json!({"data": left["ingress-uid"]}));
    let services: Vec<Service> = serde_json::from_value(left["services"].clone()).unwrap();
    *harness.objects.services.lock() = services.iter().cloned().map(Arc::new).collect();
    let provider = harness.started().await;

    let everything = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    let found = provider
        .instances()
        .unwrap()
        .lookup(&nodes, everything)
        .await;
    for (found, recorded) in found.into_iter().zip(list(&left["nodes"])) {
        let InstanceState::Present {
            metadata: Some(metadata),
            ..
        } = found.unwrap()
        else {
            panic!("{recorded}")
        };
        let identity = json!([
            metadata.provider_id,
            metadata.instance_type,
            metadata.zone,
            metadata.region
        ]);
        assert_eq!(
            identity,
            json!([
                recorded["providerID"],
                recorded["type"],
                recorded["zone"],
                recorded["region"]
            ])
        );
        let has = |address: &Value| {
            metadata.node_addresses.iter().any(|node_address| {
                json!([node_address.kind.as_str(), node_address.address]) == *address
            })
        };
        assert!(
            list(&recorded["addresses"]).all(has),
            "{recorded}: {:?}",
            metadata.node_addresses
        );
    }
    let routes = provider.routes().unwrap().list(&cluster()).await.unwrap();
    let mut targets: Vec<_> = routes.iter().map(|route| &*route.target_node).collect();
    targets.sort_unstable();
    assert_eq!(
        targets,
        nodes.iter().map(|node| &*node.name).collect::<Vec<_>>()
    );

    for recorded in &services {
        let mut service = recorded.clone();
        harness.ensure(&provider, &mut service).await.unwrap();
        harness.update(&provider, recorded).await.unwrap();
        let name = recorded.metadata.name.as_deref().unwrap_or_default();
        assert_eq!(harness.changes(), [""; 0], "{name}");
        assert_eq!(service.status, recorded.status, "{name}: the address stays");
    }
    assert_eq!(
        (
            services.len(),
            harness.objects.patches.lock().len(),
            harness.events().len()
        ),
        (50, 0, 0)
    );
}
