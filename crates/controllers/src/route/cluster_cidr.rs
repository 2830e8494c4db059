//! Parsing of `--cluster-cidr` (ROUTE-3, ROUTE-4) and of CIDRs.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

/// Parses the flag: one CIDR, or one of each IP family, separated by a comma.
///
/// Spaces around the whole value are removed; host bits and leading zeros are tolerated.
///
/// ```
/// use controllers::route::cluster_cidr::parse;
///
/// let ranges = parse("10.244.0.0/16,fd00::/48")?;
/// assert_eq!(ranges.len(), 2);
/// assert_eq!(parse("10.244.0.0/16, fd00::/48").unwrap_err(), "invalid CIDR[1]: <nil> (invalid CIDR address:  fd00::/48)");
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// An error with the text of the Go program, also for an empty value. The text does not name the flag.
pub fn parse(flag: &str) -> Result<Vec<IpNet>, String> {
    let ranges: Vec<IpNet> = flag
        .trim()
        .split(',')
        .enumerate()
        .map(|(index, part)| {
            cidr(part).ok_or_else(|| {
                format!("invalid CIDR[{index}]: <nil> (invalid CIDR address: {part})")
            })
        })
        .collect::<Result<_, _>>()?;
    let has_v4 = ranges.iter().any(|range| matches!(range, IpNet::V4(_)));
    let has_v6 = ranges.iter().any(|range| matches!(range, IpNet::V6(_)));
    match ranges.len() {
        0 | 1 => Ok(ranges),
        n if !(has_v4 && has_v6) => Err(format!(
            // The Go program does not close the parenthesis either.
            "len of ClusterCIDRs=={n} and they are not configured as dual stack (at least one from each IPFamily"
        )),
        2 => Ok(ranges),
        n => Err(format!(
            "length of clusterCIDRs is:{n} more than max allowed of 2"
        )),
    }
}

/// Returns a CIDR without its host bits. Leading zeros do not make a number octal.
pub(super) fn cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let length = decimal(length, 128)?;
    let address = match address.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => IpAddr::V4(sloppy(address)?),
    };
    IpNet::new(address, u8::try_from(length).ok()?)
        .ok()
        .map(|net| net.trunc())
}

fn sloppy(address: &str) -> Option<Ipv4Addr> {
    let octets: Vec<u8> = address
        .split('.')
        .map(|octet| u8::try_from(decimal(octet, 255)?).ok())
        .collect::<Option<_>>()?;
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}

/// Parses a decimal number without a sign, up to `most`.
fn decimal(digits: &str, most: u32) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches('0');
    if !is_number || significant.len() > 3 {
        return None;
    }
    let value = if significant.is_empty() {
        0
    } else {
        significant.parse().ok()?
    };
    Some(value).filter(|value| *value <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_reference_reads_them() {
        for (flag, ranges) in [
            ("10.244.0.0/16", "10.244.0.0/16"),
            (" \t10.244.3.4/16\n", "10.244.0.0/16"),
            ("010.0244.000.0/016", "10.244.0.0/16"),
            ("10.244.0.0/16,fd00::1/48", "10.244.0.0/16 fd00::/48"),
            ("fd00::/48,10.0.0.0/0", "fd00::/48 0.0.0.0/0"),
        ] {
            let read = parse(flag).unwrap();
            assert_eq!(
                read.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
                ranges,
                "{flag}"
            );
        }
    }

    #[test]
    fn invalid_cidr_is_named_in_the_error() {
        for (flag, index, part) in [
            ("", 0, ""),
            ("  ", 0, ""),
            ("x", 0, "x"),
            ("10.244.0.0", 0, "10.244.0.0"),
            ("10.244.0.0/33", 0, "10.244.0.0/33"),
            ("10.244.0.0/+16", 0, "10.244.0.0/+16"),
            ("10.244.0/16", 0, "10.244.0/16"),
            ("10.256.0.0/16", 0, "10.256.0.0/16"),
            (
                "10.00000000000000000001.0.0/99999999999",
                0,
                "10.00000000000000000001.0.0/99999999999",
            ),
            ("fe80::1%eth0/64", 0, "fe80::1%eth0/64"),
            ("10.244.0.0/16, fd00::/48", 1, " fd00::/48"),
            ("10.244.0.0/16,", 1, ""),
        ] {
            let error = parse(flag).unwrap_err();
            assert_eq!(
                error,
                format!("invalid CIDR[{index}]: <nil> (invalid CIDR address: {part})"),
                "{flag}"
            );
        }
    }

    #[test]
    fn families_are_checked_before_the_number() {
        let not_dual = |n| {
            format!(
                "len of ClusterCIDRs=={n} and they are not configured as dual stack (at least one from each IPFamily"
            )
        };
        assert_eq!(parse("10.0.0.0/8,11.0.0.0/8").unwrap_err(), not_dual(2));
        assert_eq!(
            parse("fd00::/48,fd01::/48,fd02::/48").unwrap_err(),
            not_dual(3)
        );
        assert_eq!(
            parse("10.0.0.0/8,fd00::/48,11.0.0.0/8").unwrap_err(),
            "length of clusterCIDRs is:3 more than max allowed of 2"
        );
    }
}
