//! Cloud servers behind Nodes: metadata, addresses, and the requests of lookups.

use std::sync::Arc;

use cloud_provider::LookupRequest;
use hetzner_fake::{PROJECT, TOKEN};
use provider_hetzner::config::{AddressFamily, Network};

use crate::machines::{FRESH, LATER, Machines, gone, new_node, node, nodes_of};

fn id(machines: &Machines, name: &str) -> String {
    format!("hcloud://{}", machines.fake.server(name).unwrap().id)
}

#[tokio::test(start_paused = true)]
async fn a_server_exists_by_id_and_by_name_and_what_is_not_there_does_not() {
    let mut machines = Machines::of(3);
    let by_id = node("another-name", &id(&machines, "worker-0"));
    assert!(
        machines.exists(&by_id).await.unwrap(),
        "the id counts, not the name"
    );
    assert!(machines.exists(&node("worker-1", "")).await.unwrap());
    assert!(
        !machines
            .exists(&node("worker-0", "hcloud://77"))
            .await
            .unwrap()
    );
    assert!(
        !machines.exists(&new_node("worker")).await.unwrap(),
        "names match as a whole"
    );
    let reason = machines.state(&new_node("worker-9"), FRESH).await;
    assert!(
        gone(&reason)
            .unwrap()
            .contains("looked in the project of HCLOUD_TOKEN")
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_is_shut_down_if_it_is_off_and_in_no_other_state() {
    let mut machines = Machines::of(1);
    let node = node("worker-0", &id(&machines, "worker-0"));
    let states = [
        "running",
        "initializing",
        "starting",
        "stopping",
        "deleting",
        "migrating",
        "rebuilding",
        "unknown",
    ];
    for state in states {
        machines
            .fake
            .change_server("worker-0", |server| state.clone_into(&mut server.status));
        assert!(!machines.is_shut_down(&node).await.unwrap(), "{state}");
    }
    machines.fake.stop("worker-0");
    assert!(machines.is_shut_down(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_node_is_told_all_of_its_server() {
    let mut machines = Machines::of(1);
    let server = machines.fake.server("worker-0").unwrap();
    let metadata = machines.metadata(&node("worker-0", "")).await;
    assert_eq!(metadata.provider_id, format!("hcloud://{}", server.id));
    assert_eq!(
        (&*metadata.instance_type, &*metadata.region),
        (&*server.server_type, "fsn1")
    );
    assert_eq!(metadata.zone, "fsn1-dc14");
    let label = (
        "instance.hetzner.cloud/provided-by".to_owned(),
        "cloud".to_owned(),
    );
    assert_eq!(metadata.additional_labels, [label].into());
    let addresses: Vec<_> = metadata
        .node_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        addresses,
        [
            "Hostname worker-0".to_owned(),
            format!("ExternalIP {}", server.ipv4.unwrap())
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_location_has_the_zone_that_it_always_had() {
    let zones = [
        ("nbg1", "nbg1-dc3"),
        ("hel1", "hel1-dc2"),
        ("fsn1", "fsn1-dc14"),
        ("ash", "ash-dc1"),
        ("hil", "hil-dc1"),
        ("sin", "sin-dc1"),
        ("new1", "new1"),
    ];
    let mut machines = Machines::of(zones.len());
    for (n, (location, _)) in zones.iter().enumerate() {
        machines
            .fake
            .change_server(&format!("worker-{n}"), |server| {
                (*location).clone_into(&mut server.location);
            });
    }
    for (n, (location, zone)) in zones.iter().enumerate() {
        let metadata = machines.metadata(&node(&format!("worker-{n}"), "")).await;
        assert_eq!((&*metadata.region, &*metadata.zone), (*location, *zone));
    }
}

/// The zone label can be disabled by `HCLOUD_INSTANCES_ZONE_LABEL_ENABLED`.
#[tokio::test(start_paused = true)]
async fn a_server_has_no_zone_where_that_is_not_wanted() {
    let mut machines = Machines::of(1);
    machines.config.instances.zone_label = false;
    let metadata = machines.metadata(&node("worker-0", "")).await;
    assert_eq!((&*metadata.zone, &*metadata.region), ("", "fsn1"));
}

/// `HCLOUD_INSTANCES_ADDRESS_FAMILY` selects the families.
#[tokio::test(start_paused = true)]
async fn public_addresses_are_those_of_the_family_ipv4_first() {
    let v4 = "ExternalIP 203.0.113.7";
    let v6 = "ExternalIP 2001:db8:1234::1";
    let table: [(AddressFamily, bool, bool, &[&str]); 6] = [
        (AddressFamily::Ipv4, true, true, &[v4]),
        (AddressFamily::Ipv4, false, true, &[]),
        (AddressFamily::Ipv6, true, true, &[v6]),
        (AddressFamily::Ipv6, true, false, &[]),
        (AddressFamily::Dualstack, true, true, &[v4, v6]),
        (AddressFamily::Dualstack, false, true, &[v6]),
    ];
    for (family, has_v4, has_v6, expected) in table {
        let mut machines = Machines::of(1);
        machines.config.instances.address_family = family;
        machines.fake.change_server("worker-0", |server| {
            server.ipv4 = has_v4.then(|| "203.0.113.7".parse().unwrap());
            server.ipv6 = has_v6.then(|| "2001:db8:1234::/64".parse().unwrap());
        });
        let addresses = machines.addresses(&node("worker-0", "")).await;
        assert_eq!(addresses[0], "Hostname worker-0");
        assert_eq!(addresses[1..], *expected, "{family:?}");
    }
}

/// `HCLOUD_NETWORK` adds the private address.
#[tokio::test(start_paused = true)]
async fn the_address_in_the_configured_network_is_internal() {
    let mut machines = Machines::of(3);
    let ours = machines.fake.add_network("kubernetes", "10.0.0.0/16");
    let other = machines.fake.add_network("other", "10.1.0.0/16");
    let ip = machines.fake.attach("worker-0", ours);
    machines.fake.attach("worker-0", other);
    machines.fake.attach("worker-1", other);
    let network = |name: &str| Network {
        name_or_id: name.to_owned(),
        check_attached: false,
        routes: false,
    };
    for name in ["kubernetes".to_owned(), ours.to_string()] {
        machines.config.network = Some(network(&name));
        machines.start().await;
        let internal = |addresses: Vec<String>| addresses.into_iter().skip(2).collect::<Vec<_>>();
        assert_eq!(
            internal(machines.addresses(&node("worker-0", "")).await),
            [format!("InternalIP {ip}")]
        );
        assert!(
            internal(machines.addresses(&node("worker-1", "")).await).is_empty(),
            "attached to another"
        );
        assert!(internal(machines.addresses(&node("worker-2", "")).await).is_empty());
    }
    machines.config.network = None;
    machines.start().await;
    assert_eq!(machines.addresses(&node("worker-0", "")).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dedicated_servers_node_is_an_error_without_access_to_robot_and_never_gone() {
    for enabled in [false, true] {
        let mut machines = Machines::with_robot();
        match enabled {
            true => machines.robot().credential = None,
            false => machines.config.robot = None,
        }
        machines.fake.add_server("worker-0");
        for request in [FRESH, LookupRequest::METADATA] {
            let err = machines
                .state(&node("bm-1", "hrobot://321"), request)
                .await
                .unwrap_err();
            assert!(err.to_string().contains("ROBOT_ENABLED"), "{err}");
        }
        assert!(
            machines.exists(&node("worker-0", "")).await.unwrap(),
            "names are looked for in the cloud only"
        );
        // The machine of a name that the cloud lacks is unknown, if there are dedicated servers.
        assert_eq!(
            machines.exists(&new_node("bm-1")).await.ok(),
            if enabled { None } else { Some(false) }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_odd_address_of_one_server_does_not_hide_the_others() {
    let mut machines = Machines::of(60);
    machines.fake.change_server("worker-3", |server| {
        (server.ipv4, server.ipv6) = (None, None);
    });
    let nodes = nodes_of(&machines.fake);
    assert!(
        machines
            .look_up(&nodes, LookupRequest::ADDRESSES)
            .await
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(machines.addresses(&nodes[3]).await, ["Hostname worker-3"]);
}

/// In a cluster with machines of both products, Nodes of the one are no witnesses for the other's credential.
#[tokio::test(start_paused = true)]
async fn a_token_of_another_project_is_found_out_though_robot_shows_its_servers() {
    let mut machines = Machines::with_robot();
    for name in ["worker-0", "worker-1", "worker-2"] {
        machines.fake.add_server(name);
    }
    machines.fake.add_robot_server(321, "bm-1");
    let mut nodes = nodes_of(&machines.fake);
    nodes.push(node("bm-1", "hrobot://321"));
    machines.cluster(&nodes);
    machines.start().await;
    machines.fake.add_server_to("other", "somebody-elses");
    machines.fake.set_token(TOKEN, "other");
    let answers = machines
        .look_up(&[Arc::clone(&nodes[0]), Arc::clone(&nodes[3])], FRESH)
        .await;
    let err = answers[0].as_ref().unwrap_err();
    assert!(
        err.is_unauthorized()
            && err
                .to_string()
                .contains("HCLOUD_TOKEN shows no other cloud server"),
        "{err}"
    );
    assert!(answers[1].is_ok());
    machines.fake.set_token(TOKEN, PROJECT);
    machines.fake.terminate("worker-0");
    tokio::time::sleep(LATER).await;
    assert!(
        !machines.exists(&nodes[0]).await.unwrap(),
        "another one is shown"
    );
}
