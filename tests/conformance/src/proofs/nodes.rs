//! INV-1: when a Node is deleted.

use std::time::Duration;

use super::{prove, settled};
use crate::profile::MakeProfile;

/// INV-1: a Node is deleted only when its machine certainly no longer exists. The list of 60 machines should have
/// several pages.
///
/// # Panics
/// If it does not hold.
pub fn nodes_are_deleted_only_when_their_machine_is_gone_for_certain(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        harness.join(1..=60).await;
        let _program = settled(&harness).await;
        // Few machines are read one by one, many with a list.
        for suspects in [2..=3, 4..=60] {
            for number in suspects {
                harness
                    .user
                    .set_ready(&format!("worker-{number}"), false)
                    .await;
            }
            // All faults at once are not more wrong than each by itself: one after the other, a long time each.
            for fault in cloud.list_faults(cloud.api().machines) {
                cloud.fail(fault.clone());
                tokio::time::sleep(Duration::from_secs(400)).await;
                assert_eq!(harness.api.list("nodes").len(), 60, "{fault:?}");
                cloud.clear_faults();
            }
        }
        // Not even if the credential's account has machines, all of them of others.
        for number in 0..70 {
            cloud.add_machine_of_others(&format!("theirs-{number}"));
        }
        cloud.confuse(true);
        tokio::time::sleep(Duration::from_secs(900)).await;
        cloud.confuse(false);
        assert_eq!(
            harness.api.list("nodes").len(),
            60,
            "the credential was for another account"
        );
        tokio::time::sleep(Duration::from_secs(60)).await;

        cloud.terminate("worker-7");
        harness.settle().await;
        assert_eq!(harness.api.list("nodes").len(), 59, "gone for certain");
        assert!(harness.api.get("nodes", None, "worker-7").is_none());
        assert_eq!(harness.violations(), [""; 0]);
    });
}
