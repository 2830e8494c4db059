//! Leaders that lose the Lease without releasing it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ccm_tests::door::Waits;
use jiff::Timestamp;

use crate::environment::Environment;
use crate::gaps::Gaps;
use crate::replica::LOST;
use crate::stage::{AMID, Identity, SOON, play};

/// Longest time that APP-63 and APP-67 allow: the Lease's 15 s since its last renewal, and a candidate's pause.
const EXPIRY: Duration = Duration::from_secs(20);
/// Default renew deadline: the time for which a leader that cannot renew its Lease continues to lead.
const DEADLINE: Duration = Duration::from_secs(10);
/// Time from the API server's end until the process ends: before the Lease has expired.
const END: Duration = Duration::from_secs(14);
/// A lease that outlasts any restart of an API server, also on a slow machine.
const LONG: &[&str] = &[
    "--leader-elect-lease-duration=150s",
    "--leader-elect-renew-deadline=140s",
];

pub(crate) async fn a_killed_leader_is_followed_when_its_lease_has_expired(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(
        environment,
        "killed",
        Identity::Admin,
        AMID,
        async |stage| {
            stage.nodes(2).await?;
            stage.converges().await?;
            gaps.at_most(EXPIRY, "SIGKILL, in the middle of work", async || {
                // The load balancers are there, and the leader will never know.
                stage.amid_work(6, Waits::Answer).await?;
                let (gap, _) = stage
                    .gap_of_expiry(async |old| old.controller.kill().await)
                    .await?;
                stage.door().open();
                stage.add()?;
                stage.converges().await?;
                Ok(gap)
            })
            .await?;
            stage.work_goes_on().await
        },
    )
    .await
}

pub(crate) async fn a_frozen_leader_changes_nothing_when_it_goes_on(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(
        environment,
        "frozen",
        Identity::Admin,
        AMID,
        async |stage| {
            stage.nodes(2).await?;
            stage.converges().await?;
            gaps.at_most(EXPIRY, "SIGSTOP, in the middle of work", async || {
                stage.amid_work(8, Waits::Answer).await?;
                let (gap, mut frozen) = stage
                    .gap_of_expiry(async |old| old.controller.freeze())
                    .await?;
                stage.door().open();
                stage.work_goes_on().await?;
                // No replica has work now: any change was made by the frozen one.
                let changes = stage.changes();
                let versions = stage.versions().await?;
                frozen.controller.resume()?;
                let status = frozen.controller.ended(SOON).await?;
                ensure!(
                    status.code() == Some(1),
                    "it ended with {status}, not with 1"
                );
                ensure!(frozen.controller.log().contains(LOST), "it did not say why");
                ensure!(
                    stage.changes() == changes,
                    "it changed something in the cloud"
                );
                ensure!(
                    stage.versions().await? == versions,
                    "it changed something in the cluster"
                );
                stage.add()?;
                Ok(gap)
            })
            .await?;
            stage.work_goes_on().await
        },
    )
    .await
}

pub(crate) async fn an_api_server_that_is_restarted_costs_no_leader(
    environment: &Environment,
    _gaps: &Gaps,
) -> Result<()> {
    play(
        environment,
        "restarted",
        Identity::Admin,
        LONG,
        async |stage| {
            stage.work_goes_on().await?;
            let (_, before) = stage.leader().await?;
            environment.fault(&["restart"]).await?;
            let (_, after) = stage.leader().await?;
            ensure!(before == after, "another leads");
            for replica in &mut stage.replicas {
                replica.controller.check()?;
            }
            stage.work_goes_on().await
        },
    )
    .await
}

pub(crate) async fn an_api_server_that_stays_away_costs_the_leader_and_another_follows(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(environment, "away", Identity::Admin, &[], async |stage| {
        stage.work_goes_on().await?;
        gaps.at_most(
            END,
            "API server away: from its end to the leader's",
            async || {
                let (index, before) = stage.leader().await?;
                let mut old = stage.replicas.remove(index);
                let renewed = stage.held().await?.renewed;
                environment.fault(&["kill"]).await?;
                let start = Instant::now();
                let status = old.controller.ended(SOON).await;
                let gap = start.elapsed();
                let unrenewed = Timestamp::now().duration_since(renewed).unsigned_abs();
                let others = stage
                    .replicas
                    .iter_mut()
                    .try_for_each(|replica| replica.controller.check());
                // First of all: without it nothing can be cleaned up.
                environment.fault(&["restart"]).await?;
                let status = status?;
                ensure!(
                    unrenewed >= DEADLINE,
                    "it ended {unrenewed:?} after its last renewal, too early"
                );
                ensure!(
                    status.code() == Some(1),
                    "it ended with {status}, not with 1"
                );
                ensure!(old.controller.log().contains(LOST), "it did not say why");
                others?;
                // As a kubelet restarts a container.
                stage.add()?;
                let (_, after) = stage.leader().await?;
                ensure!(before != after, "the one that ended leads");
                stage.work_goes_on().await?;
                Ok(gap)
            },
        )
        .await
    })
    .await
}
