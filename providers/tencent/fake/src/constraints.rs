//! The constraints that the vendor publishes for parameters of requests: enumerations, bounds, lengths, and parameters
//! that need or exclude others.

use fake_cloud::Refused;
use serde_json::Value;

use crate::check;
use crate::world::{array, text};

/// Whole numbers with their bounds, by the name of the parameter.
const NUMBERS: [(&str, i64, i64); 10] = [
    ("IdleConnectTimeout", 10, 1980),
    ("InternetMaxBandwidthOut", 1, 2048),
    ("Weight", 0, 100),
    ("HealthSwitch", 0, 1),
    ("TimeOut", 2, 60),
    ("IntervalTime", 2, 300),
    ("HealthNum", 2, 10),
    ("UnHealthNum", 2, 10),
    ("HttpCode", 1, 31),
    ("SourceIpType", 0, 1),
];
/// Words, by the name of the parameter.
const WORDS: [(&str, &[&str]); 10] = [
    ("LoadBalancerType", &["OPEN", "INTERNAL"]),
    (
        "InternetChargeType",
        &[
            "TRAFFIC_POSTPAID_BY_HOUR",
            "BANDWIDTH_POSTPAID_BY_HOUR",
            "BANDWIDTH_PACKAGE",
            "BANDWIDTH_PREPAID",
        ],
    ),
    ("LBChargeType", &["POSTPAID_BY_HOUR", "PREPAID"]),
    ("Scheduler", &["WRR", "LEAST_CONN", "IP_HASH"]),
    (
        "CheckType",
        &["TCP", "HTTP", "HTTPS", "GRPC", "PING", "CUSTOM"],
    ),
    ("HttpVersion", &["HTTP/1.0", "HTTP/1.1"]),
    ("HttpCheckMethod", &["HEAD", "GET"]),
    ("SSLMode", &["UNIDIRECTIONAL", "MUTUAL"]),
    ("TargetType", &["NODE", "TARGETGROUP"]),
    ("SessionType", &["NORMAL", "QUIC_CID"]),
];
/// The most items of lists, by action and parameter; an empty action stands for each one.
const LENGTHS: [(&str, &str, usize); 10] = [
    ("", "Filters", 10),
    ("", "Tags", 20),
    ("DescribeLoadBalancers", "LoadBalancerIds", 20),
    ("DeleteLoadBalancer", "LoadBalancerIds", 20),
    ("DescribeTargetHealth", "LoadBalancerIds", 30),
    ("DescribeListeners", "ListenerIds", 100),
    ("DescribeTargets", "ListenerIds", 20),
    ("DeleteLoadBalancerListeners", "ListenerIds", 20),
    ("SetLoadBalancerSecurityGroups", "SecurityGroups", 50),
    ("BatchModifyTargetWeight", "ModifyList", 100),
];
/// Filters of load balancers, besides those by tag.
const FILTERS: [&str; 8] = [
    "charge-type",
    "internet-charge-type",
    "master-zone-id",
    "tag-key",
    "function-name",
    "vip-isp",
    "sla-type",
    "exclusive",
];
/// The longest names and tokens.
const NAME: usize = 80;
const TOKEN: usize = 64;

/// Checks the parameters of a request to CLB.
pub(crate) fn check_request(action: &str, body: &Value) -> Result<(), Refused> {
    for (of, key, most) in LENGTHS
        .iter()
        .filter(|(of, ..)| of.is_empty() || *of == action)
    {
        let text = format!("{of} {key}: at most {most}");
        check(
            array(&body[*key]).count() <= *most,
            "InvalidParameterValue.Length",
            &text,
        )?;
    }
    if let Some(limit) = body["Limit"].as_i64() {
        check(
            (0..=100).contains(&limit),
            "InvalidParameterValue.Range",
            "Limit: 0 to 100",
        )?;
    }
    for rule in array(&body["ModifyList"]) {
        let count = array(&rule["Targets"]).count();
        check(
            count <= 50,
            "InvalidParameterValue.Length",
            "Targets of a listener: at most 50",
        )?;
    }
    let is_short = |key: &str, most: usize| text(&body[key]).chars().count() <= most;
    check(
        is_short("LoadBalancerName", NAME),
        "InvalidParameterValue.Length",
        "LoadBalancerName: at most 80",
    )?;
    check(
        is_short("ClientToken", TOKEN),
        "InvalidParameterValue.Length",
        "ClientToken: at most 64",
    )?;
    for filter in array(&body["Filters"]) {
        let name = text(&filter["Name"]);
        let is_known = FILTERS.contains(&name) || name.starts_with("tag:");
        check(
            is_known,
            "InvalidFilter",
            format!("there is no filter {name}"),
        )?;
        let is_few = array(&filter["Values"]).count() <= 100;
        check(
            is_few,
            "InvalidParameterValue.Length",
            "Values of a filter: at most 100",
        )?;
    }
    if ["CreateListener", "ModifyListener"].contains(&action) {
        check_listener(action, body)?;
    }
    check_values(body)
}

fn check_listener(action: &str, body: &Value) -> Result<(), Refused> {
    if action == "CreateListener" {
        let protocols = ["TCP", "UDP", "HTTP", "HTTPS", "TCP_SSL", "QUIC"];
        check(
            protocols.contains(&text(&body["Protocol"])),
            "InvalidParameterValue",
            "Protocol",
        )?;
        let are_ports = array(&body["Ports"]).all(|port| {
            port.as_u64()
                .is_some_and(|number| (1..=65535).contains(&number))
        });
        check(
            are_ports,
            "InvalidParameterValue.Range",
            "Ports: 1 to 65535",
        )?;
        let has_names = body["ListenerNames"].is_null()
            || array(&body["ListenerNames"]).count() == array(&body["Ports"]).count();
        check(
            has_names,
            "InvalidParameterValue.Length",
            "ListenerNames: one for each port",
        )?;
        check(
            body["Scheduler"] != "IP_HASH",
            "InvalidParameterValue",
            "Scheduler: WRR or LEAST_CONN",
        )?;
    }
    let session = body["SessionExpireTime"].as_i64().unwrap_or_default();
    check(
        session == 0 || (30..=3600).contains(&session),
        "InvalidParameterValue.Range",
        "SessionExpireTime: 0, 30 to 3600",
    )?;
    let fits = session == 0 || body["Scheduler"].is_null() || body["Scheduler"] == "WRR";
    check(
        fits,
        "InvalidParameterValue",
        "SessionExpireTime needs the scheduler WRR",
    )?;
    let health = &body["HealthCheck"];
    let is_http = health["CheckType"] == "HTTP";
    let is_l4 = ["TCP", "UDP"].contains(&text(&body["Protocol"]));
    let has_domain = !is_http || !is_l4 || health["HttpCheckDomain"].is_string();
    check(
        has_domain,
        "InvalidParameter",
        "HttpCheckDomain is due for HTTP checks of TCP listeners",
    )?;
    check(
        !is_http || body["Protocol"] != "UDP",
        "InvalidParameterValue",
        "CheckType: UDP listeners have no HTTP check",
    )?;
    let is_whole = health["CheckType"] != "CUSTOM"
        || ["ContextType", "SendContext", "RecvContext"]
            .iter()
            .all(|key| health[*key].is_string());
    check(
        is_whole,
        "InvalidParameter",
        "CUSTOM needs ContextType, SendContext and RecvContext",
    )
}

/// Checks enumerations and bounds, wherever the parameter stands.
fn check_values(object: &Value) -> Result<(), Refused> {
    match object {
        Value::Object(fields) => {
            for (key, value) in fields {
                if let (Some((_, from, to)), Some(number)) = (
                    NUMBERS.iter().find(|(name, ..)| name == key),
                    value.as_i64(),
                ) {
                    let text = format!("{key}: {from} to {to}");
                    check(
                        (*from..=*to).contains(&number),
                        "InvalidParameterValue.Range",
                        &text,
                    )?;
                }
                if let (Some((_, words)), Some(word)) =
                    (WORDS.iter().find(|(name, _)| name == key), value.as_str())
                {
                    check(
                        words.contains(&word),
                        "InvalidParameterValue",
                        format!("{key}: {word}"),
                    )?;
                }
                check_values(value)?;
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(check_values),
        _ => Ok(()),
    }
}
