//! Cost of the configured resources in requests.

use std::time::Duration;

use ccm_conformance::Harness;
use ccm_tests::profiles::OpenStackCloud;
use openstack_fake::{Fault, FaultKind};

#[tokio::test(start_paused = true)]
async fn a_floating_ip_a_security_group_and_monitors_cost_their_share() {
    const FEW: usize = 10;
    let cloud = OpenStackCloud::default();
    // Changes during a pending change are combined with the next one.
    cloud.fake.fail(Fault::new(
        "PUT",
        FaultKind::Latency(Duration::from_millis(100)),
    ));
    let harness = Harness::with_routes(&cloud);
    harness.join(1..=FEW).await;
    let _program = harness.start().await.unwrap();
    harness.settle().await;
    let joined = harness.account();
    println!("{FEW} Nodes with routes: {joined}");
    // Each port lets its range through; the routes go together.
    assert!(joined.changes <= FEW + 4, "{joined}");

    harness.user.create_service("web", &[80, 443]).await;
    harness.settle().await;
    let made = harness.account();
    println!(
        "a load balancer with 2 ports, floating IP, monitors and security group was made: {made}"
    );
    // The tree, the floating IP, the group and its rules (or one each), the group on each port.
    assert!(made.changes <= 2 + 1 + 4 + FEW, "{made}");

    tokio::time::sleep(Duration::from_secs(600)).await;
    let steady = harness.account();
    println!("ten steady minutes: {steady}");
    assert_eq!(steady.changes, 0, "{steady}");
}
