//! Load balancers of the fake cloud.

use fake_cloud::Refused;
use serde_json::{Value, json};

use super::{ACCOUNT, Answer, ApiRequest, Kind, Mycloud, invalid, not_found, page};

/// Settings that can be changed in place.
const CHANGEABLE: [&str; 4] = ["spec", "bandwidth_mbps", "labels", "delete_protection"];

/// Gives a new load balancer its addresses.
pub(super) fn activate(created: &mut Value, number: usize) {
    let v4 = json!({"family": "ipv4", "address": format!("203.0.{}.{}", 113 + number / 256, number % 256)});
    let v6 = json!({"family": "ipv6", "address": format!("2001:db8:80::{number:x}")});
    created["vips"] = match (created["ip"].as_str(), created["ip_family"].as_str()) {
        (Some(ip), _) => json!([{"family": "ipv4", "address": ip}]),
        (_, Some("dual")) => json!([v4, v6]),
        (_, Some("ipv6")) => json!([v6]),
        _ => json!([v4]),
    };
    created["status"] = "ACTIVE".into();
}

impl Mycloud {
    pub(super) fn load_balancer(
        &mut self,
        request: &ApiRequest,
        id: &str,
    ) -> Result<&mut Value, Refused> {
        let found = self.load_balancers.iter_mut().find(|load_balancer| {
            load_balancer["id"] == id && load_balancer["account"] == *request.project
        });
        found.ok_or_else(not_found)
    }

    /// Changes a load balancer, and answers with the task and the resource.
    pub(super) fn change(
        &mut self,
        request: &ApiRequest,
        id: &str,
        change: impl FnOnce(&mut Value) -> Result<Value, Refused>,
    ) -> Answer {
        let found = self.load_balancer(request, id)?;
        if found["status"] == "CREATING" || found["status"] == "DELETING" {
            return Err(Refused::new(
                409,
                "ResourceBusy",
                "the load balancer is created or deleted",
            ));
        }
        let mut after = found.clone();
        let resource = change(&mut after)?;
        // A change that fails in the background is not applied.
        if request.effects.error().is_none() {
            *found = after;
        }
        found["status"] = "UPDATING".into();
        self.begin(request, Kind::Change, id, &resource)
    }
}

/// Returns a load balancer as the API shows it, with its dependents only on request.
fn shown(request: &ApiRequest, entry: &Value) -> Value {
    let mut shown = entry.clone();
    let expand: Vec<&str> = request
        .query("expand")
        .unwrap_or_default()
        .split(',')
        .collect();
    for part in ["listeners", "groups", "access_lists", "certificates"] {
        if !expand.contains(&part) {
            shown.as_object_mut().map(|object| object.remove(part));
        }
    }
    shown
}

pub(super) fn list(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let label = request
        .query("label")
        .map(|query| query.split_once('=').unwrap_or((query, "")));
    let is_selected = |object: &&Value| {
        request
            .query("name")
            .is_none_or(|name| object["name"] == name)
            && label.is_none_or(|(key, value)| object["labels"][key] == value)
    };
    page(
        request,
        cloud
            .load_balancers
            .iter()
            .filter(is_selected)
            .map(|load_balancer| shown(request, load_balancer)),
    )
}

pub(super) fn get(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let found = shown(request, cloud.load_balancer(request, request.id())?);
    Ok(fake_cloud::Reply::new(200, found))
}

pub(super) fn create(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let key = request.header("idempotency-key").unwrap_or_default();
    let is_same = |object: &&Value| {
        object["key"] == key
            && object["account"] == *request.project
            && object["status"] != "DELETING"
    };
    if let Some(found) = cloud.load_balancers.iter().find(is_same).cloned() {
        return cloud.begin(
            request,
            Kind::Change,
            found["id"].as_str().unwrap_or_default(),
            &found,
        );
    }
    let name = request.body["name"].as_str().unwrap_or_default();
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=80).contains(&name.len()) || !name.bytes().all(is_valid) {
        return Err(invalid(
            "name: 1 to 80 characters of A-Z, a-z, 0-9, _ and -",
        ));
    }
    if request.body["subnet_id"] != "sn-1" || request.project != ACCOUNT {
        return Err(invalid("subnet_id: there is no such subnet"));
    }
    if request.body["bandwidth_mbps"].is_number() && request.body["network_type"] != "internet" {
        return Err(invalid("bandwidth_mbps: only for network_type internet"));
    }
    let has_address = |object: &Value| {
        object["vips"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|vip| vip["address"] == request.body["ip"])
    };
    if request.body["ip"].is_string() && cloud.load_balancers.iter().any(has_address) {
        return Err(Refused::new(
            409,
            "AddressInUse",
            "ip: the address is another load balancer's",
        ));
    }
    let id = format!("dlb-{}", cloud.number());
    let mut created = json!({"vips": [], "listeners": [], "groups": [], "access_lists": [], "certificates": [], "status": "CREATING"});
    for (field, value) in request.body.as_object().into_iter().flatten() {
        created[field] = value.clone();
    }
    created["id"] = id.as_str().into();
    created["key"] = key.into();
    created["account"] = (*request.project).into();
    cloud.load_balancers.push(created.clone());
    cloud.begin(request, Kind::Creation, &id, &created)
}

pub(super) fn update(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    cloud.change(request, request.id(), |cloud| {
        for (field, value) in request.body.as_object().into_iter().flatten() {
            if !CHANGEABLE.contains(&&**field) {
                return Err(invalid(&format!("{field}: cannot be changed")));
            }
            cloud[field] = value.clone();
        }
        Ok(json!({"id": cloud["id"]}))
    })
}

pub(super) fn delete(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let found = cloud.load_balancer(request, request.id())?;
    if found["delete_protection"] == true {
        return Err(Refused::new(
            409,
            "DeleteProtected",
            "the load balancer is protected",
        ));
    }
    let has_parts = found["listeners"]
        .as_array()
        .is_some_and(|listener| !listener.is_empty());
    if has_parts && request.query("cascade") != Some("true") {
        return Err(Refused::new(
            409,
            "ResourceInUse",
            "the load balancer has listeners",
        ));
    }
    if found["status"] == "CREATING" {
        return Err(Refused::new(
            409,
            "ResourceBusy",
            "the load balancer is created",
        ));
    }
    let resource = json!({"id": found["id"]});
    if request.effects.error().is_none() {
        found["status"] = "DELETING".into();
    }
    cloud.begin(request, Kind::Deletion, request.id(), &resource)
}
