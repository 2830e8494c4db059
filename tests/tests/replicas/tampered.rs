//! Persons, and clocks, that meddle with the Lease.

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use serde_json::json;

use crate::environment::Environment;
use crate::gaps::Gaps;
use crate::stage::{Identity, SOON, play};

pub(crate) async fn a_lease_that_a_person_deletes_is_back_and_its_leader_stays(
    environment: &Environment,
    _gaps: &Gaps,
) -> Result<()> {
    play(
        environment,
        "deleted",
        Identity::Admin,
        &[],
        async |stage| {
            stage.work_goes_on().await?;
            let (_, before) = stage.leader().await?;
            for _ in 0..3 {
                stage.lease.delete().await?;
                let back = async || stage.lease.held().await?.context("it is not back");
                let after = until("the lease is back", SOON, back).await?.by;
                ensure!(before == after, "another leads: {after}, not {before}");
            }
            for replica in &mut stage.replicas {
                replica.controller.check()?;
            }
            stage.work_goes_on().await
        },
    )
    .await
}

pub(crate) async fn times_that_a_wrong_clock_writes_into_the_lease_change_nothing(
    environment: &Environment,
    _gaps: &Gaps,
) -> Result<()> {
    play(environment, "clocks", Identity::Admin, &[], async |stage| {
        stage.work_goes_on().await?;
        let (_, before) = stage.leader().await?;
        let transitions = stage.lease.transitions().await?;
        for time in ["2000-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z"] {
            stage
                .lease
                .write(&json!({"renewTime": time, "acquireTime": time}))
                .await?;
            stage.work_goes_on().await?;
        }
        let (_, after) = stage.leader().await?;
        ensure!(
            before == after && transitions == stage.lease.transitions().await?,
            "it changed hands"
        );
        for replica in &mut stage.replicas {
            replica.controller.check()?;
        }
        Ok(())
    })
    .await
}
