//! Load balancers and routes that the Go program left: the files are recordings of cloud-provider-azure 7b31c76c on this
//! fake, with 50 Services of all kinds.

use azure_fake::{Azure as Cloud, Handle};
use cloud_provider::{AddressType, CloudProvider, Node, NodeAddress, Service};
use serde_json::{Value, json};

use crate::harness::{Form, Harness, cluster, list, text};

fn recording(name: &str) -> Value {
    let path = format!("{}/tests/azure/go-{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn addresses(status: Option<&cloud_provider::LoadBalancerStatus>) -> Vec<String> {
    let ingress = status
        .and_then(|status| status.ingress.as_ref())
        .into_iter()
        .flatten();
    ingress.filter_map(|ingress| ingress.ip.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn take_over_from_the_go_program_changes_nothing() {
    for name in ["scale-set", "availability-set"] {
        let left = recording(name);
        let kind = if name == "scale-set" {
            "vmss"
        } else {
            "standard"
        };
        let mut harness = Harness::new(Form::Interfaces).with(json!({ "vmType": kind }));
        harness.fake = Handle::new(Cloud::default());
        for object in list(&left["objects"]) {
            harness
                .fake
                .lock()
                .objects
                .insert(text(&object["id"]).to_ascii_lowercase(), object.clone());
        }
        ["worker-1", "worker-2"]
            .iter()
            .for_each(|name| harness.cluster.remove_node(name));
        for node in list(&left["nodes"]) {
            harness.cluster.set_node(Node {
                name: text(&node["name"]).into(),
                uid: text(&node["uid"]).into(),
                provider_id: text(&node["providerID"]).into(),
                pod_cidrs: [text(&node["podCIDR"]).into()].into(),
                addresses: [NodeAddress::new(
                    AddressType::InternalIP,
                    &text(&node["ip"]),
                )]
                .into(),
                ..Node::default()
            });
        }
        let provider = harness.started().await;
        let routes = provider.routes().unwrap().list(&cluster()).await.unwrap();
        let nodes: Vec<_> = list(&left["nodes"])
            .map(|nodes| text(&nodes["podCIDR"]))
            .collect();
        assert!(
            nodes
                .iter()
                .all(|range| routes.iter().any(|route| &*route.destination_cidr == range)),
            "{name}: {routes:?}"
        );
        let services: Vec<Service> = list(&left["services"])
            .map(|services| serde_json::from_value(services.clone()).unwrap())
            .collect();
        let mut failed = Vec::new();
        for service in &services {
            let before = service
                .status
                .as_ref()
                .and_then(|status| status.load_balancer.as_ref());
            let status = harness
                .ensure_among(&provider, service, &services)
                .await
                .unwrap();
            let changes = harness.changes();
            if !changes.is_empty() || addresses(status.as_ref()) != addresses(before) {
                failed.push((
                    service.metadata.name.clone(),
                    service.metadata.annotations.clone(),
                    changes,
                    status,
                ));
            }
        }
        assert!(failed.is_empty(), "{name}: {failed:#?}");
        assert_eq!(services.len(), 50);
    }
}
