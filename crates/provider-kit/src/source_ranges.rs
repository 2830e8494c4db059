//! The source ranges that may reach a load balancer (HELP-50 … HELP-52).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use cloud_provider::names::ANNOTATION_SOURCE_RANGES;
use cloud_provider::{Error, Result, Service};
use ipnet::{IpNet, Ipv4Net};

/// The range of every IPv4 address.
const ALL: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0));

/// Returns the networks that may reach a Service's load balancer: `spec.loadBalancerSourceRanges`, or else the
/// annotation `service.beta.kubernetes.io/load-balancer-source-ranges`, or else all IPv4 addresses. Each range is
/// reduced to its network address.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::source_ranges::{allows_all, source_ranges};
///
/// let mut service = Service::default();
/// assert!(allows_all(&source_ranges(&service)?));
/// service.spec.get_or_insert_default().load_balancer_source_ranges = Some(vec!["10.0.0.1/24".into()]);
/// assert_eq!(source_ranges(&service)?, [("10.0.0.0/24".parse().unwrap())].into());
/// # Ok::<(), cloud_provider::Error>(())
/// ```
///
/// # Errors
/// *Invalid*, if an item is no network (HELP-51).
pub fn source_ranges(service: &Service) -> Result<BTreeSet<IpNet>> {
    let stated = stated(service, |text| text.split(',').collect())?;
    Ok(if stated.is_empty() {
        [ALL].into()
    } else {
        stated
    })
}

/// Returns the source ranges that the Service's field or annotation states; empty if there are none. Unlike in
/// [`source_ranges`], items of the annotation may also be separated by blanks.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::source_ranges::configured_source_ranges;
///
/// let mut service = Service::default();
/// assert!(configured_source_ranges(&service)?.is_empty());
/// let annotation = ("service.beta.kubernetes.io/load-balancer-source-ranges".to_owned(), "10.0.0.1/24 ::/0,".to_owned());
/// service.metadata.annotations = Some([annotation].into());
/// assert_eq!(configured_source_ranges(&service)?.len(), 2);
/// # Ok::<(), cloud_provider::Error>(())
/// ```
///
/// # Errors
/// *Invalid*, if an item is no network (HELP-51).
pub fn configured_source_ranges(service: &Service) -> Result<BTreeSet<IpNet>> {
    stated(service, |text| {
        text.split([',', ' ', '\t', '\n'])
            .filter(|item| !item.is_empty())
            .collect()
    })
}

fn stated(service: &Service, items: fn(&str) -> Vec<&str>) -> Result<BTreeSet<IpNet>> {
    let spec = service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_source_ranges.as_deref())
        .unwrap_or_default();
    if !spec.is_empty() {
        return networks(spec.iter().map(String::as_str)).map_err(|item| {
            Error::invalid(format!(
                "service.Spec.LoadBalancerSourceRanges: [{}] is not valid. Expecting a list of IP ranges. For example, \
                 10.0.0.0/24. Error msg: invalid CIDR address: {item}",
                spec.join(" ")
            ))
        });
    }
    let annotation = service
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(ANNOTATION_SOURCE_RANGES));
    match annotation.map_or("", |value| value.trim()) {
        "" => Ok(BTreeSet::new()),
        value => networks(items(value).into_iter()).map_err(|_| {
            Error::invalid(format!(
                "{ANNOTATION_SOURCE_RANGES}: {value} is not valid. Expecting a comma-separated list of source IP ranges. \
                 For example, 10.0.0.0/24,192.168.2.0/24"
            ))
        }),
    }
}

/// Returns `true` if every IPv4 address is allowed (HELP-52). Every IPv6 address (`::/0`) alone does not count, as in
/// the Go cloud controller manager.
#[must_use]
pub fn allows_all<'a>(ranges: impl IntoIterator<Item = &'a IpNet>) -> bool {
    ranges.into_iter().any(|range| range.trunc() == ALL)
}

/// Returns the networks, or the first item that is not a network.
fn networks<'a>(items: impl Iterator<Item = &'a str>) -> Result<BTreeSet<IpNet>, &'a str> {
    items
        .map(str::trim)
        .map(|item| network(item).ok_or(item))
        .collect()
}

/// Parses a network. Leading zeros are read as decimal, as the API server reads them in this field.
fn network(text: &str) -> Option<IpNet> {
    let (address, bits) = text.split_once('/')?;
    let address = match address.contains(':') {
        true => IpAddr::V6(address.parse().ok()?),
        false => IpAddr::V4(dotted(address)?),
    };
    Some(IpNet::new(address, number(bits)?).ok()?.trunc())
}

fn dotted(text: &str) -> Option<Ipv4Addr> {
    let octets: Vec<u8> = text.split('.').map(number).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}

fn number(text: &str) -> Option<u8> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_the_api_server_reads_them() {
        let table = [
            ("10.0.0.1/24", Some("10.0.0.0/24")),
            ("010.000.0.1/08", Some("10.0.0.0/8")),
            ("2001:db8::1/32", Some("2001:db8::/32")),
            ("::/0", Some("::/0")),
            ("10.0.0.1", None),
            ("10.0.0.1/", None),
            ("10.0.0/8", None),
            ("10.0.0.0.0/8", None),
            ("10.0.0.256/8", None),
            ("10.0.0.1/33", None),
            ("10.0.0.1/+8", None),
            ("2001:db8::/129", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(
                network(text).map(|net| net.to_string()).as_deref(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn every_ipv6_address_alone_does_not_count_as_all() {
        assert!(!allows_all(&[network("::/0").unwrap()]));
        assert!(allows_all(&[
            network("::/0").unwrap(),
            "192.168.0.0/0".parse().unwrap()
        ]));
    }
}
