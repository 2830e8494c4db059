//! Tests of Nodes and routes.

use std::sync::Arc;

use cloud_provider::{
    CloudProvider, InstanceState, LookupRequest, MetadataLevel, Node, Result, Route,
};

use crate::fake::ACCOUNT;
use crate::harness::{Harness, cluster};

async fn look_up(harness: &Harness, name: &str, provider_id: &str) -> Result<InstanceState> {
    let node = Node {
        name: name.into(),
        uid: "u".into(),
        provider_id: provider_id.into(),
        ..Node::default()
    };
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    harness
        .provider
        .instances()
        .unwrap()
        .lookup(&[Arc::new(node)], request)
        .await
        .remove(0)
}

async fn addresses(families: &str) -> Vec<String> {
    let harness =
        Harness::with_variables("", &[("MYCLOUD_INSTANCES_ADDRESS_FAMILIES", families)]).await;
    harness.cloud.add_instance(ACCOUNT, "worker-1");
    let Ok(InstanceState::Present {
        metadata: Some(metadata),
        ..
    }) = look_up(&harness, "worker-1", "").await
    else {
        panic!("the instance is there")
    };
    assert_eq!(
        (&*metadata.instance_type, &*metadata.region, &*metadata.zone),
        ("c4.large", "cn-north-1", "cn-north-1a")
    );
    assert_eq!(metadata.provider_id, "mycloud://cn-north-1/i-1");
    metadata
        .node_addresses
        .iter()
        .map(|address| format!("{} {}", address.kind.as_str(), address.address))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn node_has_the_addresses_of_its_instance_in_the_configured_order() {
    let rest = ["ExternalIP 198.51.0.1", "Hostname worker-1"];
    assert_eq!(
        addresses("ipv4").await,
        [&["InternalIP 10.0.0.1"][..], &rest].concat()
    );
    let both = ["InternalIP 2001:db8::1", "InternalIP 10.0.0.1"];
    assert_eq!(addresses("ipv6,ipv4").await, [&both[..], &rest].concat());
}

#[tokio::test(start_paused = true)]
async fn deleted_instance_is_gone_and_a_stopped_one_is_shut_down() {
    let harness = Harness::new("").await;
    for (status, is_shut_down) in [
        ("RUNNING", false),
        ("STOPPED", true),
        ("SUSPENDED", true),
        ("ERROR", false),
        ("REBOOTING", false),
    ] {
        harness
            .cloud
            .change("worker-1", |object| object["status"] = status.into());
        for id in ["mycloud://cn-north-1/i-1", "mycloud://i-1"] {
            let state = look_up(&harness, "worker-1", id).await;
            let Ok(InstanceState::Present { shutdown, .. }) = state else {
                panic!("{status} {id}")
            };
            assert_eq!(shutdown, Some(is_shut_down), "{status} {id}");
        }
    }
    for status in ["DELETING", "DELETED"] {
        harness
            .cloud
            .change("worker-1", |object| object["status"] = status.into());
        let state = look_up(&harness, "worker-1", "mycloud://cn-north-1/i-1").await;
        assert!(matches!(state, Ok(InstanceState::Gone(_))), "{status}");
    }
    // An instance without the label of the cluster is in no list.
    harness.cloud.change("worker-2", |object| {
        object["labels"] = serde_json::json!({});
    });
    let state = look_up(&harness, "worker-2", "mycloud://cn-north-1/i-2").await;
    assert!(matches!(state, Ok(InstanceState::Present { .. })));
}

#[tokio::test(start_paused = true)]
async fn provider_id_of_another_form_or_region_is_an_error() {
    let harness = Harness::new("").await;
    for id in [
        "mycloud://",
        "mycloud://a/b/c",
        "mycloud://cn-north-1/",
        "aws://i-1",
        "mycloud://eu-1/i-1",
    ] {
        let error = look_up(&harness, "worker-1", id).await.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(id),
            "{id}: {error}"
        );
    }
    harness.cloud.add_instance(ACCOUNT, "worker-1");
    let error = look_up(&harness, "worker-1", "")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("several machines are named"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn route_leads_to_an_instance_until_the_instance_is_deleted() {
    let harness = Harness::new("").await;
    let routes = harness.provider.routes().unwrap();
    let route = |target: &str| Route {
        destination_cidr: "10.244.1.0/24".to_owned(),
        target_node: target.to_owned(),
        ..Route::default()
    };
    routes
        .create(&cluster(), "", &route("worker-1"))
        .await
        .unwrap();
    routes
        .create(&cluster(), "", &route("worker-1"))
        .await
        .unwrap();
    let listed = routes.list(&cluster()).await.unwrap();
    assert_eq!(
        (
            listed.len(),
            &*listed[0].target_node,
            listed[0].blackhole,
            listed[0].owned
        ),
        (1, "worker-1", false, Some(true))
    );
    assert!(
        routes
            .create(&cluster(), "", &route("worker-2"))
            .await
            .is_err(),
        "the destination leads elsewhere"
    );
    harness
        .cloud
        .0
        .lock()
        .instances
        .retain(|instance| instance["hostname"] != "worker-1");
    harness.cluster.remove_node("worker-1");
    let listed = routes.list(&cluster()).await.unwrap();
    assert_eq!((&*listed[0].target_node, listed[0].blackhole), ("", true));
    routes.delete(&cluster(), &listed[0]).await.unwrap();
    routes.delete(&cluster(), &listed[0]).await.unwrap();
    assert!(routes.list(&cluster()).await.unwrap().is_empty());
}
