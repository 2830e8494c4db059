//! Lists of Node addresses (HELP-1, HELP-10 … HELP-15).

use std::net::{IpAddr, Ipv4Addr};

use crate::{AddressType, Error, NodeAddress, Result};

/// Appends the addresses in `more` that are not in `addresses` yet, compared by text and type (HELP-1).
///
/// ```
/// use cloud_provider::{add_addresses, AddressType::*, NodeAddress};
///
/// let mut list = vec![NodeAddress::new(InternalIP, "10.0.0.1")];
/// add_addresses(&mut list, [NodeAddress::new(InternalIP, "10.0.0.1"), NodeAddress::new(Hostname, "n")]);
/// assert_eq!(list.len(), 2);
/// ```
pub fn add_addresses(
    addresses: &mut Vec<NodeAddress>,
    more: impl IntoIterator<Item = NodeAddress>,
) {
    for address in more {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
}

/// Reduces and orders a cloud's addresses so that they satisfy the kubelet's `--node-ip` (HELP-10 … HELP-15).
///
/// `node_ip` is the annotation's text: one address, or an IPv4/IPv6 pair separated by a comma.
///
/// ```
/// use cloud_provider::{addresses_for_node_ip, AddressType::*, NodeAddress};
///
/// let cloud = [NodeAddress::new(InternalIP, "10.0.0.1"), NodeAddress::new(InternalIP, "10.0.0.2"),
///              NodeAddress::new(ExternalIP, "192.0.2.1")];
/// let chosen = addresses_for_node_ip("10.0.0.2", &cloud)?;
/// assert_eq!(chosen, [cloud[1].clone(), cloud[2].clone()]);
/// # Ok::<(), cloud_provider::Error>(())
/// ```
///
/// # Errors
/// *Invalid* if the text is not an address or a pair, or if the cloud reports no such address.
pub fn addresses_for_node_ip(node_ip: &str, cloud: &[NodeAddress]) -> Result<Vec<NodeAddress>> {
    let mut chosen = Vec::new();
    let mut pinned: Vec<&AddressType> = Vec::new();
    for requested in parse_node_ip(node_ip)? {
        let before = chosen.len();
        for address in cloud
            .iter()
            .filter(|a| parse_ip(&a.address) == Some(requested))
        {
            chosen.push(address.clone());
            pinned.push(&address.kind);
        }
        if chosen.len() == before {
            return Err(Error::invalid(format!(
                "failed to get node address from cloud provider that matches ip: {requested}"
            )));
        }
    }
    chosen.extend(cloud.iter().filter(|a| !pinned.contains(&&a.kind)).cloned());
    Ok(chosen)
}

/// Parses the annotation of the kubelet's `--node-ip` (HELP-10 … HELP-12).
fn parse_node_ip(text: &str) -> Result<Vec<IpAddr>> {
    let fail = |why: &str| Error::invalid(format!("failed to parse node IP {text:?}: {why}"));
    let mut ips = Vec::with_capacity(2);
    for part in text.split(',') {
        ips.push(parse_ip(part).ok_or_else(|| fail(&format!("could not parse {part:?}")))?);
    }
    if ips.len() > 2 || (ips.len() == 2 && ips[0].is_ipv4() == ips[1].is_ipv4()) {
        return Err(fail(
            "must contain either a single IP or a dual-stack pair of IPs",
        ));
    }
    if ips.len() == 2 && ips.iter().any(IpAddr::is_unspecified) {
        return Err(fail("dual-stack node IP cannot include '0.0.0.0' or '::'"));
    }
    Ok(ips)
}

/// Parses an IP address. IPv4 octets may have leading zeros, and an IPv4-mapped IPv6 address becomes IPv4 (HELP-10,
/// HELP-11).
fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    parse_ipv4_with_leading_zeros(text).map(IpAddr::V4)
}

fn parse_ipv4_with_leading_zeros(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|e| {
                if part.bytes().all(|b| b == b'0') {
                    Ok(0)
                } else {
                    Err(e)
                }
            })
            .ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_are_decimal() {
        for (text, ip) in [
            ("010.001.000.09", "10.1.0.9"),
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(parse_ip(text), Some(ip.parse().unwrap()), "{text}");
        }
        for text in [
            "",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.3.x",
            "1.2.3.",
            " 1.2.3.4",
            "1.2.3.4/24",
        ] {
            assert_eq!(parse_ip(text), None, "{text}");
        }
    }

    #[test]
    fn a_mapped_address_matches_its_ipv4_spelling() {
        let cloud = [NodeAddress::new(AddressType::InternalIP, "::ffff:10.0.0.1")];
        assert_eq!(addresses_for_node_ip("10.0.0.1", &cloud).unwrap(), cloud);
    }

    #[test]
    fn a_single_unspecified_address_is_parsed_and_then_not_found() {
        let err = addresses_for_node_ip("::", &[]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "failed to get node address from cloud provider that matches ip: ::"
        );
    }
}
