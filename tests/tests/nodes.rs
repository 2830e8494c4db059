//! The node controllers over a whole world: what a Node costs, and what becomes of it when things go wrong.
//!
//! Rules: NODE-5, NODE-8, NODE-24, NODE-53, NODE-70, NODE-76, P-4, P-6, P-8, P-9, D-229.

use std::time::Duration;

use ccm_tests::in_process::{World, start_up_taint};
use controllers::Options;
use controllers::options::NodeOptions;
use embedded_apiserver::{Action, Matcher};
use provider_simulated::cloud::{DEFAULT_TOKEN, Fault, MachineChange, NewMachine};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("worker-{n}")).collect()
}

/// Returns a harness in which this many Nodes have just been registered by their kubelets.
fn registered(count: usize) -> World {
    let world = World::with_machines(count);
    for name in names(count) {
        world.put_node(&name, "", false, &[start_up_taint()]);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_nodes_costs_pages_and_two_writes_each() {
    let world = registered(120);
    assert_eq!(world.sync(&names(120)).await, []);
    assert_eq!(
        world.cloud_reads(),
        3,
        "120 machines are 3 pages: {:?}",
        world.cloud.requests()
    );
    let requests = world.api.requests();
    assert_eq!(
        (
            requests.count("patch", "nodes"),
            requests.count("patch", "nodes/status")
        ),
        (120, 120)
    );
    assert_eq!(world.writes(), 240);
    assert_eq!(world.events_of("Synced").len(), 120);

    let node = world.node("worker-4").expect("it was registered");
    assert_eq!(node["spec"]["providerID"], "simulated://m-000004");
    assert_eq!(node["spec"].get("taints"), None, "{node}");
    let zone = world.cloud.machine("worker-4").expect("it runs").zone;
    assert_eq!(
        node["metadata"]["labels"]["topology.kubernetes.io/zone"],
        zone
    );
    assert_eq!(
        node["metadata"]["labels"]["failure-domain.beta.kubernetes.io/region"],
        "sim-1"
    );
    let kinds: Vec<_> = node["status"]["addresses"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|a| &a["type"])
        .collect();
    assert_eq!(kinds, ["InternalIP", "ExternalIP", "Hostname"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_registered_without_the_taint_is_adopted_if_that_is_asked_for() {
    for adopt in [false, true] {
        let product = Options::default();
        let world = World::with_options(
            2,
            &Options {
                node: NodeOptions {
                    adopt,
                    ..product.node
                },
                ..product
            },
        );
        world.put_node("worker-1", "", true, &[]);
        world.put_node("worker-2", "onprem://7", true, &[]);
        assert_eq!(world.sync(&names(2)).await, []);
        let node = world.node("worker-1").expect("it was registered");
        let id = node["spec"]["providerID"].as_str();
        assert_eq!(id, adopt.then_some("simulated://m-000001"), "{node}");
        assert_eq!(
            node["metadata"]["labels"]
                .get("topology.kubernetes.io/zone")
                .is_some(),
            adopt
        );
        let writes = world.writes();
        assert_eq!(
            (writes > 0, world.events_of("Synced").len()),
            (adopt, usize::from(adopt))
        );
        assert_eq!(world.sync(&names(2)).await, []);
        assert_eq!(world.writes(), writes, "nothing is left to do");
    }
}

#[tokio::test(start_paused = true)]
async fn node_without_provider_id_and_taint_is_told_the_flags_once() {
    let adopting = Options {
        node: NodeOptions {
            adopt: true,
            ..NodeOptions::default()
        },
        ..Options::default()
    };
    for (options, events) in [
        (Options::default(), 1),
        (adopting, 0),
        (Options::reference(), 0),
    ] {
        let world = World::with_options(2, &options);
        world.put_node("worker-1", "", true, &[]);
        world.put_node("worker-2", "simulated://m-000002", true, &[]);
        for _ in 0..3 {
            assert_eq!(world.sync(&names(2)).await, []);
        }
        let told = world.events_of("NoProviderID");
        assert_eq!(told.len(), events, "{told:?}");
        let flags = ["worker-1", "--cloud-provider=external", "--adopt-nodes"];
        assert!(
            told.iter()
                .all(|text| flags.iter().all(|flag| text.contains(flag))),
            "{told:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn node_of_another_provider_is_not_looked_up() {
    let world = World::with_machines(1);
    world.put_node("worker-1", "onprem://7", true, &[start_up_taint()]);
    assert_eq!(world.sync(&names(1)).await, []);
    world
        .node_controller
        .refresh_addresses(&CancellationToken::new())
        .await;
    assert_eq!(
        (world.cloud_reads(), world.writes(), world.events()),
        (0, 0, vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_becomes_another_type_changes_the_nodes_labels_if_that_is_asked_for() {
    const TYPE: &str = "node.kubernetes.io/instance-type";
    for refresh_labels in [false, true] {
        let product = Options::default();
        let world = World::with_options(
            1,
            &Options {
                node: NodeOptions {
                    refresh_labels,
                    ..product.node
                },
                ..product
            },
        );
        world.put_node("worker-1", "", false, &[start_up_taint()]);
        world.sync(&names(1)).await;
        world.refresh();
        tokio::time::advance(Duration::from_secs(600)).await;
        world
            .node_controller
            .refresh_addresses(&CancellationToken::new())
            .await;
        let writes = world.writes();
        let of = |key: &str| world.node("worker-1").unwrap()["metadata"]["labels"][key].clone();
        let change = MachineChange {
            machine_type: Some("huge".into()),
            ..MachineChange::default()
        };
        world.cloud.change_machine("worker-1", change);
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(600)).await;
            world
                .node_controller
                .refresh_addresses(&CancellationToken::new())
                .await;
            world.refresh();
        }
        assert_eq!(of(TYPE) == "huge", refresh_labels);
        assert_eq!(of("beta.kubernetes.io/instance-type"), of(TYPE));
        assert_eq!(world.writes() - writes, usize::from(refresh_labels), "once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_machine_is_told_the_closest_name_once() {
    let world = World::with_machines(3);
    world.put_node("wroker-2", "", false, &[start_up_taint()]);
    for _ in 0..5 {
        let errors = world.sync(&["wroker-2".into()]).await;
        assert!(
            errors[0].1.starts_with(
                "failed to get instance metadata for node wroker-2: instance not found"
            ),
            "{errors:?}"
        );
    }
    let told = world.events_of("InitializationFailed");
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_closest_name_comes_from_the_list() {
    let world = registered(120);
    world.put_node("wroker-2", "", false, &[start_up_taint()]);
    world.sync(&names(120)).await;
    world.sync(&["wroker-2".into()]).await;
    let told = world.events_of("InitializationFailed");
    assert!(told[0].contains("worker-2"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_resolved_with_a_live_read_and_one_event() {
    let world = registered(1);
    world.refresh();
    // Another client writes after the cache was filled: the cache is stale.
    let mut changed = world.node("worker-1").expect("it was registered");
    changed["metadata"]["labels"]["other"] = json!("writer");
    world.api.seed(changed).expect("a Node");
    let finished = parking_lot::Mutex::new(Vec::new());
    world
        .node_controller
        .sync(&["worker-1".into()], |name, result| {
            finished.lock().push((name.to_owned(), result.is_ok()));
        })
        .await;
    assert_eq!(finished.into_inner(), [("worker-1".to_owned(), true)]);
    let node = world.node("worker-1").expect("it is there");
    assert_eq!(
        (
            &node["metadata"]["labels"]["other"],
            &node["spec"]["providerID"]
        ),
        (&json!("writer"), &json!("simulated://m-000001"))
    );
    assert_eq!(world.events_of("Synced").len(), 1);
    let requests = world.api.requests();
    assert_eq!(
        (
            requests.count("patch", "nodes"),
            requests.count("get", "nodes")
        ),
        (2, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn one_bad_node_does_not_hold_back_its_batch() {
    let world = registered(10);
    world.api.faults().add(
        Matcher::any()
            .verb("patch")
            .resource("nodes")
            .name("worker-3"),
        Action::Status {
            code: 403,
            reason: "Forbidden".into(),
            message: "not this one".into(),
            retry_after_seconds: None,
        },
    );
    let errors = world.sync(&names(10)).await;
    assert_eq!(errors, [("worker-3".to_owned(), "not this one".to_owned())]);
    assert_eq!(world.events_of("Synced").len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_re_created_node_gets_its_own_machine() {
    let world = registered(60);
    world.sync(&names(60)).await;
    world.cloud.terminate("worker-1");
    world.api.remove("nodes", None, "worker-1");
    world.cloud.create_machines("worker-", 1);
    world.put_node("worker-1", "", false, &[start_up_taint()]);
    assert_eq!(world.sync(&["worker-1".into()]).await, []);
    assert_eq!(
        world.node("worker-1").expect("it is there")["spec"]["providerID"],
        "simulated://m-000061"
    );
}

#[tokio::test(start_paused = true)]
async fn addresses_follow_the_cloud_and_cost_one_list_a_pass() {
    let world = registered(120);
    world.sync(&names(120)).await;
    let addresses = vec![cloud_provider::NodeAddress::new(
        cloud_provider::AddressType::InternalIP,
        "10.99.0.1",
    )];
    world.cloud.change_machine(
        "worker-5",
        MachineChange {
            addresses: Some(addresses),
            ..MachineChange::default()
        },
    );
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.cloud.reset_requests();
    world.api.requests().clear();
    world.refresh();
    world
        .node_controller
        .refresh_addresses(&CancellationToken::new())
        .await;
    assert_eq!((world.cloud_reads(), world.writes()), (3, 1));
    let node = world.node("worker-5").expect("it is there");
    assert_eq!(
        node["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "10.99.0.1"}, {"type": "Hostname", "address": "worker-5"}])
    );
}

#[tokio::test(start_paused = true)]
async fn an_address_pass_within_a_burst_writes_no_node_a_third_time() {
    let world = registered(3);
    assert_eq!(world.sync(&names(3)).await, []);
    // The cache has seen the first write of each Node, and not the second.
    world.refresh();
    for node in world.nodes.list() {
        world.nodes.insert(cloud_provider::Node {
            addresses: Box::default(),
            ..(*node).clone()
        });
    }
    world
        .node_controller
        .refresh_addresses(&CancellationToken::new())
        .await;
    assert_eq!(world.writes(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_machine_taints_its_node_and_a_ready_node_loses_the_taint() {
    let world = World::with_nodes(5, true);
    world.cloud.stop("worker-2");
    world.set_ready("worker-2", false);
    world.pass().await;
    let taint =
        json!([{"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}]);
    assert_eq!(
        world.node("worker-2").expect("it is kept")["spec"]["taints"],
        taint
    );
    world.pass().await;
    let events = world.events_of("ShutdownTaintSet");
    assert_eq!(
        events,
        ["The cloud reports the instance of node worker-2 as shut down"]
    );

    world.cloud.start("worker-2");
    world.pass().await;
    assert_eq!(
        world.node("worker-2").expect("it is kept")["spec"]["taints"],
        taint,
        "not before it is ready (LIFE-44)"
    );
    world.set_ready("worker-2", true);
    world.pass().await;
    assert_eq!(
        world.node("worker-2").expect("it is kept")["spec"].get("taints"),
        None
    );
    assert_eq!(
        world.events_of("ShutdownTaintRemoved"),
        ["Node worker-2 is ready again"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_tainted_node_costs_no_request_until_it_changes() {
    let world = World::with_nodes(5, true);
    world.cloud.stop("worker-2");
    world.set_ready("worker-2", false);
    world.pass().await;
    world.pass().await;
    world.api.requests().clear();
    world.pass().await;
    assert_eq!(world.api.requests().count("get", "nodes"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_is_said_on_the_node_that_waits() {
    let world = registered(1);
    world.cloud.revoke_token(DEFAULT_TOKEN);
    world.sync(&names(1)).await;
    let told = world.events_of("InitializationFailed");
    assert!(told.len() == 1 && told[0].contains("401"), "{told:?}");
    assert!(
        !told[0].contains(DEFAULT_TOKEN),
        "no secret in an event (INV-5)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_passing_fault_of_the_cloud_is_not_said() {
    let world = registered(1);
    world.cloud.inject(Fault::status(503).times(20));
    world.sync(&names(1)).await;
    assert_eq!(
        world.events_of("InitializationFailed"),
        Vec::<String>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_initialised_without_a_label_that_the_api_would_refuse() {
    let world = World::with_machines(1);
    let labels = [("rack", "row 7"), ("pool", "blue")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let machine = NewMachine {
        name: "worker-2".to_owned(),
        labels: labels.into(),
        ..NewMachine::default()
    };
    world.cloud.add_machine(machine);
    world.put_node("worker-2", "", true, &[start_up_taint()]);
    assert_eq!(world.sync(&["worker-2".to_owned()]).await, []);
    let node = world.node("worker-2").expect("it was registered");
    assert_eq!(
        (&node["spec"]["taints"], &node["metadata"]["labels"]["pool"]),
        (&Value::Null, &json!("blue")),
        "{node}"
    );
    let told = world.events_of("LabelsLeftOut");
    assert!(
        told.len() == 1 && told[0].contains("Node worker-2") && told[0].contains(r#"rack="row 7""#),
        "{told:?}"
    );
}
