//! Times at which routes are read, and events about them (D-5, P-33).
//!
//! Rules: ROUTE-31, ROUTE-46, D-142, D-143.

use std::sync::Arc;
use std::time::Duration;

use controllers::options::RouteMode;
use serde_json::json;

use crate::table::Table;
use crate::world::{CREATED, NOT_CREATED, World, product, seconds};

fn running(table: &Table) -> World {
    let world = World::new(Arc::new(table.clone()), &product("10.244.0.0/16,fd00::/48"));
    world.run();
    world
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_joining_nodes_costs_a_list_every_ten_seconds() {
    let table = Table::new();
    let world = running(&table);
    seconds(1).await;
    for n in 1..=60 {
        world.put(
            &format!("worker-{n}"),
            &format!("table://{n}"),
            "10.0.0.1",
            &[&format!("10.244.{n}.0/24")],
        );
        seconds(1).await;
    }
    seconds(10).await;
    assert_eq!(table.routes().len(), 60);
    let lists = table.calls().iter().filter(|call| *call == "list").count();
    assert!((7..=8).contains(&lists), "{lists} lists in 71 s");
}

#[tokio::test(start_paused = true)]
async fn dual_stack_is_all_or_nothing() {
    let table = Table::new();
    let world = running(&table);
    table.trouble(
        "fd00:0:0:1::/64",
        Some(crate::table::Trouble::Fails(cloud_provider::Error::quota(
            "50 of 50 routes",
        ))),
    );
    world.put(
        "worker-1",
        "table://1",
        "10.0.0.1",
        &["10.244.1.0/24", "fd00:0:0:1::/64"],
    );
    seconds(5).await;
    assert_eq!(
        (table.routes(), world.condition("worker-1")),
        (vec!["10.244.1.0/24 worker-1".into()], NOT_CREATED.into())
    );
    table.trouble("fd00:0:0:1::/64", None);
    seconds(30).await;
    assert_eq!(
        (table.routes().len(), world.condition("worker-1")),
        (2, CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_range_outside_the_cluster_is_told_once() {
    let table = Table::new();
    let world = running(&table);
    world.put(
        "worker-1",
        "table://1",
        "10.0.0.1",
        &["2001:db8:1::/64", "10.244.1.0/24"],
    );
    seconds(3600).await;
    let told = world.events_of("PodCIDROutsideClusterCIDR");
    let expected = "Pod CIDR 2001:db8:1::/64 of node worker-1 lies outside --cluster-cidr (10.244.0.0/16,fd00::/48): it gets \
                    no route; correct the flag";
    assert_eq!(told, [expected]);
    assert_eq!(
        (table.routes().len(), world.condition("worker-1")),
        (1, NOT_CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn range_that_would_take_the_traffic_of_other_nodes_gets_no_route() {
    let table = Table::new();
    let world = running(&table);
    world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
    world.put("worker-2", "table://2", "10.0.0.2", &["10.244.2.0/24"]);
    seconds(60).await;
    let remedy = "Correct the podCIDR of the Node: delete the Node, so that it is registered again with a range of its own";
    for (n, cidr) in [
        "0.0.0.0/0",
        "10.244.0.0/16",
        "10.244.0.0/17",
        "10.244.1.128/25",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("worker-{}", n + 3);
        world.put(&name, &format!("table://{}", n + 3), "10.0.0.66", &[cidr]);
        seconds(600).await;
        let routes = ["10.244.1.0/24 worker-1", "10.244.2.0/24 worker-2"];
        assert_eq!(
            (table.routes(), world.condition(&name)),
            (routes.map(str::to_owned).to_vec(), NOT_CREATED.into())
        );
        let told = [
            world.events_of("PodCIDROutsideClusterCIDR"),
            world.events_of("PodCIDRRefused"),
        ]
        .concat();
        let about: Vec<_> = told
            .iter()
            .filter(|text| text.contains(&format!("of node {name} ")))
            .collect();
        assert!(
            about.len() == 1 && about[0].contains("gets no route") && about[0].ends_with(remedy),
            "{cidr}: {told:?}"
        );
    }
    // A route of this cluster is deleted with its Node, wherever it leads.
    table.put("old", "gone", "172.16.0.0/12", Some(true));
    seconds(600).await;
    assert_eq!(table.routes().len(), 2, "{:?}", table.routes());
}

#[tokio::test(start_paused = true)]
async fn younger_node_with_the_provider_id_of_another_gets_no_route_until_the_other_is_deleted() {
    let table = Table::new();
    let world = running(&table);
    for (name, created, cidr) in [
        ("old", "2026-01-01T00:00:00Z", "10.244.1.0/24"),
        ("young", "2026-01-02T00:00:00Z", "10.244.2.0/24"),
    ] {
        world.put_with(
            name,
            &[cidr],
            &json!([{"type": "InternalIP", "address": "10.0.0.1"}]),
            |node| {
                node["metadata"]["creationTimestamp"] = json!(created);
                node["spec"]["providerID"] = json!("table://1");
            },
        );
    }
    seconds(3600).await;
    assert_eq!(table.routes(), ["10.244.1.0/24 old"]);
    let changes: Vec<_> = table
        .calls()
        .into_iter()
        .filter(|call| call != "list")
        .collect();
    assert_eq!(changes, ["create 10.244.1.0/24"]);
    assert_eq!(world.condition("young"), NOT_CREATED);
    assert_eq!(
        world.events_of("PodCIDRRefused"),
        [
            "Pod CIDR 10.244.2.0/24 of node young gets no route: Node old, which was created before, has the same provider ID. \
          Delete the one of the two Nodes that does not run on this machine"
        ]
    );
    assert_eq!(world.events_of("RouteFlapping"), [""; 0]);
    assert!(world.api.remove("nodes", None, "old"));
    seconds(30).await;
    assert_eq!(
        (table.routes(), world.condition("young")),
        (vec!["10.244.2.0/24 young".to_owned()], CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn route_of_a_node_without_an_address_waits_without_an_event() {
    let table = Table::new();
    let world = running(&table);
    world.put_with("worker-1", &["10.244.1.0/24"], &json!([]), |node| {
        node["spec"]["providerID"] = json!("table://1");
    });
    seconds(3600).await;
    assert_eq!(
        (table.routes(), world.reasons(), world.condition("worker-1")),
        (vec![], vec![], String::new())
    );
    world.change("worker-1", |node| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
    });
    seconds(30).await;
    assert_eq!(
        (table.routes().len(), world.condition("worker-1")),
        (1, CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_that_somebody_else_removes_is_repaired_and_a_war_is_told_and_left() {
    let table = Table::new();
    let world = running(&table);
    world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
    seconds(5).await;
    table.calls();
    table.take("10.244.1.0/24");
    seconds(361).await;
    assert_eq!(
        (table.routes().len(), world.reasons().len()),
        (1, 0),
        "once is no war"
    );

    // The other client removes the route every five seconds.
    table.timed_calls();
    for _ in 0..720 {
        seconds(5).await;
        table.take("10.244.1.0/24");
    }
    let told = world.events_of("RouteFlapping");
    assert!(
        told[0].contains("10.244.1.0/24 to node worker-1")
            && told[0].contains("not changed for 5m0s"),
        "{told:?}"
    );
    assert!((2..=5).contains(&told.len()), "an hour of war: {told:?}");
    let calls = table.timed_calls();
    let creates = calls
        .iter()
        .filter(|(_, call)| call.starts_with("create"))
        .count();
    assert!(creates <= 9, "{creates} creates in an hour");
    assert!(
        calls.len() - creates <= 30,
        "{} lists in an hour",
        calls.len() - creates
    );
    assert_eq!(world.condition("worker-1"), NOT_CREATED);

    // The other client stops.
    seconds(3700).await;
    assert_eq!(
        (table.routes().len(), world.condition("worker-1")),
        (1, CREATED.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_that_leads_nowhere_is_nobodys_attack() {
    let table = Table::new();
    let mut options = product("10.244.0.0/16");
    options.route.mode = RouteMode::Periodic;
    let world = World::new(Arc::new(table.clone()), &options);
    world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
    world.run();
    for _ in 0..10 {
        seconds(10).await;
        table.blackhole("10.244.1.0/24");
    }
    seconds(10).await;
    assert_eq!((table.routes().len(), world.reasons()), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_condition_is_overwritten_without_a_list() {
    let table = Table::new();
    let world = running(&table);
    world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
    seconds(5).await;
    table.calls();
    world.change("worker-1", |node| {
        node["status"]["conditions"][0]["reason"] = "CalicoIsUp".into();
    });
    seconds(11).await;
    assert_eq!(
        (world.condition("worker-1"), table.calls()),
        (CREATED.into(), vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn one_call_at_a_time_comes_in_a_fixed_order() {
    let table = Table::new().taking(Duration::from_secs(1));
    let mut options = product("10.244.0.0/16");
    options.route.concurrency = 1;
    let world = World::new(Arc::new(table.clone()), &options);
    for n in [3, 1, 2] {
        world.put(
            &format!("worker-{n}"),
            &format!("table://{n}"),
            "10.0.0.1",
            &[&format!("10.244.{n}.0/24")],
        );
        table.put(
            &format!("old-{n}"),
            "gone",
            &format!("10.244.10{n}.0/24"),
            Some(true),
        );
    }
    table.put("old-9", "worker-9", "10.244.2.0/24", Some(true));
    world.run();
    seconds(20).await;
    let calls = [
        "list",
        "delete 10.244.101.0/24",
        "delete 10.244.102.0/24",
        "delete 10.244.103.0/24",
        "delete 10.244.2.0/24",
        "create 10.244.1.0/24",
        "create 10.244.3.0/24",
        "create 10.244.2.0/24",
    ];
    assert_eq!(
        (table.calls(), table.most()),
        (calls.map(str::to_owned).to_vec(), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_a_time_than_allowed() {
    let table = Table::new().taking(Duration::from_secs(1));
    let world = running(&table);
    for n in 1..=100 {
        world.put(
            &format!("worker-{n}"),
            &format!("table://{n}"),
            "10.0.0.1",
            &[&format!("10.244.{n}.0/24")],
        );
    }
    seconds(30).await;
    assert_eq!((table.routes().len(), table.most()), (100, 16));
    assert_eq!(
        world.writes(),
        100,
        "no Node was told that its route is missing while it was being made"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_stays_whatever_it_looks_like() {
    let table = Table::new();
    let world = running(&table);
    // Routes: in the cluster's range without a Node, with a Node of another range, and outside of the range with an
    // unknown owner.
    table.put("foreign-1", "", "10.244.7.0/24", Some(false));
    table.put("foreign-2", "gone", "10.244.8.0/24", Some(false));
    table.put("foreign-3", "worker-1", "10.244.9.0/24", Some(false));
    table.put("outside", "gone", "172.16.0.0/24", None);
    world.put("worker-1", "table://1", "10.0.0.1", &["10.244.1.0/24"]);
    seconds(3600).await;
    assert_eq!(table.routes().len(), 5, "{:?}", table.routes());
    assert!(
        !table.calls().iter().any(|call| call.starts_with("delete")),
        "INV-7"
    );
    assert_eq!(world.condition("worker-1"), CREATED);
}
