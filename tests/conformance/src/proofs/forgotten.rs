//! INV-9: an API server that forgets Services or Nodes.

use std::time::Duration;

use super::{prove, settled};
use crate::profile::MakeProfile;

/// The delay of the guard, as it is by default.
const DELAY: Duration = Duration::from_secs(300);
/// Time after the delay in which its effects show.
const MARGIN: Duration = Duration::from_secs(90);

/// INV-9: a Service that the API server forgot keeps its load balancer until its absence is confirmed, and Nodes that it
/// forgot stay targets as long.
///
/// # Panics
/// If it does not hold.
pub fn forgotten_services_and_nodes_keep_their_load_balancers(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=3).await;
        for number in 1..=6 {
            harness
                .user
                .create_service(&format!("service-{number}"), &[80])
                .await;
        }
        let program = settled(&harness).await;
        let balancers = harness.cloud.load_balancers();
        let mutations = harness.injector.mutations();
        assert_eq!(balancers.len(), 6);
        let expect_unchanged = |when: &str| {
            assert_eq!(harness.cloud.load_balancers(), balancers, "{when}");
            assert_eq!(
                harness.injector.mutations(),
                mutations,
                "{when}: {:#?}",
                harness.injector.last(10)
            );
        };

        // All of them, for a day: an expired watch, an empty list and 404s.
        harness.api.lose_storage("services");
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        expect_unchanged("while all Services are forgotten");
        harness.api.restore_storage("services");
        tokio::time::sleep(DELAY + MARGIN).await;
        expect_unchanged("when they are shown again");

        // The Nodes, for less than the delay.
        harness.api.lose_storage("nodes");
        tokio::time::sleep(DELAY - MARGIN).await;
        expect_unchanged("while all Nodes are forgotten");
        harness.api.restore_storage("nodes");
        tokio::time::sleep(DELAY + MARGIN).await;
        expect_unchanged("when they are shown again, too");

        // One Service is deleted for good.
        assert!(harness.api.remove("services", Some("default"), "service-6"));
        tokio::time::sleep(DELAY - MARGIN).await;
        expect_unchanged("while nothing confirms that the Service is gone");
        tokio::time::sleep(2 * MARGIN).await;
        harness.settle().await;
        assert_eq!(
            harness.cloud.load_balancers().len(),
            5,
            "its absence was confirmed"
        );
        assert_eq!(harness.violations(), [""; 0]);
        program.stop().await;
    });
}
