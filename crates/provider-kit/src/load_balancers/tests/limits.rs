//! A cloud with a limit on the number of targets.
//!
//! Rules: D-184, D-247.

use cloud_provider::LoadBalancers;

use super::super::{ResourceGraph, Targets};
use super::small::{Town, with_targets};

fn town(most: usize) -> Town {
    let town = Town::default();
    town.cloud.state().most_targets = Some(most);
    town
}

fn told(town: &Town) -> Vec<String> {
    let told = std::mem::take(&mut town.cloud.state().left_out);
    told.into_iter()
        .map(|(pool, targets)| format!("{pool}: {targets}"))
        .collect()
}

fn present(town: &Town) -> Targets {
    town.cloud.one("lb-1").graph.unwrap().targets_of("main")
}

fn of(targets: &[&str]) -> Targets {
    targets.iter().collect()
}

fn at_most(most: usize, targets: &[&str]) -> ResourceGraph {
    with_targets(targets).limit("main", most)
}

#[tokio::test(start_paused = true)]
async fn present_targets_stay_and_those_without_room_are_reported_once() {
    let mut town = town(2);
    let service = town.service("s1", at_most(2, &["b", "c", "d"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        (present(&town), told(&town)),
        (of(&["b", "c"]), vec!["main: d".to_owned()])
    );
    town.cloud.requests();

    // A target joins that precedes all others in order.
    town.want("s1", with_targets(&["a", "b", "c", "d"]));
    town.balancers
        .update_targets(town.request(&service))
        .await
        .unwrap();
    assert_eq!(
        (present(&town), told(&town)),
        (of(&["b", "c"]), vec!["main: a".to_owned()])
    );
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!((town.cloud.requests(), told(&town)), (vec![], vec![]));

    // A target leaves, and the next one in order takes its room.
    town.want("s1", with_targets(&["a", "b", "d"]));
    town.balancers
        .update_targets(town.request(&service))
        .await
        .unwrap();
    assert_eq!((present(&town), told(&town)), (of(&["a", "b"]), vec![]));
    assert_eq!(
        town.cloud.requests(),
        ["RemoveTargets", "AddTargets"],
        "no quota is met"
    );

    // After a start, only new targets without room are reported, not those that had none before.
    town.restart();
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        (town.cloud.requests(), told(&town)),
        (vec!["list".to_owned()], vec![])
    );
    town.want("s1", with_targets(&["a", "b", "d", "e"]));
    town.balancers
        .update_targets(town.request(&service))
        .await
        .unwrap();
    assert_eq!(
        (town.cloud.requests(), told(&town)),
        (vec![], vec!["main: e".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn all_targets_are_replaced_at_a_limit_and_the_pool_is_never_empty() {
    let town = town(2);
    let service = town.service("s1", at_most(2, &["a", "b"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.requests();
    town.want("s1", at_most(2, &["c", "d"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        town.cloud.requests(),
        ["RemoveTargets", "AddTargets", "RemoveTargets", "AddTargets"]
    );
    assert_eq!((present(&town), told(&town)), (of(&["c", "d"]), vec![]));
}

#[tokio::test(start_paused = true)]
async fn limit_below_the_number_of_targets_removes_the_surplus() {
    let town = town(4);
    let service = town.service("s1", with_targets(&["a", "b", "c"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.state().most_targets = None;
    tokio::time::sleep(super::super::MAX_AGE).await;
    town.want("s1", at_most(2, &["a", "b", "c"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        (present(&town), told(&town)),
        (of(&["a", "b"]), vec!["main: c".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn quota_error_makes_room_where_no_limit_is_known() {
    let town = town(2);
    let service = town.service("s1", at_most(2, &["a", "b"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    // The desired state assumes a greater limit than the cloud has.
    town.want("s1", at_most(9, &["b", "c"]));
    town.cloud.requests();
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        town.cloud.requests(),
        ["AddTargets", "find", "RemoveTargets", "AddTargets"]
    );
    assert_eq!(present(&town), of(&["b", "c"]));
    town.want("s1", at_most(9, &["b", "c", "d"]));
    assert!(
        town.balancers
            .ensure(town.request(&service))
            .await
            .unwrap_err()
            .is_quota()
    );
}
