//! The routes that may be deleted (ROUTE-36, P-32).

use cloud_provider::Route;
use ipnet::IpNet;

use super::Destination;

/// Returns `true` if the first **or** the last address of a destination is in the cluster's CIDRs (ROUTE-36).
///
/// ```
/// use controllers::route::{Destination, responsibility::is_in_range};
///
/// let ranges = ["10.244.0.0/16".parse()?];
/// assert!(is_in_range(&Destination::new("10.244.7.0/24"), &ranges));
/// assert!(!is_in_range(&Destination::new("0.0.0.0/0"), &ranges), "a default route is nobody's Pod range");
/// # Ok::<(), ipnet::AddrParseError>(())
/// ```
#[must_use]
pub fn is_in_range(destination: &Destination, cluster_cidrs: &[IpNet]) -> bool {
    match destination {
        Destination::Network(net) => cluster_cidrs
            .iter()
            .any(|range| range.contains(&net.network()) || range.contains(&net.broadcast())),
        Destination::Text(_) => false,
    }
}

/// Returns `true` if the controller may delete a route (P-32): the provider reports the route as this cluster's, or does
/// not know the owner and the route is in the cluster's CIDRs. A route of this cluster is deleted outside the CIDRs, too,
/// so that none stays after its Node, whatever the Node's Pod CIDR was.
#[must_use]
pub fn is_responsible(route: &Route, cluster_cidrs: &[IpNet]) -> bool {
    match route.owned {
        Some(is_ours) => is_ours,
        None => is_in_range(&Destination::new(&route.destination_cidr), cluster_cidrs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_routes_go_anywhere_and_unknown_ones_only_in_the_cluster_cidrs() {
        let ranges = [
            "10.244.0.0/16".parse().unwrap(),
            "fd00::/48".parse().unwrap(),
        ];
        let table = [
            ("10.244.1.0/24", None, true),
            ("10.244.1.0/24", Some(true), true),
            ("10.244.1.0/24", Some(false), false),
            ("10.245.1.0/24", Some(true), true),
            ("10.244.0.0/15", None, true),
            ("10.243.0.0/15", None, false),
            ("10.240.0.0/12", None, false),
            ("0.0.0.0/0", None, false),
            ("::/0", Some(true), true),
            ("fd00::/16", None, true),
            ("fd00:0:0:ff::/64", Some(true), true),
            ("garbage", Some(true), true),
            ("", None, false),
        ];
        for (cidr, owned, expected) in table {
            let route = Route {
                destination_cidr: cidr.into(),
                owned,
                ..Route::default()
            };
            assert_eq!(
                is_responsible(&route, &ranges),
                expected,
                "{cidr} {owned:?}"
            );
        }
    }
}
