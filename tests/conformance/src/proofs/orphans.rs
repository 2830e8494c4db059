//! Proofs of the subcommand `orphans`: resources of deleted Services are listed and deleted, and nothing else.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use manager::orphans::{OrphanReport, OrphanState, delete, find};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{minutes, prove, settled};
use crate::Harness;
use crate::crash::in_parallel;
use crate::end_state::EndState;
use crate::fault_injector::Moment;
use crate::profile::MakeProfile;
use crate::virtual_time::VirtualTime;

/// Number of crash points that are tried.
const CRASHES: usize = 12;
/// Time in which background work of the cloud ends.
const LINGER: Duration = Duration::from_secs(60);

/// Returns a harness on which each run is the same.
fn harness(make: MakeProfile) -> Harness {
    fastrand::seed(1);
    Harness::boxed(make()).routes().build()
}

/// Creates a cluster with a live Service `web`, the orphans of two deleted Services, and things of others. Returns the
/// UIDs in the owner tags of all other load balancers.
async fn leave_orphans(harness: &Harness) -> Uids {
    harness.join(1..=3).await;
    harness.cloud.leave_things_of_others();
    let names = ["web", "mail", "api"];
    for name in names {
        harness.user.create_service(name, &[80, 443]).await;
    }
    settled(harness).await.stop().await;
    let dead = ["mail", "api"].map(|name| Some(harness.uid(name)));
    for name in ["mail", "api"] {
        // A person removes the finalizer while no manager runs.
        harness
            .user
            .patch_service(name, &json!({"metadata": {"finalizers": null}}))
            .await;
        harness.user.delete_service(name).await;
    }
    if harness.has_routes() {
        harness.user.delete_node("worker-3").await;
    }
    uids(harness)
        .into_iter()
        .filter(|uid| !dead.contains(uid))
        .collect()
}

/// Runs the subcommand as it runs in a process of its own, much later.
async fn orphans(harness: &Harness, deletes: bool) -> OrphanReport {
    orphans_until(harness, deletes, &CancellationToken::new()).await
}

async fn orphans_until(harness: &Harness, deletes: bool, stop: &CancellationToken) -> OrphanReport {
    let client = harness.client();
    let provider = harness.provider(&harness.fence);
    let cluster = harness.cluster();
    let shutdown = CancellationToken::new();
    harness
        .initialize_for_command(&*provider, &shutdown)
        .await
        .expect("a provider");
    let later = Timestamp::now() + SignedDuration::from_hours(24);
    let mut report = find(&client, &*provider, &cluster, later).await;
    if deletes {
        delete(&client, &*provider, &mut report, stop, |_| {}).await;
    }
    shutdown.cancel();
    report
}

/// UIDs of Services in owner tags.
type Uids = BTreeSet<Option<String>>;

fn uids(harness: &Harness) -> Uids {
    harness
        .cloud
        .load_balancers()
        .into_iter()
        .map(|facts| facts.service_uid)
        .collect()
}

/// Objects of the cloud, in an order that means nothing.
fn objects(harness: &Harness) -> Vec<String> {
    let mut objects: Vec<String> = harness
        .cloud
        .objects()
        .iter()
        .map(Value::to_string)
        .collect();
    objects.sort();
    objects
}

/// `orphans` lists what deleted Services and Nodes left, with the reason for what it keeps, and changes nothing; with `--delete` it
/// deletes that, and nothing else.
///
/// # Panics
/// If it does not hold.
pub fn orphans_lists_and_deletes_what_deleted_services_left_and_nothing_else(make: MakeProfile) {
    prove(make, async |harness| {
        let others = leave_orphans(&harness).await;
        let before = objects(&harness);
        let theirs = harness.cloud.things_of_others();
        let mutations = harness.injector.mutations();

        let report = orphans(&harness, false).await;
        assert_eq!(report.errors, [""; 0]);
        let listed = report
            .orphans
            .iter()
            .filter(|orphan| orphan.resource.kind == "load balancer")
            .count();
        assert_eq!(listed, 2, "{report:#?}");
        assert_eq!(
            report.count(|state| *state == OrphanState::Deletable),
            report.orphans.len(),
            "{report:#?}"
        );
        assert_eq!(
            (report.exit_code(), harness.injector.mutations()),
            (2, mutations),
            "the list changes nothing"
        );

        let stopped = CancellationToken::new();
        stopped.cancel();
        let report = orphans_until(&harness, true, &stopped).await;
        assert_eq!(
            (
                report.count(|state| *state == OrphanState::NotTried),
                report.exit_code()
            ),
            (report.orphans.len(), 1)
        );
        harness.api.lose_storage("services");
        let blind = orphans(&harness, true).await;
        harness.api.restore_storage("services");
        assert!(
            blind.exit_code() == 1 && blind.orphans.is_empty(),
            "{blind:#?}"
        );
        assert_eq!(
            objects(&harness),
            before,
            "nothing is deleted if no Service is listed"
        );

        let report = orphans(&harness, true).await;
        assert!(
            report.orphans.iter().all(|orphan| orphan.state.is_over()),
            "{report:#?}"
        );
        assert_eq!(uids(&harness), others);
        assert_eq!(harness.cloud.things_of_others(), theirs);
        let report = orphans(&harness, true).await;
        assert_eq!(
            (report.orphans.len(), report.exit_code()),
            (0, 0),
            "{report:#?}"
        );

        let program = harness.start().await.expect("a start");
        minutes(5).await;
        program.stop().await;
        assert_eq!(
            (uids(&harness), harness.violations()),
            (others, Vec::new()),
            "the rest serves on"
        );
    });
}

/// INV-2: `orphans --delete` is killed before and after requests of it; another run deletes the rest, and nothing else.
///
/// # Panics
/// If it does not hold.
pub fn killed_at_any_request_orphans_deletes_the_rest_the_next_time(make: MakeProfile) {
    let (requests, end) = {
        let harness = harness(make);
        let mut time = VirtualTime::default();
        time.live(async || {
            leave_orphans(&harness).await;
            let before = harness.injector.count();
            orphans(&harness, true).await;
            let requests = harness.injector.count() - before;
            tokio::time::sleep(LINGER).await;
            (requests, EndState::of(&harness))
        })
    };
    let all: Vec<_> = (1..=requests)
        .flat_map(|number| [(number, Moment::Before), (number, Moment::After)])
        .collect();
    // Odd, so that both moments are met.
    let every = (all.len() / CRASHES).max(1) | 1;
    let points: Vec<_> = all.into_iter().step_by(every).collect();
    let reached = AtomicUsize::new(0);
    in_parallel(points.len(), |index| {
        let (number, moment) = points[index];
        let harness = harness(make);
        let mut time = VirtualTime::default();
        let (others, theirs) = time.live(async || {
            (
                leave_orphans(&harness).await,
                harness.cloud.things_of_others(),
            )
        });
        harness.injector.kill_at(number, moment);
        time.live(async || {
            tokio::select! {
                biased;
                () = harness.injector.died() => {
                    reached.fetch_add(1, Ordering::Relaxed);
                }
                _ = orphans(&harness, true) => {}
            }
        });
        harness.injector.revive();
        time.live(async || {
            tokio::time::sleep(LINGER).await;
            let report = orphans(&harness, true).await;
            let place = format!("killed {moment:?} request {number} of {requests}");
            assert!(
                report.errors.is_empty()
                    && report.orphans.iter().all(|orphan| orphan.state.is_over()),
                "{place}: {report:#?}"
            );
            assert_eq!(uids(&harness), others, "{place}");
            assert_eq!(harness.cloud.things_of_others(), theirs, "{place}");
            assert_eq!(orphans(&harness, false).await.orphans.len(), 0, "{place}");
            tokio::time::sleep(LINGER).await;
            assert_eq!(end.differences(&EndState::of(&harness)), [""; 0], "{place}");
        });
    });
    let reached = reached.into_inner();
    assert_eq!(
        reached,
        points.len(),
        "crash points that were not reached: the order of requests is not fixed"
    );
}
