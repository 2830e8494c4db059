//! Services that are deleted.

use http::Method;
use serde_json::Value;

use super::{minutes, prove, settled};
use crate::Harness;
use crate::fault_injector::{Passed, Side};
use crate::profile::MakeProfile;

/// INV-2: the finalizer comes before the first write to the cloud, and goes after the last one.
///
/// # Panics
/// If it does not hold.
pub fn finalizer_comes_before_the_first_cloud_write_and_goes_after_the_last(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=2).await;
        let _program = settled(&harness).await;
        let before = harness.injector.count();
        harness.user.create_service("web", &[80]).await;
        harness.settle().await;
        harness.user.delete_service("web").await;
        harness.settle().await;
        let writes: Vec<_> = harness
            .injector
            .passed()
            .into_iter()
            .skip(before)
            .filter(Passed::is_mutation)
            .collect();
        assert_eq!(
            (writes[0].side, &writes[0].method),
            (Side::Kubernetes, &Method::PATCH),
            "{writes:#?}"
        );
        let creates = |request: &Passed| {
            request.side == Side::Cloud && [Method::POST, Method::PUT].contains(&request.method)
        };
        assert!(writes.iter().any(creates), "{writes:#?}");
        assert_eq!(
            writes.last().map(|request| request.side),
            Some(Side::Kubernetes),
            "{writes:#?}"
        );
        assert_eq!(harness.violations(), [""; 0]);
    });
}

/// Returns all objects of the cloud in a canonical order.
fn objects(harness: &Harness) -> Vec<String> {
    let mut objects: Vec<String> = harness
        .cloud
        .objects()
        .iter()
        .map(Value::to_string)
        .collect();
    objects.sort();
    objects
}

/// After a Service is deleted the cloud is what it was before.
///
/// # Panics
/// If it does not hold.
pub fn deleted_services_leave_nothing_behind(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=3).await;
        let program = settled(&harness).await;
        let before = objects(&harness);
        let names = ["web", "mail", "api"];
        for name in names {
            harness.user.create_service(name, &[80, 443]).await;
        }
        harness.settle().await;
        assert_ne!(objects(&harness), before);
        for name in names {
            harness.user.delete_service(name).await;
        }
        harness.settle().await;
        assert_eq!(objects(&harness), before);
        program.stop().await;
    });
}

/// Returns the addresses, ports and targets of all load balancers.
pub(super) fn parts(harness: &Harness) -> Vec<String> {
    let all = harness.cloud.load_balancers().into_iter();
    all.map(|facts| format!("{:?} {:?} {:?}", facts.address, facts.ports, facts.targets))
        .collect()
}

/// A Service whose Nodes are still registered is deleted after the machines of the whole cluster: its load balancer is
/// found and deleted, and the missing machines then prove nothing about it.
///
/// # Panics
/// If it does not hold.
pub fn services_are_deleted_after_their_machines(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        harness.join(1..=2).await;
        harness.user.create_service("web", &[80]).await;
        let program = settled(&harness).await;
        cloud
            .machines()
            .iter()
            .for_each(|machine| cloud.terminate(&machine.name));
        harness.user.delete_service("web").await;
        minutes(30).await;
        assert!(
            harness.api.list("services").is_empty(),
            "the Service stays: {:?}",
            harness.warnings(3)
        );
        assert_eq!(
            (cloud.load_balancers(), cloud.leftovers()),
            (Vec::new(), Vec::new())
        );
        program.stop().await;
    });
}

/// A load balancer that the cloud protects against deletion stays, with a warning. The Service waits and is deleted
/// when the protection ends; some Go cloud-controller-managers, and their replacements here, let the Service go at
/// once.
///
/// # Panics
/// If it does not hold.
pub fn protected_load_balancers_stay_until_the_protection_ends(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=2).await;
        harness.user.create_service("web", &[80]).await;
        let program = settled(&harness).await;
        if harness.cloud.protect(true) {
            let before = parts(&harness);
            let all = objects(&harness);
            let events = harness.event_reasons().len();
            harness.user.delete_service("web").await;
            minutes(30).await;
            assert_eq!(harness.cloud.load_balancers().len(), 1);
            assert!(
                harness.event_reasons().len() > events,
                "nobody reports why the load balancer stays"
            );
            let waits = !harness.api.list("services").is_empty();
            assert_eq!(
                parts(&harness),
                before,
                "a protected load balancer keeps its ports and targets"
            );
            assert!(
                !waits || objects(&harness) == all,
                "a protected load balancer keeps everything: {:#?}",
                objects(&harness)
            );
            harness.cloud.protect(false);
            minutes(30).await;
            assert_eq!(
                harness.cloud.load_balancers().is_empty(),
                waits,
                "the Service waits for it: {waits}"
            );
            assert!(harness.api.list("services").is_empty());
        }
        program.stop().await;
    });
}
