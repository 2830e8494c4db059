//! Load balancers API of the fake Octavia.

use std::net::IpAddr;

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::octavia::{merge, sorted_tags, unsupported};
use crate::ports::NewPort;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, made, object, one};
use crate::{listeners, pages, pools, shown};

/// Query parameters that filter lists.
const FILTERS: &[&str] = &[
    "id",
    "name",
    "description",
    "project_id",
    "tenant_id",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "vip_address",
    "vip_port_id",
    "vip_subnet_id",
    "vip_network_id",
    "provider",
    "flavor_id",
    "availability_zone",
    "created_at",
    "updated_at",
];

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(model, request, Kind::Balancer, FILTERS, shown::balancer)
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = model.one(Kind::Balancer, &request.project, request.id())?;
    one(Kind::Balancer, shown::balancer(model, balancer))
}

pub(crate) fn status(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = model.one(Kind::Balancer, &request.project, request.id())?;
    Ok(Reply::new(200, shown::statuses(model, balancer)))
}

/// Returns the port of the VIP: the one that is named, or a new one.
fn vip(model: &mut Model, project: &str, wanted: &Object, id: &str) -> Result<Object, Refusal> {
    let given = |key: &str| {
        wanted
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    if let Some(port) = given("vip_port_id") {
        let found = model
            .get(Kind::Port, port)
            .filter(|port| model.is_visible(Kind::Port, port, project));
        return found
            .cloned()
            .ok_or_else(|| Refusal::invalid(format!("Port {port} not found.")));
    }
    let address = given("vip_address");
    let subnet = match (given("vip_subnet_id"), given("vip_network_id")) {
        (Some(subnet), _) => subnet.to_owned(),
        (None, Some(network)) => {
            let ip = address.and_then(|address| address.parse::<IpAddr>().ok());
            let has_room = |id: &str| {
                ip.is_none_or(|ip| model.range(id).is_some_and(|range| range.contains(&ip)))
            };
            let found = model
                .subnets_of(network)
                .map(|object| text(object, "id"))
                .find(|id| has_room(id));
            found
                .map(str::to_owned)
                .ok_or_else(|| Refusal::invalid(format!("Network {network} not found.")))?
        }
        (None, None) => {
            let message = "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.";
            return Err(Refusal::invalid(message));
        }
    };
    let is_visible = model
        .get(Kind::Subnet, &subnet)
        .is_some_and(|subnet| model.is_visible(Kind::Subnet, subnet, project));
    if !is_visible {
        return Err(Refusal::invalid(format!("Subnet {subnet} not found.")));
    }
    let is_outside = |text: &str| {
        !model
            .range(&subnet)
            .zip(text.parse().ok())
            .is_some_and(|(range, address): (_, IpAddr)| range.contains(&address))
    };
    if address.is_some_and(is_outside) {
        let provider = wanted
            .get("provider")
            .and_then(Value::as_str)
            .unwrap_or("amphora");
        return Err(Refusal::new(
            500,
            "",
            format!("Provider '{provider}' reports error: BadRequestException: 400"),
        ));
    }
    if let Some(address) = address.filter(|address| model.is_taken(&subnet, address)) {
        let message = format!(
            "The VIP IP address is already in use: IP address {address} already allocated in subnet {subnet}"
        );
        return Err(Refusal::conflict(message));
    }
    let name = format!("octavia-lb-{id}");
    let device = format!("lb-{id}");
    let owner = "Octavia";
    let security_groups = json!([]);
    model.add_port(&NewPort {
        project,
        name: &name,
        subnet: &subnet,
        address,
        device: &device,
        owner,
        security_groups,
    })
}

/// Adds further VIPs: each is an address of the port, in another subnet of its network.
fn more_vips(
    model: &mut Model,
    project: &str,
    wanted: &Object,
    port: &mut Object,
) -> Result<Vec<Value>, Refusal> {
    let mut used: Vec<Value> = items(port, "fixed_ips")
        .iter()
        .map(|fixed_ip| fixed_ip["subnet_id"].clone())
        .collect();
    let mut vips = Vec::new();
    for vip in items(wanted, "additional_vips") {
        let subnet = vip["subnet_id"].as_str().unwrap_or_default();
        let found = model
            .get(Kind::Subnet, subnet)
            .filter(|subnet| model.is_visible(Kind::Subnet, subnet, project));
        let found = found.ok_or_else(|| {
            Refusal::invalid(format!("Validation failure: Subnet {subnet} not found"))
        })?;
        if used.contains(&vip["subnet_id"]) {
            let message = "Validation failure: Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.";
            return Err(Refusal::invalid(message));
        }
        if found["network_id"] != port["network_id"] {
            return Err(Refusal::invalid(
                "Validation failure: All VIP subnets must belong to the same network.",
            ));
        }
        used.push(vip["subnet_id"].clone());
        let address = model.free_address(subnet)?;
        vips.push(json!({"subnet_id": subnet, "ip_address": address, "port_id": port["id"]}));
    }
    let more = vips
        .iter()
        .map(|vip| json!({"subnet_id": vip["subnet_id"], "ip_address": vip["ip_address"]}));
    let all: Vec<Value> = items(port, "fixed_ips")
        .iter()
        .cloned()
        .chain(more)
        .collect();
    set(port, "fixed_ips", all);
    Ok(vips)
}

fn check(model: &Model, wanted: &Object) -> Result<(), Refusal> {
    model.check_attributes(
        wanted,
        "load_balancer.loadbalancer",
        attributes::BALANCER,
        false,
    )?;
    let provider = wanted
        .get("provider")
        .and_then(Value::as_str)
        .unwrap_or("amphora");
    if !model
        .options
        .providers
        .iter()
        .any(|other_provider| other_provider == provider)
    {
        return Err(Refusal::invalid(format!(
            "Provider '{provider}' is not enabled."
        )));
    }
    let is_set = |key: &str| wanted.get(key).is_some_and(|key| !key.is_null());
    if let Some(key) = ["flavor_id", "availability_zone"]
        .into_iter()
        .find(|key| is_set(key) && provider == "ovn")
    {
        return Err(unsupported(key));
    }
    if is_set("availability_zone") && !text(wanted, "availability_zone").starts_with("az") {
        return Err(Refusal::invalid(
            "Validation failure: Invalid availability zone.",
        ));
    }
    if !model.options.bulk && (is_set("listeners") || is_set("pools")) {
        return Err(Refusal::new(
            501,
            "",
            "Provider does not support a requested action: bulk create",
        ));
    }
    Ok(())
}

impl Model {
    /// Adds a load balancer without listeners and pools, in the state `PENDING_CREATE`.
    pub(crate) fn add_balancer(
        &mut self,
        project: &str,
        wanted: &Object,
    ) -> Result<String, Refusal> {
        self.has_room(Kind::Balancer, project)?;
        let id = self.new_id();
        let mut port = vip(self, project, wanted, &id)?;
        let fixed = items(&port, "fixed_ips")
            .first()
            .cloned()
            .unwrap_or_default();
        let more = more_vips(self, project, wanted, &mut port);
        if more.is_err() && text(&port, "device_owner") == "Octavia" {
            self.remove_port(text(&port, "id"));
        }
        let more = more?;
        if !more.is_empty() {
            self.insert(Kind::Port, port.clone());
        }
        let provider = wanted
            .get("provider")
            .and_then(Value::as_str)
            .unwrap_or("amphora");
        let value = |key: &str| wanted.get(key).cloned().unwrap_or_default();
        let balancer = json!({
            "id": id, "name": text(wanted, "name"), "description": text(wanted, "description"),
            "provisioning_status": "PENDING_CREATE", "operating_status": "OFFLINE", "admin_state_up": true,
            "project_id": project, "tenant_id": project, "created_at": self.clock.local(), "updated_at": null,
            "vip_address": fixed["ip_address"], "vip_port_id": port["id"], "vip_subnet_id": fixed["subnet_id"],
            "vip_network_id": port["network_id"], "vip_sg_ids": [], "additional_vips": more, "provider": provider,
            "flavor_id": value("flavor_id"), "vip_qos_policy_id": value("vip_qos_policy_id"),
            "tags": sorted_tags(items(wanted, "tags")), "availability_zone": value("availability_zone"),
            "vip_vnic_type": "normal",
        });
        self.insert(
            Kind::Balancer,
            balancer.as_object().cloned().unwrap_or_default(),
        );
        Ok(id)
    }
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let wanted = object(request, Kind::Balancer)?;
    check(model, wanted)?;
    let id = model.add_balancer(&request.project, wanted)?;
    if let Err(refusal) = create_parts(model, request, &id, wanted) {
        // If any part of the request is refused, no object is created.
        model.drop_balancer(&id);
        return Err(refusal);
    }
    model.begin(&id, "PENDING_CREATE", &request.effects);
    let balancer = model.one(Kind::Balancer, &request.project, &id)?;
    let is_tree = wanted.contains_key("listeners") || wanted.contains_key("pools");
    let shown = if is_tree {
        shown::whole(model, balancer)
    } else {
        shown::balancer(model, balancer)
    };
    made(Kind::Balancer, shown)
}

fn create_parts(
    model: &mut Model,
    request: &ApiRequest,
    id: &str,
    wanted: &Object,
) -> Result<(), Refusal> {
    for pool in items(wanted, "pools").iter().filter_map(Value::as_object) {
        pools::add(model, &request.project, id, pool)?;
    }
    for listener in items(wanted, "listeners")
        .iter()
        .filter_map(Value::as_object)
    {
        listeners::add(model, &request.project, id, listener)?;
    }
    Ok(())
}

fn wrong_state(id: &str, balancer: &Object) -> Refusal {
    let state = text(balancer, "provisioning_status");
    Refusal::conflict(format!(
        "Invalid state {state} of loadbalancer resource {id}"
    ))
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change = object(request, Kind::Balancer)?;
    model.check_attributes(
        change,
        "load_balancer.loadbalancer",
        attributes::BALANCER,
        true,
    )?;
    let updated = model.clock.local();
    let id = request.id();
    let balancer = model.owned(Kind::Balancer, &request.project, id)?;
    if text(balancer, "provisioning_status") != "ACTIVE" {
        return Err(wrong_state(id, balancer));
    }
    merge(balancer, change, &updated);
    model.begin(id, "PENDING_UPDATE", &request.effects);
    get(model, request)
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    let id = request.id();
    let balancer = model.owned(Kind::Balancer, &request.project, id)?;
    if !["ACTIVE", "ERROR"].contains(&text(balancer, "provisioning_status")) {
        return Err(wrong_state(id, balancer));
    }
    let is_cascade = request
        .query("cascade")
        .is_some_and(|query| query.eq_ignore_ascii_case("true"));
    let has_parts = model.parts(Kind::Listener, id).next().is_some()
        || model.parts(Kind::Pool, id).next().is_some();
    if has_parts && !is_cascade {
        let message =
            format!("Validation failure: Cannot delete Load Balancer {id} - it has children");
        return Err(Refusal::invalid(message));
    }
    model.begin(id, "PENDING_DELETE", &request.effects);
    Ok(Reply::empty(204))
}
