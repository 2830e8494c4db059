use std::time::Duration;

use cloud_provider::{AddressType, Caches, Cluster, Node, NodeAddress, Route, Routes, Service};
use futures::future::join_all;
use openstack_fake::{Fake, Fault, FaultKind, Network, Options};
use provider_kit::transport::Priority;

use super::*;
use crate::tests::services;

/// The Nodes that the controllers know.
struct Known(Vec<Arc<Node>>);

impl Caches for Known {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.0.clone()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.0.iter().find(|node| *node.name == *name).cloned()
    }
    fn services(&self) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

/// A cloud with a router, servers in its network and their Nodes.
struct World {
    fake: Fake,
    router: String,
    network: Network,
    nodes: Vec<Arc<Node>>,
    routes: RouteTable<RouterRoutes>,
}

fn world(options: Options, servers: usize) -> World {
    let fake = Fake::new(options);
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let router = fake.add_router("r", &network.subnet);
    let node = |n: usize| {
        let server = fake.add_server(&format!("worker-{n}"), &network);
        let addresses = [NodeAddress::new(AddressType::InternalIP, &server.ip)].into();
        let pod_cidrs = [cidr(n).into()].into();
        Arc::new(Node {
            name: server.name.into(),
            addresses,
            pod_cidrs,
            ..Node::default()
        })
    };
    let nodes: Vec<_> = (0..servers).map(node).collect();
    let (services, _) = services(&fake, "");
    let routes = super::routes(
        services.clone(),
        Ports::new(services),
        router.clone(),
        view(nodes.clone()),
    );
    World {
        fake,
        router,
        network,
        nodes,
        routes,
    }
}

/// Returns a cluster of these Nodes.
fn view(nodes: Vec<Arc<Node>>) -> ClusterView {
    let cluster = ClusterView::new(crate::EVENT_SOURCE);
    cluster.set_pod_cidrs(&["10.244.0.0/16".to_owned()]);
    cluster.set_caches(Arc::new(Known(nodes)));
    cluster
}

fn cidr(n: usize) -> String {
    format!("10.244.{n}.0/24")
}

fn route(destination: &str, hop: &str) -> CloudRoute {
    CloudRoute {
        destination: destination.into(),
        next_hops: vec![hop.into()],
        ..CloudRoute::default()
    }
}

fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: None,
    }
}

impl World {
    /// Returns the route of a Node's range, as the controller creates it.
    fn wanted(&self, n: usize) -> Route {
        let node = &self.nodes[n];
        Route {
            target_node: node.name.to_string(),
            target_node_addresses: node.addresses.to_vec(),
            destination_cidr: cidr(n),
            ..Route::default()
        }
    }

    async fn create(&self, n: usize) -> Result<()> {
        self.routes.create(&cluster(), "uid", &self.wanted(n)).await
    }

    async fn list(&self) -> Vec<Route> {
        self.routes.list(&cluster()).await.unwrap()
    }

    async fn delete(&self, n: usize) -> Result<()> {
        let listed = self
            .list()
            .await
            .into_iter()
            .find(|route| route.destination_cidr == cidr(n))
            .unwrap();
        self.routes.delete(&cluster(), &listed).await
    }

    /// Returns the route table without one of the Nodes, and the Node's route.
    async fn without_node(&self, n: usize) -> (RouteTable<RouterRoutes>, Route) {
        let others = self
            .nodes
            .iter()
            .filter(|node| node.name != self.nodes[n].name);
        let view = view(others.cloned().collect());
        let (services, _) = services(&self.fake, "");
        let routes = super::routes(
            services.clone(),
            Ports::new(services),
            self.router.clone(),
            view,
        );
        let listed = routes.list(&cluster()).await.unwrap();
        (
            routes,
            listed
                .into_iter()
                .find(|route| route.destination_cidr == cidr(n))
                .unwrap(),
        )
    }

    /// Returns the router's routes as `destination via next hop`.
    fn in_router(&self) -> Vec<String> {
        let text = |route: &Value, key: &str| route[key].as_str().unwrap().to_owned();
        let routes = self.fake.routes(&self.router);
        routes
            .iter()
            .map(|route| {
                format!(
                    "{} via {}",
                    text(route, "destination"),
                    text(route, "nexthop")
                )
            })
            .collect()
    }

    /// Returns the address pairs that the port of a Node's server allows.
    fn pairs(&self, n: usize) -> Vec<String> {
        let port = self
            .fake
            .port(&self.fake.server(&self.nodes[n].name).unwrap().port)
            .unwrap();
        let pairs = port["allowed_address_pairs"].as_array().unwrap().iter();
        pairs
            .map(|pair| pair["ip_address"].as_str().unwrap().to_owned())
            .collect()
    }

    fn hop(&self, n: usize) -> &str {
        &self.nodes[n].addresses[0].address
    }

    fn via(&self, n: usize) -> String {
        format!("{} via {}", cidr(n), self.hop(n))
    }
}

fn not_atomic() -> Options {
    Options {
        atomic_routes: false,
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_is_made_listed_with_its_node_and_deleted_with_what_its_port_let_through() {
    for options in [Options::default(), not_atomic()] {
        let world = world(options, 2);
        assert!(world.routes.cloud().are_supported().await.unwrap());
        world.create(0).await.unwrap();
        assert_eq!(
            (world.in_router(), world.pairs(0)),
            (vec![world.via(0)], vec![cidr(0)])
        );
        let listed = world.list().await;
        let expected = Route {
            name: cidr(0),
            target_node: "worker-0".into(),
            enable_node_addresses: true,
            target_node_addresses: vec![NodeAddress::new(AddressType::InternalIP, world.hop(0))],
            destination_cidr: cidr(0),
            blackhole: false,
            owned: Some(true),
        };
        assert_eq!(listed, [expected]);
        world.delete(0).await.unwrap();
        assert_eq!((world.in_router().len(), world.pairs(0).len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_already_is_left_as_it_is() {
    for options in [Options::default(), not_atomic()] {
        let is_atomic = options.atomic_routes;
        let world = world(options, 1);
        world.create(0).await.unwrap();
        world.fake.forget_requests();
        world.create(0).await.unwrap();
        assert_eq!(
            (world.in_router(), world.pairs(0)),
            (vec![world.via(0)], vec![cidr(0)])
        );
        assert_eq!(
            world.fake.changes().len(),
            usize::from(is_atomic),
            "adding twice is the API's own business"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn other_peoples_routes_and_pairs_stay() {
    for options in [Options::default(), not_atomic()] {
        let world = world(options, 2);
        let foreign = route("0.0.0.0/0", world.hop(1));
        world
            .routes
            .cloud()
            .change(Change::Add, &foreign)
            .await
            .unwrap();
        let port = world.fake.server("worker-0").unwrap().port;
        let pair =
            serde_json::json!({"ip_address": "10.6.0.200", "mac_address": "fa:16:3e:00:00:01"});
        world.fake.change_port(&port, |port| {
            drop(port.insert("allowed_address_pairs".into(), vec![pair].into()));
        });
        world.create(0).await.unwrap();
        assert_eq!(world.pairs(0), ["10.6.0.200".to_owned(), cidr(0)]);
        let listed = world.list().await;
        assert_eq!(
            listed.iter().map(|route| route.owned).collect::<Vec<_>>(),
            [Some(false), Some(true)]
        );
        world.delete(0).await.unwrap();
        assert_eq!(world.pairs(0), ["10.6.0.200"]);
        assert_eq!(
            world.in_router(),
            [format!("0.0.0.0/0 via {}", world.hop(1))]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn routes_that_come_together_go_together() {
    let world = world(Options::default(), 50);
    world.fake.fail(Fault::new(
        "",
        FaultKind::Latency(Duration::from_millis(100)),
    ));
    let answers = join_all((0..50).map(|n| world.create(n))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.in_router().len(), 50);
    let additions = world.fake.count("PUT /routers/{id}/add_extraroutes");
    assert!(additions <= 4, "{additions}");
    // The Nodes' ports, and the router's, are read together, too.
    assert!(
        world.fake.count("GET /ports") <= 8,
        "{}",
        world.fake.count("GET /ports")
    );
    assert_eq!(
        (
            world.fake.count("PUT /ports/{id}"),
            world.fake.count("GET /routers/{id}")
        ),
        (50, 0)
    );
    let listed = world.list().await;
    world.fake.forget_requests();
    let cluster = cluster();
    let answers = join_all(
        listed
            .iter()
            .map(|route| world.routes.delete(&cluster, route)),
    )
    .await;
    assert!(answers.iter().all(Result::is_ok) && world.in_router().is_empty());
    assert!(world.fake.count("PUT /routers/{id}/remove_extraroutes") <= 4);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_routes_that_come_together_make_no_url_that_servers_refuse() {
    let world = world(Options::default(), 200);
    world.fake.fail(Fault::new(
        "",
        FaultKind::Latency(Duration::from_millis(100)),
    ));
    let answers = join_all((0..200).map(|n| world.create(n))).await;
    assert!(answers.iter().all(Result::is_ok) && world.in_router().len() == 200);
    let longest = world
        .fake
        .requests()
        .iter()
        .map(|request| request.query.len())
        .max();
    assert!(longest < Some(4000), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_refused_takes_no_other_with_it_and_leaves_no_trace() {
    for options in [Options::default(), not_atomic()] {
        let world = world(options, 6);
        // The last one's address is on its port, but in no network of the router.
        let far = world
            .fake
            .add_subnet(&world.network.id, "far", "10.99.0.0/16");
        let port = world.fake.attach("worker-5", &far);
        let ip = world.fake.port(&port).unwrap()["fixed_ips"][0]["ip_address"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut odd = world.wanted(5);
        odd.target_node_addresses = vec![NodeAddress::new(AddressType::InternalIP, &ip)];
        let cluster = cluster();
        let odd = world.routes.create(&cluster, "uid", &odd);
        let (error, answers) = tokio::join!(odd, join_all((0..5).map(|n| world.create(n))));
        let error = error.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("not connected with router"),
            "{error}"
        );
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(world.in_router().len(), 5);
        let pairs = world.fake.port(&port).unwrap()["allowed_address_pairs"].clone();
        assert_eq!(
            pairs,
            Value::Array(Vec::new()),
            "what was changed of the port is taken back"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_that_lets_nothing_more_through_gets_no_route_and_its_node_is_told_why() {
    let full = "The number of allowed address pair exceeds the maximum 10.";
    for (status, kind, text) in [
        (400, "AllowedAddressPairExhausted", full),
        (412, "RevisionNumberConstraintFailed", "stale"),
    ] {
        let world = world(Options::default(), 1);
        world
            .fake
            .fail(Fault::refused_as("PUT /ports/{id}", status, kind, text));
        let error = world.create(0).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(world.in_router().is_empty() && world.fake.count("PUT /ports/{id}") <= 5);
        assert_eq!(world.fake.count("PUT /routers/{id}/add_extraroutes"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_refused_leaves_the_route_as_it_was() {
    let world = world(Options::default(), 1);
    world.create(0).await.unwrap();
    world
        .fake
        .fail(Fault::refused("PUT /routers/{id}/remove_extraroutes", 409).times(2));
    assert!(world.delete(0).await.unwrap_err().is_conflict());
    assert_eq!(
        (world.in_router(), world.pairs(0)),
        (vec![world.via(0)], vec![cidr(0)])
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_no_failure() {
    let world = world(Options::default(), 1);
    for route in ["PUT /ports/{id}", "PUT /routers/{id}/add_extraroutes"] {
        world
            .fake
            .fail(Fault::new(route, FaultKind::LostAnswer).times(1));
    }
    world.create(0).await.unwrap();
    assert_eq!(
        (world.in_router(), world.pairs(0)),
        (vec![world.via(0)], vec![cidr(0)])
    );
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_route_is_made_again_because_it_is_not_listed_without_its_port() {
    let world = world(Options::default(), 1);
    world.fake.fail(Fault::new(
        "PUT /routers/{id}/add_extraroutes",
        FaultKind::Hang,
    ));
    let soon = Duration::from_secs(1);
    assert!(tokio::time::timeout(soon, world.create(0)).await.is_err());
    assert_eq!(
        (world.list().await.len(), world.pairs(0)),
        (0, vec![cidr(0)])
    );
    world.fake.clear_faults();
    world.create(0).await.unwrap();
    assert_eq!(
        (world.in_router(), world.pairs(0)),
        (vec![world.via(0)], vec![cidr(0)])
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_without_a_server_is_a_black_hole_and_its_deletion_changes_only_the_router() {
    let world = world(Options::default(), 2);
    world.create(1).await.unwrap();
    world.fake.terminate("worker-1");
    let (routes, listed) = world.without_node(1).await;
    assert_eq!(
        (listed.blackhole, &*listed.target_node, listed.owned),
        (true, world.hop(1), Some(true))
    );
    world.fake.forget_requests();
    routes.delete(&cluster(), &listed).await.unwrap();
    assert!(world.in_router().is_empty());
    assert_eq!(world.fake.changes().len(), 1);
    // The route may already be deleted.
    routes.delete(&cluster(), &listed).await.unwrap();
}

/// A server that is no Node any more could pretend to be another Node's Pods, and a port takes ten pairs only.
#[tokio::test(start_paused = true)]
async fn a_server_that_outlives_its_node_lets_the_nodes_range_through_no_more() {
    let world = world(Options::default(), 2);
    let port = world.fake.server("worker-1").unwrap().port;
    let pair = serde_json::json!({"ip_address": "10.244.0.0/16"});
    world.fake.change_port(&port, |port| {
        drop(port.insert("allowed_address_pairs".into(), vec![pair].into()));
    });
    world.create(1).await.unwrap();
    let (routes, listed) = world.without_node(1).await;
    assert!(listed.blackhole);
    routes.delete(&cluster(), &listed).await.unwrap();
    assert_eq!(
        (world.in_router().len(), world.pairs(1)),
        (0, vec!["10.244.0.0/16".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_port_that_may_not_be_changed_keeps_no_route_that_leads_nowhere() {
    for (status, goes) in [(403, true), (400, true), (500, false)] {
        let world = world(Options::default(), 2);
        world.create(0).await.unwrap();
        world.create(1).await.unwrap();
        let (routes, listed) = world.without_node(1).await;
        world.fake.fail(Fault::refused("PUT /ports/{id}", status));
        assert_eq!(
            routes.delete(&cluster(), &listed).await.is_ok(),
            goes,
            "{status}"
        );
        assert!(
            world.delete(0).await.is_err(),
            "that of a Node goes with its pair"
        );
        assert_eq!(
            world.in_router(),
            if goes {
                vec![world.via(0)]
            } else {
                vec![world.via(0), world.via(1)]
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_without_port_security_or_a_cloud_without_address_pairs_is_left_alone() {
    let fixed = world(
        Options {
            address_pairs: false,
            ..Options::default()
        },
        1,
    );
    fixed.create(0).await.unwrap();
    assert_eq!(
        (fixed.in_router(), fixed.fake.count("PUT /ports/{id}")),
        (vec![fixed.via(0)], 0)
    );
    assert_eq!(fixed.fake.count("GET /ports"), 0);
    let open = world(Options::default(), 1);
    let port = open.fake.server("worker-0").unwrap().port;
    open.fake.change_port(&port, |port| {
        drop(port.insert("port_security_enabled".into(), false.into()));
    });
    open.create(0).await.unwrap();
    assert_eq!(
        (open.in_router(), open.fake.count("PUT /ports/{id}")),
        (vec![open.via(0)], 0)
    );
    open.delete(0).await.unwrap();
    assert_eq!(open.fake.count("PUT /ports/{id}"), 0);
}

/// Defect 7 of the Go cloud-controller-manager.
#[tokio::test(start_paused = true)]
async fn what_somebody_else_changes_meanwhile_is_not_lost() {
    let world = world(not_atomic(), 2);
    world.fake.fail(
        Fault::refused_as(
            "PUT /ports/{id}",
            412,
            "RevisionNumberConstraintFailed",
            "stale",
        )
        .times(1),
    );
    world.fake.fail(
        Fault::refused_as(
            "PUT /routers/{id}",
            412,
            "RevisionNumberConstraintFailed",
            "stale",
        )
        .times(1),
    );
    world.create(0).await.unwrap();
    assert_eq!(
        (world.in_router(), world.pairs(0)),
        (vec![world.via(0)], vec![cidr(0)])
    );
    assert_eq!(
        (
            world.fake.count("GET /ports/{id}"),
            world.fake.count("GET /routers/{id}")
        ),
        (1, 2)
    );
    // The same with a port that was read a while ago.
    let stale = world
        .routes
        .cloud()
        .ports
        .of(
            &world.fake.server("worker-1").unwrap().id,
            Priority::Ordinary,
        )
        .await
        .unwrap();
    let pair = serde_json::json!({"ip_address": "10.6.0.200"});
    world.fake.change_port(&stale[0].id, |port| {
        drop(port.insert("allowed_address_pairs".into(), vec![pair].into()));
    });
    let route = route(&cidr(1), world.hop(1));
    assert!(
        world
            .routes
            .cloud()
            .ports
            .change(stale[0].clone(), |port| pairs(port, Change::Add, &route))
            .await
            .unwrap()
    );
    assert_eq!(world.pairs(1), ["10.6.0.200".to_owned(), cidr(1)]);
}

#[tokio::test(start_paused = true)]
async fn routes_of_both_families_of_a_node_change_its_port_one_after_the_other() {
    let world = world(Options::default(), 1);
    let second = Route {
        destination_cidr: "10.244.200.0/24".into(),
        ..world.wanted(0)
    };
    let cluster = cluster();
    let (first, second) = tokio::join!(
        world.create(0),
        world.routes.create(&cluster, "uid", &second)
    );
    first.and(second).unwrap();
    let mut pairs = world.pairs(0);
    pairs.sort();
    assert_eq!(pairs, [cidr(0), "10.244.200.0/24".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn a_router_that_is_not_there_says_nothing_about_routes() {
    let world = world(Options::default(), 1);
    let (services, _) = services(&world.fake, "");
    let view = view(world.nodes.clone());
    let routes = super::routes(
        services.clone(),
        Ports::new(services),
        "nowhere".into(),
        view,
    );
    let error = routes.list(&cluster()).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("router-id"),
        "{error}"
    );
    // Nor are routes judged before the Nodes are known.
    let (services, _) = crate::tests::services(&world.fake, "");
    let view = ClusterView::new(crate::EVENT_SOURCE);
    let routes = super::routes(
        services.clone(),
        Ports::new(services),
        world.router.clone(),
        view,
    );
    assert!(routes.list(&cluster()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_extra_routes_has_no_routes() {
    let world = world(
        Options {
            atomic_routes: false,
            routes: false,
            ..Options::default()
        },
        0,
    );
    assert!(!world.routes.cloud().are_supported().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_an_address_of_the_family_is_told_so() {
    let world = world(Options::default(), 1);
    let route = Route {
        destination_cidr: "fd00:244::/64".into(),
        ..world.wanted(0)
    };
    let error = world
        .routes
        .create(&cluster(), "uid", &route)
        .await
        .unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("no InternalIP of IPv6"),
        "{error}"
    );
    assert!(world.fake.requests().is_empty());
}
