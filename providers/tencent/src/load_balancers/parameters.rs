//! Parameters of requests that annotations state as JSON: those of the creation, and those of listeners.
//!
//! The author of a Service writes them, so only the listed ones are accepted: no other parameter of a request, and nothing
//! that the program sets itself, can be reached by them.

use provider_kit::annotations::Annotations;
use serde_json::{Map, Value};

use crate::annotations as key;
use crate::api::text;

/// Parameters of `CreateLoadBalancer` that the annotation may set.
const OF_CREATION: [&str; 11] = [
    "AddressIPVersion",
    "BandwidthPackageId",
    "DynamicVip",
    "EipAddressId",
    "InternetAccessible",
    "MasterZoneId",
    "SlaType",
    "SlaveZoneId",
    "SubnetId",
    "VipIsp",
    "ZoneId",
];
/// Parameters of listeners that the annotation may set.
const OF_LISTENERS: [&str; 17] = [
    "DeregisterTargetRst",
    "HealthCheck",
    "IdleConnectTimeout",
    "KeepaliveEnable",
    "MaxConn",
    "MaxCps",
    "ProxyProtocol",
    "RescheduleExpandTarget",
    "RescheduleInterval",
    "RescheduleStartTime",
    "RescheduleTargetZeroWeight",
    "RescheduleUnhealthy",
    "Scheduler",
    "SessionExpireTime",
    "SessionType",
    "SnatEnable",
    "SslCloseSwitch",
];
/// Tags that a load balancer can have besides those of the program, and the beginnings of the keys of those.
const TAGS: usize = 16;
const OWN_TAGS: [&str; 2] = ["tke-", "ccm-rs/"];

/// Returns the setting that a parameter belongs to, if another one than the annotation has it.
fn place_of(parameter: &str) -> Option<String> {
    let annotation = |key: &str| Some(format!("annotation {key}"));
    match parameter {
        "LoadBalancerName" => annotation(key::LB_NAME_KEY.key()),
        "Vip" => Some("spec.loadBalancerIP".to_owned()),
        "LoadBalancerPassToTarget" => annotation(key::PASS_TO_TARGET.key()),
        "LoadBalancerType" => annotation(key::TYPE.key()),
        "SubnetId" => annotation(key::SUBNET.key()),
        "InternetAccessible" => Some(format!(
            "annotations {} and {}",
            key::CHARGE.key(),
            key::BANDWIDTH.key()
        )),
        "Certificate" | "MultiCertInfo" => annotation(key::PROTOCOLS.key()),
        "Protocol" => annotation(key::PROTOCOLS.key()),
        _ => None,
    }
}

/// Refuses the parameters that are not accepted, and removes them.
fn check(
    parameters: &mut Map<String, Value>,
    is_accepted: impl Fn(&str) -> bool,
    (annotation, accepted): (&str, &[&str]),
    annotations: &mut Annotations<'_>,
) {
    let refused: Vec<_> = parameters
        .keys()
        .filter(|name| !is_accepted(name))
        .cloned()
        .collect();
    for name in refused {
        parameters.remove(&name);
        let what_to_do = match place_of(&name) {
            Some(place) => format!("use {place}"),
            None => format!("remove it; accepted are {}", accepted.join(", ")),
        };
        annotations.mistake(format!(
            "annotation {annotation}: {name} cannot be set here; {what_to_do}"
        ));
    }
}

/// Returns the further parameters of the creation of a load balancer, and its further tags.
pub(super) fn of_creation(
    is_internal: bool,
    annotations: &mut Annotations<'_>,
) -> (Map<String, Value>, Vec<Value>) {
    let mut all = annotations.get(&key::EXTENSIVE).unwrap_or_default().0;
    let tags = tags(all.remove("Tags"), annotations);
    let has_network = annotations.is_set(&key::CHARGE) || annotations.is_set(&key::BANDWIDTH);
    let is_accepted = |name: &str| match name {
        "SubnetId" => !is_internal,
        "InternetAccessible" => !has_network,
        name => OF_CREATION.contains(&name),
    };
    check(
        &mut all,
        is_accepted,
        (key::EXTENSIVE.key(), &OF_CREATION),
        annotations,
    );
    (all, tags)
}

/// Returns the further parameters of listeners.
pub(super) fn of_listeners(annotations: &mut Annotations<'_>) -> Map<String, Value> {
    let mut all = annotations.get(&key::LISTENER).unwrap_or_default().0;
    check(
        &mut all,
        |name| OF_LISTENERS.contains(&name),
        (key::LISTENER.key(), &OF_LISTENERS),
        annotations,
    );
    all
}

/// Returns the tags among the parameters of the creation.
fn tags(tags: Option<Value>, annotations: &mut Annotations<'_>) -> Vec<Value> {
    let is_tag = |object: &Value| {
        let key = text(object, "TagKey");
        !key.is_empty()
            && !OWN_TAGS
                .iter()
                .any(|own_prefix| key.starts_with(own_prefix))
            && object["TagValue"].is_string()
    };
    match tags {
        None => Vec::new(),
        Some(Value::Array(tags)) if tags.len() <= TAGS && tags.iter().all(is_tag) => tags,
        Some(_) => {
            annotations.mistake(format!(
                "annotation {}: Tags is not a list of at most {TAGS} objects with TagKey and TagValue; keys may not begin with {}",
                key::EXTENSIVE.key(),
                OWN_TAGS.join(" or ")
            ));
            Vec::new()
        }
    }
}
