//! Changes of a Node that concern its routes.

use cloud_provider::Node;

use super::metrics::SyncTrigger;

/// Returns the key that an update adds to the queue in watch mode, if any (ROUTE-12): Pod CIDRs or addresses changed,
/// including their order, or nothing changed, which is a resync of the cache.
#[must_use]
pub fn trigger(old: &Node, new: &Node) -> Option<SyncTrigger> {
    if changes_routes(old, new) {
        Some(SyncTrigger::NodeChange)
    } else {
        (old.resource_version == new.resource_version).then_some(SyncTrigger::Periodic)
    }
}

/// Returns `true` if an update may change the plan in adaptive mode. Unlike [`trigger`], this excludes resyncs, which
/// bring no change, and includes the provider ID, which a provider needs to create the route, and the end of the
/// initialization that the Node's routes wait for.
#[must_use]
pub fn changes_inputs(old: &Node, new: &Node) -> bool {
    changes_routes(old, new)
        || old.uid != new.uid
        || old.provider_id != new.provider_id
        || old.is_uninitialized() != new.is_uninitialized()
}

fn changes_routes(old: &Node, new: &Node) -> bool {
    old.pod_cidrs != new.pod_cidrs || old.addresses != new.addresses
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::names::TAINT_UNINITIALIZED;
    use cloud_provider::{AddressType, NodeAddress, Taint};

    #[test]
    fn fields_that_a_provider_needs_count_in_adaptive_mode_only() {
        let old = Node {
            name: "n".into(),
            uid: "u".into(),
            resource_version: "1".into(),
            ..Node::default()
        };
        let next = |change: fn(&mut Node)| {
            let mut node = Node {
                resource_version: "2".into(),
                ..old.clone()
            };
            change(&mut node);
            node
        };
        let table = [
            ("nothing", next(|_| ()), None, false),
            ("resync", old.clone(), Some(SyncTrigger::Periodic), false),
            (
                "labels",
                next(|node| node.unschedulable = true),
                None,
                false,
            ),
            (
                "ranges",
                next(|node| node.pod_cidrs = ["10.0.0.0/24".into()].into()),
                Some(SyncTrigger::NodeChange),
                true,
            ),
            (
                "addresses",
                next(|node| node.addresses = [NodeAddress::new(AddressType::Hostname, "n")].into()),
                Some(SyncTrigger::NodeChange),
                true,
            ),
            (
                "provider id",
                next(|node| node.provider_id = "p://1".into()),
                None,
                true,
            ),
            (
                "taint",
                next(|node| node.taints = [Taint::new(TAINT_UNINITIALIZED, "NoSchedule")].into()),
                None,
                true,
            ),
            ("uid", next(|node| node.uid = "v".into()), None, true),
        ];
        for (what, new, watch, adaptive) in table {
            assert_eq!(
                (trigger(&old, &new), changes_inputs(&old, &new)),
                (watch, adaptive),
                "{what}"
            );
        }
    }
}
