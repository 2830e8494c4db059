//! Leaders that are asked to end.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::environment::Environment;
use crate::gaps::Gaps;
use crate::replica::RELEASED;
use crate::stage::{Identity, SOON, STOP, play};

pub(crate) async fn an_idle_leader_that_is_stopped_is_followed_within_a_second(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    idle(environment, gaps, "watched", Identity::Admin, "SIGTERM, idle; the lease may be watched", 1).await
}

pub(crate) async fn where_the_lease_may_not_be_watched_it_takes_less_than_five_seconds(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    idle(environment, gaps, "polled", Identity::NoWatchOfLeases, "SIGTERM, idle; the reference's role", 5).await
}

async fn idle(
    environment: &Environment,
    gaps: &Gaps,
    label: &str,
    identity: Identity,
    what: &'static str,
    seconds: u64,
) -> Result<()> {
    play(environment, label, identity, &[], async |stage| {
        stage.nodes(2).await?;
        stage.services(2).await?;
        stage.converges().await?;
        let (gap, old) = stage
            .gap_after(SOON, async |old| {
                let status = old.controller.stop(STOP).await?;
                ensure!(status.success(), "the leader ended with {status} after SIGTERM");
                Ok(())
            })
            .await?;
        ensure!(old.controller.log().contains(RELEASED), "the lease was not released");
        gaps.note(what, gap, (Duration::ZERO, Duration::from_secs(seconds)))?;
        stage.work_goes_on().await
    })
    .await
}

pub(crate) async fn a_leader_stopped_in_the_middle_of_work_finishes_it_and_then_hands_over(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(environment, "busy", Identity::Admin, &["--concurrent-service-syncs=2"], async |stage| {
        stage.nodes(2).await?;
        stage.converges().await?;
        stage.amid_work(10).await?;
        let cloud = stage.cloud().clone();
        let (gap, old) = stage
            .gap_after(SOON, async |old| {
                let status = old.controller.stop(STOP).await?;
                ensure!(status.success(), "the leader ended with {status} after SIGTERM");
                // Before another leads and goes on.
                let made = cloud.load_balancers().len();
                ensure!((2..10).contains(&made), "{made} of 10 load balancers were made: what was begun, and nothing new");
                Ok(())
            })
            .await?;
        ensure!(old.controller.log().contains(RELEASED), "the lease was not released");
        stage.hurry();
        gaps.note(
            "SIGTERM, in the middle of work (drained, then released)",
            gap,
            (Duration::ZERO, Duration::from_secs(11)),
        )?;
        stage.converges().await?;
        stage.work_goes_on().await
    })
    .await
}
