//! The AWS provider on a cloud that shows new objects late, holds security groups for long, and throttles.

use std::time::Duration;

use aws_fake::World;
use ccm_conformance::Harness;
use ccm_conformance::virtual_time::VirtualTime;
use ccm_tests::profiles::AwsCloud;

/// Nodes join, and Services come, change and go, with load balancers of both kinds, on a cloud with these delays.
fn live(delay: impl Fn(&mut World)) {
    for cloud in [AwsCloud::classic(), AwsCloud::network()] {
        delay(&mut cloud.fake.lock());
        let harness = Harness::with_routes(&cloud);
        VirtualTime::default().live(async || {
            let program = harness.start().await.expect("a start");
            harness.join(1..=3).await;
            for name in ["web", "mail"] {
                harness.user.create_service(name, &[80, 443]).await;
            }
            // A kubelet that is not ready yet: is its instance gone?
            harness.user.set_ready("worker-2", false).await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(
                harness.api.list("nodes").len(),
                3,
                "an instance that EC2 does not show yet is not gone"
            );
            harness.user.set_ready("worker-2", true).await;
            harness.settle().await;
            assert_eq!(harness.cloud.load_balancers().len(), 2);
            harness.user.set_ports("web", &[443]).await;
            harness.settle().await;
            for name in ["web", "mail"] {
                harness.user.delete_service(name).await;
            }
            harness.settle().await;
            assert_eq!(harness.cloud.load_balancers(), []);
            assert_eq!(harness.cloud.leftovers(), [""; 0]);
            assert_eq!(harness.violations(), [""; 0]);
            program.stop().await;
        });
    }
}

#[test]
fn instances_groups_and_tags_that_are_shown_late_are_neither_lost_nor_created_twice() {
    live(|world| world.lag = Duration::from_secs(45));
}

#[test]
fn security_groups_that_are_held_for_minutes_are_deleted_in_the_end() {
    live(|world| world.detaching = Duration::from_secs(300));
}

#[test]
fn throttled_requests_delay_load_balancers_and_lose_none() {
    live(|world| world.limits = [(4, 2), (3, 3)]);
}
