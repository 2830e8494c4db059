//! A credential that is good for another account.

use super::{minutes, prove, settled};
use crate::profile::MakeProfile;

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
        assert_eq!(cloud.load_balancers(), before, "while the credential is for another account");
        assert!(harness.api.get("services", Some("default"), "mail").is_some(), "its load balancer is still there");
        cloud.confuse(false);
        if program.is_err() {
            _ = settled(&harness).await;
        }
        harness.settle().await;
        assert_eq!(cloud.load_balancers().len(), 2, "web and late");
        assert_eq!(harness.violations(), [""; 0]);
    });
}
