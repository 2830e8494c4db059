//! Leaders that are stopped gracefully.

use std::time::Duration;

use anyhow::{Result, ensure};
use ccm_tests::door::Waits;
use ccm_tests::wait::until;

use crate::environment::Environment;
use crate::gaps::Gaps;
use crate::replica::{RELEASED, STOPPING};
use crate::stage::{AMID, CREATE, Identity, SOON, STOP, UNDER_WAY, play};

/// Flags for a long interval between two polls of the Lease, so that a successor that follows at once cannot owe it to
/// a poll.
const SELDOM: &[&str] = &[
    "--leader-elect-lease-duration=150s",
    "--leader-elect-renew-deadline=140s",
    "--leader-elect-retry-period=60s",
];

pub(crate) async fn an_idle_leader_that_is_stopped_is_followed_within_a_second(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    idle(
        environment,
        gaps,
        "watched",
        Identity::Admin,
        SELDOM,
        "SIGTERM, idle; the lease may be watched",
        1,
    )
    .await
}

pub(crate) async fn where_the_lease_may_not_be_watched_it_takes_less_than_five_seconds(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    idle(
        environment,
        gaps,
        "polled",
        Identity::NoWatchOfLeases,
        &[],
        "SIGTERM, idle; the reference's role",
        5,
    )
    .await
}

async fn idle(
    environment: &Environment,
    gaps: &Gaps,
    label: &str,
    identity: Identity,
    flags: &[&str],
    what: &'static str,
    seconds: u64,
) -> Result<()> {
    play(environment, label, identity, flags, async |stage| {
        stage.nodes(2).await?;
        stage.services(2).await?;
        gaps.at_most(Duration::from_secs(seconds), what, async || {
            stage.converges().await?;
            let (gap, old) = stage
                .gap_after(async |old| {
                    let status = old.controller.stop(STOP).await?;
                    ensure!(
                        status.success(),
                        "the leader ended with {status} after SIGTERM"
                    );
                    Ok(())
                })
                .await?;
            ensure!(
                old.controller.log().contains(RELEASED),
                "the lease was not released"
            );
            stage.add()?;
            stage.work_goes_on().await?;
            Ok(gap)
        })
        .await
    })
    .await
}

pub(crate) async fn a_leader_stopped_in_the_middle_of_work_finishes_it_and_then_hands_over(
    environment: &Environment,
    gaps: &Gaps,
) -> Result<()> {
    play(environment, "busy", Identity::Admin, AMID, async |stage| {
        stage.nodes(2).await?;
        gaps.at_most(
            Duration::from_secs(11),
            "SIGTERM, in the middle of work (drained, then released)",
            async || {
                stage.converges().await?;
                let before = stage.cloud().load_balancers().len();
                stage.amid_work(10, Waits::Request).await?;
                let cloud = stage.cloud().clone();
                let door = stage.door().clone();
                let (gap, old) = stage
                    .gap_after(async |old| {
                        old.controller.ask_to_end()?;
                        until("it is about to end", SOON, async || {
                            ensure!(old.controller.log().contains(STOPPING), "it goes on");
                            Ok(())
                        })
                        .await?;
                        // The successor's requests wait as well.
                        door.hold(Waits::Request, CREATE, 0);
                        let status = old.controller.ended(STOP).await?;
                        ensure!(
                            status.success(),
                            "the leader ended with {status} after SIGTERM"
                        );
                        let made = cloud.load_balancers().len() - before;
                        ensure!(
                            made == UNDER_WAY,
                            "{made} of 10 load balancers were made, not what was begun"
                        );
                        Ok(())
                    })
                    .await?;
                ensure!(
                    old.controller.log().contains(RELEASED),
                    "the lease was not released"
                );
                stage.door().open();
                stage.add()?;
                stage.converges().await?;
                Ok(gap)
            },
        )
        .await?;
        stage.work_goes_on().await
    })
    .await
}
