//! NodeBalancers, their configurations and backends.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_cloud::{Refused, Reply};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};

use crate::{Answer, ApiRequest, Linodes, array, find, not_found, ok, page, refuse};

impl Linodes {
    pub(crate) fn insert(&mut self, account: &str, body: &Value) -> u64 {
        let id = self.number();
        let [high, low] = u16::try_from(id % 1_000_000)
            .unwrap_or_default()
            .to_be_bytes();
        let ip = body["ipv4"]
            .as_str()
            .map_or_else(|| format!("198.51.{high}.{low}"), str::to_owned);
        let subnet = &body["frontend_vpcs"][0]["subnet_id"];
        self.nodebalancers.push(json!({
            "id": id, "account": account, "label": body["label"], "region": body["region"], "tags": body["tags"],
            "hostname": format!("{}.ip.linodeusercontent.com", ip.replace('.', "-")), "ipv4": ip,
            "ipv6": format!("2600:3c03:1::{:x}", id % 1_000_000), "client_conn_throttle": body["client_conn_throttle"].as_u64().unwrap_or(0),
            "type": body["type"].as_str().unwrap_or("common"), "locks": [],
            "frontend_address_type": if subnet.is_null() { "public" } else { "vpc" }, "frontend_vpc_subnet_id": subnet,
        }));
        id
    }

    pub(crate) fn add_config(&mut self, nodebalancer: u64, body: &Value) -> Answer {
        let config = self.config(nodebalancer, body, None)?;
        self.configs.push(config.clone());
        ok(&config)
    }

    /// Returns the configuration that a body describes; fields that the API does not accept keep their defaults.
    fn config(
        &mut self,
        nodebalancer: u64,
        body: &Value,
        id: Option<u64>,
    ) -> Result<Value, Refused> {
        let is_udp = |object: &Value| object["protocol"] == "udp";
        let others = self.configs.iter().filter(|config| {
            config["nodebalancer_id"] == nodebalancer
                && Some(&config["id"]) != id.map(Value::from).as_ref()
        });
        if { others }.any(|object| object["port"] == body["port"] && is_udp(object) == is_udp(body))
        {
            return Err(refuse("port: Must be unique per NodeBalancer"));
        }
        let known = |key: &str, all: &[&str]| {
            body[key].is_null() || all.iter().any(|text| body[key] == **text)
        };
        let (algorithms, sticky): (&[&str], &[&str]) = match is_udp(body) {
            true => (
                &["roundrobin", "leastconn", "ring_hash"],
                &["none", "session", "source_ip"],
            ),
            false => (
                &["roundrobin", "leastconn", "source"],
                &["none", "table", "http_cookie"],
            ),
        };
        for (key, all) in [
            ("protocol", &["tcp", "udp", "http", "https"][..]),
            ("algorithm", algorithms),
            ("stickiness", sticky),
            ("check", &["none", "connection", "http", "http_body"]),
            (
                "proxy_protocol",
                if is_udp(body) {
                    &["none"]
                } else {
                    &["none", "v1", "v2"]
                },
            ),
        ] {
            if !known(key, all) {
                return Err(refuse(&format!("{key}: invalid")));
            }
        }
        for (key, from, to) in [
            ("check_interval", 2, 3600),
            ("check_timeout", 1, 30),
            ("check_attempts", 1, 30),
            ("udp_check_port", 1, 65535),
        ] {
            let is_right = body[key].is_null()
                || body[key]
                    .as_u64()
                    .is_some_and(|key| (from..=to).contains(&key));
            if !is_right {
                return Err(refuse(&format!("{key}: Must be {from}-{to}")));
            }
        }
        let is_inner =
            |character: char| character.is_ascii_alphanumeric() || "/-%?&=.".contains(character);
        if !body["check_path"]
            .as_str()
            .unwrap_or_default()
            .chars()
            .all(is_inner)
        {
            return Err(refuse("check_path: invalid"));
        }
        if body["protocol"] == "tcp"
            && ["http_cookie"]
                .iter()
                .any(|http_cookie| body["stickiness"] == **http_cookie)
        {
            return Err(refuse("stickiness: invalid with tcp"));
        }
        if body["port"]
            .as_u64()
            .is_none_or(|port| !(1..=65535).contains(&port))
        {
            return Err(refuse("port: Must be 1-65535"));
        }
        if let Some(key) = ["node_port", "pool", "ssl_fingerprint", "id"]
            .iter()
            .find(|key| body.get(**key).is_some())
        {
            return Err(refuse(&format!("{key}: unknown")));
        }
        let id = id.unwrap_or_else(|| self.number());
        let mut config = json!({
            "id": id, "nodebalancer_id": nodebalancer, "protocol": "http", "algorithm": "roundrobin", "proxy_protocol": "none",
            "stickiness": sticky[1], "check": "none", "check_interval": 31, "check_timeout": 30, "check_attempts": 3,
            "check_passive": true, "check_path": "", "check_body": "", "udp_check_port": 80, "cipher_suite": "recommended",
            "ssl_fingerprint": "", "ssl_commonname": "", "ssl_cert": null, "ssl_key": null, "nodes": [],
        });
        for (key, value) in body
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "nodes")
        {
            config[key] = value.clone();
        }
        if body["protocol"] == "https" {
            let (Some(pem), Some(_)) = (body["ssl_cert"].as_str(), body["ssl_key"].as_str()) else {
                return Err(refuse("ssl_cert: is required with https"));
            };
            config["ssl_fingerprint"] = fingerprint(pem).into();
            (config["ssl_cert"], config["ssl_key"]) = ("<REDACTED>".into(), "<REDACTED>".into());
        }
        let mut nodes = Vec::new();
        for node in array(&body["nodes"]) {
            let mut node = self.node(node, id, nodebalancer)?;
            if is_udp(body) {
                node["mode"] = "none".into();
            }
            nodes.push(node);
        }
        config["nodes"] = nodes.into();
        Ok(config)
    }

    fn node(&mut self, node: &Value, config: u64, nodebalancer: u64) -> Result<Value, Refused> {
        let ip = node["address"]
            .as_str()
            .and_then(|address| address.parse::<SocketAddr>().ok())
            .map(|address| address.ip());
        let owner = self
            .nodebalancers
            .iter()
            .find(|other_nodebalancer| other_nodebalancer["id"] == nodebalancer)
            .map(|nodebalancer| nodebalancer["account"].clone());
        let text = ip.map(|ip| ip.to_string()).unwrap_or_default();
        let has = |object: &&Value| {
            array(&object["ipv4"]).any(|ip| *ip == text) || object["vpc"]["address"] == text
        };
        if self
            .linodes
            .iter()
            .find(has)
            .is_some_and(|linode| Some(&linode["account"]) != owner.as_ref())
        {
            return Err(refuse("address: Must be of a Linode of this account"));
        }
        let is_private = match ip {
            Some(IpAddr::V4(ip)) if node["subnet_id"].is_null() => ip.octets()[..2] == [192, 168],
            Some(_) => true,
            None => false,
        };
        if !is_private {
            return Err(refuse("address: Must be a private IPv4 address"));
        }
        if !(3..=32).contains(&node["label"].as_str().unwrap_or_default().len()) {
            return Err(refuse("label: Must be 3-32 characters"));
        }
        let there = |object: &&Value| object["id"] == config;
        let known = self
            .configs
            .iter()
            .find(there)
            .map(|config| config["nodes"].clone())
            .unwrap_or_default();
        if !node["id"].is_null() && !array(&known).any(|object| object["id"] == node["id"]) {
            return Err(refuse("id: There is no such node"));
        }
        let id = node["id"].as_u64().unwrap_or_else(|| self.number());
        Ok(
            json!({"id": id, "address": node["address"], "label": node["label"], "weight": 100, "mode": "accept", "status": "UP"}),
        )
    }
}

fn fingerprint(pem: &str) -> String {
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("---"))
        .collect();
    let digest = digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        &STANDARD.decode(body).unwrap_or_default(),
    );
    let mut text = String::new();
    for byte in digest.as_ref() {
        let _ = write!(text, "{byte:02X}:");
    }
    text.trim_end_matches(':').to_owned()
}

pub(crate) fn nodebalancers(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    page(request, cloud.nodebalancers.clone())
}

pub(crate) fn check_tags(body: &Value) -> Result<(), Refused> {
    let is_wrong = |tag: &Value| {
        tag.as_str()
            .is_none_or(|tag| !(3..=50).contains(&tag.len()))
    };
    if array(&body["tags"]).any(is_wrong) {
        Err(refuse("tags: Must be 3-50 characters"))
    } else {
        Ok(())
    }
}

pub(crate) fn create_nodebalancer(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let body = &request.body;
    let label = body["label"].as_str().unwrap_or_default();
    let is_inner = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if !(3..=32).contains(&label.len()) || !label.chars().all(is_inner) {
        return Err(refuse("label: Must be 3-32 characters"));
    }
    if cloud.nodebalancers.iter().any(|nodebalancer| {
        nodebalancer["account"] == *request.project && nodebalancer["label"] == label
    }) {
        return Err(refuse(
            "label: Label must be unique among your NodeBalancers",
        ));
    }
    if !["us-east", "de-fra-2"]
        .iter()
        .any(|region| body["region"] == **region)
    {
        return Err(refuse("region: is not valid"));
    }
    check_tags(body)?;
    check_throttle(body)?;
    if !["common", "premium", "premium_40gb"]
        .iter()
        .any(|kind| body["type"].is_null() || body["type"] == **kind)
    {
        return Err(refuse("type: is not valid"));
    }
    let known = [
        "label",
        "region",
        "type",
        "tags",
        "ipv4",
        "client_conn_throttle",
        "configs",
        "firewall_id",
        "vpcs",
        "frontend_vpcs",
    ];
    if let Some(key) = body
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
        .find(|key| !known.contains(&&***key))
    {
        return Err(refuse(&format!("{key}: unknown")));
    }
    if let Some(id) = body["firewall_id"].as_u64()
        && !cloud.firewalls.iter().any(|firewall| firewall["id"] == id)
    {
        return Err(refuse("firewall_id: does not exist"));
    }
    let id = cloud.insert(&request.project, body);
    for config in array(&body["configs"]) {
        if let Err(refused) = cloud.add_config(id, config) {
            cloud
                .nodebalancers
                .retain(|nodebalancer| nodebalancer["id"] != id);
            cloud
                .configs
                .retain(|config| config["nodebalancer_id"] != id);
            return Err(refused);
        }
    }
    let device = json!({"id": cloud.number(), "entity": {"id": id, "type": "nodebalancer"}});
    for firewall in cloud
        .firewalls
        .iter_mut()
        .filter(|firewall| firewall["id"] == body["firewall_id"])
    {
        firewall["devices"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(device.clone()));
    }
    cloud
        .nodebalancers
        .last()
        .map_or_else(|| Err(not_found()), ok)
}

pub(crate) fn nodebalancer(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    ok(find(&mut cloud.nodebalancers, request, 0)?)
}

fn check_throttle(body: &Value) -> Result<(), Refused> {
    let throttle = &body["client_conn_throttle"];
    let is_right = throttle.is_null() || throttle.as_u64().is_some_and(|throttle| throttle <= 20);
    if is_right {
        Ok(())
    } else {
        Err(refuse("client_conn_throttle: Must be 0-20"))
    }
}

pub(crate) fn update_nodebalancer(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    check_tags(&request.body)?;
    check_throttle(&request.body)?;
    let known = ["label", "tags", "client_conn_throttle"];
    if let Some(key) = request
        .body
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
        .find(|key| !known.contains(&&***key))
    {
        return Err(refuse(&format!("{key}: cannot be changed")));
    }
    let found = find(&mut cloud.nodebalancers, request, 0)?;
    for key in ["label", "tags", "client_conn_throttle"] {
        request
            .body
            .get(key)
            .into_iter()
            .for_each(|value| found[key] = value.clone());
    }
    ok(found)
}

pub(crate) fn delete_nodebalancer(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let found = find(&mut cloud.nodebalancers, request, 0)?;
    let id = found["id"].clone();
    if array(&found["locks"]).any(|lock| {
        lock.as_str()
            .is_some_and(|lock| lock.starts_with("cannot_delete"))
    }) {
        return Err(refuse("This resource is locked and cannot be deleted"));
    }
    cloud
        .nodebalancers
        .retain(|nodebalancer| nodebalancer["id"] != id);
    cloud
        .configs
        .retain(|config| config["nodebalancer_id"] != id);
    for firewall in &mut cloud.firewalls {
        firewall["devices"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.retain(|object| object["entity"]["id"] != id));
    }
    Ok(Reply::new(200, json!({})))
}

pub(crate) fn configs(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let id = find(&mut cloud.nodebalancers, request, 0)?["id"].clone();
    page(
        request,
        cloud
            .configs
            .iter()
            .filter(|config| config["nodebalancer_id"] == id)
            .cloned()
            .collect(),
    )
}

pub(crate) fn create_config(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let id = find(&mut cloud.nodebalancers, request, 0)?["id"]
        .as_u64()
        .unwrap_or_default();
    if !request.body["nodes"].is_null() {
        return Err(refuse("nodes: unknown"));
    }
    cloud.add_config(id, &request.body)
}

/// Returns the configuration that a path names.
fn config<'a>(cloud: &'a mut Linodes, request: &ApiRequest) -> Result<&'a mut Value, Refused> {
    let id = find(&mut cloud.nodebalancers, request, 0)?["id"].clone();
    let found = find(&mut cloud.configs, request, 1)?;
    if found["nodebalancer_id"] == id {
        Ok(found)
    } else {
        Err(not_found())
    }
}

pub(crate) fn delete_config(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let id = config(cloud, request)?["id"].clone();
    cloud.configs.retain(|config| config["id"] != id);
    Ok(Reply::new(200, json!({})))
}

pub(crate) fn rebuild(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let there = config(cloud, request)?;
    let [nodebalancer, id] =
        ["nodebalancer_id", "id"].map(|key| there[key].as_u64().unwrap_or_default());
    let rebuilt = cloud.config(nodebalancer, &request.body, Some(id))?;
    config(cloud, request)?.clone_from(&rebuilt);
    ok(&rebuilt)
}

pub(crate) fn nodes(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let nodes = config(cloud, request)?["nodes"].clone();
    page(request, array(&nodes).cloned().collect())
}

pub(crate) fn release(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    cloud.released.push(request.id().to_owned());
    Ok(Reply::new(200, json!({})))
}
