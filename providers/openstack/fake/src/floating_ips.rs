//! Floating IPs API of the fake Neutron.

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::pages;
use crate::ports::check_changes;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, expect_revision, made, object, one};

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(
        model,
        request,
        Kind::FloatingIp,
        attributes::FLOATING_IP,
        |_, floating_ip| floating_ip.clone(),
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    one(
        Kind::FloatingIp,
        model
            .one(Kind::FloatingIp, &request.project, request.id())?
            .clone(),
    )
}

/// Puts a floating IP on a port; null takes it off.
fn attach(
    model: &mut Model,
    project: &str,
    floating: &mut Object,
    port: &Value,
) -> Result<(), Refusal> {
    let Some(port) = port.as_str() else {
        for key in ["port_id", "fixed_ip_address", "router_id", "port_details"] {
            set(floating, key, Value::Null);
        }
        set(floating, "status", "DOWN");
        return Ok(());
    };
    let found = model.one(Kind::Port, project, port)?;
    let fixed = items(found, "fixed_ips")
        .iter()
        .filter_map(|fixed_ip| fixed_ip["ip_address"].as_str())
        .find(|ip_address| !ip_address.contains(':'));
    let Some(fixed) = fixed.map(str::to_owned) else {
        let message = format!(
            "Bad floatingip request: Cannot add floating IP to port {port} that has no fixed IPv4 addresses."
        );
        return Err(Refusal::new(400, "BadRequest", message));
    };
    let id = text(floating, "id");
    if model
        .all(Kind::FloatingIp)
        .any(|object| text(object, "port_id") == port && text(object, "id") != id)
    {
        let address = text(floating, "floating_ip_address");
        let network = text(floating, "floating_network_id");
        let message = format!(
            "Cannot associate floating IP {address} ({id}) with port {port} using fixed IP {fixed}, as that fixed IP already has a \
             floating IP on external network {network}."
        );
        return Err(Refusal::new(
            409,
            "FloatingIPPortAlreadyAssociated",
            message,
        ));
    }
    let keys = [
        "name",
        "network_id",
        "mac_address",
        "admin_state_up",
        "status",
        "device_id",
        "device_owner",
    ];
    let details: Object = keys
        .into_iter()
        .map(|key| (key.to_owned(), found[key].clone()))
        .collect();
    let router = model
        .all(Kind::Router)
        .next()
        .map(|object| text(object, "id").to_owned());
    set(floating, "port_id", port);
    set(floating, "fixed_ip_address", fixed);
    set(floating, "router_id", router);
    set(floating, "port_details", details);
    set(floating, "status", "ACTIVE");
    Ok(())
}

/// Returns the subnet from which an address is given.
fn subnet(model: &Model, network: &str, wanted: Option<&str>) -> Result<String, Refusal> {
    let is_external = model
        .get(Kind::Network, network)
        .is_some_and(|network| network["router:external"] == true);
    if !is_external {
        let message =
            format!("Bad floatingip request: Network {network} is not a valid external network.");
        return Err(Refusal::new(400, "BadRequest", message));
    }
    let mut subnets = model
        .subnets_of(network)
        .filter(|object| object["ip_version"] == 4)
        .map(|object| text(object, "id"));
    let found = match wanted {
        Some(wanted) => subnets.find(|subnet| *subnet == wanted),
        None => subnets.next(),
    };
    found.map(str::to_owned).ok_or_else(|| {
        let message = format!(
            "Invalid input for operation: Failed to create port on network {network}, because fixed_ips included invalid subnet {}.",
            wanted.unwrap_or("None")
        );
        Refusal::new(400, "InvalidInput", message)
    })
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let wanted = object(request, Kind::FloatingIp)?;
    let known = [
        "floating_network_id",
        "port_id",
        "subnet_id",
        "floating_ip_address",
        "fixed_ip_address",
        "description",
        "project_id",
        "tags",
    ];
    check_changes(wanted, &known)?;
    let subnet = subnet(
        model,
        text(wanted, "floating_network_id"),
        wanted.get("subnet_id").and_then(Value::as_str),
    )?;
    model.has_room(Kind::FloatingIp, &request.project)?;
    let chosen = wanted.get("floating_ip_address").and_then(Value::as_str);
    let address = match chosen {
        Some(_) if !model.options.admin => {
            let message = "(rule:create_floatingip and rule:create_floatingip:floating_ip_address) is disallowed by policy";
            return Err(Refusal::new(403, "PolicyNotAuthorized", message));
        }
        Some(address) if model.is_taken(&subnet, address) => {
            let message = format!("IP address {address} already allocated in subnet {subnet}");
            return Err(Refusal::new(409, "IpAddressAlreadyAllocated", message));
        }
        Some(address) => {
            model.chosen.insert(address.to_owned());
            address.to_owned()
        }
        None => model.free_address(&subnet)?,
    };
    let floating = model.new_floating_ip(
        &request.project,
        text(wanted, "floating_network_id"),
        &address,
        text(wanted, "description"),
    );
    let mut floating = floating;
    attach(
        model,
        &request.project,
        &mut floating,
        wanted.get("port_id").unwrap_or(&Value::Null),
    )?;
    model.insert(Kind::FloatingIp, floating.clone());
    made(Kind::FloatingIp, floating)
}

impl Model {
    /// Creates a floating IP that is on no port, not yet among the others.
    pub(crate) fn new_floating_ip(
        &mut self,
        project: &str,
        network: &str,
        address: &str,
        description: &str,
    ) -> Object {
        let now = self.clock.utc();
        let floating = json!({
            "id": self.new_id(), "tenant_id": project, "project_id": project, "floating_ip_address": address,
            "floating_network_id": network, "router_id": null, "port_id": null, "fixed_ip_address": null, "status": "DOWN",
            "description": description, "port_details": null, "port_forwardings": [], "tags": [], "created_at": now,
            "updated_at": now, "revision_number": 0,
        });
        floating.as_object().cloned().unwrap_or_default()
    }
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change = object(request, Kind::FloatingIp)?;
    check_changes(change, attributes::FLOATING_IP_CHANGES)?;
    let mut floating = model
        .owned(Kind::FloatingIp, &request.project, request.id())?
        .clone();
    expect_revision(request, &floating)?;
    if let Some(description) = change.get("description") {
        set(&mut floating, "description", description.clone());
    }
    if let Some(port) = change.get("port_id") {
        attach(model, &request.project, &mut floating, port)?;
    }
    Model::touched(&model.clock.clone(), &mut floating);
    model.insert(Kind::FloatingIp, floating.clone());
    one(Kind::FloatingIp, floating)
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    let floating = model.owned(Kind::FloatingIp, &request.project, request.id())?;
    expect_revision(request, &floating.clone())?;
    model.remove(Kind::FloatingIp, request.id());
    Ok(Reply::empty(204))
}
