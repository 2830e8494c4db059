//! Comparison of a route's next hop with the addresses of its Node (ROUTE-23, P-18).

use std::net::IpAddr;

use cloud_provider::{Node, NodeAddress, Route};

/// Returns `true` if the addresses of a route are still the Node's.
///
/// A provider without knowledge of ownership lists all addresses of the Node, which are compared like the Go program
/// does: both lists have the same length, and each of the Node's addresses is among the route's (ROUTE-23). A provider
/// with that knowledge (D-5) lists the next hops, each of which must be an address of the Node. A next hop of a type
/// that the Node has no address of is ignored. A Node that gets a further address therefore keeps its routes.
#[must_use]
pub(super) fn leads_to(route: &Route, node: &Node) -> bool {
    let hops = &route.target_node_addresses;
    let node_addresses = &node.addresses;
    match route.owned {
        _ if !route.enable_node_addresses => true,
        None => {
            node_addresses.len() == hops.len()
                && node_addresses.iter().all(|address| hops.contains(address))
        }
        Some(_) => hops.iter().all(|hop| {
            let mut of_its_kind = node_addresses
                .iter()
                .filter(|address| address.kind == hop.kind)
                .peekable();
            of_its_kind.peek().is_none() || of_its_kind.any(|address| is_same(address, hop))
        }),
    }
}

/// Returns `true` if two addresses are the same, even if spelled differently.
fn is_same(a: &NodeAddress, b: &NodeAddress) -> bool {
    let ip = |address: &NodeAddress| address.address.parse::<IpAddr>().ok();
    a.address == b.address || (ip(a).is_some() && ip(a) == ip(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::AddressType;

    fn addresses(text: &str) -> Vec<NodeAddress> {
        let address = |word: &str| {
            let (kind, address) = word.split_once('=').unwrap();
            NodeAddress::new(AddressType::from(kind), address)
        };
        text.split_whitespace().map(address).collect()
    }

    #[test]
    fn routes_are_compared_as_their_provider_means_them() {
        // The Node's addresses, the route's, the result for the Go program's comparison, and the result for a provider
        // that knows about ownership.
        let table = [
            ("InternalIP=10.0.0.1", "InternalIP=10.0.0.1", true, true),
            ("InternalIP=10.0.0.1", "InternalIP=10.0.0.2", false, false),
            (
                "InternalIP=10.0.0.1 Hostname=n",
                "InternalIP=10.0.0.1",
                false,
                true,
            ),
            (
                "InternalIP=10.0.0.1 Hostname=n",
                "Hostname=n InternalIP=10.0.0.1",
                true,
                true,
            ),
            (
                "InternalIP=10.0.0.1 InternalIP=fd00::1",
                "InternalIP=10.0.0.1",
                false,
                true,
            ),
            (
                "InternalIP=10.0.0.1",
                "InternalIP=10.0.0.1 InternalIP=10.0.0.2",
                false,
                false,
            ),
            (
                "InternalIP=10.0.0.1 InternalIP=10.0.0.1",
                "InternalIP=10.0.0.1 InternalIP=10.0.0.2",
                true,
                false,
            ),
            (
                "InternalIP=fd00::1",
                "InternalIP=fd00:0:0:0::1",
                false,
                true,
            ),
            ("InternalIP=10.0.0.1", "", false, true),
            ("Hostname=n", "InternalIP=10.0.0.1", false, true),
            ("", "InternalIP=10.0.0.1", false, true),
            ("ExternalIP=10.0.0.1", "InternalIP=10.0.0.1", false, true),
        ];
        for (own, hops, for_reference, for_owner) in table {
            let node = Node {
                addresses: addresses(own).into(),
                ..Node::default()
            };
            let mut route = Route {
                enable_node_addresses: true,
                target_node_addresses: addresses(hops),
                ..Route::default()
            };
            assert_eq!(leads_to(&route, &node), for_reference, "{own} | {hops}");
            route.owned = Some(true);
            assert_eq!(leads_to(&route, &node), for_owner, "{own} | {hops}, owned");
            route.enable_node_addresses = false;
            assert!(
                leads_to(&route, &node),
                "addresses that are not filled in are not compared"
            );
        }
    }
}
