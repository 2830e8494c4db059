//! Routes and volumes of the provider.

use cloud_provider::{AddressType, NodeAddress, PersistentVolume, Route, Volumes};
use provider_simulated::cloud::{Fault, FaultKind, NewRoute, Volume};

use super::*;

fn internal(ip: &str) -> NodeAddress {
    NodeAddress::new(AddressType::InternalIP, ip)
}

#[tokio::test(start_paused = true)]
async fn routes_are_made_marked_listed_and_removed() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 60);
    let provider = provider(&cloud);
    provider.set_caches(caches(&nodes(&ids)));
    for (n, id) in ids.iter().enumerate() {
        let wanted = Route {
            target_node: format!("node-{id}"),
            target_node_addresses: vec![internal(&format!("10.0.0.{n}"))],
            destination_cidr: format!("10.244.{n}.0/24"),
            ..Route::default()
        };
        provider
            .routes()
            .unwrap()
            .create(&cluster(), "uid", &wanted)
            .await
            .unwrap();
    }
    cloud.terminate(&ids[1]);
    let routes = provider.routes().unwrap().list(&cluster()).await.unwrap();
    assert_eq!(routes.len(), 60);
    let expected = Route {
        name: routes[0].name.clone(),
        target_node: format!("node-{}", ids[0]),
        enable_node_addresses: true,
        target_node_addresses: vec![internal("10.0.0.0")],
        destination_cidr: "10.244.0.0/24".into(),
        blackhole: false,
        owned: Some(true),
    };
    assert_eq!(routes[0], expected);
    assert!(routes[1].blackhole);
    provider
        .routes()
        .unwrap()
        .delete(&cluster(), &routes[0])
        .await
        .unwrap();
    provider
        .routes()
        .unwrap()
        .delete(&cluster(), &routes[0])
        .await
        .unwrap();
    assert_eq!(cloud.routes().len(), 59);
    let taken = Route {
        target_node: format!("node-{}", ids[0]),
        destination_cidr: "10.244.2.0/24".into(),
        ..Route::default()
    };
    assert!(
        provider
            .routes()
            .unwrap()
            .create(&cluster(), "uid", &taken)
            .await
            .unwrap_err()
            .is_conflict()
    );
    let nobody = Route {
        target_node: "nobody".into(),
        ..Route::default()
    };
    assert!(
        provider
            .routes()
            .unwrap()
            .create(&cluster(), "uid", &nobody)
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_foreign_route_is_shown_as_such_and_never_removed() {
    let cloud = Cloud::default();
    let machine = cloud.create_machines("w-", 1).remove(0);
    cloud.add_route(NewRoute {
        destination: "10.244.0.0/24".into(),
        machine,
        ..NewRoute::default()
    });
    let provider = provider(&cloud);
    provider.set_caches(caches(&[]));
    let routes = provider.routes().unwrap().list(&cluster()).await.unwrap();
    assert_eq!(
        (routes[0].owned, &*routes[0].target_node),
        (Some(false), "")
    );
    assert_eq!(
        routes[0].target_node_addresses[0].kind,
        AddressType::InternalIP
    );
    assert!(
        provider
            .routes()
            .unwrap()
            .delete(&cluster(), &routes[0])
            .await
            .unwrap_err()
            .is_invalid()
    );
    assert_eq!(cloud.routes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_exists_already_is_made_once_and_a_foreign_one_in_its_way_is_named() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 2);
    let provider = provider(&cloud);
    provider.set_caches(caches(&nodes(&ids)));
    let route = |machine: &str, hop: &str| Route {
        target_node: format!("node-{machine}"),
        target_node_addresses: vec![internal(hop)],
        destination_cidr: "10.244.0.0/24".into(),
        ..Route::default()
    };
    cloud.inject(
        Fault::new(FaultKind::LostAnswer)
            .on("POST /v1/routes")
            .times(1),
    );
    let wanted = route(&ids[0], "10.0.0.1");
    provider
        .routes()
        .unwrap()
        .create(&cluster(), "uid", &wanted)
        .await
        .unwrap();
    assert_eq!(cloud.routes().len(), 1);
    for other in [route(&ids[1], "10.0.0.1"), route(&ids[0], "10.0.0.2")] {
        assert!(
            provider
                .routes()
                .unwrap()
                .create(&cluster(), "uid", &other)
                .await
                .unwrap_err()
                .is_conflict(),
            "ours, but another"
        );
    }
    let another = Cluster {
        name: "kubernetes".into(),
        id: Some("another".into()),
    };
    provider
        .routes()
        .unwrap()
        .create(&another, "uid", &wanted)
        .await
        .unwrap();
    assert_eq!(
        cloud.routes().len(),
        1,
        "somebody else's that does the same serves as well"
    );
    let err = provider
        .routes()
        .unwrap()
        .create(&another, "uid", &route(&ids[0], "10.0.0.2"))
        .await
        .unwrap_err();
    assert!(
        err.is_invalid()
            && err
                .to_string()
                .contains("add the owner tag ccm-rs/cluster=another"),
        "{err}"
    );
    let listed = provider.routes().unwrap().list(&cluster()).await.unwrap();
    cloud.protect_route("10.244.0.0/24", true);
    let err = provider
        .routes()
        .unwrap()
        .delete(&cluster(), &listed[0])
        .await
        .unwrap_err();
    assert!(
        err.is_protected() && err.to_string().contains("switch its protection off first"),
        "{err}"
    );
    cloud.protect_route(&listed[0].name, false);
    provider
        .routes()
        .unwrap()
        .delete(&cluster(), &listed[0])
        .await
        .unwrap();
    assert!(cloud.routes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_volume_tells_its_zones() {
    let cloud = Cloud::default();
    let zones = vec!["sim-1a".to_owned(), "sim-1b".to_owned()];
    cloud.add_volume(Volume {
        id: "v-1".into(),
        zones,
        region: "sim-1".into(),
        project: "demo".into(),
    });
    let volume = |driver: &str, handle: &str| -> PersistentVolume {
        let csi = serde_json::json!({"driver": driver, "volumeHandle": handle});
        serde_json::from_value(serde_json::json!({"spec": {"csi": csi}})).unwrap()
    };
    let provider = provider(&cloud);
    let labels = provider
        .labels(&volume("simulated.csi", "v-1"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(labels["topology.kubernetes.io/zone"], "sim-1a__sim-1b");
    assert_eq!(labels["topology.kubernetes.io/region"], "sim-1");
    assert_eq!(
        provider.labels(&volume("other.csi", "v-1")).await.unwrap(),
        None
    );
    assert!(
        provider
            .labels(&volume("simulated.csi", "v-2"))
            .await
            .unwrap_err()
            .is_not_found()
    );
}
