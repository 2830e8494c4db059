//! Addresses of one Node: the new list, and whether it differs from the current one (NODE-60 to NODE-67).

use cloud_provider::{AddressType, Node, NodeAddress, Result, addresses_for_node_ip};
use serde_json::{Value, json};

/// Returns the addresses that `node` should have, if they differ from its current ones. `from_cloud` are the addresses
/// in the cloud.
///
/// Returns `None` if the Node must not be changed: it is uninitialized (NODE-60), the cloud lists no addresses
/// (NODE-61), or nothing changed (NODE-64).
///
/// # Errors
/// The kubelet asked for an address that is not in the list (NODE-63).
pub fn refresh(node: &Node, from_cloud: &[NodeAddress]) -> Result<Option<Vec<NodeAddress>>> {
    if node.is_uninitialized() || from_cloud.is_empty() {
        return Ok(None);
    }
    let mut next = with_host_name(from_cloud, &node.addresses);
    if let Some(node_ip) = node.requested_ip() {
        next = addresses_for_node_ip(node_ip, &next)?;
    }
    Ok(differ(&node.addresses, &next).then_some(next))
}

/// Adds the kubelet's host name at the end if the cloud lists none (NODE-62).
fn with_host_name(from_cloud: &[NodeAddress], current: &[NodeAddress]) -> Vec<NodeAddress> {
    let mut next = from_cloud.to_vec();
    if !next.iter().any(|a| a.kind == AddressType::Hostname) {
        next.extend(
            current
                .iter()
                .filter(|a| a.kind == AddressType::Hostname)
                .cloned(),
        );
    }
    next
}

/// Returns `true` if two lists differ (NODE-64, improved by NODE-65).
///
/// The addresses of each type are compared in order; the order of the types does not matter. The Go program compares
/// only with the last address of each type, and therefore writes to every dual-stack Node in every pass.
pub fn differ(current: &[NodeAddress], next: &[NodeAddress]) -> bool {
    let of = |list: &'_ [NodeAddress], kind: &AddressType| -> Vec<Box<str>> {
        list.iter()
            .filter(|a| a.kind == *kind)
            .map(|a| a.address.clone())
            .collect()
    };
    current.len() != next.len()
        || next
            .iter()
            .any(|a| of(current, &a.kind) != of(next, &a.kind))
}

/// Returns the strategic merge patch of `nodes/NAME/status` that replaces the addresses (NODE-66).
///
/// The API merges this list by type, so that a Node with addresses needs the directive to replace all of them.
pub fn status_patch(current: &[NodeAddress], next: &[NodeAddress]) -> Value {
    let mut list: Vec<Value> = next
        .iter()
        .map(|a| json!({"type": a.kind.as_str(), "address": a.address}))
        .collect();
    if !current.is_empty() {
        list.push(json!({"$patch": "replace"}));
    }
    json!({"status": {"addresses": list}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressType::{ExternalIP, InternalIP};

    fn list(entries: &[(AddressType, &str)]) -> Vec<NodeAddress> {
        entries
            .iter()
            .map(|(kind, address)| NodeAddress::new(kind.clone(), address))
            .collect()
    }

    #[test]
    fn a_repeated_address_of_one_type_is_a_change_and_another_order_of_types_is_not() {
        let current = list(&[(InternalIP, "a"), (InternalIP, "b")]);
        assert!(differ(
            &current,
            &list(&[(InternalIP, "b"), (InternalIP, "b")])
        ));
        assert!(
            differ(&current, &list(&[(InternalIP, "b"), (InternalIP, "a")])),
            "the first one is the primary address"
        );
        let current = list(&[(InternalIP, "a"), (ExternalIP, "x")]);
        assert!(!differ(
            &current,
            &list(&[(ExternalIP, "x"), (InternalIP, "a")])
        ));
    }

    #[test]
    fn a_list_is_replaced_only_where_there_is_one() {
        let next = list(&[(InternalIP, "a")]);
        assert_eq!(
            status_patch(&[], &next),
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "a"}]}})
        );
        assert_eq!(
            status_patch(&next, &next),
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "a"}, {"$patch": "replace"}]}})
        );
    }
}
