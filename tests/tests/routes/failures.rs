//! Clouds and API servers that fail.
//!
//! Rules: ROUTE-32, P-2, D-140.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Error;
use embedded_apiserver::{Action, Matcher};

use crate::table::{Table, Trouble};
use crate::world::{CREATED, NOT_CREATED, World, product, seconds};

fn running(table: &Table) -> World {
    let world = World::new(Arc::new(table.clone()), &product("10.244.0.0/16"));
    world.run();
    world
}

fn put(world: &World, n: usize) {
    world.put(
        &format!("worker-{n}"),
        &format!("table://{n}"),
        "10.0.0.1",
        &[&format!("10.244.{n}.0/24")],
    );
}

fn count(calls: &[(u64, String)], what: &str) -> usize {
    calls
        .iter()
        .filter(|(_, call)| call.starts_with(what))
        .count()
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_more_and_more_rarely_and_delays_nobody() {
    let table = Table::new();
    let world = running(&table);
    table.trouble("10.244.1.0/24", Some(Trouble::Fails(Error::other("boom"))));
    (1..=3).for_each(|n| put(&world, n));
    seconds(2).await;
    assert_eq!(table.routes().len(), 2);
    assert_eq!(
        (world.condition("worker-1"), world.condition("worker-2")),
        (NOT_CREATED.into(), CREATED.into())
    );
    let told = world.events_of("FailedToCreateRoute");
    assert!(
        told[0].starts_with("Could not create route ") && told[0].ends_with(": boom"),
        "{told:?}"
    );
    table.timed_calls();
    seconds(3600).await;
    let calls = table.timed_calls();
    let creates = count(&calls, "create");
    let lists = count(&calls, "list");
    assert!(
        (12..=20).contains(&creates) && lists <= creates + 12,
        "{creates} creates, {lists} lists in an hour"
    );

    table.trouble("10.244.1.0/24", None);
    seconds(301).await;
    assert_eq!(
        (table.routes().len(), world.condition("worker-1")),
        (3, CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_node_is_tried_at_once() {
    let table = Table::new();
    let world = running(&table);
    table.trouble(
        "10.244.1.0/24",
        Some(Trouble::Fails(Error::other("wrong address"))),
    );
    put(&world, 1);
    seconds(1000).await;
    table.trouble("10.244.1.0/24", None);
    world.change("worker-1", |node| {
        node["status"]["addresses"][0]["address"] = "10.0.0.2".into();
    });
    seconds(2).await;
    assert_eq!(world.condition("worker-1"), CREATED);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_is_told_and_tried_again() {
    let table = Table::new();
    let world = running(&table);
    put(&world, 1);
    table.put("old", "worker-1", "10.244.9.0/24", Some(true));
    table.trouble("10.244.9.0/24", Some(Trouble::Fails(Error::other("busy"))));
    seconds(5).await;
    let told = world.events_of("FailedToDeleteRoute");
    assert_eq!(
        told,
        ["Could not delete route old 10.244.9.0/24 for node worker-1: busy"]
    );
    table.trouble("10.244.9.0/24", None);
    seconds(11).await;
    assert_eq!(table.routes(), ["10.244.1.0/24 worker-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_requests_silences_all_calls() {
    let table = Table::new().taking(Duration::from_millis(100));
    let world = running(&table);
    let limited = Error::rate_limited("429", Duration::from_secs(60));
    table.trouble("10.244.5.0/24", Some(Trouble::Fails(limited)));
    (1..=50).for_each(|n| put(&world, n));
    seconds(3).await;
    let first = table.timed_calls();
    assert!(
        count(&first, "create") <= 32,
        "those under way, not those that wait: {first:?}"
    );
    world.put("late", "table://late", "10.0.0.1", &["10.244.200.0/24"]);
    seconds(56).await;
    assert_eq!(table.timed_calls(), [], "silence, though a Node joined");
    table.trouble("10.244.5.0/24", None);
    seconds(15).await;
    assert_eq!(table.routes().len(), 51);
    assert_eq!(world.reasons(), Vec::<String>::new(), "no Node can help it");
    assert_eq!(world.condition("worker-5"), CREATED);
}

#[tokio::test(start_paused = true)]
async fn a_limit_met_by_the_list_is_obeyed() {
    let table = Table::new();
    table.list_fails(Some(Error::rate_limited("429", Duration::from_secs(100))));
    let world = running(&table);
    put(&world, 1);
    seconds(99).await;
    assert_eq!(table.calls(), ["list"]);
    table.list_fails(None);
    seconds(12).await;
    assert_eq!(world.condition("worker-1"), CREATED);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_changes_nothing_and_is_tried_again() {
    let table = Table::new();
    table.put("old", "gone", "10.244.9.0/24", Some(true));
    table.list_fails(Some(Error::other("503")));
    let world = running(&table);
    put(&world, 1);
    seconds(600).await;
    let calls = table.calls();
    assert!(
        calls.iter().all(|call| call == "list") && (10..=15).contains(&calls.len()),
        "{calls:?}"
    );
    assert_eq!(world.condition("worker-1"), "", "nobody knows");
    table.list_fails(None);
    seconds(75).await;
    assert_eq!(
        table.routes(),
        ["10.244.1.0/24 worker-1"],
        "at most a minute and the jitter later"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_not_tried_sooner_because_a_route_failed_too() {
    let table = Table::new();
    let world = running(&table);
    table.trouble("10.244.1.0/24", Some(Trouble::Fails(Error::other("boom"))));
    put(&world, 1);
    seconds(5).await;
    table.list_fails(Some(Error::other("503")));
    table.calls();
    seconds(600).await;
    let calls = table.timed_calls();
    assert!((9..=14).contains(&calls.len()), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_or_panics_holds_back_nobody() {
    let table = Table::new();
    let world = running(&table);
    table.trouble("10.244.1.0/24", Some(Trouble::Hangs));
    table.trouble("10.244.2.0/24", Some(Trouble::Panics));
    (1..=3).for_each(|n| put(&world, n));
    table.put("old", "worker-3", "10.244.1.0/24", Some(true));
    seconds(15).await;
    assert_eq!(
        (world.condition("worker-3"), world.condition("worker-2")),
        (CREATED.into(), NOT_CREATED.into())
    );
    put(&world, 4);
    seconds(11).await;
    assert_eq!(
        world.condition("worker-4"),
        CREATED,
        "passes go on while the call hangs"
    );
    let hanging = count(&table.timed_calls(), "delete 10.244.1.0/24");
    assert_eq!(hanging, 1, "nobody else touches what hangs");
    assert_eq!(world.condition("worker-1"), "", "nobody knows yet");
    seconds(240).await;
    assert_eq!(world.condition("worker-1"), NOT_CREATED);
    let told = world.events_of("FailedToCreateRoute");
    assert!(
        told.iter()
            .any(|text| text.ends_with(": cloud provider table gave no answer within 120 s")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|text| text.ends_with(": cloud provider table panicked")),
        "{told:?}"
    );

    table.trouble("10.244.1.0/24", None);
    table.trouble("10.244.2.0/24", None);
    seconds(301).await;
    assert_eq!(table.routes().len(), 4);
    (1..=4).for_each(|n| assert_eq!(world.condition(&format!("worker-{n}")), CREATED));
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_written_is_written_later_without_a_list() {
    let table = Table::new();
    let world = running(&table);
    let refusal = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "not this one".into(),
        retry_after_seconds: None,
    };
    world.api.faults().add(
        Matcher::any()
            .verb("patch")
            .resource("nodes")
            .name("worker-1")
            .times(3),
        refusal,
    );
    (1..=2).for_each(|n| put(&world, n));
    seconds(2).await;
    assert_eq!(
        (world.condition("worker-1"), world.condition("worker-2")),
        (String::new(), CREATED.into())
    );
    table.calls();
    seconds(90).await;
    assert_eq!(
        (world.condition("worker-1"), table.calls()),
        (CREATED.into(), vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_written_does_not_wait_for_a_long_period() {
    let table = Table::new();
    let mut options = product("10.244.0.0/16");
    options.route.reconciliation_period = Duration::from_secs(3600);
    let world = World::new(Arc::new(table.clone()), &options);
    world.run();
    let refusal = Action::Status {
        code: 500,
        reason: "InternalError".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    world.api.faults().add(
        Matcher::any()
            .verb("patch")
            .resource("nodes")
            .name("worker-1")
            .times(2),
        refusal,
    );
    put(&world, 1);
    seconds(2).await;
    table.calls();
    assert_eq!(
        (world.condition("worker-1"), world.writes()),
        (String::new(), 1)
    );
    seconds(17).await;
    assert_eq!(
        (world.condition("worker-1"), table.calls()),
        (CREATED.into(), vec![])
    );
    assert_eq!(world.writes(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pass_for_another_node_leaves_alone_what_backs_off() {
    let table = Table::new();
    let world = running(&table);
    table.trouble("10.244.1.0/24", Some(Trouble::Fails(Error::other("boom"))));
    put(&world, 1);
    // Tried at 0, 10, 30, 70, 150 and 310 s.
    seconds(320).await;
    table.timed_calls();
    for n in 2..=11 {
        put(&world, n);
        seconds(20).await;
    }
    let calls = table.timed_calls();
    assert_eq!(
        (count(&calls, "create 10.244.1.0/24"), table.routes().len()),
        (0, 10),
        "{calls:?}"
    );
}
