//! A credential that is good for another account.

use std::sync::Arc;

use super::{minutes, prove, settled};
use crate::profile::MakeProfile;
use crate::{Harness, Program};

/// With the credential of another account, whose machines are those of others, no load balancer is created, in any account,
/// and none is taken for deleted.
///
/// # Panics
/// If it does not hold.
pub fn another_accounts_credential_creates_and_deletes_no_load_balancer(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        if !cloud.capabilities().accounts {
            return;
        }
        harness.join(1..=3).await;
        for name in ["web", "mail"] {
            harness.user.create_service(name, &[80]).await;
        }
        let program = settled(&harness).await;
        let before = cloud.load_balancers();
        cloud.add_machine_of_others("theirs-1");
        cloud.confuse(true);
        harness.user.create_service("late", &[80]).await;
        harness.user.delete_service("mail").await;
        minutes(30).await;
        program.stop().await;
        // A restart knows nothing of before.
        let program = harness.start().await;
        minutes(30).await;
        assert_eq!(
            cloud.load_balancers(),
            before,
            "while the credential is for another account"
        );
        assert!(
            harness
                .api
                .get("services", Some("default"), "mail")
                .is_some(),
            "its load balancer is still there"
        );
        cloud.confuse(false);
        if program.is_err() {
            _ = settled(&harness).await;
        }
        harness.settle().await;
        assert_eq!(cloud.load_balancers().len(), 2, "web and late");
        assert_eq!(harness.violations(), [""; 0]);
    });
}

/// The credential may become another account's between any two requests of a deletion, and what was read before no longer
/// holds: the Service stays until its load balancer, and all that belongs to it, is gone from the right account.
///
/// # Panics
/// If it does not hold.
pub fn credential_that_changes_amid_a_deletion_loses_no_load_balancer(make: MakeProfile) {
    if !make().capabilities().accounts {
        return;
    }
    let mut requests = 0;
    prove(make, async |harness| {
        let program = deleted_web(&harness, None).await;
        requests = harness.account().total();
        program.stop().await;
    });
    assert!(requests > 0, "a deletion without a request");
    for number in 1..=requests {
        prove(make, async |harness| {
            let program = deleted_web(&harness, Some(number)).await;
            let cloud = &harness.cloud;
            let balancers = cloud
                .load_balancers()
                .into_iter()
                .map(|facts| format!("{facts:?}"));
            let left: Vec<_> = balancers.chain(cloud.leftovers()).collect();
            let is_waiting = harness
                .api
                .get("services", Some("default"), "web")
                .is_some();
            assert!(
                is_waiting || left.is_empty(),
                "changed before request {number} of {requests}: lost {left:?}"
            );
            cloud.confuse(false);
            harness.settle().await;
            assert_eq!(
                cloud.leftovers(),
                [""; 0],
                "changed before request {number} of {requests}"
            );
            assert_eq!(harness.violations(), [""; 0]);
            program.stop().await;
        });
    }
}

/// Creates and deletes Service `web`. The credential becomes another account's before the `number`th request of the deletion.
async fn deleted_web(harness: &Harness, number: Option<usize>) -> Program {
    harness.join(1..=2).await;
    harness.user.create_service("web", &[80]).await;
    let program = settled(harness).await;
    harness.cloud.add_machine_of_others("theirs-1");
    _ = harness.account();
    if let Some(number) = number {
        let cloud = Arc::clone(&harness.cloud);
        harness
            .injector
            .interrupt_at(number, move || cloud.confuse(true));
    }
    harness.user.delete_service("web").await;
    minutes(if number.is_some() { 10 } else { 1 }).await;
    program
}
