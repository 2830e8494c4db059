//! INV-4: fencing of writes by leadership.

use cloud_provider::Fence;

use super::{minutes, prove};
use crate::profile::MakeProfile;

/// INV-4: a program that does not lead changes nothing.
///
/// # Panics
/// If it does not hold.
pub fn program_that_does_not_lead_changes_nothing(make: MakeProfile) {
    prove(make, async |mut harness| {
        harness.fence = Fence::new(|| false);
        harness.join(1..=5).await;
        harness.user.create_service("web", &[80]).await;
        let _program = harness.start().await.expect("a start");
        minutes(15).await;
        assert!(harness.injector.count() > 0, "it works, and reads");
        assert_eq!(
            harness.injector.mutations(),
            0,
            "{:#?}",
            harness.injector.last(10)
        );
    });
}
