//! Routes of the private network, compared with Pod CIDRs.

use std::net::Ipv4Addr;

use cloud_provider::{AddressType, CloudProvider, Error, NodeAddress, Result, Route, Routes};
use hetzner_fake::{Fault, Route as CloudRoute};
use provider_hetzner::Hetzner;

use crate::harness::{Harness, kubernetes, wanted};

const READ: &str = "GET /networks/{id}";
const ADD: &str = "POST /networks/{id}/actions/add_route";
const REMOVE: &str = "POST /networks/{id}/actions/delete_route";
const SERVERS: &str = "GET /servers";
const PODS: &str = "10.244.1.0/24";

/// A network with routes, and a provider that was started.
struct Scene {
    harness: Harness,
    network: u64,
    provider: Hetzner,
}

impl Scene {
    async fn new() -> Self {
        let harness = Harness::default().set("HCLOUD_NETWORK", "kubernetes");
        let network = harness.fake.add_network("kubernetes", "10.0.0.0/8");
        harness.fake.run_attached_to(network);
        let provider = harness.started().await;
        Self {
            harness,
            network,
            provider,
        }
    }

    /// Adds a server in the network and its Node of another name, and returns the server's address.
    fn join(&self, node: &str, server: &str, pods: &str) -> Ipv4Addr {
        let id = self.harness.fake.add_server(server).id;
        let ip = self.harness.fake.attach(server, self.network);
        self.harness
            .add_node(node, &format!("hcloud://{id}"), &ip.to_string(), pods);
        ip
    }

    /// Adds a route of another owner.
    fn route(&self, destination: &str, gateway: &str) {
        let route = CloudRoute {
            destination: destination.into(),
            gateway: gateway.into(),
        };
        self.harness
            .fake
            .change_network(self.network, |network| network.routes.push(route))
            .unwrap();
    }

    fn routes(&self) -> &dyn Routes {
        self.provider.routes().unwrap()
    }

    async fn list(&self) -> Vec<Route> {
        self.routes().list(&kubernetes()).await.unwrap()
    }

    async fn create(&self, node: &str, ip: &str, pods: &str) -> Result<()> {
        self.routes()
            .create(&kubernetes(), "uid", &wanted(node, ip, pods))
            .await
    }

    async fn refused(&self, node: &str, ip: &str, pods: &str) -> Error {
        self.create(node, ip, pods).await.unwrap_err()
    }

    fn there(&self) -> Vec<String> {
        let routes = self.harness.fake.routes(self.network).into_iter();
        routes
            .map(|route| format!("{} → {}", route.destination, route.gateway))
            .collect()
    }

    fn counts(&self) -> Vec<(String, usize)> {
        self.harness.fake.counts().into_iter().collect()
    }
}

fn sent<const N: usize>(counts: [(&str, usize); N]) -> Vec<(String, usize)> {
    counts
        .map(|(route, count)| (route.to_owned(), count))
        .into()
}

#[tokio::test(start_paused = true)]
async fn a_route_leads_to_the_address_of_the_nodes_server_in_the_network() {
    let scene = Scene::new().await;
    let ip = scene.join("worker-1", "worker-1", PODS).to_string();
    scene.create("worker-1", &ip, PODS).await.unwrap();
    assert_eq!(scene.there(), [format!("{PODS} → {ip}")]);
    // The action takes a second: its end was waited for.
    let asked = [
        ("GET /actions", 2),
        (READ, 1),
        ("GET /servers/{id}", 1),
        (ADD, 1),
    ];
    assert_eq!(scene.counts(), sent(asked));

    scene.harness.fake.forget_requests();
    scene.create("worker-1", &ip, PODS).await.unwrap();
    assert_eq!(
        (scene.harness.fake.changes().len(), scene.there().len()),
        (0, 1),
        "it is there"
    );
    assert_eq!(scene.harness.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_list_tells_destination_node_and_next_hop_with_one_request_more_than_the_servers_take() {
    let scene = Scene::new().await;
    let ip = scene.join("node-1", "server-1", PODS).to_string();
    scene.route(PODS, &ip);
    scene.route("10.244.9.0/24", "10.0.99.99");
    scene.route("192.168.0.0/16", "10.0.99.98");
    let routes = scene.list().await;
    let hop = |ip: &str| vec![NodeAddress::new(AddressType::InternalIP, ip)];
    let route = |destination: &str, gateway: &str, target: &str, owned| Route {
        name: format!("{gateway}-{destination}"),
        target_node: target.to_owned(),
        enable_node_addresses: true,
        target_node_addresses: hop(gateway),
        destination_cidr: destination.to_owned(),
        blackhole: target.is_empty(),
        owned: Some(owned),
    };
    let expected = [
        // The Node of the server, which has another name.
        route(PODS, &ip, "node-1", true),
        route("10.244.9.0/24", "10.0.99.99", "", true),
        // Routes outside of the cluster's ranges belong to another owner.
        route("192.168.0.0/16", "10.0.99.98", "", false),
    ];
    assert_eq!(routes, expected);
    assert_eq!(scene.counts(), sent([(READ, 1), (SERVERS, 1)]));
    tokio::time::advance(std::time::Duration::from_secs(59)).await;
    scene.route("10.244.2.0/24", &ip);
    scene.harness.fake.change_network(scene.network, |network| {
        network.routes.retain(|route| route.gateway != "10.0.99.99");
    });
    scene.harness.fake.forget_requests();
    scene.list().await;
    assert_eq!(
        scene.counts(),
        sent([(READ, 1)]),
        "servers are known for a minute"
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_to_a_server_that_is_younger_than_what_is_known_is_no_black_hole() {
    let scene = Scene::new().await;
    scene.join("worker-1", "worker-1", PODS);
    scene.list().await;
    scene.list().await;
    assert_eq!(scene.harness.fake.count(SERVERS), 1);
    let ip = scene
        .join("worker-2", "worker-2", "10.244.2.0/24")
        .to_string();
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    scene.route("10.244.2.0/24", &ip);
    let routes = scene.list().await;
    assert_eq!(
        (routes[0].target_node.as_str(), routes[0].blackhole),
        ("worker-2", false)
    );
    assert_eq!(scene.harness.fake.count(SERVERS), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_servers_that_is_not_whole_calls_no_route_a_black_hole() {
    let scene = Scene::new().await;
    for number in 0..120 {
        scene.join(
            &format!("w-{number}"),
            &format!("w-{number}"),
            &format!("10.244.{number}.0/24"),
        );
    }
    let last = scene
        .harness
        .fake
        .server("w-119")
        .unwrap()
        .ip_in(scene.network)
        .unwrap()
        .to_string();
    scene.route("10.244.119.0/24", &last);
    scene
        .harness
        .fake
        .fail(Fault::new(SERVERS, hetzner_fake::FaultKind::MissingPage(2)));
    let listed = scene.routes().list(&kubernetes()).await;
    assert!(
        listed.as_ref().is_err() || !listed.as_ref().unwrap()[0].blackhole,
        "{listed:?}"
    );
    scene.harness.fake.clear_faults();
    scene.harness.fake.terminate("w-119");
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert!(scene.list().await[0].blackhole);
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_name_is_another_nodes_is_not_taken_for_that_nodes() {
    let scene = Scene::new().await;
    let ip = scene.join("worker-1", "worker-1", PODS).to_string();
    let namesake = scene
        .join("renamed", "worker-2", "10.244.2.0/24")
        .to_string();
    let stranger = {
        scene.harness.fake.add_server("renamed");
        scene
            .harness
            .fake
            .attach("renamed", scene.network)
            .to_string()
    };
    for (pods, gateway) in [
        (PODS, &ip),
        ("10.244.2.0/24", &namesake),
        ("10.244.3.0/24", &stranger),
    ] {
        scene.route(pods, gateway);
    }
    let targets: Vec<_> = scene
        .list()
        .await
        .into_iter()
        .map(|route| (route.target_node, route.blackhole))
        .collect();
    let target = |name: &str| (name.to_owned(), false);
    assert_eq!(targets, [target("worker-1"), target("renamed"), target("")]);
}

#[tokio::test(start_paused = true)]
async fn a_range_that_leads_elsewhere_is_led_to_its_node() {
    let scene = Scene::new().await;
    let ip = scene.join("worker-1", "worker-1", PODS).to_string();
    scene.route(PODS, "10.0.99.99");
    scene.create("worker-1", &ip, PODS).await.unwrap();
    assert_eq!(scene.there(), [format!("{PODS} → {ip}")]);
    assert_eq!(
        (
            scene.harness.fake.count(REMOVE),
            scene.harness.fake.count(ADD)
        ),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_is_deleted_with_the_gateway_that_was_listed_and_one_that_is_absent_is_deleted_already()
 {
    let scene = Scene::new().await;
    let ip = scene.join("worker-1", "worker-1", PODS).to_string();
    scene.route(PODS, &ip);
    let listed = scene.list().await.remove(0);
    scene.harness.fake.forget_requests();
    scene.routes().delete(&kubernetes(), &listed).await.unwrap();
    assert_eq!(scene.there(), [""; 0]);
    assert_eq!(scene.harness.fake.bodies(REMOVE)[0]["gateway"], ip.as_str());
    assert_eq!(scene.harness.fake.count(READ), 0, "nothing is read for it");

    scene.routes().delete(&kubernetes(), &listed).await.unwrap();
    // Some other way of saying that it is not there.
    scene
        .harness
        .fake
        .fail(Fault::code(REMOVE, "invalid_input"));
    scene.routes().delete(&kubernetes(), &listed).await.unwrap();
    scene.route(PODS, &ip);
    assert!(
        scene
            .routes()
            .delete(&kubernetes(), &listed)
            .await
            .unwrap_err()
            .is_invalid(),
        "it is there"
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_to_a_dedicated_server_is_refused() {
    let scene = Scene::new().await;
    scene
        .harness
        .add_node("bm-1", "hrobot://321", "10.0.0.9", PODS);
    let error = scene.refused("bm-1", "10.0.0.9", PODS).await.to_string();
    assert!(
        error.contains("node \"bm-1\" is not a cloud server (hrobot://321)"),
        "{error}"
    );
    assert_eq!(scene.counts(), []);
}

#[tokio::test(start_paused = true)]
async fn the_server_of_a_node_without_a_provider_id_is_found_by_name() {
    let scene = Scene::new().await;
    scene.harness.fake.add_server("worker-1");
    let ip = scene
        .harness
        .fake
        .attach("worker-1", scene.network)
        .to_string();
    scene.harness.add_node("worker-1", "", &ip, PODS);
    scene.create("worker-1", &ip, PODS).await.unwrap();
    assert_eq!(scene.there(), [format!("{PODS} → {ip}")]);
    assert_eq!(scene.list().await[0].target_node, "worker-1");
}

#[tokio::test(start_paused = true)]
async fn an_ipv6_route_is_refused_at_once_and_names_route_and_node() {
    let scene = Scene::new().await;
    let ip = scene
        .join("worker-1", "worker-1", "fd00:1::/64")
        .to_string();
    let error = scene.refused("worker-1", &ip, "fd00:1::/64").await;
    assert!(error.is_invalid());
    let text = error.to_string();
    assert!(
        text.contains("fd00:1::/64") && text.contains("\"worker-1\"") && text.contains("IPv6"),
        "{text}"
    );
    assert_eq!(scene.counts(), []);
}

#[tokio::test(start_paused = true)]
async fn what_a_route_cannot_lead_to_is_named() {
    let scene = Scene::new().await;
    assert!(
        scene
            .refused("nobody", "10.0.0.1", PODS)
            .await
            .to_string()
            .contains("Node \"nobody\" does not exist")
    );

    scene
        .harness
        .add_node("gone", "hcloud://99", "10.0.0.1", PODS);
    assert!(
        scene
            .refused("gone", "10.0.0.1", PODS)
            .await
            .to_string()
            .contains("server of node \"gone\" does not exist")
    );

    let id = scene.harness.fake.add_server("outside").id;
    scene
        .harness
        .add_node("outside", &format!("hcloud://{id}"), "10.0.0.1", PODS);
    let error = scene.refused("outside", "10.0.0.1", PODS).await.to_string();
    assert!(
        error.contains("\"outside\" is not attached to the network"),
        "{error}"
    );
    // The server is attached now: the route does not wait for a minute.
    let ip = scene
        .harness
        .fake
        .attach("outside", scene.network)
        .to_string();
    scene.create("outside", &ip, PODS).await.unwrap();

    let ip = scene
        .join("other-ip", "other-ip", "10.244.7.0/24")
        .to_string();
    let error = scene
        .refused("other-ip", "203.0.113.7", "10.244.7.0/24")
        .await
        .to_string();
    assert!(
        error.contains(&ip) && error.contains("not among its InternalIPs"),
        "{error}"
    );

    scene
        .harness
        .add_node("foreign", "aws:///x/i-1", "10.0.0.1", PODS);
    assert!(
        scene
            .refused("foreign", "10.0.0.1", PODS)
            .await
            .to_string()
            .contains("unknown prefix")
    );
    assert_eq!(scene.there().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_route_outside_the_clusters_ranges_is_made_and_told_on_the_node() {
    let scene = Scene::new().await;
    for (name, pods) in [("outside", "10.245.1.0/24"), ("wider", "10.244.0.0/15")] {
        let ip = scene.join(name, name, pods).to_string();
        scene.create(name, &ip, pods).await.unwrap();
        let event = format!(
            "{name} ClusterCIDRMisconfigured: route CIDR {pods} is not contained within \
             cluster CIDR 10.244.0.0/16"
        );
        assert_eq!(scene.harness.events(), [event]);
    }
    assert_eq!(scene.there().len(), 2);
    // A Node's own route belongs to its cluster.
    assert!(
        scene
            .list()
            .await
            .iter()
            .all(|route| route.owned == Some(true))
    );
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_network_wait_for_each_other() {
    let scene = Scene::new().await;
    let nodes = (1..=12).map(|number| {
        let name = format!("worker-{number}");
        let pods = format!("10.244.{number}.0/24");
        (scene.join(&name, &name, &pods).to_string(), name, pods)
    });
    let nodes: Vec<_> = nodes.collect();
    // The fake answers `conflict` while an action of the network runs.
    let created = nodes
        .iter()
        .map(|(ip, name, pods)| scene.create(name, ip, pods));
    for outcome in futures::future::join_all(created).await {
        outcome.unwrap();
    }
    assert_eq!(
        (scene.there().len(), scene.harness.fake.count(ADD)),
        (12, 12),
        "none was refused"
    );
}

#[tokio::test(start_paused = true)]
async fn a_network_that_somebody_else_is_changing_is_a_conflict() {
    let scene = Scene::new().await;
    let ip = scene.join("worker-1", "worker-1", PODS).to_string();
    for code in ["locked", "conflict"] {
        scene.harness.fake.clear_faults();
        scene.harness.fake.fail(Fault::code(ADD, code));
        let error = scene.refused("worker-1", &ip, PODS).await;
        assert!(error.is_conflict(), "{code}: {error}");
    }
    scene.harness.fake.clear_faults();
    scene
        .harness
        .fake
        .fail(Fault::ends_in_error(ADD, "server_error"));
    let error = scene.refused("worker-1", &ip, PODS).await.to_string();
    assert!(error.contains("server_error"), "{error}");
    scene.harness.fake.clear_faults();
    scene.create("worker-1", &ip, PODS).await.unwrap();
}
