//! The modes of the Go cloud-controller-manager (ROUTE-10 … ROUTE-16), selected by the feature gate.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Error;
use controllers::options::RouteMode;
use embedded_apiserver::{Action, Matcher};
use runtime::cache::Resync;

use crate::table::{Table, Trouble};
use crate::world::{CREATED, World, product, seconds};

fn running(table: &Table, mode: RouteMode) -> World {
    let mut options = product("10.244.0.0/16");
    options.route.mode = mode;
    let world = World::new(Arc::new(table.clone()), &options);
    world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
    world.run();
    world
}

fn times(table: &Table, what: &str) -> Vec<u64> {
    table
        .timed_calls()
        .into_iter()
        .filter(|(_, call)| call.starts_with(what))
        .map(|(at, _)| at)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_clock_drives_from_start_to_start() {
    let table = Table::new().taking(Duration::from_secs(4));
    let world = running(&table, RouteMode::Periodic);
    seconds(35).await;
    assert_eq!(times(&table, "list"), [0, 10, 20, 30]);
    assert_eq!(
        (table.routes().len(), world.condition("worker-1")),
        (1, CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_reconcile_is_followed_by_the_next_at_once_and_never_overlaps() {
    let table = Table::new();
    table.trouble("10.244.1.0/24", Some(Trouble::Hangs));
    let world = running(&table, RouteMode::Periodic);
    seconds(250).await;
    assert_eq!(times(&table, "list"), [0, 120, 240]);
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn events_drive_one_reconcile_each_ten_seconds() {
    let table = Table::new();
    let world = running(&table, RouteMode::Watch);
    seconds(100).await;
    assert_eq!(times(&table, "list"), [0], "no event, no reconcile");
    world.change("worker-1", |node| {
        node["metadata"]["labels"] = serde_json::json!({"a": "b"});
    });
    seconds(20).await;
    assert_eq!(
        times(&table, "list"),
        Vec::<u64>::new(),
        "an event that does not concern routes"
    );
    for n in 2..=31 {
        world.put(
            &format!("worker-{n}"),
            "table://1",
            "10.0.0.1",
            &[&format!("10.244.{n}.0/24")],
        );
        seconds(1).await;
    }
    seconds(20).await;
    let lists = times(&table, "list");
    assert!(
        lists[0] == 120 && lists.windows(2).all(|pair| pair[1] - pair[0] >= 9),
        "{lists:?}"
    );
    assert_eq!(table.routes().len(), 31);
}

#[tokio::test(start_paused = true)]
async fn watch_mode_tries_again_what_failed() {
    let table = Table::new();
    table.trouble("10.244.1.0/24", Some(Trouble::Fails(Error::other("boom"))));
    let world = running(&table, RouteMode::Watch);
    seconds(25).await;
    assert_eq!(times(&table, "create"), [0, 10, 20], "ROUTE-15, mended");
    table.trouble("10.244.1.0/24", None);
    seconds(100).await;
    assert_eq!(
        (world.condition("worker-1"), times(&table, "create")),
        (CREATED.into(), vec![30])
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_cloud_or_an_api_server_that_hangs() {
    for mode in [RouteMode::Periodic, RouteMode::Watch, RouteMode::Adaptive] {
        for hanging in ["", "10.244.1.0/24", "nodes"] {
            let table = Table::new();
            table.trouble(hanging, Some(Trouble::Hangs));
            let mut options = product("10.244.0.0/16");
            options.route.mode = mode;
            let world = World::new(Arc::new(table.clone()), &options);
            if hanging == "nodes" {
                world
                    .api
                    .faults()
                    .add(Matcher::any().verb("patch").resource("nodes"), Action::Hang);
            }
            world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
            let task = world.run_as(Some("this-cluster"));
            seconds(2).await;
            let took = world.stop(task).await;
            assert!(took <= 5, "{mode:?}, {hanging:?}: {took} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_modes_of_the_reference_tell_of_wars_too_but_do_not_rest() {
    let table = Table::new();
    let world = running(&table, RouteMode::Periodic);
    for _ in 0..60 {
        seconds(10).await;
        table.take("10.244.1.0/24");
    }
    let told = world.events_of("RouteFlapping");
    assert!(
        (1..=2).contains(&told.len()) && !told[0].contains("left alone"),
        "{told:?}"
    );
    assert!(times(&table, "create").len() >= 59);
}

#[tokio::test(start_paused = true)]
async fn passes_are_counted_by_outcome_and_trigger() {
    const PERIODIC: &str = "periodic";
    const NODE_CHANGE: &str = "node_change";
    for mode in [RouteMode::Periodic, RouteMode::Watch, RouteMode::Adaptive] {
        let table = Table::new();
        let mut options = product("10.244.0.0/16");
        options.route.mode = mode;
        let mut world = World::new(Arc::new(table.clone()), &options);
        world.resync = Resync::every(Duration::from_secs(600));
        world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
        world.run();
        seconds(5).await;
        let on_change = if mode == RouteMode::Periodic {
            PERIODIC
        } else {
            NODE_CHANGE
        };
        let first = if mode == RouteMode::Watch {
            NODE_CHANGE
        } else {
            PERIODIC
        };
        assert_eq!(world.counted(), [("changed", first)], "{mode:?}");

        world.put("worker-2", "table://2", "10.0.0.2", &["10.244.2.0/24"]);
        seconds(21).await;
        assert_eq!(
            world.counted().first(),
            Some(&("changed", on_change)),
            "{mode:?}"
        );

        seconds(1500).await;
        let idle = world.counted();
        assert!(
            !idle.is_empty() && idle.iter().all(|pass| *pass == ("noop", PERIODIC)),
            "{mode:?}: {idle:?}"
        );

        table.list_fails(Some(Error::other("boom")));
        world.put("worker-3", "table://3", "10.0.0.3", &["10.244.3.0/24"]);
        seconds(21).await;
        assert_eq!(
            world.counted().first(),
            Some(&("error", on_change)),
            "{mode:?}"
        );
        table.list_fails(None);
        seconds(75).await;
        let counted = world.counted();
        assert!(
            counted.contains(&("changed", on_change)),
            "the pass that succeeds has the same trigger: {counted:?}"
        );
        drop(world);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_change_is_no_error_of_its_pass() {
    let table = Table::new();
    table.trouble("10.244.1.0/24", Some(Trouble::Fails(Error::other("boom"))));
    let world = running(&table, RouteMode::Periodic);
    seconds(5).await;
    assert_eq!(world.counted(), [("noop", "periodic")]);
}
