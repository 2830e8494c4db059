//! Limits of what is read from a cloud's responses (P-3).

use fake_cloud::{Fault, FaultKind};
use provider_kit::transport::{MOST_OF_A_LIST, MOST_OF_A_REFUSAL};

use super::{minutes, prove, settled};
use crate::profile::MakeProfile;

/// Bytes that are read of a body beyond its limit: the chunk that exceeds the limit, and one that was buffered.
const MORE: usize = 128 << 10;
/// The most requests of an hour in which nothing succeeds: each waits longer than the one before.
const REQUESTS: usize = 2_000;

/// Endless responses are read up to a limit, are not requested again and again, and prove nothing: when the cloud has
/// recovered, everything converges.
///
/// # Panics
/// If it does not hold.
pub fn endless_answers_are_read_up_to_a_limit_and_prove_nothing(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        if cloud.take_longest_padding().is_none() {
            return;
        }
        harness.join(1..=3).await;
        harness.user.create_service("web", &[80]).await;
        let program = settled(&harness).await;
        for (what, faults, limit) in [
            (
                "a refusal",
                &[
                    Fault::refused("", 500),
                    Fault::new("", FaultKind::EndlessAnswer),
                ][..],
                MOST_OF_A_REFUSAL,
            ),
            (
                "an answer",
                &[Fault::new("", FaultKind::EndlessAnswer)],
                MOST_OF_A_LIST,
            ),
        ] {
            (_, _) = (harness.account(), cloud.take_longest_padding());
            faults.iter().for_each(|fault| cloud.fail(fault.clone()));
            harness.user.set_ready("worker-2", false).await;
            harness
                .user
                .set_ports(
                    "web",
                    if limit == MOST_OF_A_LIST {
                        &[80, 443]
                    } else {
                        &[443]
                    },
                )
                .await;
            harness
                .user
                .create_service(
                    if limit == MOST_OF_A_LIST {
                        "mail"
                    } else {
                        "api"
                    },
                    &[25],
                )
                .await;
            minutes(60).await;
            let taken = cloud.take_longest_padding().unwrap_or_default();
            let account = harness.account();
            assert!(
                taken > 0 && taken <= limit + MORE,
                "{what}: {taken} bytes were read"
            );
            assert!(account.total() <= REQUESTS, "{what}: {account} in an hour");
            assert_eq!(harness.api.list("nodes").len(), 3, "{what}");
            cloud.clear_faults();
            harness.user.set_ready("worker-2", true).await;
            harness.settle().await;
            assert_eq!(harness.violations(), [""; 0], "{what}");
        }
        assert_eq!(cloud.load_balancers().len(), 3);
        program.stop().await;
    });
}

/// A list of empty pages, each of which names a next one, is given up after the first, and is no absence.
///
/// # Panics
/// If it does not hold.
pub fn endless_lists_are_given_up_and_prove_nothing(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        let machines = harness.cloud.api().machines;
        let fault = Fault::new(machines, FaultKind::EmptyPages);
        if !cloud.list_faults(machines).contains(&fault) {
            return;
        }
        harness.join(1..=5).await;
        let program = settled(&harness).await;
        for number in 1..=5 {
            harness
                .user
                .set_ready(&format!("worker-{number}"), false)
                .await;
        }
        (_, _) = (harness.account(), cloud.fail(fault));
        let before = harness.count_on(machines);
        minutes(60).await;
        let account = harness.account();
        assert!(
            harness.count_on(machines) > before,
            "the list of machines was not asked for"
        );
        assert!(account.total() <= REQUESTS, "{account} in an hour");
        assert_eq!(
            harness.api.list("nodes").len(),
            5,
            "nothing follows from empty pages"
        );
        program.stop().await;
    });
}
