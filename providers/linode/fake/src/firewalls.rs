//! Firewalls and their devices.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::nodebalancers::check_tags;
use crate::{Answer, Asked, Linodes, array, find, ok, page, refuse};

pub(crate) fn firewalls_of(cloud: &mut Linodes, asked: &Asked) -> Answer {
    let id = find(&mut cloud.nodebalancers, asked, 0)?["id"].clone();
    let is_its = |it: &&Value| array(&it["devices"]).any(|device| device["entity"]["id"] == id);
    page(asked, cloud.firewalls.iter().filter(is_its).cloned().collect())
}

pub(crate) fn firewall(cloud: &mut Linodes, asked: &Asked) -> Answer {
    ok(find(&mut cloud.firewalls, asked, 0)?)
}

pub(crate) fn firewalls(cloud: &mut Linodes, asked: &Asked) -> Answer {
    page(asked, cloud.firewalls.clone())
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

pub(crate) fn create_firewall(cloud: &mut Linodes, asked: &Asked) -> Answer {
    check_tags(&asked.body)?;
    check_rules(&asked.body["rules"])?;
    let mut devices = Vec::new();
    for id in array(&asked.body["devices"]["nodebalancers"]) {
        if !cloud.nodebalancers.iter().any(|it| it["id"] == *id && it["account"] == *asked.project) {
            return Err(refuse("devices: There is no such NodeBalancer"));
        }
        devices.push(json!({"id": cloud.number(), "entity": {"id": id, "type": "nodebalancer"}}));
    }
    let firewall = json!({"id": cloud.number(), "account": asked.project, "label": asked.body["label"], "tags": asked.body["tags"],
        "rules": asked.body["rules"], "devices": devices});
    cloud.firewalls.push(firewall.clone());
    ok(&firewall)
}

pub(crate) fn delete_firewall(cloud: &mut Linodes, asked: &Asked) -> Answer {
    let id = find(&mut cloud.firewalls, asked, 0)?["id"].clone();
    cloud.firewalls.retain(|it| it["id"] != id);
    Ok(Reply::new(200, json!({})))
}

pub(crate) fn set_rules(cloud: &mut Linodes, asked: &Asked) -> Answer {
    check_rules(&asked.body)?;
    let found = find(&mut cloud.firewalls, asked, 0)?;
    found["rules"] = asked.body.clone();
    Ok(Reply::new(200, asked.body.clone()))
}

pub(crate) fn devices(cloud: &mut Linodes, asked: &Asked) -> Answer {
    let found = find(&mut cloud.firewalls, asked, 0)?;
    page(asked, array(&found["devices"]).cloned().collect())
}

pub(crate) fn add_device(cloud: &mut Linodes, asked: &Asked) -> Answer {
    let device = json!({"id": cloud.number(), "entity": {"id": asked.body["id"], "type": asked.body["type"]}});
    let found = find(&mut cloud.firewalls, asked, 0)?;
    found["devices"].as_array_mut().into_iter().for_each(|all| all.push(device.clone()));
    Ok(Reply::new(200, device))
}

pub(crate) fn delete_device(cloud: &mut Linodes, asked: &Asked) -> Answer {
    let found = find(&mut cloud.firewalls, asked, 0)?;
    let id = asked.nth_id(1).parse().ok();
    found["devices"].as_array_mut().into_iter().for_each(|all| all.retain(|it| it["id"].as_u64() != id));
    Ok(Reply::new(200, json!({})))
}
