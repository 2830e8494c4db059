//! Addresses of one Node: what the list becomes, and whether that is a change (NODE-60 to NODE-67).

use cloud_provider::{AddressType, Node, NodeAddress, Result, addresses_for_node_ip};
use serde_json::{Value, json};

/// The address list that `node` should have, if it is another one than it has; the cloud lists `from_cloud`.
///
/// `None`: leave the Node alone, because it waits for initialisation (NODE-60), the cloud lists nothing (NODE-61), or
/// nothing changed (NODE-64).
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

/// NODE-62: a cloud that knows no host name leaves the kubelet's in place, at the end.
fn with_host_name(from_cloud: &[NodeAddress], current: &[NodeAddress]) -> Vec<NodeAddress> {
    let mut next = from_cloud.to_vec();
    if !next.iter().any(|a| a.kind == AddressType::Hostname) {
        next.extend(current.iter().filter(|a| a.kind == AddressType::Hostname).cloned());
    }
    next
}

/// Whether two lists say something different (NODE-64, with the better behaviour of NODE-65).
///
/// Per type, the addresses are compared in order; the order of different types is no difference. The reference compares
/// with the last address of each type only, and so writes to every dual-stack Node in every pass.
pub fn differ(current: &[NodeAddress], next: &[NodeAddress]) -> bool {
    let of = |list: &'_ [NodeAddress], kind: &AddressType| -> Vec<Box<str>> {
        list.iter().filter(|a| a.kind == *kind).map(|a| a.address.clone()).collect()
    };
    current.len() != next.len() || next.iter().any(|a| of(current, &a.kind) != of(next, &a.kind))
}

/// The strategic-merge patch of `nodes/NAME/status` that replaces the list (NODE-66).
///
/// The API merges this list by type, so a Node that has addresses needs the directive to replace them all.
pub fn status_patch(current: &[NodeAddress], next: &[NodeAddress]) -> Value {
    let mut list: Vec<Value> = next.iter().map(|a| json!({"type": a.kind.as_str(), "address": a.address})).collect();
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
        entries.iter().map(|(kind, address)| NodeAddress::new(kind.clone(), address)).collect()
    }

    #[test]
    fn a_repeated_address_of_one_type_is_a_change_and_another_order_of_types_is_not() {
        let current = list(&[(InternalIP, "a"), (InternalIP, "b")]);
        assert!(differ(&current, &list(&[(InternalIP, "b"), (InternalIP, "b")])));
        assert!(
            differ(&current, &list(&[(InternalIP, "b"), (InternalIP, "a")])),
            "the first one is the primary address"
        );
        let current = list(&[(InternalIP, "a"), (ExternalIP, "x")]);
        assert!(!differ(&current, &list(&[(ExternalIP, "x"), (InternalIP, "a")])));
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
