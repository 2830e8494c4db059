//! INV-6: one key's failure or slowness never delays another key; calls for one Service never overlap.

use std::time::Duration;

use tokio::time::Instant;

use super::{minutes, prove, settled};
use crate::fault_injector::Trouble;
use crate::profile::MakeProfile;

/// The most that others delay a Service: slow calls hold the worker permits for some seconds each.
const DELAY: Duration = Duration::from_secs(15);

/// More Services than there are workers hang or fail, and others are served all the same.
///
/// # Panics
/// If it does not hold.
pub fn hanging_and_failing_services_delay_no_other_service(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=2).await;
        let _program = settled(&harness).await;
        // Duration of an undisturbed sync.
        let begun = Instant::now();
        harness.user.create_service("first", &[80]).await;
        while harness.address("first").is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let in_peace = begun.elapsed();
        for number in 0..12 {
            let hanging = format!("hanging-{number}");
            let failing = format!("failing-{number}");
            harness.user.create_service(&hanging, &[80]).await;
            harness
                .injector
                .single_out(&harness.uid(&hanging), Trouble::Hang);
            harness.user.create_service(&failing, &[80]).await;
            harness
                .injector
                .single_out(&harness.uid(&failing), Trouble::Status(500, None));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        for name in ["one", "two", "three"] {
            let begun = Instant::now();
            harness.user.create_service(name, &[80]).await;
            while harness.address(name).is_none() {
                let waited = begun.elapsed();
                assert!(
                    waited < in_peace + DELAY,
                    "Service {name} waits for others: {waited:?}"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }

        // A change of a Service, or of its Nodes, while a call for it hangs waits for the end of that call.
        harness.user.set_ports("hanging-3", &[443]).await;
        harness.join(3..=3).await;
        harness.user.delete_service("hanging-4").await;
        minutes(10).await;
        assert_eq!(harness.violations(), [""; 0]);

        harness.injector.pardon();
        harness.settle().await;
        assert_eq!(harness.violations(), [""; 0]);
    });
}
