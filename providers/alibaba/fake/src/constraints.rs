//! The constraints that the vendor publishes for parameters of CLB and NLB: enumerations, bounds and lengths.

use fake_cloud::Refused;
use serde_json::Value;

use crate::check;
use crate::world::{array, number};

type Numbers = &'static [(&'static str, i64, i64)];
type Words = &'static [(&'static str, &'static [&'static str])];

const SWITCH: &[&str] = &["on", "off"];
const CLASSIC_NUMBERS: Numbers = &[
    ("ListenerPort", 1, 65535),
    ("ForwardPort", 1, 65535),
    ("Weight", 0, 100),
    ("EstablishedTimeout", 10, 900),
    ("PersistenceTimeout", 0, 3600),
    ("ConnectionDrainTimeout", 10, 900),
    ("HealthCheckConnectTimeout", 1, 300),
    ("HealthCheckTimeout", 1, 300),
    ("HealthCheckInterval", 1, 50),
    ("healthCheckInterval", 1, 50),
    ("HealthyThreshold", 2, 10),
    ("UnhealthyThreshold", 2, 10),
    ("IdleTimeout", 1, 60),
    ("RequestTimeout", 1, 180),
    ("CookieTimeout", 1, 86400),
];
const CLASSIC_WORDS: Words = &[
    ("AddressType", &["internet", "intranet"]),
    ("AddressIPVersion", &["ipv4", "ipv6"]),
    ("InternetChargeType", &["paybytraffic", "paybybandwidth"]),
    ("InstanceChargeType", &["PayBySpec", "PayByCLCU"]),
    ("DeleteProtection", SWITCH),
    (
        "ModificationProtectionStatus",
        &["NonProtection", "ConsoleProtection"],
    ),
    ("AclStatus", SWITCH),
    ("AclType", &["white", "black"]),
    ("ConnectionDrain", SWITCH),
    ("HealthCheckSwitch", SWITCH),
    ("HealthCheck", SWITCH),
    ("HealthCheckType", &["tcp", "http"]),
    ("HealthCheckMethod", &["head", "get"]),
    ("StickySession", SWITCH),
    ("StickySessionType", &["insert", "server"]),
    ("ListenerForward", SWITCH),
    ("Scheduler", &["wrr", "rr", "wlc", "sch", "tch", "qch"]),
];
const NETWORK_NUMBERS: Numbers = &[
    ("ListenerPort", 0, 65535),
    ("StartPort", 0, 65535),
    ("EndPort", 0, 65535),
    ("Port", 0, 65535),
    ("Weight", 0, 100),
    ("Cps", 0, 1_000_000),
    ("ConnectionDrainTimeout", 0, 900),
    ("HealthCheckConnectPort", 0, 65535),
    ("HealthCheckConnectTimeout", 1, 300),
    ("HealthyThreshold", 2, 10),
    ("UnhealthyThreshold", 2, 10),
    ("MaxResults", 1, 100),
];
const NETWORK_WORDS: Words = &[
    ("AddressType", &["Internet", "Intranet"]),
    ("AddressIpVersion", &["ipv4", "DualStack"]),
    ("ListenerProtocol", &["TCP", "UDP", "TCPSSL"]),
    (
        "AlpnPolicy",
        &["HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred"],
    ),
    ("Protocol", &["TCP", "UDP", "TCP_UDP"]),
    ("ServerGroupType", &["Instance", "Ip"]),
    ("ServerType", &["Ecs", "Eni", "Eci", "Ip"]),
    ("Scheduler", &["Wrr", "Wlc", "rr", "sch", "tch", "qch"]),
    ("HealthCheckType", &["TCP", "HTTP", "UDP"]),
    ("HttpCheckMethod", &["GET", "HEAD"]),
    (
        "ModificationProtectionStatus",
        &["NonProtection", "ConsoleProtection"],
    ),
];
/// The most items of lists.
const LENGTHS: [(&str, usize); 3] = [
    ("LoadBalancerIds", 20),
    ("ServerGroupIds", 20),
    ("ServerGroupNames", 20),
];

/// Checks the parameters of a request to CLB.
pub(crate) fn check_classic(body: &Value) -> Result<(), Refused> {
    check_values(body, CLASSIC_NUMBERS, CLASSIC_WORDS)
}

/// Checks the parameters of a request to NLB.
pub(crate) fn check_network(body: &Value) -> Result<(), Refused> {
    for (key, most) in LENGTHS {
        check(
            array(&body[key]).count() <= most,
            "IllegalParam",
            format!("{key}: at most {most}"),
        )?;
    }
    check_values(body, NETWORK_NUMBERS, NETWORK_WORDS)
}

/// Checks enumerations and bounds, wherever the parameter stands.
fn check_values(entry: &Value, numbers: Numbers, words: Words) -> Result<(), Refused> {
    match entry {
        Value::Object(fields) => {
            for (key, value) in fields {
                if let (Some((_, from, to)), Some(found)) =
                    (numbers.iter().find(|number| number.0 == key), number(value))
                {
                    let is_inside = (*from..=*to).contains(&found);
                    check(
                        is_inside,
                        "InvalidParameter",
                        format!("{key}: {from} to {to}"),
                    )?;
                }
                if let (Some((_, words)), Some(word)) =
                    (words.iter().find(|word| word.0 == key), value.as_str())
                {
                    let is_known = words
                        .iter()
                        .any(|other_word| other_word.eq_ignore_ascii_case(word));
                    check(is_known, "InvalidParameter", format!("{key}: {word}"))?;
                }
                check_values(value, numbers, words)?;
            }
            Ok(())
        }
        Value::Array(items) => items
            .iter()
            .try_for_each(|object| check_values(object, numbers, words)),
        _ => Ok(()),
    }
}
