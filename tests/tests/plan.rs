//! `cloud-controller-manager plan`: previews the controllers' next changes, and makes none (P-31).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_conformance::Harness;
use ccm_conformance::fault_injector::Side;
use ccm_conformance::virtual_time::VirtualTime;
use ccm_tests::profiles::SimulatedCloud;
use cloud_provider::names::{NODE_LIFECYCLE_CONTROLLER, VOLUME_LABEL_CONTROLLER};
use cloud_provider::{
    ClientBuilder, CloudProvider, Cluster, Context, Fence, KubernetesApi, LoadBalancerRequest,
    LoadBalancerStatus, LoadBalancers, NoEvents, PersistentVolume, Result, Route, Routes, Volumes,
    async_trait,
};
use controllers::options::RouteMode;
use embedded_apiserver::{Action, Matcher};
use kube::Client;
use manager::plan::{Kind, Outcome, Report, json, plan, text};
use manager::{Clients, Selection, Settings};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN, Fault, NewMachine, NewRoute};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A cluster with a cloud, and one virtual time.
struct World {
    harness: Harness,
    cloud: Cloud,
    time: VirtualTime,
}

impl World {
    /// Machines `worker-1` and so on, a Node for each, and nothing done yet.
    fn with_nodes(count: u8) -> Self {
        let cloud = Cloud::default();
        let harness = Harness::with_routes(&SimulatedCloud(cloud.clone()));
        let mut world = Self {
            harness,
            cloud,
            time: VirtualTime::default(),
        };
        for number in 1..=count {
            world.cloud.add_machine(NewMachine {
                name: format!("worker-{number}"),
                ..NewMachine::default()
            });
        }
        world.live(async |harness, _| {
            for number in 1..=count {
                harness
                    .user
                    .register_node(
                        &format!("worker-{number}"),
                        &[format!("10.244.{number}.0/24")],
                    )
                    .await;
            }
        });
        world
    }

    /// Creates a settled cluster with a Service `web`.
    fn settled(nodes: u8) -> Self {
        let mut world = Self::with_nodes(nodes);
        world.live(async |harness, _| _ = harness.user.create_service("web", &[80, 443]).await);
        world.run_controllers();
        world
    }

    fn live<T>(&mut self, life: impl AsyncFnOnce(&Harness, &Cloud) -> T) -> T {
        self.time
            .live(async || life(&self.harness, &self.cloud).await)
    }

    /// Runs the controllers until there is nothing left for them to do.
    fn run_controllers(&mut self) {
        self.live(async |harness, _| {
            let program = harness.start().await.expect("a start");
            harness
                .settle_within(Duration::from_secs(600))
                .await
                .expect("settled");
            program.stop().await;
        });
    }

    /// Returns the plan, and checks that this changed nothing.
    fn plan(&mut self) -> Report {
        self.plan_with(|_| {})
    }

    fn plan_with(&mut self, change: impl FnOnce(&mut Settings)) -> Report {
        let provider = self.harness.provider(&Fence::open());
        self.plan_of(&*provider, change)
    }

    fn plan_of(
        &mut self,
        provider: &dyn CloudProvider,
        change: impl FnOnce(&mut Settings),
    ) -> Report {
        let state = |world: &Self| {
            let balancers = world.cloud.load_balancers();
            let routes = world.cloud.routes();
            (
                world.harness.api.revision(),
                world.cloud.machines(),
                format!("{balancers:?}{routes:?}"),
            )
        };
        let before = state(self);
        let passed = self.harness.injector.passed().len();
        let report = self.live(async |harness, _| {
            let client = Client::new(
                harness
                    .injector
                    .before(Side::Kubernetes, harness.api.service()),
                "default",
            );
            let mut settings = Settings::new(harness.options.clone(), Clients::Shared(client));
            change(&mut settings);
            let cluster = cluster(harness);
            let shutdown = CancellationToken::new();
            let context = Context {
                cluster: cluster.clone(),
                cluster_cidrs: Vec::new(),
                clients: Arc::new(NoClients),
                events: Arc::new(NoEvents),
                shutdown,
            };
            provider
                .initialize(&context)
                .await
                .expect("a cloud that answers at first");
            plan(&settings, provider, &cluster).await.expect("a report")
        });
        let sent = &self.harness.injector.passed()[passed..];
        let mutations: Vec<_> = sent
            .iter()
            .filter(|request| request.is_mutation())
            .collect();
        assert!(
            mutations.is_empty(),
            "a plan asked for changes: {mutations:?}"
        );
        assert!(state(self) == before, "a plan changed something");
        report
    }
}

fn cluster(harness: &Harness) -> Cluster {
    let namespace = harness
        .api
        .get("namespaces", None, "kube-system")
        .expect("the namespace");
    Cluster {
        name: "kubernetes".into(),
        id: namespace["metadata"]["uid"].as_str().map(str::to_owned),
    }
}

struct NoClients;

impl ClientBuilder for NoClients {
    fn client(&self, component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Err(cloud_provider::Error::other(format!(
            "no client for {component:?}"
        )))
    }
}

/// Returns `side action what` of each step of an object; empty if the object is not in the plan.
fn steps(report: &Report, kind: Kind, name: &str) -> Vec<String> {
    let of = report
        .objects
        .iter()
        .filter(|(key, _)| key.kind == kind && key.name == name);
    of.flat_map(|(_, plan)| &plan.steps)
        .map(|step| format!("{} {} {}", step.side, step.step.action, step.step.what))
        .collect()
}

fn errors(report: &Report, kind: Kind, name: &str) -> Vec<String> {
    let of = report
        .objects
        .iter()
        .filter(|(key, _)| key.kind == kind && key.name == name);
    of.flat_map(|(_, plan)| plan.errors.clone()).collect()
}

#[test]
fn a_fresh_clusters_plan_is_whole_and_carried_out_it_leaves_nothing_to_do() {
    let mut world = World::with_nodes(3);
    world.live(async |harness, _| _ = harness.user.create_service("web", &[80]).await);
    let report = world.plan();
    assert_eq!(report.outcome(), Outcome::Changes, "{}", text(&report));
    let node = steps(&report, Kind::Node, "worker-2");
    for step in [
        "kubernetes create provider id",
        "kubernetes create label topology.kubernetes.io/zone",
        "kubernetes delete taint node.cloudprovider.kubernetes.io/uninitialized",
        "kubernetes update addresses",
        "kubernetes create condition NetworkUnavailable",
    ] {
        let found = node.iter().any(|node| {
            node == step || *node == step.replace("create condition", "update condition")
        });
        assert!(found, "{step} is missing in\n{}", text(&report));
    }
    assert_eq!(
        steps(&report, Kind::Route, "10.244.2.0/24"),
        ["cloud create route"]
    );
    let service = steps(&report, Kind::Service, "web");
    assert_eq!(
        service[0],
        "kubernetes create finalizer service.kubernetes.io/load-balancer-cleanup"
    );
    assert!(
        service
            .iter()
            .any(|step| step.starts_with("cloud create load balancer")),
        "{service:?}"
    );
    assert_eq!(
        service.last().map(String::as_str),
        Some("kubernetes create status.loadBalancer")
    );

    world.run_controllers();
    assert_eq!(
        (
            world.cloud.routes().len(),
            world.cloud.load_balancers().len()
        ),
        (3, 1)
    );
    assert_eq!(
        world.cloud.load_balancers()[0].spec.targets.len(),
        3,
        "as the plan saw the Nodes"
    );
    let report = world.plan();
    assert_eq!(report.outcome(), Outcome::Nothing, "{}", text(&report));
    assert_eq!(
        text(&report),
        "Nothing to do: 3 Nodes, 3 Routes, 1 Service.\n"
    );
}

#[test]
fn node_of_another_provider_is_listed_as_left_alone() {
    for is_new in [false, true] {
        let mut world = World::settled(2);
        let mut elsewhere = world
            .harness
            .api
            .get("nodes", None, "worker-1")
            .expect("a Node");
        elsewhere["metadata"]["name"] = json!("elsewhere");
        elsewhere["metadata"]["uid"] = json!("elsewhere");
        elsewhere["spec"] = json!({"providerID": "other://7"});
        if is_new {
            let taint = json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"});
            elsewhere["spec"]["taints"] = json!([taint]);
        }
        world.harness.api.seed(elsewhere).expect("a Node");
        let report = world.plan();
        assert_eq!(report.totals().errors, 0, "{}", text(&report));
        let note =
            "left alone: it belongs to another provider, as its provider ID \"other://7\" tells";
        assert!(text(&report).contains(note), "{}", text(&report));
    }
}

#[test]
fn what_others_changed_is_in_the_plan() {
    let mut world = World::settled(3);
    let balancer = world.cloud.load_balancers()[0].id.clone();
    world.cloud.remove_load_balancer(&balancer);
    world.cloud.add_route(NewRoute {
        destination: "10.244.9.0/24".into(),
        machine: world.cloud.machines()[0].id.clone(),
        labels: world.cloud.routes()[0].route.labels.clone(),
        ..NewRoute::default()
    });
    world.live(async |harness, _| {
        let label = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "elsewhere"}}});
        harness.user.patch_node("worker-1", &label).await;
        let addresses =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"$patch": "replace"}]}});
        harness.user.patch("/api/v1/nodes/worker-2/status", &addresses).await;
        let condition =
            json!({"status": {"conditions": [{"type": "NetworkUnavailable", "status": "True", "reason": "Other"}]}});
        harness.user.patch("/api/v1/nodes/worker-3/status", &condition).await;
    });
    let report = world.plan();
    assert_eq!(report.outcome(), Outcome::Changes);
    assert_eq!(
        steps(&report, Kind::Node, "worker-1"),
        ["kubernetes update label topology.kubernetes.io/zone"]
    );
    assert_eq!(
        steps(&report, Kind::Node, "worker-2"),
        ["kubernetes update addresses"]
    );
    assert_eq!(
        steps(&report, Kind::Node, "worker-3"),
        ["kubernetes update condition NetworkUnavailable"]
    );
    let routes = steps(&report, Kind::Route, "10.244.9.0/24");
    assert!(
        matches!(&routes[..], [one] if one.starts_with("cloud delete route")),
        "{routes:?}"
    );
    let service = steps(&report, Kind::Service, "web");
    assert!(
        service
            .iter()
            .any(|step| step.starts_with("cloud create load balancer")),
        "{service:?}"
    );
    assert!(
        service.contains(&"kubernetes update status.loadBalancer".to_owned()),
        "{service:?}"
    );
}

#[test]
fn a_deleted_service_is_torn_down_and_one_that_is_not_ours_is_left_alone() {
    let mut world = World::settled(1);
    world.live(async |harness, _| {
        harness.user.delete_service("web").await;
        harness.user.create_service("other", &[80]).await;
        harness.api.remove("services", Some("default"), "other");
        let foreign = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/other", "ports": [{"port": 80}]},
        });
        harness.user.create("/api/v1/namespaces/default/services", &foreign).await;
    });
    let report = world.plan();
    let service = steps(&report, Kind::Service, "web");
    assert!(
        service.iter().any(|step| step.starts_with("cloud delete ")),
        "{service:?}"
    );
    let kubernetes: Vec<_> = service
        .iter()
        .filter(|step| step.starts_with("kubernetes"))
        .collect();
    assert_eq!(
        kubernetes,
        [
            "kubernetes delete finalizer service.kubernetes.io/load-balancer-cleanup",
            "kubernetes delete status.loadBalancer"
        ]
    );
    assert_eq!(steps(&report, Kind::Service, "other"), [""; 0]);
    let report = world
        .plan_with(|settings| settings.options.service.classes = vec!["example.com/other".into()]);
    assert!(
        !steps(&report, Kind::Service, "other").is_empty(),
        "--load-balancer-classes"
    );
}

#[test]
fn load_balancer_of_a_service_that_no_longer_exists_is_a_note() {
    let mut world = World::settled(1);
    world.live(async |harness, _| {
        harness.user.create_service("shop", &[80]).await;
    });
    assert_eq!(world.plan().notes, [""; 0]);
    world.harness.api.remove("services", Some("default"), "web");
    let notes = world.plan().notes;
    assert!(
        notes.len() == 1 && notes[0].contains("carries the owner tags of a Service"),
        "{notes:?}"
    );
}

#[test]
fn a_node_whose_machine_is_gone_is_deleted_or_held_and_it_is_said_why() {
    let mut world = World::settled(4);
    world.cloud.terminate("worker-1");
    world.cloud.stop("worker-2");
    world.live(async |harness, _| {
        harness.user.set_ready("worker-1", false).await;
        harness.user.set_ready("worker-2", false).await;
    });
    let report = world.plan();
    assert_eq!(
        steps(&report, Kind::Node, "worker-1"),
        ["kubernetes delete the Node"],
        "{}",
        text(&report)
    );
    assert_eq!(
        steps(&report, Kind::Node, "worker-2"),
        ["kubernetes create taint node.cloudprovider.kubernetes.io/shutdown"]
    );
    let routes = steps(&report, Kind::Route, "10.244.1.0/24");
    assert!(
        matches!(&routes[..], [one] if one.starts_with("cloud delete route")),
        "its route goes too: {routes:?}"
    );

    for name in ["worker-3", "worker-4"] {
        world.cloud.terminate(name);
        world.live(async |harness, _| _ = harness.user.set_ready(name, false).await);
    }
    let report = world.plan();
    assert_eq!(steps(&report, Kind::Node, "worker-1"), [""; 0]);
    assert!(
        text(&report).contains("3 of 4 Nodes are without a machine"),
        "{}",
        text(&report)
    );
}

#[test]
fn an_outage_of_the_cloud_is_an_error_and_the_rest_is_printed() {
    let mut world = World::settled(2);
    world.live(async |harness, _| {
        let label = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "elsewhere"}}});
        harness.user.patch_node("worker-1", &label).await;
    });
    for route in [
        "GET /v1/machines",
        "GET /v1/machines/{id}",
        "GET /v1/routes",
        "GET /v1/load-balancers",
    ] {
        world.cloud.inject(Fault::status(500).on(route));
    }
    let report = world.plan();
    assert_eq!(report.outcome(), Outcome::Incomplete);
    assert_eq!(
        steps(&report, Kind::Node, "worker-1"),
        ["kubernetes update label topology.kubernetes.io/zone"]
    );
    for (kind, name) in [
        (Kind::Node, "worker-1"),
        (Kind::Node, "worker-2"),
        (Kind::Service, "web"),
    ] {
        assert_eq!(
            errors(&report, kind, name).len(),
            1,
            "{kind} {name}\n{}",
            text(&report)
        );
    }
    assert!(
        report.errors[0].starts_with("cannot list the cloud's routes"),
        "{:?}",
        report.errors
    );
    assert_eq!(json(&report)["summary"]["exitCode"], 1);
}

#[test]
fn an_empty_list_of_routes_that_the_controller_would_not_believe_is_an_error() {
    let mut world = World::settled(3);
    world.cloud.add_token(DEFAULT_TOKEN, "another-project");
    let report = world.plan();
    assert_eq!(report.outcome(), Outcome::Incomplete);
    assert!(
        report
            .errors
            .iter()
            .any(|error| error.contains("lists no routes for 3 nodes")),
        "{:?}",
        report.errors
    );
    assert_eq!(steps(&report, Kind::Route, "10.244.1.0/24"), [""; 0]);
    assert_eq!(steps(&report, Kind::Node, "worker-1"), [""; 0]);
    let report = world.plan_with(|settings| settings.options.route.mode = RouteMode::Periodic);
    assert_eq!(
        steps(&report, Kind::Route, "10.244.1.0/24"),
        ["cloud create route"],
        "as the reference would"
    );
}

#[test]
fn with_the_lifecycle_controller_alone_only_its_own_questions_fail() {
    let mut world = World::settled(3);
    world.live(async |harness, _| {
        harness.user.set_ready("worker-2", false).await;
        harness.user.set_ready("worker-3", false).await;
    });
    let mut elsewhere = world
        .harness
        .api
        .get("nodes", None, "worker-3")
        .expect("a Node");
    elsewhere["spec"]["providerID"] = json!("other://7");
    world.harness.api.seed(elsewhere).expect("a Node");
    for route in ["GET /v1/machines", "GET /v1/machines/{id}"] {
        world.cloud.inject(Fault::status(500).on(route));
    }
    let selected = Selection::parse([NODE_LIFECYCLE_CONTROLLER.alias]).expect("a name");
    let report = world.plan_with(|settings| settings.controllers = selected);
    let count = |name| errors(&report, Kind::Node, name).len();
    assert_eq!(
        [count("worker-1"), count("worker-2"), count("worker-3")],
        [0, 1, 0],
        "{}",
        text(&report)
    );
}

/// A cloud whose volumes cannot be read.
struct Volumeless;

#[async_trait]
impl Volumes for Volumeless {
    async fn labels(&self, _: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>> {
        Err(cloud_provider::Error::not_implemented())
    }
}

impl CloudProvider for Volumeless {
    fn name(&self) -> &'static str {
        "volumeless"
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }
}

#[test]
fn a_provider_that_does_not_offer_the_labels_of_volumes_has_none() {
    let mut world = World::with_nodes(0);
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}},
    });
    world.harness.api.seed(volume).expect("a volume");
    let selected = Selection::parse([VOLUME_LABEL_CONTROLLER.alias]).expect("a name");
    let report = world.plan_of(&Volumeless, |settings| settings.controllers = selected);
    assert_eq!(
        (report.looked_at[&Kind::PersistentVolume], report.outcome()),
        (1, Outcome::Nothing),
        "{}",
        text(&report)
    );
}

/// A cloud whose routes cannot be listed, by a defect of the provider.
struct Defective {
    hangs: bool,
}

#[async_trait]
impl Routes for Defective {
    async fn list(&self, _: &Cluster) -> Result<Vec<Route>> {
        match self.hangs {
            true => std::future::pending().await,
            false => panic!("a defect of the provider"),
        }
    }
    async fn create(&self, _: &Cluster, _: &str, _: &Route) -> Result<()> {
        unreachable!("a plan creates nothing")
    }
    async fn delete(&self, _: &Cluster, _: &Route) -> Result<()> {
        unreachable!("a plan deletes nothing")
    }
}

impl CloudProvider for Defective {
    fn name(&self) -> &'static str {
        "defective"
    }
    fn routes(&self) -> Option<&dyn Routes> {
        Some(self)
    }
}

#[test]
fn a_list_of_routes_that_panics_or_hangs_costs_the_routes_and_not_the_plan() {
    let mut world = World::with_nodes(1);
    for (hangs, expected) in [(false, "panicked"), (true, "gave no answer within 120 s")] {
        let report = world.plan_of(&Defective { hangs }, |_| {});
        assert_eq!(
            report.errors,
            [format!(
                "cannot list the cloud's routes: cloud provider defective {expected}"
            )]
        );
    }
}

#[test]
fn one_object_of_which_nothing_is_known_does_not_hide_the_others() {
    let mut world = World::with_nodes(2);
    world.live(async |harness, _| {
        let bad = json!({"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "192.0.2.99"}}});
        harness.user.patch_node("worker-1", &bad).await;
    });
    let report = world.plan();
    assert_eq!(report.outcome(), Outcome::Incomplete);
    let errors = errors(&report, Kind::Node, "worker-1");
    assert!(errors[0].contains("192.0.2.99"), "{errors:?}");
    assert!(
        steps(&report, Kind::Node, "worker-2")
            .contains(&"kubernetes create provider id".to_owned())
    );
}

#[test]
fn the_cost_grows_with_pages() {
    let mut world = World::with_nodes(0);
    world.cloud.create_machines("node-", 1200);
    for machine in world.cloud.machines() {
        world
            .harness
            .api
            .seed(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.name},
                "spec": {"providerID": format!("simulated://{}", machine.id)},
            }))
            .expect("a Node");
    }
    world.live(async |harness, _| {
        for number in 0..300 {
            harness
                .user
                .create_service(&format!("web-{number}"), &[80])
                .await;
        }
    });
    world.cloud.reset_requests();
    let before = world.harness.injector.passed().len();
    let report = world.plan();
    assert_eq!(report.looked_at[&Kind::Node], 1200);
    let requests = world.cloud.requests();
    let pages: u64 = requests
        .iter()
        .filter(|(route, _)| route.starts_with("GET /v1/machines"))
        .map(|(_, n)| n)
        .sum();
    assert_eq!(
        pages,
        1200_u64.div_ceil(u64::try_from(provider_simulated::cloud::PAGE_SIZE).expect("small")),
        "{requests:?}"
    );
    let sent = &world.harness.injector.passed()[before..];
    let nodes = sent
        .iter()
        .filter(|request| request.target.starts_with("/api/v1/nodes"))
        .count();
    assert_eq!(nodes, 3, "pages of 500: {sent:?}");
    let services = sent
        .iter()
        .filter(|request| request.target.starts_with("/api/v1/services"))
        .count();
    assert_eq!(services, 1);
    let balancers: u64 = requests
        .iter()
        .filter(|(route, _)| route.starts_with("GET /v1/load-b"))
        .map(|(_, n)| n)
        .sum();
    assert!(balancers <= 2, "one list for all Services: {requests:?}");
    assert!(sent.len() < 40, "{sent:?}");
}

#[test]
fn volumes_are_looked_at_only_when_their_controller_is_selected() {
    let mut world = World::with_nodes(1);
    let volume = json!({"id": "v-1", "zones": ["z1"], "region": "r1"});
    world
        .cloud
        .add_volume(serde_json::from_value(volume).expect("a volume"));
    world
        .harness
        .api
        .seed(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "simulated.csi", "volumeHandle": "v-1"}},
        }))
        .expect("a volume");
    let report = world.plan();
    assert!(!report.looked_at.contains_key(&Kind::PersistentVolume));
    let selected = Selection::parse([VOLUME_LABEL_CONTROLLER.alias]).expect("a name");
    let report = world.plan_with(|settings| settings.controllers = selected);
    assert_eq!(
        steps(&report, Kind::PersistentVolume, "data"),
        [
            "kubernetes create label topology.kubernetes.io/region",
            "kubernetes create label topology.kubernetes.io/zone",
            "kubernetes create node affinity"
        ]
    );
    assert_eq!(
        report.looked_at.keys().copied().collect::<Vec<_>>(),
        [Kind::Node, Kind::PersistentVolume]
    );
    assert_eq!(
        steps(&report, Kind::Node, "worker-1"),
        [""; 0],
        "the node controller is not selected"
    );
}

/// A cloud without previews. Every change would be a defect of `plan`.
struct Planless;

#[async_trait]
impl LoadBalancers for Planless {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        match request.service.metadata.name.as_deref() {
            Some("broken") => panic!("a defect of the provider"),
            Some("there") => Ok(Some(LoadBalancerStatus::default())),
            _ => Ok(None),
        }
    }
    async fn ensure(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        unreachable!("a plan ensures nothing")
    }
    async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
        unreachable!("a plan updates nothing")
    }
    async fn delete(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
        unreachable!("a plan deletes nothing")
    }
    fn orphans(&self, _: &Cluster, _: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        Some(vec!["load balancer \"left\" (7)".to_owned()])
    }
}

impl CloudProvider for Planless {
    fn name(&self) -> &'static str {
        "planless"
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }
}

#[test]
fn a_provider_without_plans_is_said_to_be_one_and_a_defect_of_it_costs_one_answer() {
    let mut world = World::with_nodes(1);
    world.live(async |harness, _| {
        for name in ["new", "there", "broken"] {
            harness.user.create_service(name, &[80]).await;
        }
    });
    let report = world.plan_of(&Planless, |_| {});
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("does not support plans")),
        "{:?}",
        report.notes
    );
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("does not support instances")),
        "{:?}",
        report.notes
    );
    assert!(
        steps(&report, Kind::Service, "new")
            .iter()
            .any(|step| step.starts_with("cloud create load balancer"))
    );
    assert!(
        !steps(&report, Kind::Service, "there")
            .iter()
            .any(|step| step.starts_with("cloud"))
    );
    assert_eq!(
        errors(&report, Kind::Service, "broken"),
        ["cloud provider planless panicked"]
    );
    assert_eq!(report.outcome(), Outcome::Incomplete);
}

#[test]
fn programs_get_every_object_with_its_steps() {
    let mut world = World::with_nodes(1);
    let report = world.plan();
    let value = json(&report);
    assert_eq!(
        (&value["version"], &value["provider"]),
        (&json!(1), &json!("simulated"))
    );
    let keys = |value: &Value| {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(&value),
        [
            "cluster", "errors", "notes", "objects", "provider", "summary", "version"
        ]
    );
    for object in value["objects"].as_array().expect("a list") {
        assert_eq!(
            keys(object),
            ["errors", "kind", "name", "namespace", "notes", "steps"]
        );
        for step in object["steps"].as_array().expect("a list") {
            assert_eq!(keys(step), ["action", "detail", "side", "what"]);
        }
    }
    assert_eq!(value["summary"]["exitCode"], 2);
    assert_eq!(
        value["summary"]["lookedAt"],
        json!({"Node": 1, "Route": 0, "Service": 0})
    );
}

#[test]
fn services_that_may_not_be_listed_are_an_error_and_nodes_are_planned() {
    let mut world = World::with_nodes(1);
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    world
        .harness
        .api
        .faults()
        .add(Matcher::any().verb("list").resource("services"), forbidden);
    let report = world.plan();
    assert_eq!(report.outcome(), Outcome::Incomplete);
    assert!(
        report.errors[0].starts_with("cannot list services: "),
        "{:?}",
        report.errors
    );
    assert!(!steps(&report, Kind::Node, "worker-1").is_empty());
    let notes = world.plan_of(&Planless, |_| {}).notes;
    assert!(
        notes.iter().all(|note| !note.contains("owner tags")),
        "nobody knows whose they are: {notes:?}"
    );
}
