//! INV-7: what belongs to others, and what others do to ours.

use super::{minutes, prove, settled};
use crate::profile::MakeProfile;

/// INV-7: what is not ours stays as it is while Nodes and Services come, change and go.
///
/// # Panics
/// If it does not hold.
pub fn things_of_others_stay_as_they_are(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        harness.join(1..=3).await;
        cloud.leave_things_of_others();
        let theirs = cloud.things_of_others();
        assert!(!theirs.is_empty());

        let program = harness.start().await.expect("a start");
        harness.user.create_service("web", &[80, 443]).await;
        harness.settle().await;
        harness.user.set_ports("web", &[80]).await;
        harness.settle().await;
        assert_eq!(cloud.things_of_others(), theirs, "while a Service and Nodes are there");
        harness.user.delete_service("web").await;
        harness.user.delete_node("worker-3").await;
        minutes(15).await;
        program.stop().await;
        assert_eq!(cloud.things_of_others(), theirs, "after they are deleted");
    });
}

/// What somebody changed or deleted in the cloud's console is repaired when the Services are synced the next time.
///
/// # Panics
/// If it does not hold.
pub fn drift_is_repaired_at_the_next_sync(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=3).await;
        for name in ["web", "mail"] {
            harness.user.create_service(name, &[80, 443]).await;
        }
        settled(&harness).await.stop().await;
        if harness.cloud.tamper() {
            assert!(harness.cloud.load_balancers().iter().all(|it| it.ports.is_empty()), "the ports are gone");
            settled(&harness).await.stop().await;
        }
        if harness.cloud.remove_load_balancers() {
            assert_eq!(harness.cloud.load_balancers(), []);
            settled(&harness).await.stop().await;
        }
        assert_eq!(harness.cloud.load_balancers().len(), 2);
        assert_eq!(harness.violations(), [""; 0]);
    });
}
