//! Nodes, routes and Pod ranges.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    CloudProvider, InstanceMetadata, InstanceState, LookupRequest, MetadataLevel, Node,
    NodeAddress, Result, Route,
};
use gcp_fake::{Fault, PROJECT, ZONE};
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

fn with_id(id: &str) -> Node {
    Node {
        provider_id: id.into(),
        ..named("worker-1")
    }
}

#[tokio::test(start_paused = true)]
async fn node_gets_type_zone_region_and_addresses_of_its_instance() {
    let harness = Harness::new();
    harness.fake.lock().change_instance("worker-1", |instance| {
        instance["networkInterfaces"][0]["networkIP"] = "10.128.0.2".into();
        instance["networkInterfaces"][0]["accessConfigs"] = json!([{"natIP": "198.51.100.7"}, {}]);
    });
    for name in ["worker-1", "worker-1.c.demo.internal"] {
        let found = metadata(&harness, named(name)).await;
        assert_eq!(
            found.provider_id,
            format!("gce://{PROJECT}/{ZONE}/worker-1")
        );
        assert_eq!(
            (&*found.instance_type, &*found.zone, &*found.region),
            ("n2-standard-4", ZONE, "us-central1")
        );
        assert_eq!(
            shown(&found.node_addresses),
            ["InternalIP 10.128.0.2", "ExternalIP 198.51.100.7"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_of_the_family_of_the_stack_come_first() {
    let change = |object: &mut serde_json::Value| {
        object["networkInterfaces"][0]["networkIP"] = "10.128.0.2".into();
        object["networkInterfaces"][0]["ipv6AccessType"] = "EXTERNAL".into();
        object["networkInterfaces"][0]["ipv6AccessConfigs"] =
            json!([{"externalIpv6": "2600:1900::5"}]);
        object["networkInterfaces"][0]["accessConfigs"] = json!([]);
    };
    let v4 = ["InternalIP 10.128.0.2"];
    let v6 = ["InternalIP 2600:1900::5", "ExternalIP 2600:1900::5"];
    for (stack, expected) in [
        ("IPV4_IPV6", [&v4[..], &v6].concat()),
        ("IPV6", [&v6[..], &v4].concat()),
    ] {
        let harness = Harness::new().set("stack-type", stack);
        harness.fake.lock().change_instance("worker-1", change);
        assert_eq!(
            shown(&metadata(&harness, named("worker-1")).await.node_addresses),
            expected,
            "{stack}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_and_preempted_instances_are_shut_down() {
    for (status, expected) in [
        ("RUNNING", false),
        ("REPAIRING", false),
        ("STOPPING", false),
        ("PENDING_STOP", true),
        ("TERMINATED", true),
        ("SUSPENDED", true),
    ] {
        let harness = Harness::new();
        harness
            .fake
            .lock()
            .change_instance("worker-1", |instance| instance["status"] = status.into());
        let found = state(
            &harness,
            with_id(&format!("gce://{PROJECT}/{ZONE}/worker-1")),
        )
        .await
        .unwrap();
        assert!(
            matches!(found, InstanceState::Present { shutdown: Some(it), .. } if it == expected),
            "{status}: {found:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn provider_id_has_three_parts() {
    let harness = Harness::new();
    for id in [
        "gce://demo/us-central1-a",
        "gce://demo/us-central1-a/worker-1/",
        "gce://demo//worker-1",
        "aws://a/b/c",
    ] {
        assert!(state(&harness, with_id(id)).await.is_err(), "{id}");
    }
    assert!(matches!(
        state(&harness, with_id("gce://demo/us-central1-a/gone")).await,
        Ok(InstanceState::Gone(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn instance_without_a_network_interface_is_an_error() {
    let harness = Harness::new();
    harness.fake.lock().change_instance("worker-1", |instance| {
        instance["networkInterfaces"] = json!([]);
    });
    assert!(state(&harness, named("worker-1")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn instance_of_another_project_is_found_if_projects_are_trusted() {
    for (flag, is_there) in [("false", false), ("true", true)] {
        let harness = Harness::new().set("--enable-multi-project", flag);
        harness.fake.lock().add_instance_to("host", "other", ZONE);
        let found = state(&harness, with_id(&format!("gce://host/{ZONE}/other"))).await;
        assert_eq!(
            matches!(found, Ok(InstanceState::Present { .. })),
            is_there,
            "{flag}"
        );
        // Without the flag, its existence is unknown.
        assert_eq!(found.is_err(), !is_there, "{flag}");
    }
}

#[tokio::test(start_paused = true)]
async fn zone_that_does_not_answer_proves_no_absence() {
    let harness = Harness::new().set("multizone", "true");
    harness.add_node("worker-3", "us-central1-b");
    harness.fake.lock().unreachable = vec!["us-central1-b".to_owned()];
    harness.fake.fault_injector().fail(Fault::status(
        "GET /projects/{project}/zones/{zone}/instances/{name}",
        503,
    ));
    let provider = harness.started().await;
    let nodes: Vec<_> = (1..=20)
        .map(|number| Arc::new(named(&format!("worker-{number}"))))
        .collect();
    let found = provider
        .instances()
        .unwrap()
        .lookup(&nodes, EVERYTHING)
        .await;
    assert!(
        matches!(&found[0], Ok(InstanceState::Present { .. })),
        "{found:?}"
    );
    assert!(found[2].is_err(), "an error, and not gone: {:?}", found[2]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_nodes_are_initialised_by_a_few_lists() {
    let harness = Harness::new();
    (3..=1000).for_each(|number| harness.add_node(&format!("worker-{number}"), ZONE));
    let provider = harness.started().await;
    let nodes: Vec<_> = (1..=1000)
        .map(|number| Arc::new(named(&format!("worker-{number}"))))
        .collect();
    let found = provider
        .instances()
        .unwrap()
        .lookup(&nodes, EVERYTHING)
        .await;
    assert!(found.iter().all(Result::is_ok));
    let requests = harness.fake.fault_injector().requests().len();
    assert!(requests <= 2 + 5, "{requests} requests for 2 pages");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_nodes_without_an_instance_need_a_few_lists() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let node = |number: usize| Arc::new(with_id(&format!("gce://{PROJECT}/{ZONE}/gone-{number}")));
    let nodes: Vec<_> = (0..100).map(node).collect();
    let found = provider
        .instances()
        .unwrap()
        .lookup(&nodes, EVERYTHING)
        .await;
    assert!(
        found
            .iter()
            .all(|state| matches!(state, Ok(InstanceState::Gone(_)))),
        "{found:?}"
    );
    let requests = harness.fake.fault_injector().requests().len();
    assert!(requests <= 3 + 5, "{requests} requests for 1 page");
}

#[tokio::test(start_paused = true)]
async fn routes_are_named_and_described_as_the_go_program_does() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    let route = Route {
        target_node: "worker-1".into(),
        destination_cidr: "10.244.1.0/24".into(),
        ..Route::default()
    };
    routes
        .create(&cluster(), "uid-worker-1", &route)
        .await
        .unwrap();
    let made = harness.object("global/routes/kubernetes-10-244-1-0-24");
    assert_eq!(
        (&made["description"], &made["priority"], &made["destRange"]),
        (
            &json!("k8s-node-route"),
            &json!(1000),
            &json!("10.244.1.0/24")
        )
    );
    let listed = routes.list(&cluster()).await.unwrap();
    assert_eq!(
        (listed.len(), &*listed[0].target_node, listed[0].blackhole),
        (1, "worker-1", false)
    );
    let path = format!("{PROJECT}/global/routes/kubernetes-10-244-1-0-24");
    harness.fake.lock().objects.get_mut(&path).unwrap()["warnings"] =
        json!([{"code": "NEXT_HOP_INSTANCE_NOT_FOUND"}]);
    let listed = routes.list(&cluster()).await.unwrap();
    assert!(listed[0].blackhole, "{listed:?}");
    routes.delete(&cluster(), &listed[0]).await.unwrap();
    routes.delete(&cluster(), &listed[0]).await.unwrap();
    assert!(routes.list(&cluster()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nodes_get_the_ranges_of_their_instances() {
    let harness = Harness::new()
        .set("--allocate-node-cidrs", "true")
        .set("--cidr-allocator-type", "CloudAllocator");
    let range = |object: &mut serde_json::Value| {
        object["networkInterfaces"][0]["aliasIpRanges"] =
            json!([{"ipCidrRange": "10.40.7.0/24", "subnetworkRangeName": "pods"}]);
    };
    harness.fake.lock().change_instance("worker-1", range);
    harness.fake.lock().change_instance("worker-2", |instance| {
        instance["networkInterfaces"][0]["aliasIpRanges"] = json!([]);
    });
    let _provider = harness.started().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let patches = harness.objects.patches.lock().clone();
    assert_eq!(patches.len(), 2, "{patches:?}");
    assert_eq!(
        (&*patches[0].0, &patches[0].1["spec"]["podCIDRs"]),
        ("/api/v1/nodes/worker-1", &json!(["10.40.7.0/24"]))
    );
    assert_eq!(
        (
            &*patches[1].0,
            &patches[1].1["status"]["conditions"][0]["reason"]
        ),
        ("/api/v1/nodes/worker-1/status", &json!("RouteCreated"))
    );
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("CIDRNotAvailable")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_get_blocks_of_the_range_of_the_cluster_that_services_do_not_have() {
    let flags = [
        ("--allocate-node-cidrs", "true"),
        ("--service-cluster-ip-range", "10.244.1.0/24,fd00::/108"),
    ];
    let harness = flags
        .into_iter()
        .fold(Harness::new(), |harness, (flag, value)| {
            harness.set(flag, value)
        });
    let _provider = harness.started().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let patches = harness.objects.patches.lock().clone();
    let written: Vec<_> = patches
        .iter()
        .map(|(path, patch)| (&**path, &patch["spec"]["podCIDRs"]))
        .collect();
    assert_eq!(
        written,
        [
            ("/api/v1/nodes/worker-1", &json!(["10.244.0.0/24"])),
            ("/api/v1/nodes/worker-2", &json!(["10.244.2.0/24"]))
        ]
    );
}
