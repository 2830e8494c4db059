//! Over the simulated cloud.
//!
//! Rules: ROUTE-6, P-1, P-18, P-32, D-144.

use std::sync::Arc;

use cloud_provider::{AddressType, CloudProvider};
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN, NewMachine, NewRoute};
use provider_simulated::provider::Simulated;
use serde_json::json;

use crate::world::{CREATED, NOT_CREATED, World, product, seconds};

/// Returns a running harness with this many machines, `worker-1` and so on, each with its Node and Pod CIDR
/// `10.244.N.0/24`.
fn running(machines: usize) -> (World, Cloud) {
    let cloud = Cloud::default();
    (1..=machines).for_each(|n| boot(&cloud, n));
    let transport =
        Transport::builder("http://simulated").credential(Credential::token(DEFAULT_TOKEN));
    let transport = transport.service(cloud.router()).build().unwrap();
    let provider: Arc<dyn CloudProvider> = Arc::new(Simulated::new(transport, None));
    let world = World::new(provider, &product("10.244.0.0/16,fd00::/48"));
    for n in 1..=machines {
        join(&world, &cloud, n);
    }
    world.run();
    (world, cloud)
}

fn boot(cloud: &Cloud, n: usize) {
    cloud.add_machine(NewMachine {
        name: format!("worker-{n}"),
        ..NewMachine::default()
    });
}

fn join(world: &World, cloud: &Cloud, n: usize) {
    let machine = cloud.machine(&format!("worker-{n}")).unwrap();
    let ip = &machine
        .addresses
        .iter()
        .find(|address| address.kind == AddressType::InternalIP)
        .unwrap()
        .address;
    world.put(
        &machine.name,
        &format!("simulated://{}", machine.id),
        ip,
        &[&format!("10.244.{n}.0/24")],
    );
}

/// Returns `DESTINATION MACHINE` of all routes, in order.
fn routes(cloud: &Cloud) -> Vec<String> {
    let mut routes: Vec<String> = cloud
        .routes()
        .iter()
        .map(|route| format!("{} {}", route.route.destination, route.machine_name))
        .collect();
    routes.sort();
    routes
}

/// Returns the requests so far that ask the cloud for a change, and the lists, and resets both.
fn requests(cloud: &Cloud) -> (u64, u64) {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        cloud
            .requests()
            .iter()
            .filter(|(route, _)| wanted(route))
            .map(|(_, count)| count)
            .sum()
    };
    let counted = (
        of(&|route| !route.starts_with("GET ")),
        of(&|route| route == "GET /v1/routes"),
    );
    cloud.reset_requests();
    counted
}

#[tokio::test(start_paused = true)]
async fn routes_follow_nodes_that_join_and_leave() {
    let (world, cloud) = running(3);
    seconds(5).await;
    assert_eq!(
        routes(&cloud),
        [
            "10.244.1.0/24 worker-1",
            "10.244.2.0/24 worker-2",
            "10.244.3.0/24 worker-3"
        ]
    );
    for n in 1..=3 {
        assert_eq!(world.condition(&format!("worker-{n}")), CREATED);
    }
    assert_eq!(
        (requests(&cloud), world.writes()),
        ((3, 1), 3),
        "one list, one call a route, one write a Node"
    );

    boot(&cloud, 4);
    join(&world, &cloud, 4);
    seconds(11).await;
    assert_eq!(routes(&cloud).last().unwrap(), "10.244.4.0/24 worker-4");
    assert_eq!(
        (world.condition("worker-4"), requests(&cloud)),
        (CREATED.into(), (1, 1))
    );

    world.api.remove("nodes", None, "worker-2");
    seconds(11).await;
    assert_eq!(
        routes(&cloud),
        [
            "10.244.1.0/24 worker-1",
            "10.244.3.0/24 worker-3",
            "10.244.4.0/24 worker-4"
        ]
    );
    assert_eq!((requests(&cloud), world.writes()), ((1, 1), 4));
    assert_eq!(world.reasons(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_steady_state_lists_every_five_minutes_and_changes_nothing() {
    let (world, cloud) = running(60);
    seconds(30).await;
    requests(&cloud);
    let writes = world.writes();
    for n in 0..360 {
        // Heartbeats cause no read.
        world.change("worker-7", |node| {
            node["metadata"]["annotations"] = json!({"beat": n.to_string()});
        });
        seconds(10).await;
    }
    let (changes, pages) = requests(&cloud);
    assert_eq!((changes, world.writes()), (0, writes), "INV-3");
    assert!(
        (20..=24).contains(&pages),
        "10 to 12 lists of 2 pages in an hour: {pages}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_next_hop_is_replaced() {
    let (world, cloud) = running(2);
    seconds(30).await;
    requests(&cloud);
    world.change("worker-1", |node| {
        node["status"]["addresses"][0]["address"] = json!("10.9.9.9");
    });
    seconds(11).await;
    let next_hops: Vec<_> = cloud
        .routes()
        .into_iter()
        .map(|route| route.route.next_hop)
        .collect();
    assert!(
        next_hops.contains(&vec!["10.9.9.9".to_owned()]),
        "{next_hops:?}"
    );
    assert_eq!((next_hops.len(), requests(&cloud)), (2, (2, 1)));
    assert_eq!(world.condition("worker-1"), CREATED);
}

#[tokio::test(start_paused = true)]
async fn routes_of_others_are_never_touched() {
    let (world, cloud) = running(2);
    let foreign = |destination: &str| NewRoute {
        destination: destination.into(),
        machine: cloud.machine("worker-1").unwrap().id,
        ..NewRoute::default()
    };
    for destination in [
        "10.244.77.0/24",
        "0.0.0.0/0",
        "192.168.0.0/24",
        "10.244.3.0/24",
    ] {
        cloud.add_route(foreign(destination));
    }
    seconds(30).await;
    // Another owner's route has the range of this Node.
    boot(&cloud, 3);
    join(&world, &cloud, 3);
    world.api.remove("nodes", None, "worker-2");
    seconds(700).await;
    assert_eq!(
        routes(&cloud),
        [
            "0.0.0.0/0 worker-1",
            "10.244.1.0/24 worker-1",
            "10.244.3.0/24 worker-1",
            "10.244.77.0/24 worker-1",
            "192.168.0.0/24 worker-1"
        ]
    );
    assert_eq!(world.condition("worker-3"), NOT_CREATED);
    let told = world.events_of("FailedToCreateRoute");
    assert!(
        told[0].contains("the existing route to 10.244.3.0/24 belongs to another owner"),
        "{told:?}"
    );
    assert!(told.len() < 10, "it backs off: {}", told.len());
}

#[tokio::test(start_paused = true)]
async fn a_new_node_waits_for_its_initialisation_in_silence() {
    let (world, cloud) = running(1);
    seconds(30).await;
    requests(&cloud);
    let writes = world.writes();
    boot(&cloud, 2);
    let taint = json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]);
    world.put_with("worker-2", &["10.244.2.0/24"], &json!([]), |node| {
        node["spec"]["taints"] = taint;
    });
    seconds(60).await;
    assert_eq!(
        (
            requests(&cloud),
            world.writes() - writes,
            world.condition("worker-2")
        ),
        ((0, 0), 0, String::new())
    );
    join(&world, &cloud, 2);
    seconds(11).await;
    assert_eq!(
        (world.condition("worker-2"), requests(&cloud)),
        (CREATED.into(), (1, 1))
    );
    assert_eq!(world.reasons(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_credential_of_another_project_makes_no_network_unavailable() {
    let (world, cloud) = running(3);
    seconds(30).await;
    let before = routes(&cloud);
    let writes = world.writes();
    requests(&cloud);
    cloud.add_token(DEFAULT_TOKEN, "another-project");
    // A Node changes, so that routes are listed.
    world.change("worker-3", |node| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.99"}]);
    });
    seconds(3600).await;
    assert_eq!(
        (requests(&cloud).0, world.writes()),
        (0, writes),
        "no route is asked for, no Node is told"
    );
    assert_eq!(
        (world.condition("worker-1"), routes(&cloud)),
        (CREATED.to_owned(), before)
    );
    cloud.add_token(DEFAULT_TOKEN, provider_simulated::cloud::DEFAULT_PROJECT);
    seconds(400).await;
    assert_eq!(
        requests(&cloud).0,
        2,
        "the next hop of worker-3 is replaced"
    );
}

#[tokio::test(start_paused = true)]
async fn routes_that_were_all_removed_come_back_at_the_word_of_a_machine() {
    let (world, cloud) = running(3);
    seconds(30).await;
    let before = routes(&cloud);
    for route in cloud.routes() {
        cloud.remove_route(&route.id);
    }
    world.change("worker-3", |node| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.99"}]);
    });
    seconds(60).await;
    assert_eq!(routes(&cloud), before);
    assert_eq!(world.condition("worker-1"), CREATED);
}

/// Returns the cluster's owner tags on all routes, by destination.
fn marks(cloud: &Cloud) -> Vec<String> {
    let mut routes = cloud.routes();
    routes.sort_by(|a, b| a.route.destination.cmp(&b.route.destination));
    routes
        .iter()
        .map(|route| {
            route
                .route
                .labels
                .get("ccm-rs/cluster")
                .cloned()
                .unwrap_or_default()
        })
        .collect()
}

fn marked(cloud: &Cloud, mark: &str, destination: &str, machine: &str) {
    cloud.add_route(NewRoute {
        destination: destination.into(),
        machine: cloud.machine(machine).unwrap().id,
        labels: [("ccm-rs/cluster".to_owned(), mark.to_owned())].into(),
        ..NewRoute::default()
    });
}

#[tokio::test(start_paused = true)]
async fn routes_marked_by_name_stay_the_clusters_when_its_id_is_known() {
    let (world, cloud) = running(3);
    world.run_as(None);
    seconds(30).await;
    assert_eq!(marks(&cloud), ["kubernetes"; 3]);
    // Another cluster of this name has a machine too, and a Node of this cluster had another range.
    boot(&cloud, 4);
    marked(&cloud, "kubernetes", "10.244.77.0/24", "worker-4");
    marked(&cloud, "kubernetes", "10.244.78.0/24", "worker-1");
    requests(&cloud);
    let writes = world.writes();
    world.run_as(Some("this-cluster"));
    seconds(30).await;
    assert_eq!(
        (requests(&cloud).0, world.writes()),
        (1, writes),
        "the range that its Node has no more"
    );
    world.change("worker-1", |node| {
        node["status"]["addresses"][0]["address"] = json!("10.9.9.9");
    });
    seconds(30).await;
    assert_eq!(
        marks(&cloud),
        ["this-cluster", "kubernetes", "kubernetes", "kubernetes"],
        "made anew"
    );
    assert_eq!(world.condition("worker-1"), CREATED);
    cloud.terminate("worker-2");
    world.api.remove("nodes", None, "worker-2");
    seconds(30).await;
    assert_eq!(
        routes(&cloud),
        [
            "10.244.1.0/24 worker-1",
            "10.244.3.0/24 worker-3",
            "10.244.77.0/24 worker-4"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn routes_marked_by_id_are_kept_and_kept_right_while_the_id_is_unknown() {
    let (world, cloud) = running(3);
    seconds(30).await;
    assert_eq!(marks(&cloud), ["this-cluster"; 3]);
    marked(&cloud, "another-cluster", "10.244.77.0/24", "worker-1");
    requests(&cloud);
    let writes = world.writes();
    world.run_as(None);
    seconds(700).await;
    assert_eq!((requests(&cloud).0, world.writes()), (0, writes));
    world.change("worker-1", |node| {
        node["status"]["addresses"][0]["address"] = json!("10.9.9.9");
    });
    world.api.remove("nodes", None, "worker-2");
    seconds(700).await;
    assert_eq!(
        marks(&cloud),
        [
            "kubernetes",
            "this-cluster",
            "this-cluster",
            "another-cluster"
        ]
    );
    assert_eq!(
        (world.condition("worker-1"), world.reasons()),
        (CREATED.into(), vec![])
    );
    world.run_as(Some("this-cluster"));
    seconds(30).await;
    let left = [
        "10.244.1.0/24 worker-1",
        "10.244.3.0/24 worker-3",
        "10.244.77.0/24 worker-1",
    ];
    assert_eq!(
        routes(&cloud),
        left,
        "what was kept goes now that it is clear whose it is"
    );
}

#[tokio::test(start_paused = true)]
async fn younger_node_with_the_provider_id_of_another_takes_no_part_in_a_war() {
    let (world, cloud) = running(1);
    seconds(60).await;
    requests(&cloud);
    let id = cloud.machine("worker-1").unwrap().id;
    let addresses = json!([{"type": "InternalIP", "address": "10.9.9.9"}]);
    world.put_with("copy", &["10.244.9.0/24"], &addresses, |node| {
        node["metadata"]["creationTimestamp"] = json!("2100-01-01T00:00:00Z");
        node["spec"]["providerID"] = json!(format!("simulated://{id}"));
    });
    seconds(3600).await;
    assert_eq!(requests(&cloud).0, 0, "no request changes the cloud");
    assert_eq!(routes(&cloud), ["10.244.1.0/24 worker-1"]);
    assert_eq!(
        (world.condition("copy"), world.reasons()),
        (NOT_CREATED.into(), vec!["PodCIDRRefused".to_owned()])
    );
}
