//! Firewalls and their devices.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::nodebalancers::check_tags;
use crate::{Answer, ApiRequest, Linodes, array, find, ok, page, refuse};

pub(crate) fn firewalls_of(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let id = find(&mut cloud.nodebalancers, request, 0)?["id"].clone();
    let is_its = |it: &&Value| array(&it["devices"]).any(|device| device["entity"]["id"] == id);
    page(request, cloud.firewalls.iter().filter(is_its).cloned().collect())
}

pub(crate) fn firewall(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    ok(find(&mut cloud.firewalls, request, 0)?)
}

pub(crate) fn firewalls(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    page(request, cloud.firewalls.clone())
}

fn check_rules(rules: &Value) -> Result<(), Refused> {
    let is_range = |it: &Value| it.as_str().is_some_and(|it| it.contains('/'));
    for rule in array(&rules["inbound"]) {
        let mut addresses = array(&rule["addresses"]["ipv4"]).chain(array(&rule["addresses"]["ipv6"])).peekable();
        let is_known = ["TCP", "UDP"].iter().any(|it| rule["protocol"] == **it);
        let is_labelled = rule["label"].as_str().is_some_and(|it| (3..=32).contains(&it.len()));
        if !is_known || !is_labelled || addresses.peek().is_none() || !addresses.all(is_range) {
            return Err(refuse("rules.inbound: invalid rule"));
        }
    }
    if rules["inbound_policy"].is_string() { Ok(()) } else { Err(refuse("rules.inbound_policy: is required")) }
}

pub(crate) fn create_firewall(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    check_tags(&request.body)?;
    check_rules(&request.body["rules"])?;
    let mut devices = Vec::new();
    for id in array(&request.body["devices"]["nodebalancers"]) {
        if !cloud.nodebalancers.iter().any(|it| it["id"] == *id && it["account"] == *request.project) {
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
    cloud.firewalls.retain(|it| it["id"] != id);
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
    let device = json!({"id": cloud.number(), "entity": {"id": request.body["id"], "type": request.body["type"]}});
    let found = find(&mut cloud.firewalls, request, 0)?;
    found["devices"].as_array_mut().into_iter().for_each(|all| all.push(device.clone()));
    Ok(Reply::new(200, device))
}

pub(crate) fn delete_device(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let found = find(&mut cloud.firewalls, request, 0)?;
    let id = request.nth_id(1).parse().ok();
    found["devices"].as_array_mut().into_iter().for_each(|all| all.retain(|it| it["id"].as_u64() != id));
    Ok(Reply::new(200, json!({})))
}
