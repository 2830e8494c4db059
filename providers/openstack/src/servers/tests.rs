use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{AddressType, InstanceState, Instances, LookupRequest, NodeAddress};
use openstack_fake::{Fake, Fault, FaultKind, Options, Refused};
use serde_json::{Value, json};

use super::*;
use crate::tests::services;

const FRESH: LookupRequest = LookupRequest::EXISTENCE.and_shutdown().fresh();

/// Returns the fake's servers, as this configuration has them.
fn servers_of(fake: &Fake, more: &str) -> Servers {
    let (services, config) = services(fake, more);
    servers(&services, &Ports::new(services.clone()), &config)
}

fn named(name: &str) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        ..Node::default()
    })
}

fn with_id(name: &str, id: &str) -> Arc<Node> {
    Arc::new(Node {
        provider_id: id.into(),
        ..Node::clone(&named(name))
    })
}

async fn state(
    servers: &Servers,
    node: Arc<Node>,
    request: LookupRequest,
) -> Result<InstanceState> {
    cloud_provider::single_answer(servers.lookup(&[node], request).await)
}

async fn metadata(servers: &Servers, node: Arc<Node>) -> InstanceMetadata {
    match state(servers, node, LookupRequest::METADATA).await {
        Ok(InstanceState::Present {
            metadata: Some(metadata),
            ..
        }) => *metadata,
        other => panic!("{other:?}"),
    }
}

fn set(fake: &Fake, server: &str, key: &str, value: Value) {
    assert!(fake.change_server(server, |server| drop(server.insert(key.to_owned(), value))));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_told_of_its_server_by_id_and_by_name() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let server = fake.add_server("worker-1", &network);
    let servers = servers_of(&fake, "");
    let expected = InstanceMetadata {
        provider_id: format!("openstack:///{}", server.id),
        instance_type: "m1.k8s".into(),
        zone: "az1".into(),
        region: "RegionOne".into(),
        node_addresses: vec![NodeAddress::new(AddressType::InternalIP, &server.ip)],
        ..InstanceMetadata::default()
    };
    assert_eq!(metadata(&servers, named("worker-1")).await, expected);
    for id in [
        format!("openstack:///{}", server.id),
        format!("openstack://RegionOne/{}", server.id),
        format!("/{}", server.id),
    ] {
        assert_eq!(
            metadata(&servers, with_id("other", &id)).await,
            expected,
            "{id}"
        );
    }
    // Requests: each server, its ports, and no flavor.
    assert_eq!(
        (
            fake.count("GET /servers/{id}"),
            fake.count("GET /servers/detail"),
            fake.count("GET /ports")
        ),
        (3, 1, 4)
    );
}

#[tokio::test(start_paused = true)]
async fn the_name_is_looked_for_exactly() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let wanted = fake.add_server("node.1", &network);
    for name in ["nodex1", "node.10", "a-node.1"] {
        fake.add_server(name, &network);
    }
    let servers = servers_of(&fake, "");
    assert_eq!(
        metadata(&servers, named("node.1")).await.provider_id,
        format!("openstack:///{}", wanted.id)
    );
    let asked = fake
        .requests()
        .into_iter()
        .find(|request| request.route == "GET /servers/detail")
        .unwrap();
    assert!(asked.query.contains("%5Enode%5C.1%24"), "{}", asked.query);
}

/// Issue 3114 of the Go cloud-controller-manager, which treats this as an error, so that the Node is never deleted.
#[tokio::test(start_paused = true)]
async fn a_name_that_no_server_has_is_gone_and_one_that_two_have_is_an_error() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    fake.add_server("twin", &network);
    fake.add_server("twin", &network);
    let servers = servers_of(&fake, "");
    assert!(matches!(
        state(&servers, named("nobody"), FRESH).await,
        Ok(InstanceState::Gone(_))
    ));
    let error = state(&servers, named("twin"), FRESH).await.unwrap_err();
    assert!(
        error.is_invalid()
            && error
                .to_string()
                .contains("several machines are named \"twin\""),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_clouds_own_not_found_is_an_absence() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let server = fake.add_server("worker-1", &network);
    let servers = servers_of(&fake, "");
    let node = with_id("worker-1", &format!("openstack:///{}", server.id));
    for fault in [
        FaultKind::Status(404),
        FaultKind::Status(502),
        FaultKind::Refused(Refused::new(403, "forbidden", "no")),
    ] {
        fake.fail(Fault::new("GET /servers/{id}", fault.clone()));
        let state = state(&servers, Arc::clone(&node), FRESH).await;
        assert!(state.is_err(), "{fault:?}: {state:?}");
        fake.clear_faults();
    }
    fake.terminate("worker-1");
    assert!(matches!(
        state(&servers, node, FRESH).await,
        Ok(InstanceState::Gone(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn whether_a_server_is_there_and_runs_is_one_request() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let server = fake.add_server("worker-1", &network);
    let (servers, node) = (
        servers_of(&fake, ""),
        with_id("worker-1", &format!("openstack:///{}", server.id)),
    );
    fake.stop("worker-1");
    let expected = InstanceState::Present {
        shutdown: Some(true),
        metadata: None,
    };
    assert_eq!(
        state(&servers, Arc::clone(&node), FRESH).await.unwrap(),
        expected
    );
    fake.terminate("worker-1");
    assert!(matches!(
        state(&servers, node, FRESH).await,
        Ok(InstanceState::Gone(_))
    ));
    assert_eq!(
        (fake.count("GET /servers/{id}"), fake.count("GET /ports")),
        (2, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_list_lacks_is_gone_only_if_nova_says_so_of_it_alone() {
    let fake = Fake::new(Options {
        page_size: 10,
        ..Options::default()
    });
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let add = |n| {
        with_id(
            "n",
            &format!(
                "openstack:///{}",
                fake.add_server(&format!("worker-{n}"), &network).id
            ),
        )
    };
    let nodes: Vec<_> = (0..30).map(add).collect();
    let servers = servers_of(&fake, "");
    fake.fail(Fault::new("GET /servers/detail", FaultKind::MissingPage(2)));
    fake.terminate("worker-29");
    let states = servers.lookup(&nodes, FRESH).await;
    assert!(
        states[..29]
            .iter()
            .all(|state| matches!(state, Ok(InstanceState::Present { .. }))),
        "{states:?}"
    );
    assert!(matches!(states[29], Ok(InstanceState::Gone(_))));
    assert_eq!(fake.count("GET /servers/{id}"), 11);
}

/// Nova and Neutron cannot continue a list if the last object of a page is deleted meanwhile.
#[tokio::test(start_paused = true)]
async fn where_a_list_cannot_go_on_nobody_is_gone() {
    for (route, last) in [("GET /servers/detail", 6), ("GET /ports", 3)] {
        let fake = Fake::new(Options {
            page_size: 4,
            ..Options::default()
        });
        let network = fake.add_network("k8s-net", "10.6.0.0/16");
        let add = |n| {
            with_id(
                "n",
                &format!(
                    "openstack:///{}",
                    fake.add_server(&format!("worker-{n}"), &network).id
                ),
            )
        };
        let nodes: Vec<_> = (0..10).map(add).collect();
        let servers = servers_of(&fake, "");
        fake.fail(Fault::new(
            route,
            FaultKind::Latency(Duration::from_millis(100)),
        ));
        let (states, _) = tokio::join!(servers.lookup(&nodes, FRESH), async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            fake.terminate(&format!("worker-{last}"))
        });
        assert!(states.iter().all(Result::is_err), "{states:?}");
        fake.clear_faults();
        let states = servers.lookup(&nodes, FRESH).await;
        let is_gone = |at: usize| matches!(states[at], Ok(InstanceState::Gone(_)));
        assert!(
            (0..10).all(|at| states[at].is_ok() && is_gone(at) == (at == last)),
            "{states:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn another_regions_node_is_an_error_and_costs_nothing() {
    let fake = Fake::default();
    let servers = servers_of(&fake, "");
    let error = state(&servers, with_id("n", "openstack://Elsewhere/7b9c"), FRESH)
        .await
        .unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("region \"Elsewhere\""),
        "{error}"
    );
    assert!(fake.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn in_regional_mode_provider_ids_name_the_region() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let server = fake.add_server("worker-1", &network);
    let (services, mut config) = services(&fake, "");
    config.regional = true;
    let servers = servers(&services, &Ports::new(services.clone()), &config);
    let id = metadata(&servers, named("worker-1")).await.provider_id;
    assert_eq!(id, format!("openstack://RegionOne/{}", server.id));
    assert_eq!(
        metadata(&servers, with_id("worker-1", &id))
            .await
            .provider_id,
        id
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_server_that_is_shut_off_is_shut_down() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    fake.add_server("worker-1", &network);
    let servers = servers_of(&fake, "");
    for status in [
        "ACTIVE",
        "SUSPENDED",
        "PAUSED",
        "SHELVED_OFFLOADED",
        "SOFT_DELETED",
        "ERROR",
        "DELETED",
        "SHUTOFF",
    ] {
        fake.set_status("worker-1", status);
        let expected = InstanceState::Present {
            shutdown: Some(status == "SHUTOFF"),
            metadata: None,
        };
        assert_eq!(
            state(&servers, named("worker-1"), FRESH).await.unwrap(),
            expected,
            "{status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_said_of_a_server_while_it_was_being_made_is_told_no_node() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    for n in 0..20 {
        fake.add_server(&format!("worker-{n}"), &network);
    }
    fake.set_status("worker-7", "BUILD");
    set(
        &fake,
        "worker-7",
        "OS-EXT-AZ:availability_zone",
        json!("nova"),
    );
    let servers = servers_of(&fake, "");
    servers.snapshot(Priority::Refresh).await.unwrap();
    fake.set_status("worker-7", "ACTIVE");
    set(
        &fake,
        "worker-7",
        "OS-EXT-AZ:availability_zone",
        json!("az2"),
    );
    assert_eq!(metadata(&servers, named("worker-7")).await.zone, "az2");
    assert_eq!(
        (
            fake.count("GET /servers/detail"),
            metadata(&servers, named("worker-8")).await.zone
        ),
        (2, "az1".into())
    );
}

/// A Node's name has no capitals, and the database of most clouds ignores case.
#[tokio::test(start_paused = true)]
async fn a_server_with_capitals_in_its_name_is_the_nodes() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let server = fake.add_server("Worker-1.Example", &network);
    let servers = servers_of(&fake, "");
    let expected = format!("openstack:///{}", server.id);
    assert_eq!(
        metadata(&servers, named("worker-1.example"))
            .await
            .provider_id,
        expected
    );
    servers.snapshot(Priority::Refresh).await.unwrap();
    assert_eq!(
        metadata(&servers, named("worker-1.example"))
            .await
            .provider_id,
        expected
    );
    fake.add_server("worker-1.example", &network);
    assert!(
        state(&servers, named("worker-1.example"), FRESH)
            .await
            .unwrap_err()
            .is_invalid()
    );
}

#[tokio::test(start_paused = true)]
async fn the_zone_becomes_a_label() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    fake.add_server("worker-1", &network);
    set(
        &fake,
        "worker-1",
        "OS-EXT-AZ:availability_zone",
        json!("_Halle 3 / Süd_"),
    );
    assert_eq!(
        metadata(&servers_of(&fake, ""), named("worker-1"))
            .await
            .zone,
        "Halle-3-S-d"
    );
}

/// The instance type, by the microversion of the cloud and the flavor's name.
#[tokio::test(start_paused = true)]
async fn the_instance_type_is_the_flavors_name_or_else_its_id() {
    let flavor = "b6df1300-b905-4ad4-8af6-874c81f94c03";
    for (microversion, flavor, expected, requests) in [
        (104, flavor, "m1.k8s", 0),
        (46, flavor, "m1.k8s", 1),
        (46, "deleted-since", "deleted-since", 1),
    ] {
        let fake = Fake::new(Options {
            microversion,
            ..Options::default()
        });
        let network = fake.add_network("k8s-net", "10.6.0.0/16");
        for n in 0..3 {
            fake.add_server(&format!("worker-{n}"), &network);
            set(&fake, &format!("worker-{n}"), "flavor", json!(flavor));
        }
        let servers = servers_of(&fake, "");
        for n in 0..3 {
            assert_eq!(
                metadata(&servers, named(&format!("worker-{n}")))
                    .await
                    .instance_type,
                expected
            );
        }
        assert_eq!(
            fake.count("GET /flavors/{id}"),
            requests,
            "2.{microversion}, {flavor}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_flavors_name_that_is_no_label_gives_way_to_its_id() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    fake.add_server("worker-1", &network);
    fake.add_server("worker-2", &network);
    let id = fake.set_flavor("worker-1", "two words").unwrap();
    set(&fake, "worker-2", "flavor", json!(id));
    let servers = servers_of(&fake, "");
    for name in ["worker-1", "worker-2"] {
        assert_eq!(metadata(&servers, named(name)).await.instance_type, id);
    }
    assert_eq!(fake.count("GET /flavors"), 1, "it is asked for once");
}

#[tokio::test(start_paused = true)]
async fn ports_that_are_not_active_give_no_address_before_those_of_the_networks() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let server = fake.add_server("worker-1", &network);
    let other = fake.add_network("b-net", "10.7.0.0/16");
    let down = fake.attach("worker-1", &other.subnet);
    fake.change_port(&down, |port| {
        drop(port.insert("status".into(), json!("DOWN")));
    });
    set(&fake, "worker-1", "accessIPv4", json!("192.0.2.7"));
    let servers = servers_of(&fake, "");
    let listed: Vec<_> = metadata(&servers, named("worker-1")).await.node_addresses;
    let listed: Vec<_> = listed.iter().map(ToString::to_string).collect();
    assert_eq!(
        listed[..2],
        [
            format!("InternalIP {}", server.ip),
            "ExternalIP 192.0.2.7".to_owned()
        ]
    );
    assert!(
        listed.len() == 3 && listed[2].starts_with("InternalIP 10.7."),
        "{listed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn sub_ports_of_a_trunk_count_under_their_networks_name_and_one_that_is_missing_spoils_nothing()
 {
    for many in [false, true] {
        let fake = Fake::default();
        let network = fake.add_network("k8s-net", "10.6.0.0/16");
        let vlan = fake.add_network("vlan-7", "10.7.0.0/16");
        let server = fake.add_server("worker-1", &network);
        let sub_port = fake.add_port("sub", &vlan.subnet);
        let trunk = json!({"trunk_id": "t", "sub_ports": [{"port_id": "nowhere", "segmentation_id": 6},
            {"port_id": sub_port, "segmentation_id": 7}]});
        fake.change_port(&server.port, |port| {
            drop(port.insert("trunk_details".into(), trunk));
        });
        let servers = servers_of(&fake, "[Networking]\npublic-network-name=vlan-7\n");
        if many {
            servers.snapshot(Priority::Refresh).await.unwrap();
            fake.forget_requests();
        }
        let listed: Vec<_> = metadata(&servers, named("worker-1")).await.node_addresses;
        let listed: Vec<_> = listed.iter().map(ToString::to_string).collect();
        assert_eq!(listed[0], format!("InternalIP {}", server.ip));
        assert!(
            listed.len() == 2 && listed[1].starts_with("ExternalIP 10.7."),
            "{listed:?}"
        );
        assert_eq!(fake.requests().is_empty(), many);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_trunk_carries_and_cannot_be_read_takes_no_address_from_a_node() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let vlan = fake.add_network("vlan-7", "10.7.0.0/16");
    let server = fake.add_server("worker-1", &network);
    let trunk =
        json!({"trunk_id": "t", "sub_ports": [{"port_id": fake.add_port("sub", &vlan.subnet)}]});
    fake.change_port(&server.port, |port| {
        drop(port.insert("trunk_details".into(), trunk));
    });
    let servers = servers_of(&fake, "");
    fake.fail(Fault::status("GET /networks", 500));
    assert!(
        state(&servers, named("worker-1"), LookupRequest::ADDRESSES)
            .await
            .is_err()
    );
    assert!(servers.snapshot(Priority::Refresh).await.is_err());
    fake.clear_faults();
    assert_eq!(
        metadata(&servers, named("worker-1"))
            .await
            .node_addresses
            .len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_named_otherwise_is_found_by_its_firmware() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let server = fake.add_server("vm-17", &network);
    let servers = servers_of(&fake, "");
    let address = |ip: &str| [NodeAddress::new(AddressType::InternalIP, ip)].into();
    let mut node = Node {
        system_uuid: server.id.to_uppercase().into(),
        ..Node::clone(&named("worker-1"))
    };
    node.addresses = address(&server.ip);
    assert_eq!(
        metadata(&servers, Arc::new(node.clone())).await.provider_id,
        format!("openstack:///{}", server.id)
    );
    // Neither its name nor an address speaks for it.
    node.addresses = address("10.99.0.1");
    assert!(matches!(
        state(&servers, Arc::new(node), FRESH).await,
        Ok(InstanceState::Gone(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn half_a_list_of_ports_takes_no_address_from_a_node() {
    let fake = Fake::new(Options {
        page_size: 4,
        ..Options::default()
    });
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let nodes: Vec<_> = (0..10)
        .map(|n| named(&fake.add_server(&format!("worker-{n}"), &network).name))
        .collect();
    let servers = servers_of(&fake, "");
    for fault in [FaultKind::EndlessList, FaultKind::Status(500)] {
        fake.fail(Fault::new("GET /ports", fault));
        assert!(
            servers
                .lookup(&nodes, LookupRequest::ADDRESSES.fresh())
                .await
                .iter()
                .all(Result::is_err)
        );
        fake.clear_faults();
    }
    assert!(
        servers
            .lookup(&nodes, LookupRequest::ADDRESSES.fresh())
            .await
            .iter()
            .all(Result::is_ok)
    );
}

#[test]
fn a_pattern_fits_only_its_name() {
    assert_eq!(exactly("node-1.example"), r"^node-1\.example$");
    assert_eq!(exactly(r"a+b\c|d"), r"^a\+b\\c\|d$");
}
