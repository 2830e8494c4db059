//! Nodes: taints, Pod CIDRs, addresses, and the provider id that is set once.

use serde_json::{Value, json};

use super::lists::{items, text};
use super::names;
use crate::status::StatusCause;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn create(node: &Value) -> Vec<StatusCause> {
    let mut causes = taints(node);
    causes.extend(pod_cidrs(node));
    causes
}

pub(super) fn update(new: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = duplicate_addresses(new);
    let spec = &new["spec"];
    let before = &old["spec"];
    if before["podCIDRs"].is_array() && spec["podCIDRs"] != before["podCIDRs"] {
        causes.push(StatusCause::forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ));
    }
    causes.extend(taints(new));
    let had = text(before, "providerID");
    let has = text(spec, "providerID");
    if !had.is_empty() && has != had {
        let detail = if has.is_empty() {
            "field cannot be cleared once set"
        } else {
            "field cannot be modified once set"
        };
        causes.push(StatusCause::invalid(
            "spec.providerID",
            &Value::Null,
            detail,
        ));
    }
    causes
}

fn taints(node: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in items(&node["spec"], "taints") {
        let field = format!("metadata.taints[{index}]");
        let key = text(taint, "key");
        let value = text(taint, "value");
        let effect = text(taint, "effect");
        for problem in names::qualified_name(key) {
            causes.push(StatusCause::invalid(
                format!("{field}.key"),
                &json!(key),
                &problem,
            ));
        }
        let problems = names::label_value(value);
        if !problems.is_empty() {
            causes.push(StatusCause::invalid(
                format!("{field}.value"),
                &json!(value),
                &problems.join(";"),
            ));
        }
        if effect.is_empty() {
            causes.push(StatusCause::required(format!("{field}.effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            causes.push(StatusCause::unsupported(
                format!("{field}.effect"),
                &json!(effect),
                &EFFECTS,
            ));
        }
        if seen.contains(&(key, effect)) {
            let time = taint["timeAdded"]
                .as_str()
                .map_or("null".to_owned(), |time| format!("{time:?}"));
            let shown = format!(
                "{{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":{time}}}: taints must be unique by key and effect pair"
            );
            causes.push(StatusCause::duplicate(field, &shown));
        }
        seen.push((key, effect));
    }
    causes
}

fn duplicate_addresses(node: &Value) -> Vec<StatusCause> {
    let mut seen: Vec<&Value> = Vec::new();
    let mut causes = Vec::new();
    for (index, address) in items(&node["status"], "addresses") {
        if seen.contains(&address) {
            let shown = format!(
                "{{\"Type\":{:?},\"Address\":{:?}}}",
                text(address, "type"),
                text(address, "address")
            );
            causes.push(StatusCause::duplicate(
                format!("status.addresses[{index}]"),
                &shown,
            ));
        }
        seen.push(address);
    }
    causes
}

fn pod_cidrs(node: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let spec = &node["spec"];
    for (index, cidr) in items(spec, "podCIDRs") {
        let text = cidr.as_str().unwrap_or_default();
        if !is_cidr(text) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(StatusCause::invalid(
                format!("spec.podCIDRs[{index}]"),
                cidr,
                detail,
            ));
        }
    }
    let families = |v6: bool| {
        items(spec, "podCIDRs")
            .filter(|(_, cidr)| text_of(cidr).contains(':') == v6)
            .count()
    };
    if causes.is_empty() && (families(true) > 1 || families(false) > 1) {
        let detail = "may specify no more than one CIDR for each IP family";
        causes.push(StatusCause::invalid(
            "spec.podCIDRs",
            &spec["podCIDRs"],
            detail,
        ));
    }
    causes
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns `true` if the text has the form `ADDRESS/BITS`.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let Ok(bits) = bits.parse::<u8>() else {
        return false;
    };
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => bits <= 32,
        Ok(std::net::IpAddr::V6(_)) => bits <= 128,
        Err(_) => false,
    }
}
