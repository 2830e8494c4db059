//! INV-1: which Nodes are deleted, when, and what is reported of those that are kept. Every way in which a cloud can be wrong is
//! tried by the conformance suite.

use std::time::Duration;

use ccm_tests::in_process::World;
use cloud_provider::names::{LABEL_EXCLUDE_LIFECYCLE, TAINT_UNINITIALIZED};
use controllers::Options;
use controllers::options::{LifecycleOptions, NodeDeletion};
use embedded_apiserver::{Action, Matcher};
use provider_simulated::cloud::{DEFAULT_PROJECT, DEFAULT_TOKEN, Fault, FaultKind};
use runtime::cache::Cache;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Number of Nodes that makes the provider list the cloud when they are not ready; one page holds 50 machines.
const MANY: usize = 120;
const FEW: usize = 3;
/// Well beyond the guard's delay of five minutes.
const LONG: Duration = Duration::from_secs(900);

#[tokio::test(start_paused = true)]
async fn wrong_credentials_delete_nothing_and_say_so() {
    for count in [FEW, MANY] {
        let world = World::with_nodes(count, false);
        world.pass().await;
        assert!(world.cloud.revoke_token(DEFAULT_TOKEN));
        world.passes_for(LONG).await;
        assert_eq!(world.node_count(), count, "{:?}", world.events());
        let held = world.events_of("NodeDeletionHeld");
        assert!(
            held.len() == count && held[0].contains("401"),
            "once for each Node: {held:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_witness_nothing_is_deleted() {
    let world = World::with_nodes(1, false);
    world.cloud.create_machines("unrelated-", 5);
    world.cloud.terminate("worker-1");
    world.passes_for(LONG).await;
    assert_eq!(world.node_count(), 1);
    let held = world.events_of("NodeDeletionHeld");
    assert!(
        held.len() == 1 && held[0].contains("no other Node"),
        "{held:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn held_deletion_that_ends_well_is_reported_once() {
    let world = World::with_nodes(4, false);
    let gone: Vec<_> = (2..=4)
        .filter_map(|n| world.cloud.machine(&format!("worker-{n}")))
        .collect();
    for machine in &gone {
        world.cloud.terminate(&machine.name);
    }
    world.pass().await;
    assert_eq!(world.events_of("NodeDeletionHeld").len(), 3);
    assert_eq!(world.events_of("NodeDeletionAverted"), Vec::<String>::new());
    world.cloud.restore(gone);
    world.passes_for(Duration::from_secs(30)).await;
    let averted = world.events_of("NodeDeletionAverted");
    assert_eq!(averted.len(), 3, "{averted:?}");
    assert!(
        averted[0].contains("is not deleted: the cloud has its instance"),
        "{averted:?}"
    );
    assert_eq!(world.node_count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_deletes_nothing() {
    let world = World::with_nodes(MANY, true);
    // Fills the provider's cache, before the machine of the next Node exists.
    world.refresh();
    world
        .node_controller
        .refresh_addresses(&CancellationToken::new())
        .await;
    world.cloud.create_machines("late-", 1);
    let late = world.cloud.machine("late-1").expect("it was just made");
    world.put_node("late-1", &format!("simulated://{}", late.id), false, &[]);
    world.passes_for(LONG).await;
    assert_eq!(world.node_count(), MANY + 1);
}

#[tokio::test(start_paused = true)]
async fn node_that_was_never_managed_is_kept_with_one_event() {
    let world = World::with_nodes(5, true);
    world.put_node("never-managed", "", false, &[]);
    world.passes_for(LONG).await;
    assert!(world.node("never-managed").is_some());
    let held = world.events_of("NodeDeletionHeld");
    assert!(
        held.len() == 1 && held[0].contains("it was never a Node of this cloud"),
        "{held:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn uninitialized_node_without_a_machine_of_its_name_waits_and_is_deleted() {
    let world = World::with_nodes(5, true);
    world.put_node(
        "named-otherwise",
        "",
        false,
        &[json!({"key": TAINT_UNINITIALIZED, "effect": "NoSchedule"})],
    );
    world.passes_for(Duration::from_secs(290)).await;
    assert!(world.node("named-otherwise").is_some());
    let held = world.events_of("NodeDeletionHeld");
    assert!(
        held.len() == 1 && held[0].contains("never had a provider ID"),
        "{held:?}"
    );
    world.passes_for(Duration::from_secs(20)).await;
    assert!(world.node("named-otherwise").is_none());
    assert_eq!(world.node_count(), 5);
}

#[tokio::test(start_paused = true)]
async fn one_gone_node_is_deleted_at_once_for_a_few_single_reads() {
    let world = World::with_nodes(200, true);
    world.set_ready("worker-7", false);
    world.cloud.terminate("worker-7");
    world.pass().await;
    assert!(world.node("worker-7").is_none());
    assert_eq!(world.node_count(), 199);
    assert_eq!(
        world.events(),
        ["DeletingNode Deleting node worker-7 because it does not exist in the cloud provider"]
    );
    // Itself twice, and three witnesses before and with the second time.
    assert!(world.cloud_reads() <= 8, "{:?}", world.cloud.requests());
}

#[tokio::test(start_paused = true)]
async fn half_of_the_cluster_gone_is_deleted() {
    for count in [4, MANY] {
        let world = World::with_nodes(count, false);
        for n in 1..=count / 2 {
            world.cloud.terminate(&format!("worker-{n}"));
        }
        world.pass().await;
        assert_eq!(world.node_count(), count - count / 2);
    }
}

#[tokio::test(start_paused = true)]
async fn all_but_one_gone_is_held_for_five_minutes_and_then_believed() {
    for count in [4, MANY] {
        let world = World::with_nodes(count, false);
        for n in 2..=count {
            world.cloud.terminate(&format!("worker-{n}"));
        }
        world.passes_for(Duration::from_secs(295)).await;
        assert_eq!(world.node_count(), count);
        let held = world.events_of("NodeDeletionHeld");
        assert!(
            held.len() == count - 1 && held[0].contains("without a machine"),
            "once for each: {held:?}"
        );
        world.passes_for(Duration::from_secs(15)).await;
        assert_eq!(world.node_count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_landslide_that_begins_while_the_cloud_is_asked_is_held_too() {
    // The first read still finds all but one machine; at the second, all others are missing as well.
    let world = World::with_nodes(MANY, false);
    world.cloud.terminate("worker-1");
    world
        .cloud
        .inject(Fault::latency(1000).on("GET /v1/machines"));
    let slide = async {
        // Three pages take three seconds; the second read begins right after.
        tokio::time::sleep(Duration::from_millis(3500)).await;
        (2..=100).for_each(|n| assert!(world.cloud.terminate(&format!("worker-{n}"))));
    };
    tokio::join!(world.pass(), slide);
    assert_eq!(world.node_count(), MANY, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn a_landslide_that_heals_starts_anew() {
    let world = World::with_nodes(MANY, false);
    world.cloud.inject(Fault::new(FaultKind::EmptyList));
    world.passes_for(Duration::from_secs(200)).await;
    world.cloud.clear_faults();
    world.pass().await;
    for n in 2..=MANY {
        world.cloud.terminate(&format!("worker-{n}"));
    }
    world.passes_for(Duration::from_secs(200)).await;
    assert_eq!(world.node_count(), MANY);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_re_created_under_the_same_name_is_not_deleted_for_its_namesake() {
    let world = World::with_nodes(5, true);
    world.set_ready("worker-1", false);
    world.cloud.terminate("worker-1");
    world.refresh();
    // The cache still shows the old Node while the API has the new one already.
    world.api.remove("nodes", None, "worker-1");
    world.cloud.create_machines("worker-", 1);
    world.put_node("worker-1", "simulated://m-000006", false, &[]);
    let uid = world.node("worker-1").expect("the new one")["metadata"]["uid"].clone();
    world.lifecycle.pass(&CancellationToken::new()).await;
    world.passes_for(LONG).await;
    assert_eq!(
        world.node("worker-1").expect("it is alive")["metadata"]["uid"],
        uid
    );
}

#[tokio::test(start_paused = true)]
async fn two_nodes_with_one_provider_id_are_reported_once() {
    let world = World::with_nodes(5, true);
    let machine = world.cloud.machine("worker-1").unwrap();
    world.put_node(
        "zz-impostor",
        &format!("simulated://{}", machine.id),
        true,
        &[],
    );
    world.passes_for(LONG).await;
    let told = world.events_of("SharedProviderID");
    assert!(
        told.len() == 1 && told[0].contains("of the older Node worker-1"),
        "{told:?}"
    );
    assert_eq!(world.node_count(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_cloud_is_left_alone_and_not_asked_for() {
    let world = World::with_nodes(5, true);
    world.put_node("on-premises", "onprem://7", false, &[]);
    world.passes_for(LONG).await;
    assert_eq!(
        (world.node_count(), world.cloud_reads(), world.events()),
        (6, 0, vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_person_keeps_out_of_it_is_neither_deleted_nor_tainted_nor_asked_for() {
    for (value, kept) in [("", true), ("true", true), ("false", false)] {
        let world = World::with_nodes(5, true);
        let mut node = world.node("worker-1").unwrap();
        node["metadata"]["labels"][LABEL_EXCLUDE_LIFECYCLE] = value.into();
        world.api.seed(node).unwrap();
        world.set_ready("worker-1", false);
        world.cloud.terminate("worker-1");
        world.passes_for(LONG).await;
        assert_eq!(
            (world.node_count(), world.cloud_reads() == 0),
            (if kept { 5 } else { 4 }, kept),
            "{value:?}"
        );
    }
}

fn deleting(deletion: NodeDeletion) -> Options {
    let product = Options::default();
    Options {
        lifecycle: LifecycleOptions {
            deletion,
            ..product.lifecycle
        },
        ..product
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_once_what_it_would_delete() {
    for (deletion, why) in [
        (NodeDeletion::DryRun, "--node-deletion=dry-run"),
        (NodeDeletion::Off, "--node-deletion=off"),
    ] {
        let world = World::with_options(10, &deleting(deletion));
        world.put_nodes(true);
        world.set_ready("worker-1", false);
        world.cloud.terminate("worker-1");
        world.passes_for(LONG).await;
        assert_eq!(world.node_count(), 10);
        let held = world.events_of("NodeDeletionHeld");
        assert!(held.len() == 1 && held[0].contains(why), "{held:?}");
        assert_eq!(world.writes(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_delete_is_tried_again_and_makes_no_landslide() {
    let world = World::with_nodes(10, true);
    world.set_ready("worker-1", false);
    world.cloud.terminate("worker-1");
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    let rule = world
        .api
        .faults()
        .add(Matcher::any().verb("delete").resource("nodes"), forbidden);
    world.passes_for(Duration::from_secs(200)).await;
    assert_eq!(
        world
            .events_of("DeletingNodeFailed")
            .first()
            .map(String::as_str),
        Some("Failed deleting node worker-1: no")
    );
    assert_eq!(world.events_of("NodeDeletionHeld"), Vec::<String>::new());
    world.api.faults().remove(rule);
    world.pass().await;
    assert_eq!(world.node_count(), 9);
}

#[tokio::test(start_paused = true)]
async fn as_long_as_not_all_nodes_are_known_none_is_deleted() {
    let world = World::with_nodes(10, false);
    for n in 1..=6 {
        world.cloud.terminate(&format!("worker-{n}"));
    }
    // An unsynced cache shows three of the ten Nodes: two missing machines, one control read, and no mass deletion.
    let unsynced = world.lifecycle_over(Cache::new());
    for name in ["worker-1", "worker-2", "worker-7"] {
        let node = world.node(name).expect("it is there");
        unsynced
            .1
            .insert(serde_json::from_value(node).expect("a Node"));
    }
    unsynced.0.pass(&CancellationToken::new()).await;
    assert_eq!(world.node_count(), 10);
}

#[tokio::test(start_paused = true)]
async fn ready_nodes_are_not_asked_for() {
    let world = World::with_nodes(MANY, true);
    world.cloud.terminate("worker-1");
    world.passes_for(LONG).await;
    assert_eq!((world.node_count(), world.cloud_reads()), (MANY, 0));
}

#[tokio::test(start_paused = true)]
async fn a_steady_state_writes_nothing() {
    let world = World::with_nodes(MANY, true);
    world.set_ready("worker-1", false);
    world.cloud.stop("worker-2");
    world.set_ready("worker-2", false);
    let names: Vec<String> = (1..=MANY).map(|n| format!("worker-{n}")).collect();
    let settle = async || {
        world.sync(&names).await;
        world
            .node_controller
            .refresh_addresses(&CancellationToken::new())
            .await;
        world.passes_for(Duration::from_secs(60)).await;
    };
    settle().await;
    assert!(
        world.writes() > 0,
        "the addresses and one taint were missing"
    );
    world.api.requests().clear();
    settle().await;
    assert_eq!(world.writes(), 0, "{:?}", world.api.requests().writes());
}

#[tokio::test(start_paused = true)]
async fn the_default_project_is_the_one_of_the_token() {
    // Guards the scenarios above: with an unbroken cloud the same world does delete.
    let world = World::with_nodes(MANY, false);
    world.cloud.add_token(DEFAULT_TOKEN, DEFAULT_PROJECT);
    world.cloud.terminate("worker-3");
    world.pass().await;
    assert_eq!(world.node_count(), MANY - 1);
}
