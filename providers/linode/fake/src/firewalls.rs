//! Firewalls and their devices.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::nodebalancers::check_tags;
use crate::{Answer, ApiRequest, Linodes, array, find, ok, page, refuse};

pub(crate) fn firewalls_of(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let id = find(&mut cloud.nodebalancers, request, 0)?["id"].clone();
    let is_its_object =
        |object: &&Value| array(&object["devices"]).any(|device| device["entity"]["id"] == id);
    page(
        request,
        cloud
            .firewalls
            .iter()
            .filter(is_its_object)
            .cloned()
            .collect(),
    )
}

pub(crate) fn firewall(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    ok(find(&mut cloud.firewalls, request, 0)?)
}

pub(crate) fn firewalls(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    page(request, cloud.firewalls.clone())
}

fn is_of_length(object: &Value, from: usize, to: usize) -> bool {
    object
        .as_str()
        .is_some_and(|text| (from..=to).contains(&text.len()))
}

fn is_one_of(object: &Value, all: &[&str]) -> bool {
    all.iter().any(|known| object == known)
}

fn check_rules(rules: &Value) -> Result<(), Refused> {
    if array(&rules["inbound"]).count() > 25 {
        return Err(refuse("rules.inbound: Must have at most 25 rules"));
    }
    for policy in ["inbound_policy", "outbound_policy"] {
        if !is_one_of(&rules[policy], &["ACCEPT", "DROP"]) {
            return Err(refuse(&format!(
                "rules.{policy}: Must be one of ACCEPT, DROP"
            )));
        }
    }
    array(&rules["inbound"])
        .chain(array(&rules["outbound"]))
        .try_for_each(check_rule)
}

fn check_rule(rule: &Value) -> Result<(), Refused> {
    let is_range = |object: &Value| object.as_str().is_some_and(|text| text.contains('/'));
    let families =
        ["ipv4", "ipv6"].map(|family| array(&rule["addresses"][family]).collect::<Vec<_>>());
    let are_addresses = families
        .iter()
        .all(|all| all.len() <= 255 && all.iter().all(|object| is_range(object)))
        && families.iter().any(|all| !all.is_empty());
    let pieces = rule["ports"].as_str().unwrap_or_default().split(',');
    let pieces: usize = pieces
        .map(|piece| if piece.contains('-') { 2 } else { 1 })
        .sum();
    let is_described = rule["description"].is_null() || is_of_length(&rule["description"], 1, 100);
    for (is_right, text) in [
        (
            is_one_of(&rule["action"], &["ACCEPT", "DROP"]),
            "action: Must be one of ACCEPT, DROP",
        ),
        (
            is_one_of(&rule["protocol"], &["TCP", "UDP"]),
            "protocol: invalid",
        ),
        (
            is_of_length(&rule["label"], 3, 32),
            "label: Must be 3-32 characters",
        ),
        (is_described, "description: Must be 1-100 characters"),
        (
            are_addresses,
            "addresses: Must be ranges, at most 255 of a family",
        ),
        (pieces <= 15, "ports: Must have at most 15 pieces"),
    ] {
        if !is_right {
            return Err(refuse(&format!("rules.{text}")));
        }
    }
    Ok(())
}

/// Checks a label of a firewall: 3 to 32 characters that begin with a letter, without two dashes, underscores or dots in a
/// row.
fn check_label(label: &Value) -> Result<(), Refused> {
    let text = label.as_str().unwrap_or_default();
    let is_inner = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let is_right = is_of_length(label, 3, 32)
        && text.starts_with(|character: char| character.is_ascii_alphabetic())
        && text.chars().all(is_inner)
        && !["--", "__", ".."].iter().any(|twice| text.contains(twice));
    if is_right {
        Ok(())
    } else {
        Err(refuse(
            "label: Must be 3-32 characters that begin with a letter",
        ))
    }
}

pub(crate) fn create_firewall(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    check_tags(&request.body)?;
    check_label(&request.body["label"])?;
    let is_taken = |object: &Value| {
        object["label"] == request.body["label"] && object["account"] == *request.project
    };
    if cloud.firewalls.iter().any(is_taken) {
        return Err(refuse(
            "label: Label must be unique among your Cloud Firewalls",
        ));
    }
    check_rules(&request.body["rules"])?;
    let mut devices = Vec::new();
    for id in array(&request.body["devices"]["nodebalancers"]) {
        if !cloud.nodebalancers.iter().any(|nodebalancer| {
            nodebalancer["id"] == *id && nodebalancer["account"] == *request.project
        }) {
            return Err(refuse("devices: There is no such NodeBalancer"));
        }
        devices.push(json!({"id": cloud.number(), "entity": {"id": id, "type": "nodebalancer"}}));
    }
    let firewall = json!({"id": cloud.number(), "account": request.project, "label": request.body["label"], "tags": request.body["tags"],
        "rules": request.body["rules"], "devices": devices});
    cloud.firewalls.push(firewall.clone());
    ok(&firewall)
}

pub(crate) fn delete_firewall(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let id = find(&mut cloud.firewalls, request, 0)?["id"].clone();
    cloud.firewalls.retain(|firewall| firewall["id"] != id);
    Ok(Reply::new(200, json!({})))
}

pub(crate) fn set_rules(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    check_rules(&request.body)?;
    let found = find(&mut cloud.firewalls, request, 0)?;
    found["rules"] = request.body.clone();
    Ok(Reply::new(200, request.body.clone()))
}

pub(crate) fn devices(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let found = find(&mut cloud.firewalls, request, 0)?;
    page(request, array(&found["devices"]).cloned().collect())
}

pub(crate) fn add_device(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let is_this_object = |object: &Value| {
        object["id"] == request.body["id"] && object["account"] == *request.project
    };
    if request.body["type"] == "nodebalancer" && !cloud.nodebalancers.iter().any(is_this_object) {
        return Err(refuse("id: There is no such NodeBalancer"));
    }
    let has = find(&mut cloud.firewalls, request, 0)?["devices"].clone();
    if array(&has).any(|object| object["entity"]["id"] == request.body["id"]) {
        return Err(refuse("id: is attached to this firewall"));
    }
    let device = json!({"id": cloud.number(), "entity": {"id": request.body["id"], "type": request.body["type"]}});
    let found = find(&mut cloud.firewalls, request, 0)?;
    found["devices"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.push(device.clone()));
    Ok(Reply::new(200, device))
}

pub(crate) fn delete_device(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let found = find(&mut cloud.firewalls, request, 0)?;
    let id = request.nth_id(1).parse().ok();
    found["devices"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.retain(|object| object["id"].as_u64() != id));
    Ok(Reply::new(200, json!({})))
}
