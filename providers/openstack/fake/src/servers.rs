//! Nova: servers and flavors.

use std::collections::BTreeMap;

use fake_cloud::Reply;
use regex_lite::Regex;
use serde_json::{Value, json};

use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::pages;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, one};

pub(crate) fn version(model: &mut Model, _: &ApiRequest) -> Answer {
    let highest = format!("2.{}", model.options.microversion);
    Ok(Reply::new(
        200,
        json!({"version": {"id": "v2.1", "status": "CURRENT", "version": highest, "min_version": "2.1"}}),
    ))
}

/// Returns the minor number of the requested microversion.
fn minor(request: &ApiRequest) -> u32 {
    let wanted = request
        .header("openstack-api-version")
        .and_then(|header| header.trim().strip_prefix("compute 2."));
    wanted.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Ports by device, in order.
fn ports_by_device(model: &Model) -> BTreeMap<&str, Vec<&Object>> {
    let mut ports: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for port in model.all(Kind::Port) {
        ports.entry(text(port, "device_id")).or_default().push(port);
    }
    ports
}

/// Returns floating addresses by their port and fixed address.
fn floating_by_port(model: &Model) -> BTreeMap<(&str, &str), &str> {
    let attached = model
        .all(Kind::FloatingIp)
        .filter(|object| !text(object, "port_id").is_empty());
    attached
        .map(|attached| {
            (
                (
                    text(attached, "port_id"),
                    text(attached, "fixed_ip_address"),
                ),
                text(attached, "floating_ip_address"),
            )
        })
        .collect()
}

fn version_of(address: &str) -> u8 {
    if address.contains(':') { 6 } else { 4 }
}

/// Returns `addresses`: by name of the network, the fixed addresses of each port, followed by its floating ones.
fn addresses(model: &Model, ports: &[&Object], floating: &BTreeMap<(&str, &str), &str>) -> Value {
    let mut addresses: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for port in ports {
        let network = model
            .get(Kind::Network, text(port, "network_id"))
            .map_or("", |network_id| text(network_id, "name"));
        let entries = addresses.entry(network).or_default();
        let mac = text(port, "mac_address");
        for fixed in items(port, "fixed_ips") {
            let fixed = fixed["ip_address"].as_str().unwrap_or_default();
            let mut entry = |address: &str, kind: &str| {
                entries.push(
                    json!({"version": version_of(address), "addr": address, "OS-EXT-IPS:type": kind,
                    "OS-EXT-IPS-MAC:mac_addr": mac}),
                );
            };
            entry(fixed, "fixed");
            if let Some(floating) = floating.get(&(text(port, "id"), fixed)) {
                entry(floating, "floating");
            }
        }
    }
    json!(addresses)
}

struct Around<'a> {
    ports: BTreeMap<&'a str, Vec<&'a Object>>,
    floating: BTreeMap<(&'a str, &'a str), &'a str>,
    minor: u32,
}

impl<'a> Around<'a> {
    fn of(model: &'a Model, request: &ApiRequest) -> Self {
        Self {
            ports: ports_by_device(model),
            floating: floating_by_port(model),
            minor: minor(request),
        }
    }

    fn shown(&self, model: &Model, server: &Object) -> Object {
        let mut shown = server.clone();
        let ports = self
            .ports
            .get(text(server, "id"))
            .map_or(&[][..], Vec::as_slice);
        // A server may have more addresses than its ports: those that a test added.
        let mut all = addresses(model, ports, &self.floating);
        if let (Some(all), Some(Value::Object(more))) =
            (all.as_object_mut(), shown.remove("addresses"))
        {
            for (network, more) in more {
                let entries = all.entry(network).or_insert_with(|| json!([]));
                let more = more.as_array().cloned().unwrap_or_default();
                entries
                    .as_array_mut()
                    .into_iter()
                    .for_each(|entry| entry.extend(more.clone()));
            }
        }
        set(&mut shown, "addresses", all);
        let project = shown.remove("project_id").unwrap_or_default();
        set(&mut shown, "tenant_id", project);
        let id = shown.remove("flavor").unwrap_or_default();
        let flavor = model.get(Kind::Flavor, id.as_str().unwrap_or_default());
        let flavor = match self.minor >= 47 {
            true => {
                json!({"vcpus": 2, "ram": 4096, "disk": 10, "ephemeral": 0, "swap": 0, "extra_specs": {},
                "original_name": flavor.map(|flavor| text(flavor, "name"))})
            }
            false => json!({"id": id, "links": []}),
        };
        set(&mut shown, "flavor", flavor);
        if self.minor >= 47 {
            [
                ("locked", json!(false)),
                ("description", Value::Null),
                ("tags", json!([])),
            ]
            .into_iter()
            .for_each(|(key, value)| set(&mut shown, key, value));
        }
        shown
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    // Matched as by MySQL, which ignores case.
    let name = match request
        .query("name")
        .map(|text| (text, Regex::new(&format!("(?i){text}"))))
    {
        None => None,
        Some((_, Ok(name))) => Some(name),
        Some((text, Err(_))) => {
            let message = format!(
                "Invalid input for query parameters name. Value: {text}. '{text}' is not a 'regex'"
            );
            return Err(Refusal::new(400, "badRequest", message));
        }
    };
    let model: &Model = model;
    let around = Around::of(model, request);
    // The newest is first.
    let seen = model
        .all(Kind::Server)
        .rev()
        .filter(|object| model.is_visible(Kind::Server, object, &request.project));
    let wanted = seen.filter(|object| {
        name.as_ref()
            .is_none_or(|name| name.is_match(text(object, "name")))
            && request
                .query("status")
                .is_none_or(|status| text(object, "status").eq_ignore_ascii_case(status))
    });
    pages::page(
        model,
        request,
        Kind::Server,
        wanted.map(|object| around.shown(model, object)).collect(),
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    let server = model.one(Kind::Server, &request.project, request.id())?;
    one(
        Kind::Server,
        Around::of(model, request).shown(model, server),
    )
}

/// Lists servers with names and IDs only.
pub(crate) fn names(model: &mut Model, request: &ApiRequest) -> Answer {
    short(model, request, Kind::Server)
}

/// Lists flavors with names and IDs only.
pub(crate) fn flavors(model: &mut Model, request: &ApiRequest) -> Answer {
    short(model, request, Kind::Flavor)
}

fn short(model: &Model, request: &ApiRequest, kind: Kind) -> Answer {
    let seen = model
        .all(kind)
        .filter(|object| model.is_visible(kind, object, &request.project));
    let mut all: Vec<Object> = seen.cloned().collect();
    all.iter_mut()
        .for_each(|object| object.retain(|key, _| ["id", "name", "links"].contains(&key.as_str())));
    pages::page(model, request, kind, all)
}

pub(crate) fn flavor(model: &mut Model, request: &ApiRequest) -> Answer {
    one(
        Kind::Flavor,
        model
            .one(Kind::Flavor, &request.project, request.id())?
            .clone(),
    )
}
