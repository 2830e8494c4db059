//! INV-3: a steady state.

use super::{minutes, prove, settled};
use crate::profile::MakeProfile;

/// INV-3: a steady cluster sends no change and no event, and neither does a restart or a flapping Node.
///
/// # Panics
/// If it does not hold.
pub fn steady_cluster_restart_and_flapping_node_change_nothing(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=5).await;
        for name in ["web", "mail", "api"] {
            harness.user.create_service(name, &[80, 443]).await;
        }
        let program = settled(&harness).await;
        let mutations = harness.injector.mutations();
        let events = harness.event_reasons();
        let revision = harness.api.revision();
        let expect_silence = |when: &str| {
            assert_eq!(
                harness.injector.mutations(),
                mutations,
                "{when}: {:#?}",
                harness.injector.last(20)
            );
            assert_eq!(harness.event_reasons(), events, "{when}");
        };

        minutes(26 * 60).await;
        expect_silence("in a day");
        assert_eq!(harness.api.revision(), revision);

        program.stop().await;
        let program = harness.start().await.expect("a start");
        minutes(15).await;
        expect_silence("after a restart");

        for is_ready in [false, true, false] {
            harness.user.set_ready("worker-2", is_ready).await;
            minutes(2).await;
        }
        expect_silence("while a Node flaps");

        program.stop().await;
        let program = harness.start().await.expect("a start");
        minutes(15).await;
        expect_silence("after a restart while a Node is not ready");
        program.stop().await;
        expect_silence("while it stops");
    });
}
