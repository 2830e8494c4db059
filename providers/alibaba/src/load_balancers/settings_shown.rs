//! The settings that the API shows, with the names and values of requests.

use serde_json::{Map, Value, json};

use super::read::{list, text};

/// Returns the fields of an object that the API shows. Another value has none.
pub(super) fn fields(object: &Value) -> Map<String, Value> {
    object.as_object().cloned().unwrap_or_default()
}

/// Returns the settings of a CLB, with the values of requests: lists show the kind of payment as a number.
pub(super) fn classic_balancer(object: &Value) -> Value {
    let mut all = fields(object);
    let payment = match (
        text(object, "InternetChargeTypeAlias"),
        text(object, "InternetChargeType"),
    ) {
        ("", "3") => "paybybandwidth",
        ("", "4") => "paybytraffic",
        ("", _) => return all.into(),
        (alias, _) => alias,
    };
    all.insert("InternetChargeType".to_owned(), json!(payment));
    all.into()
}

/// Returns the settings of a CLB's listener, with the names of requests.
pub(super) fn classic_listener(object: &Value) -> Value {
    let protocol = text(object, "ListenerProtocol").to_lowercase();
    let of_protocol = &object[format!("{}ListenerConfig", protocol.to_uppercase())];
    let mut all = fields(of_protocol);
    let mut set = |key: &str, value: Value| drop(all.insert(key.to_owned(), value));
    for key in ["Scheduler", "AclStatus", "AclType", "AclIds", "Status"] {
        set(key, object[key].clone());
    }
    if ["tcp", "udp"].contains(&&*protocol) {
        let proxy = &of_protocol["ProxyProtocolV2Enabled"];
        set("HealthCheckSwitch", of_protocol["HealthCheck"].clone());
        set("HealthCheck", Value::Null);
        set(
            "ProxyProtocolV2Enabled",
            json!(*proxy == "true" || *proxy == true),
        );
    }
    if of_protocol["ListenerForward"] != "on" {
        set("ForwardPort", Value::Null);
    }
    set("Protocol", json!(protocol));
    all.into()
}

/// Returns the settings of an NLB, with the names of requests.
pub(super) fn network_balancer(entry: &Value) -> Map<String, Value> {
    let mut all = fields(entry);
    let zone = |zone: &Value| {
        let address = &zone["LoadBalancerAddresses"][0];
        let of_zone = ["ZoneId", "VSwitchId"].map(|key| (key, &zone[key]));
        let fields = of_zone
            .into_iter()
            .chain(["AllocationId", "PrivateIPv4Address"].map(|key| (key, &address[key])));
        fields
            .filter(|(_, object)| !object.is_null())
            .map(|(key, object)| (key.to_owned(), object.clone()))
            .collect::<Value>()
    };
    all.insert(
        "ZoneMappings".to_owned(),
        list(entry, "ZoneMappings").map(zone).collect(),
    );
    all
}
