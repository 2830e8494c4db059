//! Which routes may be deleted (ROUTE-36, P-32).

use cloud_provider::Route;
use ipnet::IpNet;

use super::Destination;

/// Whether a destination lies in the cluster's ranges: its first **or** its last address does (ROUTE-36).
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
        Destination::Network(net) => {
            cluster_cidrs.iter().any(|range| range.contains(&net.network()) || range.contains(&net.broadcast()))
        }
        Destination::Text(_) => false,
    }
}

/// Whether the controller may delete a route: it lies in the cluster's ranges, and the provider does not say that it is
/// somebody else's. Proof of ownership does not widen the range: both are needed (P-32).
#[must_use]
pub fn is_responsible(route: &Route, cluster_cidrs: &[IpNet]) -> bool {
    route.owned != Some(false) && is_in_range(&Destination::new(&route.destination_cidr), cluster_cidrs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_and_ownership_are_both_needed() {
        let ranges = ["10.244.0.0/16".parse().unwrap(), "fd00::/48".parse().unwrap()];
        let table = [
            ("10.244.1.0/24", None, true),
            ("10.244.1.0/24", Some(true), true),
            ("10.244.1.0/24", Some(false), false),
            ("10.245.1.0/24", Some(true), false),
            ("10.244.0.0/15", None, true),
            ("10.243.0.0/15", None, false),
            ("10.240.0.0/12", None, false),
            ("0.0.0.0/0", None, false),
            ("::/0", Some(true), false),
            ("fd00::/16", None, true),
            ("fd00:0:0:ff::/64", Some(true), true),
            ("garbage", Some(true), false),
            ("", None, false),
        ];
        for (cidr, owned, expected) in table {
            let route = Route { destination_cidr: cidr.into(), owned, ..Route::default() };
            assert_eq!(is_responsible(&route, &ranges), expected, "{cidr} {owned:?}");
        }
    }
}
