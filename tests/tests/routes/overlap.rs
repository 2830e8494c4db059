//! Calls that are still under way when things change (INV-6).

use std::sync::Arc;
use std::time::Duration;

use crate::table::Table;
use crate::world::{CREATED, World, product, seconds};

const RANGE: &str = "10.244.1.0/24";

/// Returns a world in which a create takes 25 s, at a time at which the first list is over.
async fn slow_creates() -> (Table, World) {
    let table = Table::new().taking(Duration::from_secs(25));
    table.list_takes(Duration::ZERO);
    let world = World::new(Arc::new(table.clone()), &product("10.244.0.0/16"));
    world.run();
    seconds(16).await;
    (table, world)
}

fn put(world: &World, n: u8) {
    world.put(
        &format!("worker-{n}"),
        &format!("table://{n}"),
        "10.0.0.1",
        &[&format!("10.244.{n}.0/24")],
    );
}

#[tokio::test(start_paused = true)]
async fn an_address_that_changes_while_the_route_is_being_made_is_followed() {
    let (table, world) = slow_creates().await;
    world.put("worker-1", "table://1", "10.0.0.1", &[RANGE]);
    seconds(5).await;
    world.change("worker-1", |node| {
        node["status"]["addresses"][0]["address"] = "10.0.0.2".into();
    });
    seconds(22).await;
    assert_eq!(
        table.hops(RANGE),
        ["10.0.0.1"],
        "made from what the Node was"
    );
    assert_eq!(world.condition("worker-1"), "", "nobody knows yet");
    seconds(65).await;
    assert_eq!(
        (table.hops(RANGE), world.condition("worker-1")),
        (vec!["10.0.0.2".into()], CREATED.into())
    );
    assert_eq!(world.writes(), 1, "and was never told the wrong thing");
}

#[tokio::test(start_paused = true)]
async fn a_range_that_moves_while_its_route_is_being_made_is_followed() {
    let (table, world) = slow_creates().await;
    world.put("worker-1", "table://1", "10.0.0.1", &[RANGE]);
    seconds(5).await;
    assert!(world.api.remove("nodes", None, "worker-1"));
    world.put("worker-2", "table://2", "10.0.0.2", &[RANGE]);
    seconds(90).await;
    assert_eq!(
        (table.routes(), world.condition("worker-2")),
        (vec![format!("{RANGE} worker-2")], CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_while_its_route_is_being_made_leaves_none_behind() {
    let (table, world) = slow_creates().await;
    world.put("worker-1", "table://1", "10.0.0.1", &[RANGE]);
    seconds(5).await;
    assert!(world.api.remove("nodes", None, "worker-1"));
    seconds(70).await;
    assert_eq!(table.routes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_address_that_changes_back_while_the_old_route_is_being_deleted_is_no_war() {
    let (table, world) = slow_creates().await;
    world.put("worker-1", "table://1", "10.0.0.1", &[RANGE]);
    seconds(60).await;
    for _ in 0..3 {
        world.change("worker-1", |node| {
            node["status"]["addresses"][0]["address"] = "10.0.0.2".into();
        });
        seconds(12).await;
        world.change("worker-1", |node| {
            node["status"]["addresses"][0]["address"] = "10.0.0.1".into();
        });
        seconds(140).await;
        assert_eq!(table.hops(RANGE), ["10.0.0.1"]);
    }
    assert_eq!(
        (world.condition("worker-1"), world.reasons()),
        (CREATED.into(), vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn slow_calls_that_are_still_right_cost_no_list_of_their_own() {
    let (table, world) = slow_creates().await;
    (1..=32).for_each(|n| put(&world, n));
    seconds(12).await;
    world.put("late", "table://late", "10.0.0.1", &["10.244.200.0/24"]);
    table.calls();
    seconds(250).await;
    assert_eq!(table.routes().len(), 33);
    let lists = table.calls().iter().filter(|call| *call == "list").count();
    assert_eq!(lists, 1, "the one for the Node that came late");
}

#[tokio::test(start_paused = true)]
async fn routes_that_are_made_while_the_list_is_on_its_way_are_not_made_twice() {
    let table = Table::new();
    table.list_takes(Duration::from_secs(4));
    let world = World::new(Arc::new(table.clone()), &product("10.244.0.0/16"));
    world.run();
    seconds(10).await;
    table.takes(Duration::from_secs(12));
    (1..=16).for_each(|n| put(&world, n));
    seconds(9).await;
    // The list begins before the creates end, and ends after them.
    world.put("late", "table://late", "10.0.0.1", &["10.244.200.0/24"]);
    table.timed_calls();
    seconds(80).await;
    assert_eq!(
        (table.routes().len(), world.writes()),
        (17, 17),
        "one condition each"
    );
    let calls = table.timed_calls();
    let count = |what| {
        calls
            .iter()
            .filter(|(_, call)| call.starts_with(what))
            .count()
    };
    assert!(count("create") == 1 && count("list") <= 2, "{calls:?}");
    assert_eq!(world.reasons(), Vec::<String>::new());
    assert_eq!(
        (world.condition("worker-1"), world.condition("late")),
        (CREATED.into(), CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_create_that_fails_while_the_list_is_on_its_way_keeps_its_back_off() {
    let table = Table::new();
    table.list_takes(Duration::from_secs(4));
    let world = World::new(Arc::new(table.clone()), &product("10.244.0.0/16"));
    world.run();
    seconds(10).await;
    table.takes(Duration::from_secs(12));
    table.trouble(
        RANGE,
        Some(crate::table::Trouble::Fails(cloud_provider::Error::other(
            "boom",
        ))),
    );
    world.put("worker-1", "table://x", "10.0.0.1", &[RANGE]);
    seconds(9).await;
    world.put("late", "table://late", "10.0.0.1", &["10.244.200.0/24"]);
    seconds(300).await;
    let calls = table.timed_calls();
    let creates: Vec<u64> = calls
        .iter()
        .filter(|(_, call)| call.ends_with(RANGE))
        .map(|(at, _)| *at)
        .collect();
    assert!(
        creates.windows(2).all(|pair| pair[1] - pair[0] >= 22) && (4..=6).contains(&creates.len()),
        "{creates:?}"
    );
    table.trouble(RANGE, None);
    seconds(330).await;
    assert_eq!(
        (table.routes().len(), world.condition("worker-1")),
        (2, CREATED.into())
    );
}
