//! Behaviour of a process in the face of permanent and temporary failures.
//!
//! Rules: APP-82, D-176, D-222.

use std::time::Duration;

use embedded_apiserver::{Action, Matcher};
use manager::{Failure, LostLease};

use crate::world::{World, lease_of, seconds};

const MIGRATION: &str = "cloud-provider-extraction-migration";

fn status(code: u16, reason: &str) -> Action {
    Action::Status {
        code,
        reason: reason.into(),
        message: "no".into(),
        retry_after_seconds: None,
    }
}

fn kube_system() -> Matcher {
    Matcher::any()
        .verb("get")
        .resource("namespaces")
        .name("kube-system")
}

#[tokio::test(start_paused = true)]
async fn a_candidate_whose_election_breaks_off_ends_the_process_with_1() {
    let world = World::new();
    world.hold_the_lease();
    let process = world.start(&[]).await;
    seconds(5).await;
    *world.poisoned.lock() = Some("cloud-controller-manager");
    let failure = tokio::time::timeout(Duration::from_secs(30), process.task).await;
    let failure = failure.expect("no zombie").unwrap().unwrap_err();
    assert!(
        matches!(failure, Failure::LostLease(LostLease::Main)),
        "{failure}"
    );
    assert_eq!(failure.code(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_for_the_second_lease_whose_election_breaks_off_ends_the_process_with_1() {
    let world = World::new();
    world
        .api
        .seed(lease_of(MIGRATION, "kube-controller-manager"))
        .unwrap();
    let process = world.start(&["--enable-leader-migration"]).await;
    seconds(5).await;
    *world.poisoned.lock() = Some(MIGRATION);
    let failure = tokio::time::timeout(Duration::from_secs(30), process.task).await;
    let failure = failure.expect("no zombie").unwrap().unwrap_err();
    assert!(
        matches!(failure, Failure::LostLease(LostLease::Migration)),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_start_of_the_work_waits_is_no_failure() {
    for (matcher, flags) in [
        (kube_system(), &[][..]),
        (
            Matcher::any()
                .verb("get")
                .resource("leases")
                .name("nothing"),
            &["--controller-start-interval=1h"][..],
        ),
    ] {
        let world = World::new();
        world
            .api
            .faults()
            .add(matcher, status(500, "InternalError"));
        let process = world.start(flags).await;
        seconds(5).await;
        let before = tokio::time::Instant::now();
        let ended = process.end().await;
        assert!(ended.is_ok(), "{flags:?}: {ended:?}");
        assert!(
            before.elapsed().as_secs() <= 1,
            "{flags:?}: {:?}",
            before.elapsed()
        );
        assert_eq!(world.holder(), "", "{flags:?}: released");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_cluster_whose_namespace_may_not_be_read_is_known_by_its_name_alone() {
    let passing = [
        status(401, "Unauthorized"),
        status(404, "page not found"),
        status(400, "BadRequest"),
        status(503, ""),
    ];
    for action in passing {
        let world = World::new();
        world.api.faults().add(kube_system(), action.clone());
        let process = world.start(&[]).await;
        seconds(20).await;
        assert!(!world.is_initialised(), "{action:?}: it waits");
        world.api.faults().clear();
        seconds(10).await;
        assert!(world.is_initialised(), "{action:?}");
        process.end().await.unwrap();
    }
    let world = World::new();
    world
        .api
        .faults()
        .add(kube_system(), status(403, "Forbidden"));
    let process = world.start(&[]).await;
    seconds(5).await;
    assert!(world.is_initialised(), "D-11");
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_never_read_ends_the_start_after_two_minutes_with_255() {
    let world = World::new();
    world
        .api
        .faults()
        .add(kube_system(), status(401, "Unauthorized"));
    let process = world.start(&[]).await;
    let failure = process.task.await.unwrap().unwrap_err();
    let text = failure.to_string();
    assert_eq!(failure.code(), 255);
    assert!(
        text.contains("namespace kube-system") && text.contains("within 120 s"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_given_up_keeps_others_away_until_the_lease_expires() {
    let world = World::new();
    world.slow_down(60_000);
    let process = world.start(&[]).await;
    seconds(5).await;
    let before = tokio::time::Instant::now();
    process.end().await.unwrap();
    assert!(before.elapsed().as_secs() < 10, "{:?}", before.elapsed());
    let holder = world.holder();
    assert!(!holder.is_empty(), "not released");
    let next = world.start(&[]).await;
    seconds(8).await;
    assert_eq!(world.holder(), holder);
    seconds(20).await;
    assert!(world.holder() != holder);
    next.task.abort();
}

#[tokio::test(start_paused = true)]
async fn the_second_lease_must_not_be_the_first() {
    let world = World::new();
    let flags = [
        "--enable-leader-migration",
        "--leader-elect-resource-name=cloud-provider-extraction-migration",
    ];
    let failure = world
        .prepare(&flags, false)
        .await
        .0
        .err()
        .expect("one Lease for both");
    assert_eq!(failure.code(), 1);
    assert!(failure.to_string().contains("leaderName"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_of_another_cluster_ends_the_process_with_both_uids() {
    for flags in [&["--leader-elect=false"][..], &[]] {
        let world = World::new();
        let running = world.start(flags).await;
        seconds(60).await;
        assert!(world.is_initialised());
        let mut namespace = world.api.get("namespaces", None, "kube-system").unwrap();
        let uid = namespace["metadata"]["uid"].as_str().unwrap().to_owned();
        namespace["metadata"]["uid"] = "another-cluster".into();
        world.api.seed(namespace).unwrap();
        let writes = || world.api.requests().writes().len();
        let before = (writes(), world.cloud.load_balancers().len());
        world.api.lose_storage("services");
        let failure = running.task.await.unwrap().unwrap_err();
        let text = failure.to_string();
        assert!(
            text.contains(&uid)
                && text.contains("another-cluster")
                && text.contains("start it again"),
            "{text}"
        );
        assert_eq!(failure.code(), 255);
        seconds(60).await;
        // The only write since the list is the renewal of the Lease.
        assert!(
            writes() - before.0 <= 1,
            "{:?}",
            world.api.requests().writes()
        );
        assert_eq!(world.cloud.load_balancers().len(), before.1);
    }
}

#[tokio::test(start_paused = true)]
async fn standby_replica_refuses_another_cluster_when_it_becomes_the_leader() {
    let world = World::new();
    world.hold_the_lease();
    let standby = world.start(&[]).await;
    seconds(5).await;
    let mut namespace = world.api.get("namespaces", None, "kube-system").unwrap();
    namespace["metadata"]["uid"] = "another-cluster".into();
    world.api.seed(namespace).unwrap();
    // The lease of the other leader expires.
    let failure = tokio::time::timeout(Duration::from_secs(120), standby.task)
        .await
        .expect("an end");
    let text = failure.unwrap().unwrap_err().to_string();
    assert!(
        text.contains("leads to another cluster") && text.contains("another-cluster"),
        "{text}"
    );
    assert!(
        !world.is_initialised(),
        "nothing is begun for the other cluster"
    );
}
