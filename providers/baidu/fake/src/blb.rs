//! BLBs, their listeners and backends.

use std::time::Duration;

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::instances::has;
use crate::{
    Answer, ApiRequest, Baidu, array, conflict, done, find, not_found, only, page, refuse,
    required, shown,
};

const CREATION: Duration = Duration::from_millis(1500);
const CHECKS: [&str; 5] = [
    "healthCheckTimeoutInSecond",
    "healthCheckInterval",
    "unhealthyThreshold",
    "healthyThreshold",
    "healthCheckType",
];

impl Baidu {
    /// Adds a BLB as its owner creates it by hand, and returns its ID.
    pub fn add_blb(&mut self, account: &str, name: &str, description: &str) -> String {
        let number = self.number();
        let [high, low] = u16::try_from(number).unwrap_or_default().to_be_bytes();
        let id = format!("lb-{number:08x}");
        self.blbs.push(json!({
            "blbId": id, "account": account, "name": name, "desc": description, "address": format!("192.168.{}.{low}", 128 + high),
            "status": "available", "vpcId": crate::VPC, "subnetId": crate::SUBNET, "publicIp": "", "allowDelete": true, "ipv6": "",
            "tags": [], "listeners": [], "backends": [],
        }));
        id
    }

    pub(crate) fn finish_blb(&mut self, id: &str, has_failed: bool) {
        for blb in self.blbs.iter_mut().filter(|blb| blb["blbId"] == id) {
            blb["status"] = if has_failed {
                "unavailable"
            } else {
                "available"
            }
            .into();
        }
    }

    /// Returns the BLB of a path, which must accept a change.
    fn changed<'a>(&'a mut self, request: &ApiRequest) -> Result<&'a mut Value, Refused> {
        let busy = self.busy;
        let blb = find(&mut self.blbs, "blbId", request.id(), request)?;
        if blb["status"] != "available" {
            return Err(conflict("The BLB is busy."));
        }
        if !busy.is_zero() {
            blb["status"] = "updating".into();
            self.work.begin(request.id(), busy, &request.effects);
        }
        Ok(blb)
    }
}

fn named(body: &Value) -> Result<(), Refused> {
    let is_wrong = body["name"]
        .as_str()
        .is_some_and(|name| !(1..=65).contains(&name.chars().count()));
    let is_long = body["desc"]
        .as_str()
        .is_some_and(|text| text.chars().count() > 200);
    if is_wrong || is_long {
        Err(refuse("InappropriateJSON", "name or desc is too long"))
    } else {
        Ok(())
    }
}

pub(crate) fn list(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let fits = |object: &&Value| {
        [("name", "name"), ("blbId", "blbId"), ("address", "address")]
            .iter()
            .all(|(query, key)| {
                let has = object[key].as_str().unwrap_or_default();
                let is_exact = request.query("exactlyMatch") == Some("true");
                request
                    .query(query)
                    .filter(|query| !query.is_empty())
                    .is_none_or(|wanted| {
                        if is_exact {
                            has == wanted
                        } else {
                            has.contains(wanted)
                        }
                    })
            })
    };
    page(
        request,
        cloud.has_more,
        "blbList",
        cloud.blbs.iter().filter(fits).cloned(),
    )
}

pub(crate) fn one(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let blb = find(&mut cloud.blbs, "blbId", request.id(), request)?;
    let mut answer = shown(blb, &["listeners", "backends", "subnetId"]);
    let listener = |object: &Value| json!({"port": object["listenerPort"].to_string(), "type": object["listenerType"]});
    answer["listener"] = array(&blb["listeners"]).map(listener).collect();
    Ok(Reply::new(200, answer))
}

pub(crate) fn create(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let body = &request.body;
    only(
        body,
        &[
            "name",
            "desc",
            "subnetId",
            "vpcId",
            "type",
            "address",
            "eip",
            "tags",
            "allowDelete",
            "allocateIpv6",
            "allocateVip",
        ],
    )?;
    named(body)?;
    let subnet = find(
        &mut cloud.subnets,
        "subnetId",
        required(body, "subnetId")?,
        request,
    )?;
    if subnet["vpcId"] != required(body, "vpcId")? || subnet["subnetType"] != "BCC" {
        return Err(refuse(
            "InappropriateJSON",
            "the subnet is not for BLBs of this VPC",
        ));
    }
    cloud.once(request, |cloud| {
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        let id = cloud.add_blb(&request.project, text("name"), text("desc"));
        let blb = cloud.blbs.last_mut().ok_or_else(|| not_found("BLB"))?;
        blb["status"] = "creating".into();
        if body["allocateIpv6"] == true {
            blb["ipv6"] = format!("240c::{id}").replace("lb-", "").into();
        }
        let answer = json!({"blbId": id, "name": blb["name"], "desc": blb["desc"], "address": blb["address"]});
        cloud.work.begin(&id, CREATION, &request.effects);
        Ok(answer)
    })
}

pub(crate) fn update(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    only(
        &request.body,
        &["name", "desc", "allowDelete", "allocateIpv6"],
    )?;
    named(&request.body)?;
    let blb = cloud.changed(request)?;
    for key in ["name", "desc", "allowDelete"] {
        request
            .body
            .get(key)
            .into_iter()
            .for_each(|value| blb[key] = value.clone());
    }
    if request.body["allocateIpv6"] == true {
        blb["ipv6"] = "240c::1".into();
    }
    done()
}

pub(crate) fn delete(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let id = request.id();
    if find(&mut cloud.blbs, "blbId", id, request)?["allowDelete"] == false {
        return Err(refuse(
            "OperationNotPermitted",
            "The BLB is protected against deletion.",
        ));
    }
    cloud.work.forget(id);
    // The Go program deletes a BLB before its EIP, so the cloud must unbind the EIP.
    for eip in cloud.eips.iter_mut().filter(|eip| eip["instanceId"] == id) {
        (eip["instanceId"], eip["instanceType"], eip["status"]) =
            ("".into(), "".into(), "available".into());
    }
    cloud.blbs.retain(|blb| blb["blbId"] != id);
    done()
}

pub(crate) fn listeners(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let blb = find(&mut cloud.blbs, "blbId", request.id(), request)?;
    let kind = request
        .path
        .rsplit('/')
        .next()
        .and_then(|part| part.strip_suffix("listener"))
        .filter(|text| !text.is_empty());
    let fits = |object: &&Value| kind.is_none_or(|kind| object["listenerType"] == kind);
    page(
        request,
        cloud.has_more,
        "listenerList",
        array(&blb["listeners"]).filter(fits).cloned(),
    )
}

fn check_listener(body: &Value, is_udp: bool) -> Result<(), Refused> {
    let own: &[&str] = if is_udp {
        &["udpSessionTimeout", "healthCheckString", "healthCheckPort"]
    } else {
        &["tcpSessionTimeout"]
    };
    only(
        body,
        &[
            &CHECKS[..],
            own,
            &["listenerPort", "backendPort", "scheduler"],
        ]
        .concat(),
    )?;
    for (key, from, to) in [
        ("listenerPort", 1, 65535),
        ("backendPort", 1, 65535),
        ("healthCheckTimeoutInSecond", 1, 60),
        ("healthCheckInterval", 1, 10),
        ("unhealthyThreshold", 2, 5),
        ("healthyThreshold", 2, 5),
        ("tcpSessionTimeout", 10, 4000),
        ("udpSessionTimeout", 5, 4000),
    ] {
        if !body[key].is_null()
            && body[key]
                .as_u64()
                .is_none_or(|key| !(from..=to).contains(&key))
        {
            return Err(refuse(
                "InappropriateJSON",
                &format!("{key} must be {from} to {to}"),
            ));
        }
    }
    let kinds: &[&str] = if is_udp {
        &["UDP", "ICMP"]
    } else {
        &["TCP", "HTTP"]
    };
    if body["healthCheckType"]
        .as_str()
        .is_some_and(|kind| !kinds.contains(&kind))
    {
        return Err(refuse("InappropriateJSON", "healthCheckType"));
    }
    if body["healthCheckString"]
        .as_str()
        .is_some_and(|text| text.len() > 1299)
    {
        return Err(refuse(
            "InappropriateJSON",
            "healthCheckString has 1299 characters at most",
        ));
    }
    let is_known = ["RoundRobin", "LeastConnection", "Hash"]
        .iter()
        .any(|hash| body["scheduler"] == **hash);
    if is_known || body["scheduler"].is_null() {
        Ok(())
    } else {
        Err(refuse("InappropriateJSON", "scheduler"))
    }
}

fn is_udp(request: &ApiRequest) -> bool {
    request.path.ends_with("/UDPlistener")
}

pub(crate) fn create_listener(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let body = &request.body;
    let is_udp = is_udp(request);
    check_listener(body, is_udp)?;
    if is_udp && body["healthCheckString"].is_null()
        || body["backendPort"].is_null()
        || body["scheduler"].is_null()
    {
        return Err(refuse(
            "InappropriateJSON",
            "backendPort, scheduler or healthCheckString is missing",
        ));
    }
    let kind = if is_udp { "UDP" } else { "TCP" };
    let blb = cloud.changed(request)?;
    if array(&blb["listeners"]).any(|listener| {
        listener["listenerPort"] == body["listenerPort"] && listener["listenerType"] == kind
    }) {
        return Err(conflict("There is a listener on this port."));
    }
    let mut listener = json!({"listenerType": kind, "healthCheckType": kind, "healthCheckTimeoutInSecond": 3,
        "healthCheckInterval": 3, "unhealthyThreshold": 3, "healthyThreshold": 3});
    for (key, value) in body.as_object().into_iter().flatten() {
        listener[key] = value.clone();
    }
    blb["listeners"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.push(listener.clone()));
    done()
}

pub(crate) fn update_listener(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let is_udp = is_udp(request);
    check_listener(&request.body, is_udp)?;
    let kind = if is_udp { "UDP" } else { "TCP" };
    let port = request
        .query("listenerPort")
        .and_then(|query| query.parse::<u64>().ok());
    let blb = cloud.changed(request)?;
    let is_this_object = |object: &&mut Value| {
        object["listenerType"] == kind && object["listenerPort"].as_u64() == port
    };
    let found = blb["listeners"]
        .as_array_mut()
        .and_then(|all| all.iter_mut().find(is_this_object));
    let found = found.ok_or_else(|| not_found("listener"))?;
    for (key, value) in request.body.as_object().into_iter().flatten() {
        found[key] = value.clone();
    }
    done()
}

pub(crate) fn delete_listeners(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    if request.query("batchdelete").is_none() {
        return Err(refuse("InvalidHTTPRequest", "batchdelete"));
    }
    let blb = cloud.changed(request)?;
    let is_gone = |object: &Value| {
        has(
            &request.body["portTypeList"],
            &json!({"port": object["listenerPort"], "type": object["listenerType"]}),
        )
    };
    blb["listeners"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.retain(|object| !is_gone(object)));
    done()
}

pub(crate) fn backends(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let blb = find(&mut cloud.blbs, "blbId", request.id(), request)?;
    let backends = blb["backends"].clone();
    let with_ip = |object: &Value| {
        let mut object = object.clone();
        let instance = cloud
            .instances
            .iter()
            .find(|instance| instance["id"] == object["instanceId"]);
        object["privateIp"] =
            instance.map_or_else(|| "".into(), |instance| instance["internalIp"].clone());
        object
    };
    page(
        request,
        cloud.has_more,
        "backendServerList",
        array(&backends).map(with_ip),
    )
}

fn set_backends(cloud: &mut Baidu, request: &ApiRequest, is_new: bool) -> Answer {
    let wanted: Vec<_> = array(&request.body["backendServerList"]).cloned().collect();
    for backend in &wanted {
        only(backend, &["instanceId", "weight", "privateIp"])?;
        if backend["weight"]
            .as_u64()
            .is_some_and(|weight| weight > 100)
        {
            return Err(refuse("InappropriateJSON", "weight must be 0 to 100"));
        }
        if !cloud.has_instance(&backend["instanceId"], &request.project) {
            return Err(not_found("instance"));
        }
        let is_near =
            |object: &Value| object["id"] == backend["instanceId"] && object["vpcId"] == crate::VPC;
        if !cloud.instances.iter().any(is_near) {
            return Err(refuse(
                "InappropriateJSON",
                "The instance is not in the VPC of the BLB.",
            ));
        }
    }
    let blb = cloud.changed(request)?;
    let all = blb["backends"]
        .as_array_mut()
        .ok_or_else(|| not_found("BLB"))?;
    for backend in wanted {
        match all
            .iter_mut()
            .find(|object| object["instanceId"] == backend["instanceId"])
        {
            Some(there) => there["weight"] = backend["weight"].clone(),
            None if is_new => {
                all.push(json!({"instanceId": backend["instanceId"], "weight": backend["weight"]}));
            }
            None => return Err(not_found("backend")),
        }
    }
    if all.len() > 50 {
        Err(refuse(
            "BackendServerExceedLimit",
            "A BLB has 50 backends at most.",
        ))
    } else {
        done()
    }
}

pub(crate) fn add_backends(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    set_backends(cloud, request, true)
}

pub(crate) fn change_backends(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    if request.query("update").is_some() {
        return set_backends(cloud, request, false);
    }
    let blb = cloud.changed(request)?;
    let is_gone = |object: &Value| has(&request.body["backendServerList"], &object["instanceId"]);
    blb["backends"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.retain(|object| !is_gone(object)));
    done()
}
