//! Bounds, names and enumerations that the API description states. What the description does not allow is refused, so that a
//! test fails where the cloud would refuse a request.

use fake_cloud::Refused;
use serde_json::Value;

use crate::{array, refuse};

const LB_POLICIES: &[&str] = &["ROUND_ROBIN", "LEAST_CONNECTIONS", "IP_HASH"];
const NLB_POLICIES: &[&str] = &["TWO_TUPLE", "THREE_TUPLE", "FIVE_TUPLE"];
const LB_PROTOCOLS: &[&str] = &["HTTP", "HTTP2", "TCP", "GRPC"];
const NLB_PROTOCOLS: &[&str] = &["ANY", "TCP", "UDP", "TCP_AND_UDP", "L3IP"];
const LB_CHECKS: &[&str] = &["HTTP", "TCP"];
const NLB_CHECKS: &[&str] = &["HTTP", "HTTPS", "TCP", "UDP", "DNS"];
/// The most network security groups of a load balancer.
const MOST_GROUPS: usize = 5;

fn invalid(text: &str) -> Refused {
    refuse(400, "InvalidParameter", text)
}

/// Refuses a number outside of these bounds; a field that is not set has the default of the cloud.
fn bounded(object: &Value, key: &str, least: u64, most: u64) -> Result<(), Refused> {
    match &object[key] {
        Value::Null => Ok(()),
        value
            if value
                .as_u64()
                .is_some_and(|number| (least..=most).contains(&number)) =>
        {
            Ok(())
        }
        value => Err(invalid(&format!(
            "{key}: {value} is not a whole number from {least} to {most}"
        ))),
    }
}

/// Refuses a word that is not one of these; a field that is not set has the default of the cloud.
fn one_of(object: &Value, key: &str, words: &[&str]) -> Result<(), Refused> {
    match &object[key] {
        Value::Null => Ok(()),
        value if value.as_str().is_some_and(|text| words.contains(&text)) => Ok(()),
        value => Err(invalid(&format!(
            "{key}: {value} is not one of {}",
            words.join(", ")
        ))),
    }
}

fn named(kind: &str, name: &str, most: usize, extra: &[u8]) -> Result<(), Refused> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || extra.contains(&byte);
    match (1..=most).contains(&name.len()) && name.bytes().all(is_inner) {
        true => Ok(()),
        false => Err(invalid(&format!(
            "{kind}: {name:?} is no name of at most {most} characters"
        ))),
    }
}

/// Checks a part of a load balancer.
pub(crate) fn part(kind: &str, name: &str, body: &Value, network: bool) -> Result<(), Refused> {
    match kind {
        "backendSets" => {
            named(kind, name, 32, b"-_")?;
            one_of(
                body,
                "policy",
                if network { NLB_POLICIES } else { LB_POLICIES },
            )?;
            one_of(body, "ipVersion", &["IPV4", "IPV6"])?;
            let check = &body["healthChecker"];
            one_of(
                check,
                "protocol",
                if network { NLB_CHECKS } else { LB_CHECKS },
            )?;
            bounded(check, "port", 0, 65_535)?;
            bounded(check, "retries", 1, 1_000_000)?;
            bounded(check, "timeoutInMillis", 1, 600_000)?;
            bounded(
                check,
                "intervalInMillis",
                if network { 10_000 } else { 1000 },
                1_800_000,
            )?;
            array(&body["backends"]).try_for_each(|backend| {
                bounded(backend, "port", 1, 65_535)?;
                bounded(backend, "weight", 1, 100)
            })
        }
        "listeners" => {
            named(kind, name, 255, b"-_.")?;
            one_of(
                body,
                "protocol",
                if network { NLB_PROTOCOLS } else { LB_PROTOCOLS },
            )?;
            one_of(body, "ipVersion", &["IPV4", "IPV6"])?;
            bounded(body, "port", u64::from(!network), 65_535)?;
            let connection = &body["connectionConfiguration"];
            bounded(connection, "backendTcpProxyProtocolVersion", 1, 2)
        }
        "ruleSets" => {
            let begins = name
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
            named(kind, name, 32, b"_")?;
            if begins {
                Ok(())
            } else {
                Err(invalid(
                    "ruleSets: a name begins with a letter or an underscore",
                ))
            }
        }
        _ => named(kind, name, 255, b"-_."),
    }
}

/// Checks the settings of a whole load balancer, in its creation or a change.
pub(crate) fn whole(body: &Value, network: bool) -> Result<(), Refused> {
    if network {
        one_of(body, "nlbIpVersion", &["IPV4", "IPV4_AND_IPV6", "IPV6"])?;
    } else {
        one_of(body, "ipMode", &["IPV4", "IPV6"])?;
        let limits = &body["shapeDetails"];
        bounded(limits, "minimumBandwidthInMbps", 10, 8192)?;
        bounded(limits, "maximumBandwidthInMbps", 10, 8192)?;
        if limits["minimumBandwidthInMbps"].as_u64() > limits["maximumBandwidthInMbps"].as_u64() {
            return Err(invalid(
                "the lower limit of the bandwidth is above the upper one",
            ));
        }
    }
    let most = [
        ("networkSecurityGroupIds", MOST_GROUPS),
        ("reservedIps", 1),
        ("subnetIds", 2),
    ];
    match most
        .iter()
        .find(|(key, most)| array(&body[*key]).count() > *most)
    {
        Some((key, most)) => Err(invalid(&format!("{key}: at most {most} are possible"))),
        None => Ok(()),
    }
}

/// Checks a rule of a network security group.
pub(crate) fn rule(rule: &Value) -> Result<(), Refused> {
    const KINDS: &[&str] = &["CIDR_BLOCK", "SERVICE_CIDR_BLOCK", "NETWORK_SECURITY_GROUP"];
    one_of(rule, "direction", &["EGRESS", "INGRESS"])?;
    one_of(rule, "sourceType", KINDS)?;
    one_of(rule, "destinationType", KINDS)?;
    for options in ["tcpOptions", "udpOptions"] {
        for end in ["min", "max"] {
            bounded(&rule[options]["destinationPortRange"], end, 1, 65_535)?;
        }
    }
    match rule["direction"].as_str() {
        Some("INGRESS") if rule["source"].is_null() => Err(invalid("source is required")),
        Some("EGRESS") if rule["destination"].is_null() => Err(invalid("destination is required")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_description_does_not_allow_is_refused() {
        let check = json!({"protocol": "HTTP", "port": 10256, "intervalInMillis": 10_000});
        let set = |change: &str, value: Value| {
            let mut set = json!({"policy": "FIVE_TUPLE", "healthChecker": check, "backends": []});
            *set.pointer_mut(change).unwrap() = value;
            part("backendSets", "TCP-80", &set, true)
        };
        assert!(set("/policy", json!("TWO_TUPLE")).is_ok());
        for (place, value) in [
            ("/policy", json!("ROUND_ROBIN")),
            ("/healthChecker/protocol", json!("ICMP")),
            ("/healthChecker/port", json!(65_536)),
            ("/healthChecker/intervalInMillis", json!(9999)),
            ("/backends", json!([{"port": 0}])),
            ("/backends", json!([{"port": 80, "weight": 101}])),
        ] {
            assert!(set(place, value.clone()).is_err(), "{place}: {value}");
        }
        for (kind, name) in [
            ("backendSets", "a".repeat(33)),
            ("ruleSets", "9a".to_owned()),
            ("listeners", "a b".to_owned()),
        ] {
            assert!(
                part(kind, &name, &json!({}), false).is_err(),
                "{kind} {name}"
            );
        }
        assert!(
            whole(
                &json!({"networkSecurityGroupIds": ["a", "b", "c", "d", "e", "f"]}),
                true
            )
            .is_err()
        );
        assert!(
            whole(&json!({"shapeDetails": {"minimumBandwidthInMbps": 20, "maximumBandwidthInMbps": 10}}), false)
                .is_err()
        );
        assert!(rule(&json!({"direction": "INGRESS", "source": null})).is_err());
    }
}
