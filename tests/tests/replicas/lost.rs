//! Leaders that cannot say good-bye.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::environment::Environment;
use crate::gaps::Gaps;
use crate::replica::LOST;
use crate::stage::{Identity, SOON, play};

/// What APP-63 and APP-67 allow: the lease's 15 s since its last renewal, which may be 2 s old, and a candidate's pause.
const EXPIRY: (Duration, Duration) = (Duration::from_secs(12), Duration::from_secs(20));

pub(crate) async fn a_killed_leader_is_followed_when_its_lease_has_expired(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(environment, "killed", Identity::Admin, &["--concurrent-service-syncs=2"], async |stage| {
        stage.nodes(2).await?;
        stage.converges().await?;
        stage.amid_work(6).await?;
        let (gap, _) = stage.gap_after(SOON, async |old| old.controller.kill().await).await?;
        gaps.note("SIGKILL, in the middle of work", gap, EXPIRY)?;
        stage.hurry();
        stage.converges().await?;
        stage.work_goes_on().await
    })
    .await
}

pub(crate) async fn a_frozen_leader_changes_nothing_when_it_goes_on(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(environment, "frozen", Identity::Admin, &["--concurrent-service-syncs=2"], async |stage| {
        stage.nodes(2).await?;
        stage.converges().await?;
        stage.amid_work(8).await?;
        let (gap, mut frozen) = stage.gap_after(SOON, async |old| old.controller.freeze()).await?;
        gaps.note("SIGSTOP, in the middle of work", gap, EXPIRY)?;
        stage.hurry();
        stage.work_goes_on().await?;
        // Nobody has anything to do any more: what changes now, the frozen one changed.
        let (changes, versions) = (stage.changes(), stage.versions().await?);
        frozen.controller.resume()?;
        let status = frozen.controller.ended(SOON).await?;
        ensure!(status.code() == Some(1), "it ended with {status}, not with 1");
        ensure!(frozen.controller.log().contains(LOST), "it did not say why");
        ensure!(stage.changes() == changes, "it changed something in the cloud");
        ensure!(stage.versions().await? == versions, "it changed something in the cluster");
        stage.work_goes_on().await
    })
    .await
}

pub(crate) async fn an_api_server_that_is_restarted_costs_no_leader(
    environment: &Environment,
    _gaps: &Gaps,
) -> Result<()> {
    play(environment, "restarted", Identity::Admin, &[], async |stage| {
        stage.work_goes_on().await?;
        let (_, before) = stage.leader().await?;
        environment.fault(&["restart"]).await?;
        let (_, after) = stage.leader().await?;
        ensure!(before == after, "another leads");
        for replica in &mut stage.replicas {
            replica.controller.check()?;
        }
        stage.work_goes_on().await
    })
    .await
}

pub(crate) async fn an_api_server_that_stays_away_costs_the_leader_and_another_follows(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(environment, "away", Identity::Admin, &[], async |stage| {
        stage.work_goes_on().await?;
        let (index, before) = stage.leader().await?;
        let mut old = stage.replicas.remove(index);
        environment.fault(&["kill"]).await?;
        let start = std::time::Instant::now();
        let status = old.controller.ended(SOON).await?;
        gaps.note(
            "API server away: from its end to the leader's",
            start.elapsed(),
            (Duration::from_secs(5), Duration::from_secs(14)),
        )?;
        ensure!(status.code() == Some(1), "it ended with {status}, not with 1");
        ensure!(old.controller.log().contains(LOST), "it did not say why");
        for replica in &mut stage.replicas {
            replica.controller.check()?;
        }
        environment.fault(&["restart"]).await?;
        // As a kubelet does.
        stage.add()?;
        let (_, after) = stage.leader().await?;
        ensure!(before != after, "the one that ended leads");
        stage.work_goes_on().await
    })
    .await
}
