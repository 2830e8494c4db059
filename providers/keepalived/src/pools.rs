//! Ranges of virtual IP addresses.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

/// A range of addresses, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    /// Name of the pool; empty for the default pool.
    pool: String,
    first: u32,
    last: u32,
}

/// The ranges of all pools, in the order in which they are used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools(Vec<Range>);

impl Pools {
    /// Reads a list of ranges: `192.0.2.64/26`, `192.0.2.5-192.0.2.9`, each with a pool's name before it (`inner=`) or not.
    ///
    /// # Errors
    /// The first item that is no range, or a range of IPv6: kube-keepalived-vip reads each address from a key of the ConfigMap,
    /// and the API server accepts no key with `:`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let items = text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        let refused = |item: &str| match item.contains(':') {
            true => {
                format!("{item:?} is IPv6, which kube-keepalived-vip does not support; remove it")
            }
            false => format!("{item:?} is no range of addresses"),
        };
        let ranges = items
            .map(|item| range(item).ok_or_else(|| refused(item)))
            .collect::<Result<Vec<_>, _>>()?;
        if ranges.is_empty() {
            Err("it has no range".to_owned())
        } else {
            Ok(Self(ranges))
        }
    }

    /// Returns `true` if there is a pool of this name.
    #[must_use]
    pub(crate) fn has(&self, pool: &str) -> bool {
        self.of(pool).next().is_some()
    }

    /// Returns the first address of the pool that is not in use. Addresses are tried one by one, so that a range may have any
    /// size.
    #[must_use]
    pub(crate) fn first_free(
        &self,
        pool: &str,
        is_used: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let addresses = self.of(pool).flat_map(|range| range.first..=range.last);
        addresses
            .map(|number| Ipv4Addr::from_bits(number).into())
            .find(|address| !is_used(*address))
    }

    /// Returns the names of all pools but the default one.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self
            .0
            .iter()
            .map(|range| &*range.pool)
            .filter(|name| !name.is_empty())
            .collect();
        names.dedup();
        names
    }

    /// Returns the number of addresses in all ranges.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0
            .iter()
            .map(|range| u64::from(range.last - range.first) + 1)
            .sum()
    }

    /// Returns `true` if a range contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else {
            return false;
        };
        self.0
            .iter()
            .any(|range| (range.first..=range.last).contains(&address.to_bits()))
    }

    fn of<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Range> {
        self.0.iter().filter(move |range| range.pool == pool)
    }
}

fn range(item: &str) -> Option<Range> {
    let (pool, text) = item
        .split_once('=')
        .map_or(("", item), |(pool, text)| (pool.trim(), text.trim()));
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (bits(first)?, bits(last)?),
        None => network(text.parse().ok()?),
    };
    (first <= last && !(item.contains('=') && pool.is_empty())).then(|| Range {
        pool: pool.to_owned(),
        first,
        last,
    })
}

fn bits(text: &str) -> Option<u32> {
    Some(text.trim().parse::<Ipv4Addr>().ok()?.to_bits())
}

/// Returns the ends of a network without its network and broadcast address. Networks of one or two addresses have neither.
fn network(network: Ipv4Net) -> (u32, u32) {
    let first = network.network().to_bits();
    let last = network.broadcast().to_bits();
    if network.prefix_len() > 30 {
        (first, last)
    } else {
        (first + 1, last - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_gives_its_addresses_in_ascending_order_without_network_and_broadcast() {
        let table: [(&str, &[&str]); 7] = [
            ("10.0.0.0/30", &["10.0.0.1", "10.0.0.2"]),
            ("10.0.0.4/31", &["10.0.0.4", "10.0.0.5"]),
            ("10.0.0.7/32", &["10.0.0.7"]),
            ("10.0.0.9/30", &["10.0.0.9", "10.0.0.10"]),
            ("10.0.0.5-10.0.0.6", &["10.0.0.5", "10.0.0.6"]),
            ("10.0.0.7/32, 10.0.0.1/32", &["10.0.0.7", "10.0.0.1"]),
            ("10.0.0.7/32,inner=10.0.0.8/32", &["10.0.0.7"]),
        ];
        for (text, expected) in table {
            let pools = Pools::parse(text).expect(text);
            let mut given = Vec::<IpAddr>::new();
            while let Some(address) = pools.first_free("", |address| given.contains(&address)) {
                given.push(address);
            }
            assert_eq!(
                given.iter().map(ToString::to_string).collect::<Vec<_>>(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn large_pool_is_not_expanded() {
        let pools = Pools::parse("10.0.0.0/8,0.0.0.0/0").expect("two ranges");
        assert_eq!(
            pools
                .first_free("", |_| false)
                .map(|address| address.to_string())
                .as_deref(),
            Some("10.0.0.1")
        );
        assert_eq!(pools.size(), (1 << 24) - 2 + (1 << 32) - 2);
    }

    #[test]
    fn range_of_ipv6_is_refused_with_the_reason() {
        for text in ["2001:db8::/64", "10.0.0.0/24,inner=2001:db8::1-2001:db8::9"] {
            let error = Pools::parse(text).unwrap_err();
            assert!(
                error.contains("is IPv6, which kube-keepalived-vip does not support"),
                "{error}"
            );
        }
    }

    #[test]
    fn text_that_is_no_range_is_refused() {
        for text in [
            "",
            " , ",
            "10.0.0.0/33",
            "10.0.0.9-10.0.0.5",
            "10.0.0.1-2001:db8::1",
            "pool",
            "=10.0.0.0/24",
            "10.0.0.1",
        ] {
            assert!(Pools::parse(text).is_err(), "{text}");
        }
    }
}
