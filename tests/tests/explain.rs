//! `cloud-controller-manager explain`: the controllers run, get into each kind of trouble, and `explain` names it; it changes nothing.

use std::time::Duration;

use ccm_conformance::Harness;
use ccm_conformance::virtual_time::VirtualTime;
use ccm_tests::profiles::SimulatedCloud;
use cloud_provider::Ownership;
use controllers::Options;
use controllers::options::NodeDeletion;
use embedded_apiserver::{Action, Matcher};
use manager::explain::{Explanation, State, Subject, json, text};
use manager::plan::Outcome;
use provider_simulated::cloud::{Cloud, Fault, LoadBalancerSpec, NewMachine, NewRoute};
use serde_json::json;

/// A cluster with a cloud, and one virtual time.
struct World {
    harness: Harness,
    cloud: Cloud,
    time: VirtualTime,
}

impl World {
    /// Machines `worker-1` and so on, and a Node for each.
    fn with_nodes(count: u8) -> Self {
        Self::with_options(count, |_| {})
    }

    fn with_options(count: u8, change: impl FnOnce(&mut Options)) -> Self {
        let cloud = Cloud::default();
        let mut options = Options::default();
        change(&mut options);
        let harness = Harness::of(&SimulatedCloud(cloud.clone()))
            .options(options)
            .routes()
            .build();
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
            world.register(number);
        }
        world
    }

    fn register(&mut self, number: u8) {
        self.live(async |harness, _| {
            harness
                .user
                .register_node(
                    &format!("worker-{number}"),
                    &[format!("10.244.{number}.0/24")],
                )
                .await;
        });
    }

    /// Creates a settled cluster with a Service `web`.
    fn settled(nodes: u8) -> Self {
        let mut world = Self::with_nodes(nodes);
        world.service("web");
        world.run(60);
        world
    }

    fn service(&mut self, name: &str) {
        self.live(async |harness, _| _ = harness.user.create_service(name, &[80, 443]).await);
    }

    fn live<T>(&mut self, life: impl AsyncFnOnce(&Harness, &Cloud) -> T) -> T {
        self.time
            .live(async || life(&self.harness, &self.cloud).await)
    }

    /// Runs the controllers for this many seconds of virtual time.
    fn run(&mut self, seconds: u64) {
        self.run_while(seconds, async |_, _| {});
    }

    /// Runs the controllers for ten seconds, then calls `happens`, then runs them for `seconds`.
    fn run_while(&mut self, seconds: u64, happens: impl AsyncFnOnce(&Harness, &Cloud)) {
        self.live(async |harness, cloud| {
            let program = harness.start().await.expect("a start");
            tokio::time::sleep(Duration::from_secs(10)).await;
            happens(harness, cloud).await;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            program.stop().await;
        });
    }

    fn set_ready(&mut self, name: &str, is_ready: bool) {
        self.live(async |harness, _| _ = harness.user.set_ready(name, is_ready).await);
    }

    /// Sets the provider ID of a Node, as if the Node had been registered with it.
    fn identify(&self, name: &str, provider_id: &str) {
        let mut node = self.harness.api.get("nodes", None, name).expect("a Node");
        node["spec"]["providerID"] = json!(provider_id);
        self.harness.api.seed(node).expect("a Node");
    }

    fn of_service(&mut self, name: &str) -> Explanation {
        self.explain(&Subject::Service {
            namespace: "default".into(),
            name: name.into(),
        })
    }

    fn of_node(&mut self, name: &str) -> Explanation {
        self.explain(&Subject::Node(name.into()))
    }

    /// Explains an object, and checks that this changed nothing.
    fn explain(&mut self, subject: &Subject) -> Explanation {
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
        let explanation = self.live(async |harness, _| harness.explain(subject).await);
        let sent = &self.harness.injector.passed()[passed..];
        let mutations: Vec<_> = sent
            .iter()
            .filter(|request| request.is_mutation())
            .collect();
        assert!(
            mutations.is_empty(),
            "an explanation asked for changes: {mutations:?}"
        );
        assert!(state(self) == before, "an explanation changed something");
        assert!(sent.len() < 25, "one screen costs few requests: {sent:?}");
        explanation
    }
}

/// Returns the states that an explanation names, and proves that the output shows them.
fn states(explanation: &Explanation) -> Vec<State> {
    let text = text(explanation);
    let json = json(explanation);
    for cause in &explanation.causes {
        assert!(text.contains(cause.state.name()), "{text}");
        assert!(
            json["causes"]
                .as_array()
                .expect("a list")
                .iter()
                .any(|other_cause| other_cause["state"] == cause.state.name())
        );
    }
    explanation.causes.iter().map(|cause| cause.state).collect()
}

#[track_caller]
fn names(explanation: &Explanation, state: State, part: &str) {
    assert!(
        states(explanation).contains(&state),
        "{state:?} is not named in\n{}",
        text(explanation)
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&text(explanation)).contains(part),
        "{part:?} is missing in\n{}",
        text(explanation)
    );
}

#[test]
fn nothing_waits_where_all_is_well_and_targets_tell_their_health() {
    let mut world = World::settled(2);
    let service = world.of_service("web");
    assert_eq!(
        (states(&service), service.outcome()),
        (vec![], Outcome::Nothing),
        "{}",
        text(&service)
    );
    let balancer = &service.balancers[0];
    let shown = &world.cloud.load_balancers()[0];
    assert_eq!(
        (&balancer.id, &balancer.ownership),
        (&shown.id, &Ownership::Own)
    );
    assert_eq!(balancer.listeners, ["80/TCP", "443/TCP"]);
    assert!(
        balancer
            .owner_tags
            .iter()
            .any(|(key, _)| key == "ccm-rs/cluster"),
        "{balancer:?}"
    );
    let health: Vec<_> = balancer
        .targets
        .iter()
        .map(|target| {
            (
                target.node.clone(),
                target.health.clone().expect("told").is_healthy,
            )
        })
        .collect();
    assert_eq!(
        health,
        [
            (Some("worker-1".to_owned()), true),
            (Some("worker-2".to_owned()), true)
        ]
    );
    let node = world.of_node("worker-1");
    assert_eq!(
        (states(&node), node.outcome()),
        (vec![], Outcome::Nothing),
        "{}",
        text(&node)
    );
    assert!(
        text(&node).contains("there is one, running"),
        "{}",
        text(&node)
    );
    assert!(
        text(&node).contains("Routes:             10.244.1.0/24"),
        "{}",
        text(&node)
    );

    world.cloud.stop("worker-2");
    let service = world.of_service("web");
    names(
        &service,
        State::TargetsUnhealthy,
        "1 of 2 targets: [worker-2]",
    );
    assert!(
        text(&service).contains("unhealthy: connection timed out"),
        "{}",
        text(&service)
    );
    assert_eq!(
        service.outcome(),
        Outcome::Nothing,
        "the manager has nothing to do about it"
    );
}

#[test]
fn a_service_that_waits_is_explained_in_the_words_of_the_cloud() {
    let mut world = World::with_nodes(1);
    let options = provider_simulated::cloud::Options {
        load_balancer_quota: Some(0),
        ..world.cloud.options()
    };
    world.cloud.set_options(options);
    world.service("web");
    world.run(60);
    let explanation = world.of_service("web");
    names(
        &explanation,
        State::QuotaExceeded,
        "Delete unused resources or have the quota raised in the cloud",
    );
    let shown = explanation
        .causes
        .iter()
        .find(|cause| cause.state == State::QuotaExceeded)
        .expect("named");
    assert!(
        shown.since.is_some() && shown.detail.contains("has 0 load balancers, its limit"),
        "{shown:?}"
    );
    assert!(
        explanation
            .last_errors
            .iter()
            .any(|error| error.text.contains("its limit")),
        "{:?}",
        explanation.last_errors
    );
    assert!(
        explanation
            .plan
            .steps
            .iter()
            .any(|step| step.step.what.starts_with("load balancer")),
        "{:?}",
        explanation.plan
    );
    assert_eq!(explanation.outcome(), Outcome::Changes);
}

#[test]
fn a_service_that_asks_for_the_impossible_is_told_which_annotation() {
    let mut world = World::with_nodes(1);
    world.service("web");
    let bad = json!({"metadata": {"annotations": {"simulated.ccm-rs/tier": "gold"}}});
    world.live(async |harness, _| _ = harness.user.patch_service("web", &bad).await);
    world.run(30);
    let explanation = world.of_service("web");
    names(&explanation, State::Invalid, "simulated.ccm-rs/tier");
    assert_eq!(
        explanation.outcome(),
        Outcome::Incomplete,
        "the plan cannot be made either"
    );
}

#[test]
fn a_cloud_that_fails_is_named_and_the_rest_is_explained() {
    let mut world = World::settled(1);
    world
        .cloud
        .inject(Fault::status(503).on("PUT /v1/load-balancers/{id}"));
    world.run_while(60, async |harness, _| {
        _ = harness.user.set_ports("web", &[80, 443, 8080]).await;
    });
    let entry = world.of_service("web");
    names(
        &entry,
        State::EnsureFailed,
        "the time of the next retry, which only the leading manager knows",
    );
    assert!(
        entry
            .plan
            .steps
            .iter()
            .any(|step| step.step.what.contains("8080")),
        "{:?}",
        entry.plan
    );

    for route in [
        "GET /v1/machines",
        "GET /v1/machines/{id}",
        "GET /v1/load-balancers",
        "GET /v1/routes",
    ] {
        world.cloud.inject(Fault::status(500).on(route));
    }
    let object = world.of_service("web");
    names(&object, State::CloudUnreachable, "Addresses:");
    assert_eq!(object.outcome(), Outcome::Incomplete);
    let explanation = world.of_node("worker-1");
    names(
        &explanation,
        State::CloudUnreachable,
        "cannot list the cloud's routes",
    );
    names(&explanation, State::RoutesUnknown, "Provider ID:");
}

#[test]
fn a_service_without_nodes_says_which_are_excluded() {
    let mut world = World::with_nodes(1);
    let exclude = json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}}});
    world.live(async |harness, _| _ = harness.user.patch_node("worker-1", &exclude).await);
    world.service("web");
    world.run(60);
    let explanation = world.of_service("web");
    names(
        &explanation,
        State::NoNodes,
        "the only Node, worker-1, is excluded: a label excludes it",
    );
    names(
        &world.of_node("worker-1"),
        State::ExcludedFromLoadBalancers,
        "keeps the Node out of load balancers",
    );
}

#[test]
fn a_service_of_another_class_and_one_of_another_type_are_told_apart() {
    let mut world = World::with_nodes(1);
    world.live(async |harness, _| {
        for (name, kind) in [("other", "LoadBalancer"), ("plain", "ClusterIP")] {
            let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"type": kind, "ports": [{"port": 80}]}});
            if name == "other" {
                object["spec"]["loadBalancerClass"] = json!("example.com/other");
            }
            harness.user.create("/api/v1/namespaces/default/services", &object).await;
        }
    });
    world.run(30);
    let entry = world.of_service("other");
    names(&entry, State::OtherClass, "example.com/other");
    assert!(
        entry.claims[0].contains("example.com/other"),
        "{:?}",
        entry.claims
    );
    let explanation = world.of_service("plain");
    names(
        &explanation,
        State::NotALoadBalancer,
        "spec.type is ClusterIP",
    );
    assert_eq!(explanation.outcome(), Outcome::Nothing);
}

#[test]
fn a_load_balancer_of_another_cluster_stands_in_the_way() {
    let mut world = World::with_nodes(1);
    world.service("web");
    let service = world
        .harness
        .api
        .get("services", Some("default"), "web")
        .expect("a Service");
    let uid = service["metadata"]["uid"]
        .as_str()
        .expect("a UID")
        .replace('-', "");
    let labels = [("ccm-rs/cluster", "another"), ("ccm-rs/service", "theirs")];
    let spec = LoadBalancerSpec {
        name: format!("a{uid}").chars().take(32).collect(),
        labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        ..LoadBalancerSpec::default()
    };
    world.cloud.add_load_balancer(spec);
    world.run(60);
    let explanation = world.of_service("web");
    names(
        &explanation,
        State::ForeignOwner,
        "carries the owner tags of another cluster, \"another\"",
    );
    names(&explanation, State::Invalid, "another owner's");
    assert_eq!(explanation.claims.len(), 1, "{:?}", explanation.claims);
}

#[test]
fn a_deletion_that_waits_says_who_has_to_act() {
    let mut world = World::settled(1);
    let id = world.cloud.load_balancers()[0].id.clone();
    world.cloud.protect_load_balancer(&id, true);
    world.run_while(60, async |harness, _| {
        _ = harness.user.delete_service("web").await;
    });
    let explanation = world.of_service("web");
    names(
        &explanation,
        State::DeletionBlocked,
        "ccm-rs/abandon-load-balancer=true",
    );
    names(
        &explanation,
        State::FinalizerHeld,
        "service.kubernetes.io/load-balancer-cleanup",
    );
    assert!(
        explanation
            .plan
            .steps
            .iter()
            .any(|step| step.step.what.contains("finalizer")),
        "{:?}",
        explanation.plan
    );
}

#[test]
fn a_service_that_the_api_forgot_is_explained_from_its_events() {
    let mut world = World::settled(1);
    world.run_while(20, async |harness, _| harness.api.lose_storage("services"));
    let explanation = world.of_service("web");
    names(
        &explanation,
        State::ServiceVanished,
        "There is no Service default/web in the API.",
    );
    assert_eq!(explanation.outcome(), Outcome::Incomplete);
}

#[test]
fn a_node_that_waits_for_its_initialisation_says_why() {
    let mut world = World::with_nodes(1);
    let entry = world.of_node("worker-1");
    names(
        &entry,
        State::Uninitialized,
        "taint node.cloudprovider.kubernetes.io/uninitialized",
    );
    names(
        &entry,
        State::RouteWaits,
        "kubernetes create provider id: simulated://",
    );

    world.register(7);
    world.run(60);
    let object = world.of_node("worker-7");
    names(
        &object,
        State::NoSuchMachine,
        "the cloud has no instance named \"worker-7\"",
    );
    names(
        &object,
        State::InitializationFailed,
        "set the kubelet's --provider-id",
    );

    for _ in 0..2 {
        world.cloud.add_machine(NewMachine {
            name: "twin".into(),
            ..NewMachine::default()
        });
    }
    world.live(async |harness, _| {
        harness
            .user
            .register_node("twin", &["10.244.9.0/24".into()])
            .await;
    });
    world.run(60);
    let explanation = world.of_node("twin");
    names(
        &explanation,
        State::AmbiguousIdentity,
        "several machines are named \"twin\"",
    );
    assert_eq!(explanation.outcome(), Outcome::Incomplete);
}

#[test]
fn a_machine_that_was_replaced_under_its_name_is_a_mismatch() {
    let mut world = World::settled(3);
    world.cloud.terminate("worker-1");
    let new = world.cloud.add_machine(NewMachine {
        name: "worker-1".into(),
        ..NewMachine::default()
    });
    let explanation = world.of_node("worker-1");
    names(
        &explanation,
        State::ProviderIdMismatch,
        &format!("has provider ID simulated://{}", new.id),
    );
}

#[test]
fn a_node_that_is_kept_says_what_holds_its_deletion() {
    let mut world = World::settled(4);
    for name in ["worker-1", "worker-2", "worker-3"] {
        world.cloud.terminate(name);
        world.set_ready(name, false);
    }
    world.run(30);
    let it = world.of_node("worker-1");
    names(
        &it,
        State::DeletionHeld,
        "3 of 4 Nodes are without a machine",
    );
    let held = it
        .causes
        .iter()
        .find(|cause| cause.state == State::DeletionHeld)
        .expect("named");
    assert!(held.since.is_some(), "the event tells since when");
    assert!(
        it.unknown
            .iter()
            .any(|text| text.contains("the end of the hold")),
        "{:?}",
        it.unknown
    );

    let mut world = World::with_options(3, |options| {
        options.lifecycle.deletion = NodeDeletion::DryRun;
    });
    world.run(30);
    world.cloud.terminate("worker-1");
    world.set_ready("worker-1", false);
    names(
        &world.of_node("worker-1"),
        State::DeletionHeld,
        "--node-deletion=dry-run",
    );

    let mut world = World::settled(3);
    world.cloud.terminate("worker-1");
    let object = world.of_node("worker-1");
    names(
        &object,
        State::MachineMissing,
        "the kubelet reports the Node as ready",
    );
    world.set_ready("worker-1", false);
    let explanation = world.of_node("worker-1");
    names(
        &explanation,
        State::DeletionAhead,
        "kubernetes delete the Node",
    );
}

#[test]
fn a_node_that_is_shut_down_or_not_ready_says_so_with_the_time() {
    let mut world = World::settled(3);
    world.cloud.stop("worker-1");
    for name in ["worker-1", "worker-2"] {
        world.set_ready(name, false);
    }
    world.run(30);
    let explanation = world.of_node("worker-1");
    names(
        &explanation,
        State::ShutDown,
        "node.cloudprovider.kubernetes.io/shutdown:NoSchedule",
    );
    assert!(
        explanation.causes[0].since.is_some(),
        "{:?}",
        explanation.causes
    );
    names(
        &world.of_node("worker-2"),
        State::NotReady,
        "there is one, running",
    );
}

#[test]
fn a_node_of_another_cloud_is_left_alone() {
    let mut world = World::settled(2);
    world.identify("worker-1", "other://7");
    let explanation = world.of_node("worker-1");
    names(
        &explanation,
        State::OtherProvider,
        "cloud provider \"other\"",
    );
    assert_eq!(explanation.outcome(), Outcome::Nothing);
}

#[test]
fn nodes_that_all_have_the_provider_id_of_another_cloud_are_no_targets() {
    let mut world = World::settled(2);
    world.identify("worker-1", "k3s://worker-1");
    world.identify("worker-2", "k3s://worker-2");
    let explanation = world.of_node("worker-1");
    names(
        &explanation,
        State::AllNodesForeign,
        "--disable-cloud-controller",
    );
    assert_eq!(explanation.outcome(), Outcome::Changes, "a person must act");
    names(
        &world.of_service("web"),
        State::NoNodes,
        "2 of 2 Nodes have the provider ID of another cloud",
    );
}

#[test]
fn nodes_without_provider_id_and_taint_are_told_the_flags() {
    let mut world = World::settled(2);
    world.identify("worker-1", "");
    names(
        &world.of_node("worker-1"),
        State::NoProviderId,
        "--adopt-nodes",
    );
    assert!(
        !states(&world.of_service("web")).contains(&State::NoNodes),
        "one target is left"
    );
    world.identify("worker-2", "");
    names(
        &world.of_service("web"),
        State::NoNodes,
        "--cloud-provider=external",
    );
}

#[test]
fn load_balancer_that_somebody_deleted_is_missed() {
    let mut world = World::settled(2);
    let balancer = world.cloud.load_balancers()[0].id.clone();
    assert!(world.cloud.remove_load_balancer(&balancer));
    let explanation = world.of_service("web");
    names(
        &explanation,
        State::LoadBalancerMissing,
        "does not exist in the cloud",
    );
    assert_eq!(explanation.outcome(), Outcome::Changes);
}

#[test]
fn a_route_that_cannot_be_created_is_named_on_its_node() {
    let mut world = World::with_nodes(1);
    world.cloud.inject(Fault::status(422).on("POST /v1/routes"));
    world.run(60);
    let explanation = world.of_node("worker-1");
    names(&explanation, State::RouteMissing, "NoRouteCreated");
    names(&explanation, State::RouteFailed, "Could not create route");
    assert!(
        explanation
            .plan
            .steps
            .iter()
            .any(|step| step.step.what.contains("route")),
        "{:?}",
        explanation.plan
    );
}

#[test]
fn a_route_that_leads_to_another_machine_is_a_claim() {
    let mut world = World::with_nodes(2);
    let machine = world.cloud.machine("worker-2").expect("a machine").id;
    world.cloud.add_route(NewRoute {
        destination: "10.244.1.0/24".into(),
        machine,
        ..NewRoute::default()
    });
    world.run(30);
    let explanation = world.of_node("worker-1");
    assert!(
        text(&explanation).contains("10.244.1.0/24"),
        "{}",
        text(&explanation)
    );
}

#[test]
fn without_events_the_rest_is_explained_and_the_gap_is_named() {
    let mut world = World::settled(1);
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
        .add(Matcher::any().verb("list").resource("events"), forbidden);
    let explanation = world.of_service("web");
    assert!(
        explanation.errors[0].contains("the identity needs the verb \"list\""),
        "{:?}",
        explanation.errors
    );
    assert_eq!(
        (explanation.balancers.len(), explanation.outcome()),
        (1, Outcome::Incomplete)
    );
}
