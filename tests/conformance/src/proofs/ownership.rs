//! INV-7: objects of others, changes by others to the program's objects, and load balancers that users select.

use std::time::Duration;

use provider_kit::load_balancers::OwnerTags;
use serde_json::Value;

use super::deletion::parts;
use super::{minutes, prove, settled};
use crate::Harness;
use crate::account::PATIENCE;
use crate::fault_injector::{Passed, Side};
use crate::profile::{MakeProfile, Namesake};
use crate::virtual_time::VirtualTime;

/// INV-7: objects of others stay unchanged while Nodes and Services are created, changed and deleted.
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
        assert_eq!(
            cloud.things_of_others(),
            theirs,
            "while a Service and Nodes are there"
        );
        harness.user.delete_service("web").await;
        harness.user.delete_node("worker-3").await;
        minutes(15).await;
        program.stop().await;
        assert_eq!(cloud.things_of_others(), theirs, "after they are deleted");
    });
}

/// Proves that changes and deletions in the cloud's console are repaired at the next sync of the Services.
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
        assert_ids_are_shown(&harness);
        if harness.cloud.tamper() {
            assert!(
                harness
                    .cloud
                    .load_balancers()
                    .iter()
                    .all(|facts| facts.ports.is_empty()),
                "the ports are gone"
            );
            settled(&harness).await.stop().await;
        }
        if harness.cloud.remove_load_balancers() {
            assert_eq!(harness.cloud.load_balancers(), []);
            settled(&harness).await.stop().await;
        }
        assert_eq!(harness.cloud.load_balancers().len(), 2);
        assert_ids_are_shown(&harness);
        assert_eq!(harness.violations(), [""; 0]);
    });
}

/// Asserts that an annotation of each Service names the ID of its load balancer: this program's, or that of the cloud's
/// Go cloud-controller-manager.
fn assert_ids_are_shown(harness: &Harness) {
    let objects = harness.cloud.objects();
    let aliases = harness.cloud.aliases();
    for name in ["web", "mail"] {
        let service = harness
            .api
            .get("services", Some("default"), name)
            .unwrap_or_default();
        let annotations = service["metadata"]["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let is_id = |key: &str| {
            ["load-balancer-id", "loadbalance-id"]
                .iter()
                .any(|end| key.ends_with(end))
        };
        let id = annotations
            .iter()
            .find(|(key, _)| is_id(key))
            .and_then(|(_, id)| id.as_str());
        let is_there = id.is_some_and(|id| {
            aliases.iter().any(|(value, _)| value == id)
                || objects.iter().any(|object| contains(object, id))
        });
        assert!(
            is_there,
            "{id:?} of Service {name} is not in the cloud: {objects:#?}"
        );
    }
}

/// Returns `true` if the text, or a number that reads so, is anywhere in the object.
fn contains(object: &Value, text: &str) -> bool {
    match object {
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(fields) => fields.values().any(|field| contains(field, text)),
        Value::String(value) => value == text,
        Value::Number(value) => value.to_string() == text,
        _ => false,
    }
}

/// A copy of a load balancer with the owner tags of its Service is reported, and stays as it is as long as the Service
/// exists. The Service keeps the one that it shows.
///
/// # Panics
/// If it does not hold.
pub fn twins_of_load_balancers_stay_and_are_reported(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        harness.join(1..=2).await;
        harness.user.create_service("web", &[80]).await;
        settled(&harness).await.stop().await;
        if !cloud.add_twins() {
            return;
        }
        let address = harness.address("web");
        let twins = cloud.load_balancers().len();
        let targets_of_twins = || -> Vec<_> {
            let all = cloud
                .load_balancers()
                .into_iter()
                .filter(|facts| facts.address != harness.address("web"));
            all.map(|facts| facts.targets).collect()
        };
        let program = harness.start().await.expect("a start");
        minutes(15).await;
        let before = targets_of_twins();
        harness.join(3..=3).await;
        minutes(15).await;
        assert_eq!(
            targets_of_twins(),
            before,
            "a Node that joins is no target of a twin"
        );
        harness.user.set_ports("web", &[443]).await;
        minutes(15).await;
        program.stop().await;
        let all = cloud.load_balancers();
        assert_eq!(
            (all.len(), harness.address("web")),
            (twins, address.clone()),
            "{all:?}"
        );
        let has_port =
            |facts: &&crate::LoadBalancerFacts| facts.ports.iter().any(|(port, ..)| *port == 443);
        let changed: Vec<_> = all
            .iter()
            .filter(has_port)
            .map(|facts| facts.address.clone())
            .collect();
        assert_eq!(
            changed,
            [address],
            "the Service changes the one that it shows: {all:?}"
        );
        assert!(
            harness
                .event_reasons()
                .contains(&"web LoadBalancerTwin".to_owned()),
            "{:?}",
            harness.event_reasons()
        );
    });
}

/// A setting that counts only when a load balancer is created, and that a Service chooses right after the creation, takes
/// effect, or the Service says why it does not.
///
/// # Panics
/// If it does not hold.
pub fn settings_of_the_creation_that_change_are_done_or_refused(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        let Some(patch) = cloud.setting_of_the_creation() else {
            return;
        };
        harness.join(1..=2).await;
        harness.user.create_service("web", &[80]).await;
        let program = settled(&harness).await;
        let address = harness.address("web");
        let before = harness.warnings(1000);
        harness.user.patch_service("web", &patch).await;
        minutes(10).await;
        // The events are sorted by name, so new ones may stand before others.
        let is_told = harness
            .warnings(1000)
            .iter()
            .any(|warning| !before.contains(warning) && warning.starts_with("web "));
        assert!(
            is_told || harness.address("web") != address,
            "neither done nor refused: {patch}"
        );
        program.stop().await;
    });
}

/// An author of Services who asks for the owner tags of another Service's load balancer gets a refusal: the other one
/// keeps its load balancer, and none is left without an owner.
///
/// # Panics
/// If it does not hold.
pub fn tags_of_users_never_touch_owner_tags(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        if cloud.tag_of_a_user(OwnerTags::SERVICE, "x").is_none() {
            return;
        }
        harness.join(1..=2).await;
        for (name, port) in [("web", 80), ("evil", 81)] {
            harness.user.create_service(name, &[port]).await;
        }
        settled(&harness).await.stop().await;
        let addresses = ["web", "evil"].map(|name| harness.address(name));
        let before = parts(&harness);
        let victim = harness
            .api
            .get("services", Some("default"), "web")
            .unwrap_or_default();
        let victim = victim["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        for (key, value) in [
            (OwnerTags::SERVICE, &*victim),
            (OwnerTags::CLUSTER, "elsewhere"),
        ] {
            let Some(patch) = cloud.tag_of_a_user(key, value) else {
                continue;
            };
            harness.user.patch_service("evil", &patch).await;
            // After a restart, the program knows load balancers by their tags alone.
            for _ in 0..2 {
                let program = harness.start().await.expect("a start");
                minutes(15).await;
                harness.user.set_ports("evil", &[81, 82]).await;
                harness.user.set_ports("evil", &[81]).await;
                minutes(15).await;
                program.stop().await;
            }
            assert_eq!(
                ["web", "evil"].map(|name| harness.address(name)),
                addresses,
                "{key}"
            );
            assert_eq!(parts(&harness), before, "{key}");
            let is_refused = harness
                .warnings(1000)
                .iter()
                .any(|warning| warning.starts_with("evil ") && warning.contains("reserved"));
            assert!(is_refused, "{key}: {:?}", harness.warnings(5));
        }
        harness.user.delete_service("evil").await;
        let program = harness.start().await.expect("a start");
        minutes(15).await;
        program.stop().await;
        assert_eq!(
            cloud.load_balancers().len(),
            1,
            "the load balancer of the author is deleted with his Service"
        );
        assert_eq!(harness.address("web"), addresses[0]);
    });
}

/// A load balancer that an operator created with the name that the Service's own will have is adopted, or it stays
/// unchanged and the Service waits until it no longer exists, as the profile says.
///
/// # Panics
/// If it does not hold.
pub fn unowned_load_balancers_are_adopted_or_refused(make: MakeProfile) {
    let harness = Harness::boxed(make()).build();
    VirtualTime::default().live(async || {
        let cloud = &harness.cloud;
        harness.join(1..=2).await;
        let service = harness.user.create_service("web", &[80]).await;
        let service = serde_json::from_value(service).expect("a Service");
        let Some(namesake) = cloud.add_namesake(&service) else {
            return;
        };
        minutes(1).await;
        let before = cloud.objects();
        let found = cloud.load_balancers();
        assert!(
            found.len() == 1 && found[0].service_uid.is_none(),
            "{found:?}"
        );
        let program = harness.start().await.expect("a start");
        if namesake == Namesake::Refused {
            minutes(10).await;
            assert_eq!(cloud.objects(), before, "it is somebody's");
            assert_eq!(harness.address("web"), None);
            assert!(
                harness
                    .warnings(50)
                    .iter()
                    .any(|warning| warning.starts_with("web ")),
                "the Service says why it waits"
            );
            assert!(
                cloud.remove_load_balancers(),
                "the fake can remove what it can create"
            );
        }
        harness.settle().await;
        let all = cloud.load_balancers();
        assert!(
            all.len() == 1 && all[0].service_uid == service.metadata.uid,
            "{all:?}"
        );
        if namesake == Namesake::Adopted {
            assert_eq!(
                harness.count_on(cloud.api().create),
                0,
                "no second load balancer is created"
            );
        }
        assert_eq!(harness.violations(), [""; 0]);
        program.stop().await;
    });
}

/// A Service that selects another load balancer is reachable at each moment of the move, and its former load balancer
/// is deleted only after the Service shows the new address.
///
/// # Panics
/// If it does not hold.
pub fn moved_services_stay_reachable_and_leave_nothing_behind(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        harness.join(1..=2).await;
        harness.user.create_service("web", &[80]).await;
        let program = settled(&harness).await;
        let Some(patch) = cloud.add_alternative() else {
            return;
        };
        let former = harness.address("web");
        let begun = harness.injector.passed().len();
        harness.user.patch_service("web", &patch).await;
        let begin = tokio::time::Instant::now();
        while harness.address("web") == former {
            let serves = |facts: &crate::LoadBalancerFacts| {
                facts.address == former && facts.ports.len() == 1 && facts.targets.len() == 2
            };
            assert!(
                cloud.load_balancers().iter().any(serves),
                "nothing is at {former:?}, which the Service shows"
            );
            assert!(
                begin.elapsed() < PATIENCE,
                "the Service does not move: {:?}",
                harness.warnings(3)
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        harness.settle().await;
        let all = cloud.load_balancers();
        assert!(
            all.len() == 1 && all[0].address == harness.address("web"),
            "{all:?}"
        );
        let requests = harness.injector.passed().split_off(begun);
        let first = |is_wanted: &dyn Fn(&Passed) -> bool| {
            requests.iter().position(is_wanted).unwrap_or(usize::MAX)
        };
        let shown = first(&|request| {
            request.side == Side::Kubernetes
                && request.is_mutation()
                && request.target.contains("/web/status")
        });
        let deleted = first(&|request| request.side == Side::Cloud && request.method == "DELETE");
        assert!(
            shown < deleted && deleted < usize::MAX,
            "deleted before the new address is shown: {requests:#?}"
        );
        assert_eq!(harness.violations(), [""; 0]);
        program.stop().await;
    });
}

/// A load balancer that was created by other means, and that a Service names, outlives the Service, and no other Service that
/// names it takes the ports and targets from the first one.
///
/// # Panics
/// If it does not hold.
pub fn adopted_load_balancers_outlive_their_services(make: MakeProfile) {
    prove(make, async |harness| {
        let cloud = &harness.cloud;
        harness.join(1..=2).await;
        let Some(patch) = cloud.add_alternative() else {
            return;
        };
        let by_hand = cloud.load_balancers();
        if by_hand.is_empty() {
            return;
        }
        harness.user.create_service("web", &[80]).await;
        harness.user.patch_service("web", &patch).await;
        settled(&harness).await.stop().await;
        let address = harness.address("web");
        let serves = |facts: &crate::LoadBalancerFacts| {
            facts.address == address
                && facts.targets.len() == 2
                && facts.ports.iter().any(|(port, ..)| *port == 80)
        };
        assert!(
            cloud.load_balancers().len() == 1 && cloud.load_balancers().iter().all(serves),
            "it is adopted"
        );

        harness.user.create_service("evil", &[81]).await;
        harness.user.patch_service("evil", &patch).await;
        let program = harness.start().await.expect("a start");
        minutes(15).await;
        assert!(
            cloud.load_balancers().iter().any(serves),
            "another Service names it: {:?}",
            cloud.load_balancers()
        );
        harness.user.delete_service("evil").await;
        minutes(15).await;
        assert!(
            cloud.load_balancers().iter().any(serves),
            "the other Service is gone: {:?}",
            cloud.load_balancers()
        );
        program.stop().await;

        // After a restart, the cloud alone tells that it was adopted.
        let program = harness.start().await.expect("a start");
        harness.user.delete_service("web").await;
        harness.settle().await;
        program.stop().await;
        let left = cloud.load_balancers();
        assert!(
            left.len() == 1 && left[0].service_uid.is_none() && left[0].targets.is_empty(),
            "{left:?}"
        );
        assert!(
            left[0].ports.is_subset(&by_hand[0].ports) || left[0].ports.len() <= 1,
            "{left:?}"
        );
    });
}
