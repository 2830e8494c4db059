//! BLBs, routes and Nodes that the Go cloud controller manager left: `go.json` is a recording of version 1.0.14 on this
//! fake, with a real kube-apiserver. BLBs and routes are of two runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud_provider::{
    AddressType, Caches, CloudProvider, InstanceState, LookupRequest, MetadataLevel, Node,
    NodeAddress, Service,
};
use serde_json::{Value, json};

use crate::harness::{Harness, cluster};
use crate::profile::{list, text};

fn shown(service: &Service) -> Value {
    json!(service.status)["loadBalancer"]["ingress"][0]["ip"].clone()
}

fn addresses(node: &Value) -> Vec<NodeAddress> {
    let kind = |object: &Value| {
        if object["type"] == "Hostname" {
            AddressType::Hostname
        } else {
            AddressType::InternalIP
        }
    };
    list(&node["addresses"])
        .map(|addresses| NodeAddress::new(kind(addresses), &text(&addresses["address"])))
        .collect()
}

/// Returns the recording, and an account and a cluster with what is in it.
fn left_by_the_go_program() -> (Value, Harness) {
    let left: Value = serde_json::from_str(include_str!("go.json")).unwrap();
    let harness = Harness::new().set("ClusterId", "c-testbed");
    ["worker-1", "worker-2"]
        .into_iter()
        .for_each(|name| harness.cluster.remove_node(name));
    {
        let all = |key: &str| list(&left[key]).cloned().collect::<Vec<_>>();
        let mut cloud = harness.fake.lock();
        (cloud.instances, cloud.rules) = (all("instances"), all("rules"));
        (cloud.blbs, cloud.eips) = (all("blbs"), all("eips"));
    }
    for node in list(&left["nodes"]) {
        harness.cluster.set_node(Node {
            name: text(&node["name"]).into(),
            provider_id: text(&node["providerID"]).into(),
            addresses: addresses(node).into(),
            pod_cidrs: [text(&node["podCIDR"]).into()].into(),
            ..Node::default()
        });
    }
    (left, harness)
}

#[tokio::test(start_paused = true)]
async fn no_blb_and_no_eip_that_the_go_program_left_is_written() {
    let (left, harness) = left_by_the_go_program();
    let provider = harness.started().await;
    let mut count = 0;
    for service in list(&left["services"]) {
        let mut service: Service = serde_json::from_value(service.clone()).unwrap();
        let before = shown(&service);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "{service:#?}");
        assert_eq!(shown(&service), before, "the address stays");
        count += 1;
    }
    assert_eq!(count, 6);
}

#[tokio::test(start_paused = true)]
async fn routes_that_the_go_program_left_are_those_of_the_nodes() {
    let (left, harness) = left_by_the_go_program();
    let provider = harness.started().await;
    let routes = provider.routes().unwrap().list(&cluster()).await.unwrap();
    let found: BTreeSet<_> = routes
        .iter()
        .map(|route| (route.target_node.clone(), route.destination_cidr.clone()))
        .collect();
    let wanted: BTreeSet<_> = list(&left["nodes"])
        .map(|nodes| (text(&nodes["name"]), text(&nodes["podCIDR"])))
        .collect();
    assert_eq!(
        (found, routes.len()),
        (wanted, 3),
        "the rule of the system is no route"
    );
    assert!(
        routes
            .iter()
            .all(|route| route.owned == Some(true) && !route.blackhole),
        "{routes:?}"
    );
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_the_go_program_initialized_keep_id_addresses_and_zone() {
    let (left, harness) = left_by_the_go_program();
    let provider = harness.started().await;
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    for node in list(&left["nodes"]) {
        let known = harness.cluster.node(&text(&node["name"])).unwrap();
        let found = provider
            .instances()
            .unwrap()
            .lookup(&[Arc::clone(&known)], request)
            .await
            .remove(0)
            .unwrap();
        let InstanceState::Present {
            metadata: Some(found),
            ..
        } = found
        else {
            panic!("{found:?}")
        };
        assert_eq!(found.provider_id, text(&node["providerID"]));
        let set = |all: &[NodeAddress]| {
            all.iter()
                .map(|address| format!("{address:?}"))
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(set(&found.node_addresses), set(&addresses(node)));
        let label =
            |name: &str| text(&node["labels"][format!("failure-domain.beta.kubernetes.io/{name}")]);
        assert_eq!((found.zone, found.region), (label("zone"), label("region")));
    }
}
