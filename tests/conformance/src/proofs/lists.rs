//! Lists of load balancers that are not whole.

use fake_cloud::{Fault, FaultKind};

use super::{minutes, settled};
use crate::Harness;
use crate::profile::MakeProfile;
use crate::virtual_time::VirtualTime;

/// More than a page of most clouds.
const SERVICES: usize = 60;

/// Runs [`partial_lists`] in virtual time.
///
/// # Panics
/// If it does not hold.
pub fn partial_lists_of_load_balancers_prove_no_absence(make: MakeProfile) {
    VirtualTime::default().live(async || partial_lists(&Harness::boxed(make()).build()).await);
}

/// A page of the list of load balancers fails, is missing, is reported as the last one, and so on. A provider that
/// treats a partial list as complete creates load balancers again, and leaks those of deleted Services.
///
/// # Panics
/// If it does not hold.
pub async fn partial_lists(harness: &Harness) {
    let cloud = &harness.cloud;
    let list = harness.cloud.api().load_balancers;
    harness.join(1..=2).await;
    for number in 1..=SERVICES {
        harness
            .user
            .create_service(&format!("service-{number}"), &[80])
            .await;
    }
    settled(harness).await.stop().await;
    let second_page_fails = Fault::refused(list, 500).after(1);
    let of_lists = cloud
        .list_faults(list)
        .into_iter()
        .filter(|fault| fault.route == list);
    // An empty response that claims to be complete is not a partial list.
    let is_partial =
        |fault: &Fault| !matches!(fault.kind, FaultKind::EndlessAnswer | FaultKind::EmptyList);
    for (round, fault) in of_lists
        .filter(is_partial)
        .chain([second_page_fails])
        .enumerate()
    {
        let number = SERVICES - 3 * round;
        let changed = format!("service-{number}");
        let deleted = format!("service-{}", number - 1);
        println!("{fault:?}");
        cloud.fail(fault.clone());
        // A run that knows nothing but this list.
        let program = harness.start().await;
        harness.user.set_ports(&changed, &[443]).await;
        harness.user.delete_service(&deleted).await;
        minutes(10).await;
        let there = cloud.load_balancers().len();
        let expected = SERVICES - round;
        assert!(
            there <= expected,
            "{fault:?}: {there} load balancers for {expected} Services"
        );
        cloud.clear_faults();
        if let Ok(program) = program {
            program.stop().await;
        }
        settled(harness).await.stop().await;
        let all = cloud.load_balancers();
        assert_eq!(
            all.len(),
            SERVICES - round - 1,
            "{fault:?}: load balancers were leaked"
        );
    }
    assert_eq!(harness.violations(), [""; 0]);
}
