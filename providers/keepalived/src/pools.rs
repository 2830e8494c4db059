//! Ranges of virtual IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Addresses of 32 bits.
    V4,
    /// Addresses of 128 bits.
    V6,
}

impl Family {
    /// Returns the family of an address.
    #[must_use]
    pub(crate) const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V4 { "IPv4" } else { "IPv6" })
    }
}

/// A range of addresses of one family, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    /// Name of the pool; empty for the default pool.
    pool: String,
    family: Family,
    first: u128,
    last: u128,
}

/// The ranges of all pools, in the order in which they are used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools(Vec<Range>);

impl Pools {
    /// Reads a list of ranges: `192.0.2.64/26`, `192.0.2.5-192.0.2.9`, each with a pool's name before it (`inner=`) or not.
    ///
    /// # Errors
    /// The first item that is no range.
    pub fn parse(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let ranges = items.map(|item| range(item).ok_or_else(|| format!("{item:?} is no range of addresses")));
        let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
        if ranges.is_empty() { Err("it has no range".to_owned()) } else { Ok(Self(ranges)) }
    }

    /// Returns `true` if the pool has addresses of this family.
    #[must_use]
    pub(crate) fn has(&self, pool: &str, family: Family) -> bool {
        self.of(pool, family).next().is_some()
    }

    /// Returns the family of the pool's first range; `None` if there is no such pool.
    #[must_use]
    pub(crate) fn first_family(&self, pool: &str) -> Option<Family> {
        self.0.iter().find(|range| range.pool == pool).map(|range| range.family)
    }

    /// Returns the first address of the pool that is not in use. Addresses are tried one by one, so that a range may have any
    /// size.
    #[must_use]
    pub(crate) fn first_free(&self, pool: &str, family: Family, is_used: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let addresses = self.of(pool, family).flat_map(|range| range.first..=range.last);
        addresses.map(|number| address(family, number)).find(|address| !is_used(*address))
    }

    /// Returns the names of all pools but the default one.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().map(|range| &*range.pool).filter(|name| !name.is_empty()).collect();
        names.dedup();
        names
    }

    /// Returns the number of addresses in all ranges.
    #[must_use]
    pub fn size(&self) -> u128 {
        self.0.iter().map(|range| (range.last - range.first).saturating_add(1)).fold(0, u128::saturating_add)
    }

    /// Returns `true` if a range contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (family, number) = (Family::of(address), number(address));
        self.0.iter().any(|range| range.family == family && (range.first..=range.last).contains(&number))
    }

    fn of<'a>(&'a self, pool: &'a str, family: Family) -> impl Iterator<Item = &'a Range> {
        self.0.iter().filter(move |range| range.pool == pool && range.family == family)
    }
}

fn range(item: &str) -> Option<Range> {
    let (pool, text) = item.split_once('=').map_or(("", item), |(pool, text)| (pool.trim(), text.trim()));
    let (family, first, last) = match text.split_once('-') {
        Some((first, last)) => {
            let (first, last): (IpAddr, IpAddr) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (Family::of(first), number(first), Some(number(last)).filter(|_| first.is_ipv4() == last.is_ipv4())?)
        }
        None => network(text.parse().ok()?),
    };
    (first <= last && !(item.contains('=') && pool.is_empty())).then(|| Range {
        pool: pool.to_owned(),
        family,
        first,
        last,
    })
}

/// Returns the ends of a network without its network address, and without the broadcast address of IPv4. Networks of one or two
/// addresses have neither.
fn network(network: IpNet) -> (Family, u128, u128) {
    let (first, last) = (number(network.network()), number(network.broadcast()));
    let family = Family::of(network.addr());
    if network.max_prefix_len() - network.prefix_len() < 2 {
        return (family, first, last);
    }
    (family, first + 1, if family == Family::V4 { last - 1 } else { last })
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        Family::V6 => Ipv6Addr::from_bits(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_gives_its_addresses_in_ascending_order_without_network_and_broadcast() {
        let table: [(&str, &[&str]); 9] = [
            ("10.0.0.0/30", &["10.0.0.1", "10.0.0.2"]),
            ("10.0.0.4/31", &["10.0.0.4", "10.0.0.5"]),
            ("10.0.0.7/32", &["10.0.0.7"]),
            ("10.0.0.9/30", &["10.0.0.9", "10.0.0.10"]),
            ("10.0.0.5-10.0.0.6", &["10.0.0.5", "10.0.0.6"]),
            ("10.0.0.7/32, 10.0.0.1/32", &["10.0.0.7", "10.0.0.1"]),
            ("2001:db8::/126", &["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
            ("2001:db8::7/128", &["2001:db8::7"]),
            ("10.0.0.7/32,inner=10.0.0.8/32", &["10.0.0.7"]),
        ];
        for (text, expected) in table {
            let pools = Pools::parse(text).expect(text);
            let (family, mut given) = (pools.first_family("").expect(text), Vec::<IpAddr>::new());
            while let Some(address) = pools.first_free("", family, |address| given.contains(&address)) {
                given.push(address);
            }
            assert_eq!(given.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn large_pool_is_not_expanded() {
        let pools = Pools::parse("10.0.0.0/8,2001:db8::/32").expect("two ranges");
        assert_eq!(pools.first_free("", Family::V4, |_| false).map(|it| it.to_string()).as_deref(), Some("10.0.0.1"));
        assert_eq!(
            pools.first_free("", Family::V6, |_| false).map(|it| it.to_string()).as_deref(),
            Some("2001:db8::1")
        );
        assert_eq!(pools.size(), (1 << 24) - 2 + (1 << 96) - 1);
    }

    #[test]
    fn text_that_is_no_range_is_refused() {
        for text in
            ["", " , ", "10.0.0.0/33", "10.0.0.9-10.0.0.5", "10.0.0.1-2001:db8::1", "pool", "=10.0.0.0/24", "10.0.0.1"]
        {
            assert!(Pools::parse(text).is_err(), "{text}");
        }
    }
}
