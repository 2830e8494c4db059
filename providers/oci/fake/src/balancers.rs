//! Load balancers and network load balancers, and their work requests.

use fake_cloud::{Refused, Reply};
use serde_json::{Map, Value, json};

use crate::{
    Answer, ApiRequest, COMPARTMENT, Oracle, array, constraints, not_found, ok, page, refuse,
};

/// Parts of load balancers, by the name of their path.
const PARTS: [(&str, &str); 4] = [
    ("backendSets", "backendSets"),
    ("listeners", "listeners"),
    ("certificates", "certificates"),
    ("ruleSets", "ruleSets"),
];

fn is_network(id: &str) -> bool {
    id.starts_with("ocid1.networkloadbalancer.")
}

/// Returns a backend set as the API shows it.
fn set(cloud: &Oracle, name: &str, body: &Value, network: bool) -> Result<Value, Refused> {
    let mut set = body.clone();
    set["name"] = name.into();
    if body["healthChecker"]["protocol"].is_null() || body["policy"].is_null() {
        return Err(refuse(
            400,
            "MissingParameter",
            "policy and healthChecker are required",
        ));
    }
    let mut backends = Vec::new();
    for backend in array(&body["backends"]) {
        let mut entry = backend.clone();
        let target = backend["targetId"].as_str();
        let instance =
            target.and_then(|id| cloud.visible("instance").find(|object| object["id"] == id));
        if target.is_some() && instance.is_none() {
            return Err(refuse(
                400,
                "RelatedResourceNotAuthorizedOrNotFound",
                "the backend does not exist",
            ));
        }
        entry["name"] = format!(
            "{}:{}",
            backend["ipAddress"].as_str().unwrap_or_default(),
            backend["port"]
        )
        .into();
        entry["weight"] = backend["weight"].as_u64().unwrap_or(1).into();
        for key in if network {
            &["isBackup", "isDrain", "isOffline"]
        } else {
            &["backup", "drain", "offline"]
        } {
            entry[*key] = backend[*key].as_bool().unwrap_or_default().into();
        }
        backends.push(entry);
    }
    if backends.len() > 512 {
        return Err(refuse(
            400,
            "LimitExceeded",
            "a backend set has at most 512 backends",
        ));
    }
    set["backends"] = backends.into();
    if !network {
        set["healthChecker"]["responseBodyRegex"] = body["healthChecker"]["responseBodyRegex"]
            .as_str()
            .unwrap_or("")
            .into();
    }
    Ok(set)
}

/// Returns a part as the API shows it.
fn part(
    cloud: &Oracle,
    balancer: &Value,
    kind: &str,
    name: &str,
    body: &Value,
) -> Result<Value, Refused> {
    let network = is_network(balancer["id"].as_str().unwrap_or_default());
    constraints::part(kind, name, body, network)?;
    let mut object = body.clone();
    object["name"] = name.into();
    let uses = body["sslConfiguration"]["certificateName"].as_str();
    if uses.is_some_and(|certificate| balancer["certificates"][certificate].is_null()) {
        return Err(refuse(
            400,
            "InvalidParameter",
            "there is no such certificate",
        ));
    }
    match kind {
        "backendSets" => set(cloud, name, body, network),
        "listeners" => {
            let used = body["defaultBackendSetName"].as_str().unwrap_or_default();
            if balancer["backendSets"][used].is_null() {
                return Err(refuse(
                    400,
                    "InvalidParameter",
                    "there is no such backend set",
                ));
            }
            let others = balancer["listeners"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(other, _)| *other != name);
            let mut others = others.filter(|(_, other)| {
                other["port"] == body["port"] && other["ipVersion"] == body["ipVersion"]
            });
            if others.any(|(_, other)| !network || other["protocol"] == body["protocol"]) {
                return Err(refuse(400, "InvalidParameter", "the port is in use"));
            }
            for rule_set in array(&body["ruleSetNames"]).filter_map(Value::as_str) {
                if balancer["ruleSets"][rule_set].is_null() {
                    return Err(refuse(400, "InvalidParameter", "there is no such rule set"));
                }
            }
            Ok(object)
        }
        "certificates" => Ok(json!({
            "certificateName": name, "publicCertificate": body["publicCertificate"], "caCertificate": body["caCertificate"].as_str().unwrap_or(""),
        })),
        _ => Ok(object),
    }
}

impl Oracle {
    /// Ends the work on a load balancer.
    pub(crate) fn finish(&mut self, id: &str, error: Option<&str>) {
        for request in self.requests.values_mut().filter(|request| {
            request["loadBalancerId"] == id && request["lifecycleState"] == "IN_PROGRESS"
        }) {
            request["lifecycleState"] = if error.is_some() {
                "FAILED"
            } else {
                "SUCCEEDED"
            }
            .into();
            if let Some(error) = error {
                request["errorDetails"] = json!([{"errorCode": "BAD_INPUT", "message": error}]);
            }
        }
        let Some(balancer) = self.objects.get_mut(id) else {
            return;
        };
        if balancer["lifecycleState"] == "DELETING" {
            self.objects.remove(id);
            return;
        }
        if balancer["lifecycleState"] == "CREATING" && error.is_some() {
            balancer["ipAddresses"] = json!([]);
            balancer["lifecycleState"] = "FAILED".into();
        } else {
            balancer["lifecycleState"] = "ACTIVE".into();
        }
    }

    fn is_busy(&self, id: &str) -> bool {
        self.requests.values().any(|request| {
            request["loadBalancerId"] == id && request["lifecycleState"] == "IN_PROGRESS"
        })
    }

    /// Adds a load balancer of this name with one listener, and returns its OCID.
    pub fn add_balancer(&mut self, name: &str) -> String {
        let check =
            json!({"protocol": "HTTP", "port": 10256, "urlPath": "/healthz", "returnCode": 200});
        let body = json!({
            "displayName": name, "shapeName": "100Mbps", "subnetIds": [crate::LB_SUBNET],
            "backendSets": {"TCP-80": {"policy": "ROUND_ROBIN", "backends": [], "healthChecker": check}},
            "listeners": {"TCP-80": {"defaultBackendSetName": "TCP-80", "port": 80, "protocol": "TCP"}},
        });
        let made = self.make(&body, false).ok();
        let id = made.map(|object| self.insert(&object)).unwrap_or_default();
        self.finish(&id, None);
        id
    }

    fn make(&mut self, body: &Value, network: bool) -> Result<Value, Refused> {
        let id = self.ocid(if network {
            "networkloadbalancer"
        } else {
            "loadbalancer"
        });
        let number = self.number();
        let [high, low] = u16::try_from(number % 65_000)
            .unwrap_or_default()
            .to_be_bytes();
        let is_private = body["isPrivate"] == true;
        let ip = if is_private {
            format!("10.0.128.{low}")
        } else {
            format!("129.{}.{high}.{low}", 140 + number / 65_000)
        };
        let reserved = array(&body["reservedIps"])
            .filter_map(|reserved_ip| self.objects.get(reserved_ip["id"].as_str()?))
            .next();
        let ip = reserved
            .and_then(|object| object["ipAddress"].as_str())
            .unwrap_or(&ip)
            .to_owned();
        let mut balancer = body.clone();
        for (key, value) in [
            ("id", json!(id)),
            ("compartmentId", json!(COMPARTMENT)),
            ("lifecycleState", json!("CREATING")),
            ("timeCreated", json!(self.time())),
            (
                "ipAddresses",
                json!([{"ipAddress": ip, "isPublic": !is_private}]),
            ),
            ("isPrivate", json!(is_private)),
        ] {
            balancer[key] = value;
        }
        if network {
            balancer["ipAddresses"][0]["ipVersion"] = "IPV4".into();
            if let Some("IPV4_AND_IPV6") = body["nlbIpVersion"].as_str() {
                let second = json!({"ipAddress": format!("2603:c020::{number:x}"), "isPublic": true, "ipVersion": "IPV6"});
                balancer["ipAddresses"]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|all| all.push(second.clone()));
            }
        }
        for key in [
            "freeformTags",
            "definedTags",
            "backendSets",
            "listeners",
            "certificates",
            "ruleSets",
        ] {
            let is_known = !network || !["certificates", "ruleSets"].contains(&key);
            balancer[key] = if is_known { json!({}) } else { Value::Null };
        }
        for key in ["freeformTags", "definedTags"] {
            balancer[key] = body.get(key).cloned().unwrap_or_else(|| json!({}));
        }
        for key in ["reservedIps", "assignedPrivateIpv4", "assignedIpv6"] {
            balancer
                .as_object_mut()
                .map(|balancer| balancer.remove(key));
        }
        for kind in ["certificates", "ruleSets", "backendSets", "listeners"] {
            for (name, entry) in body[kind].as_object().into_iter().flatten() {
                let made = part(self, &balancer, kind, name, entry)?;
                balancer[kind][name] = made;
            }
        }
        Ok(balancer)
    }
}

/// Returns a load balancer as the API shows it.
fn shown(balancer: &Value) -> Answer {
    ok(balancer)
}

pub(crate) fn list(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let network = request.path.ends_with("/networkLoadBalancers");
    let kind = if network {
        "networkloadbalancer"
    } else {
        "loadbalancer"
    };
    let fits = |object: &&Value| {
        request
            .query("displayName")
            .is_none_or(|name| object["displayName"] == name)
    };
    page(
        request,
        cloud
            .visible(kind)
            .filter(fits)
            .cloned()
            .collect::<Vec<_>>()
            .into_iter(),
        network,
    )
}

pub(crate) fn create(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let network = request.path.ends_with("/networkLoadBalancers");
    let token = request
        .header("opc-retry-token")
        .map(|header| format!("{header}/{}", request.path));
    let known = token
        .as_ref()
        .and_then(|token| cloud.tokens.get(token))
        .cloned();
    if known
        .as_ref()
        .is_some_and(|id| !cloud.objects.contains_key(id))
    {
        return Err(refuse(
            409,
            "InvalidatedRetryToken",
            "The load balancer of this retry token was deleted.",
        ));
    }
    let body = &request.body;
    constraints::whole(body, network)?;
    let needed = if network {
        body["subnetId"].is_null()
    } else {
        body["subnetIds"][0].is_null() || body["shapeName"].is_null()
    };
    let subnets = array(&body["subnetIds"])
        .chain([&body["subnetId"]])
        .filter(|subnet_id| !subnet_id.is_null());
    if { subnets }.any(|id| !cloud.visible("subnet").any(|object| object["id"] == *id)) {
        return Err(refuse(
            404,
            "NotAuthorizedOrNotFound",
            "The subnet does not exist, or may not be used.",
        ));
    }
    let limits = &body["shapeDetails"];
    if needed
        || body["displayName"].is_null()
        || body["shapeName"] == "flexible" && limits["minimumBandwidthInMbps"].is_null()
    {
        return Err(refuse(
            400,
            "MissingParameter",
            "a subnet, a shape and a name are required",
        ));
    }
    let id = match known {
        Some(id) => id,
        None => {
            let made = cloud.make(body, network)?;
            cloud.insert(&made)
        }
    };
    token
        .into_iter()
        .for_each(|token| drop(cloud.tokens.insert(token, id.clone())));
    let balancer = cloud.objects.get(&id).cloned().ok_or_else(not_found)?;
    let reply = if network {
        shown(&balancer)?
    } else {
        Reply::empty(204)
    };
    Ok(cloud.begin(&id, &request.effects, reply))
}

pub(crate) fn one(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    shown(cloud.find(request)?)
}

/// Returns a load balancer that may be changed now.
fn free<'a>(cloud: &'a mut Oracle, request: &ApiRequest) -> Result<&'a mut Value, Refused> {
    let is_busy = cloud.is_busy(request.id());
    let found = cloud.find(request)?;
    if is_busy || found["lifecycleState"] != "ACTIVE" && found["lifecycleState"] != "FAILED" {
        return Err(refuse(
            409,
            "IncorrectState",
            "The load balancer has a work request in progress.",
        ));
    }
    Ok(found)
}

fn begun(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let id = request.id().to_owned();
    if is_network(&id)
        && let Some(balancer) = cloud.objects.get_mut(&id)
    {
        balancer["lifecycleState"] = "UPDATING".into();
    }
    Ok(cloud.begin(&id, &request.effects, Reply::empty(202)))
}

pub(crate) fn update(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    constraints::whole(&request.body, is_network(request.id()))?;
    let found = free(cloud, request)?;
    for key in [
        "freeformTags",
        "definedTags",
        "displayName",
        "ipMode",
        "nlbIpVersion",
        "networkSecurityGroupIds",
    ] {
        request
            .body
            .get(key)
            .into_iter()
            .for_each(|value| found[key] = value.clone());
    }
    begun(cloud, request)
}

pub(crate) fn shape(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    constraints::whole(&request.body, false)?;
    let found = free(cloud, request)?;
    found["shapeName"] = request.body["shapeName"].clone();
    found["shapeDetails"] = request.body["shapeDetails"].clone();
    begun(cloud, request)
}

pub(crate) fn delete(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let found = free(cloud, request)?;
    if found["isDeleteProtectionEnabled"] == true {
        return Err(refuse(
            409,
            "Conflict",
            "The load balancer has delete protection.",
        ));
    }
    found["lifecycleState"] = "DELETING".into();
    Ok(cloud.begin(request.id(), &request.effects, Reply::empty(202)))
}

fn kind(request: &ApiRequest) -> Result<&'static str, Refused> {
    PARTS
        .iter()
        .find(|(path, _)| *path == request.nth_id(1))
        .map(|(_, kind)| *kind)
        .ok_or_else(not_found)
}

fn write_part(cloud: &mut Oracle, request: &ApiRequest, name: &str, is_new: bool) -> Answer {
    let kind = kind(request)?;
    let balancer = free(cloud, request)?.clone();
    let there = !balancer[kind][name].is_null();
    if there == is_new {
        return Err(if is_new {
            refuse(
                409,
                "NotAuthorizedOrResourceAlreadyExists",
                "the name is in use",
            )
        } else {
            not_found()
        });
    }
    if kind == "certificates" && !is_new {
        return Err(refuse(
            405,
            "MethodNotAllowed",
            "certificates cannot be changed",
        ));
    }
    let made = part(cloud, &balancer, kind, name, &request.body)?;
    let found = cloud.find(request)?;
    if !found[kind].is_object() {
        found[kind] = Map::new().into();
    }
    found[kind][name] = made;
    begun(cloud, request)
}

pub(crate) fn create_part(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let name = request.body["name"]
        .as_str()
        .or(request.body["certificateName"].as_str())
        .unwrap_or_default()
        .to_owned();
    if name.is_empty() {
        Err(refuse(400, "MissingParameter", "name is required"))
    } else {
        write_part(cloud, request, &name, true)
    }
}

pub(crate) fn update_part(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let name = request.nth_id(2).to_owned();
    write_part(cloud, request, &name, false)
}

pub(crate) fn delete_part(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let kind = kind(request)?;
    let name = request.nth_id(2).to_owned();
    let balancer = free(cloud, request)?;
    let uses = |key: &str, field: &str| {
        balancer[key]
            .as_object()
            .into_iter()
            .flatten()
            .any(|(_, key)| {
                key.pointer(field)
                    .is_some_and(|used| *used == name || array(used).any(|object| *object == name))
            })
    };
    let is_used = match kind {
        "backendSets" => uses("listeners", "/defaultBackendSetName"),
        "certificates" => {
            uses("listeners", "/sslConfiguration/certificateName")
                || uses("backendSets", "/sslConfiguration/certificateName")
        }
        "ruleSets" => uses("listeners", "/ruleSetNames"),
        _ => false,
    };
    if is_used {
        return Err(refuse(409, "Conflict", "it is in use"));
    }
    if balancer[kind]
        .as_object_mut()
        .and_then(|kind| kind.remove(&name))
        .is_none()
    {
        return Err(not_found());
    }
    begun(cloud, request)
}

pub(crate) fn work_request(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let found = cloud.requests.get(request.id()).ok_or_else(not_found)?;
    if !request.path.starts_with("/20200501") {
        return ok(found);
    }
    let resource = json!({
        "entityType": "NetworkLoadBalancer", "actionType": "UPDATED", "identifier": found["loadBalancerId"], "entityUri": "/",
    });
    ok(&json!({
        "id": found["id"], "compartmentId": COMPARTMENT, "operationType": "UPDATE_NETWORK_LOAD_BALANCER",
        "status": found["lifecycleState"], "resources": [resource], "percentComplete": 50, "timeAccepted": found["timeAccepted"],
    }))
}

pub(crate) fn work_request_errors(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let found = cloud.requests.get(request.id()).ok_or_else(not_found)?;
    let error = |object: &Value| json!({"code": object["errorCode"], "message": object["message"], "timestamp": found["timeAccepted"]});
    page(
        request,
        array(&found["errorDetails"])
            .map(error)
            .collect::<Vec<_>>()
            .into_iter(),
        true,
    )
}

pub(crate) fn work_requests(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let fits = |object: &&Value| request.ids.is_empty() || object["loadBalancerId"] == request.id();
    page(
        request,
        cloud
            .requests
            .values()
            .filter(fits)
            .cloned()
            .collect::<Vec<_>>()
            .into_iter(),
        false,
    )
}

pub(crate) fn backend_set(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let set = &cloud.find(request)?["backendSets"][request.nth_id(1)];
    if set.is_null() {
        Err(not_found())
    } else {
        ok(set)
    }
}

pub(crate) fn health(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let set = cloud.find(request)?["backendSets"][request.nth_id(1)].clone();
    let names: Vec<_> = array(&set["backends"])
        .map(|backends| backends["name"].clone())
        .collect();
    let first: Vec<_> = names.iter().take(1).collect();
    ok(&json!({
        "status": "WARNING", "totalBackendCount": names.len(), "criticalStateBackendNames": first,
        "warningStateBackendNames": [], "unknownStateBackendNames": [],
    }))
}

pub(crate) fn metrics(_: &mut Oracle, _: &ApiRequest) -> Answer {
    ok(&json!({"failedMetricsCount": 0, "failedMetrics": []}))
}
