//! Requests that the cloud refuses: a quota, too many requests.

use std::time::Duration;

use fake_cloud::Fault;

use super::{minutes, prove, settled};
use crate::profile::MakeProfile;

/// A load balancer that a quota refuses is reported and retried with pauses; others are synced meanwhile.
///
/// # Panics
/// If it does not hold.
pub fn refused_quota_is_reported_and_tried_again(make: MakeProfile) {
    /// The most attempts of an hour.
    const ATTEMPTS: usize = 30;
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        let Some(fault) = cloud.quota_fault() else {
            return;
        };
        harness.join(1..=2).await;
        harness.user.create_service("web", &[80]).await;
        let program = settled(&harness).await;
        cloud.fail(fault);
        let before = harness.count_on(cloud.api().create);
        harness.user.create_service("more", &[80]).await;
        minutes(30).await;
        harness.user.set_ports("web", &[443]).await;
        minutes(30).await;
        let attempts = harness.count_on(cloud.api().create) - before;
        assert!(
            (2..=ATTEMPTS).contains(&attempts),
            "{attempts} attempts in an hour"
        );
        assert!(
            harness
                .warnings(50)
                .iter()
                .any(|warning| warning.starts_with("more ")),
            "{:?}",
            harness.warnings(5)
        );
        let web = cloud.load_balancers();
        assert!(
            web.len() == 1 && web[0].ports.iter().all(|(port, ..)| *port == 443),
            "{web:?}"
        );
        cloud.clear_faults();
        harness.settle().await;
        assert_eq!(cloud.load_balancers().len(), 2);
        assert_eq!(harness.violations(), [""; 0]);
        program.stop().await;
    });
}

/// The program sends no request for the time in `Retry-After` of a response with 429.
///
/// # Panics
/// If it does not hold.
pub fn throttled_program_waits_as_long_as_the_cloud_asks(make: MakeProfile) {
    /// The most requests within one pause of the cloud: those under way, and one that tries whether it is over.
    const REQUESTS: usize = 25;
    prove(make, async |harness| {
        harness.join(1..=3).await;
        let program = settled(&harness).await;
        harness.cloud.fail(Fault::retry_after("", 429, 60));
        for number in 1..=10 {
            harness
                .user
                .create_service(&format!("service-{number}"), &[80])
                .await;
        }
        harness.user.set_ready("worker-2", false).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        _ = harness.account();
        minutes(10).await;
        let account = harness.account();
        assert!(account.total() <= 10 * REQUESTS, "{account}");
        harness.cloud.clear_faults();
        harness.user.set_ready("worker-2", true).await;
        harness.settle().await;
        assert_eq!(harness.cloud.load_balancers().len(), 10);
        program.stop().await;
    });
}
