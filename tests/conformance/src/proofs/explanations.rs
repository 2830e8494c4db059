//! Explanations of objects on every cloud.

use std::collections::BTreeSet;

use cloud_provider::Ownership;
use manager::explain::{Subject, Weight, text};

use super::{prove, settled};
use crate::profile::MakeProfile;

/// `explain` names the load balancer as the Service's own, with its owner tags, ports and the Node behind each target, finds nothing
/// that waits in a settled cluster, and changes nothing.
///
/// # Panics
/// If it does not hold.
pub fn explanations_name_the_owner_and_the_nodes_and_change_nothing(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=2).await;
        harness.user.create_service("web", &[80]).await;
        settled(&harness).await.stop().await;
        let passed = harness.injector.passed().len();
        let service = harness
            .explain(&Subject::Service {
                namespace: "default".into(),
                name: "web".into(),
            })
            .await;
        let node = harness.explain(&Subject::Node("worker-1".into())).await;

        let balancer = match &service.balancers[..] {
            [one] => one,
            other => panic!("one load balancer, not {other:?}"),
        };
        assert_eq!(balancer.ownership, Ownership::Own);
        assert!(
            !balancer.owner_tags.is_empty() && !balancer.addresses.is_empty(),
            "{balancer:?}"
        );
        assert_eq!(balancer.listeners, ["80/TCP"]);
        let nodes: BTreeSet<_> = balancer
            .targets
            .iter()
            .filter_map(|target| target.node.as_deref())
            .collect();
        assert_eq!(
            nodes,
            BTreeSet::from(["worker-1", "worker-2"]),
            "{:?}",
            balancer.targets
        );
        for explanation in [&service, &node] {
            let waits = explanation
                .causes
                .iter()
                .any(|cause| cause.state.weight() == Weight::Waits);
            assert!(
                !waits && explanation.errors.is_empty(),
                "{}",
                text(explanation)
            );
            assert_eq!(explanation.plan.steps, [], "{}", text(explanation));
        }
        let sent = &harness.injector.passed()[passed..];
        let mutations: Vec<_> = sent
            .iter()
            .filter(|request| request.is_mutation())
            .collect();
        assert!(
            mutations.is_empty(),
            "an explanation changes nothing: {mutations:?}"
        );
    });
}
