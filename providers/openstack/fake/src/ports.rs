//! Ports API of the fake Neutron.

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::pages;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, expect_revision, object, one};

/// Attributes of a new port.
pub(crate) struct NewPort<'a> {
    pub(crate) project: &'a str,
    pub(crate) name: &'a str,
    pub(crate) subnet: &'a str,
    /// A free one, unless it is chosen.
    pub(crate) address: Option<&'a str>,
    pub(crate) device: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) security_groups: Value,
}

impl<'a> NewPort<'a> {
    /// Returns the attributes of a port without an owner and a name.
    pub(crate) fn of(project: &'a str, subnet: &'a str) -> Self {
        Self {
            project,
            name: "",
            subnet,
            address: None,
            device: "",
            owner: "",
            security_groups: Value::Array(Vec::new()),
        }
    }
}

impl Model {
    /// Creates a port with its address.
    pub(crate) fn add_port(&mut self, new: &NewPort<'_>) -> Result<Object, Refusal> {
        self.has_room(Kind::Port, new.project)?;
        let network = self
            .get(Kind::Subnet, new.subnet)
            .map(|subnet| text(subnet, "network_id").to_owned());
        let network = network.ok_or_else(|| Kind::Subnet.not_found(new.subnet))?;
        let address = match new.address {
            Some(address) if self.is_taken(new.subnet, address) => {
                let message = format!(
                    "IP address {address} already allocated in subnet {}",
                    new.subnet
                );
                return Err(Refusal::new(409, "IpAddressAlreadyAllocated", message));
            }
            Some(address) => {
                self.chosen.insert(address.to_owned());
                address.to_owned()
            }
            None => self.free_address(new.subnet)?,
        };
        let id = self.new_id();
        let now = self.clock.utc();
        let mac = format!("fa:16:3e:{}:{}:{}", &id[2..4], &id[4..6], &id[6..8]);
        let status = if new.device.is_empty() || new.owner == "Octavia" {
            "DOWN"
        } else {
            "ACTIVE"
        };
        let port = json!({
            "id": id, "name": new.name, "network_id": network, "project_id": new.project, "tenant_id": new.project,
            "mac_address": mac, "admin_state_up": true, "status": status, "device_id": new.device, "device_owner": new.owner,
            "fixed_ips": [{"subnet_id": new.subnet, "ip_address": address}], "allowed_address_pairs": [], "extra_dhcp_opts": [],
            "security_groups": new.security_groups, "description": "", "binding:vnic_type": "normal",
            "port_security_enabled": true, "tags": [], "created_at": now, "updated_at": now, "revision_number": 1,
        });
        let Value::Object(port) = port else {
            return Err(Refusal::bad("no port"));
        };
        self.insert(Kind::Port, port.clone());
        Ok(port)
    }

    /// Removes a port, and detaches its floating IP.
    pub(crate) fn remove_port(&mut self, id: &str) {
        self.remove(Kind::Port, id);
        let clock = self.clock;
        for floating in self
            .all_mut(Kind::FloatingIp)
            .filter(|object| text(object, "port_id") == id)
        {
            for key in ["port_id", "fixed_ip_address", "router_id", "port_details"] {
                set(floating, key, Value::Null);
            }
            set(floating, "status", "DOWN");
            Self::touched(&clock, floating);
        }
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(model, request, Kind::Port, attributes::PORT, |_, port| {
        port.clone()
    })
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    one(
        Kind::Port,
        model
            .one(Kind::Port, &request.project, request.id())?
            .clone(),
    )
}

/// Checks that a change contains only changeable attributes.
pub(crate) fn check_changes(change: &Object, known: &[&str]) -> Result<(), Refusal> {
    match change.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Refusal::bad(format!("Unrecognized attribute(s) '{key}'"))),
        None => Ok(()),
    }
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change = object(request, Kind::Port)?;
    check_changes(change, attributes::PORT_CHANGES)?;
    for group in items(change, "security_groups")
        .iter()
        .filter_map(Value::as_str)
    {
        model.one(Kind::SecurityGroup, &request.project, group)?;
    }
    if change.contains_key("allowed_address_pairs") && !model.options.address_pairs {
        return Err(Refusal::bad(
            "Unrecognized attribute(s) 'allowed_address_pairs'",
        ));
    }
    let clock = model.clock;
    let port = model.owned(Kind::Port, &request.project, request.id())?;
    let secured = change
        .get("port_security_enabled")
        .or_else(|| port.get("port_security_enabled"));
    let has_rules = !items(change, "security_groups").is_empty()
        || !items(change, "allowed_address_pairs").is_empty();
    if secured == Some(&Value::Bool(false)) && has_rules {
        let message = "Port Security must be enabled in order to have allowed address pairs or security groups on a port.";
        return Err(Refusal::new(
            409,
            "PortSecurityPortHasSecurityGroup",
            message,
        ));
    }
    let before = port.clone();
    let mac = text(port, "mac_address").to_owned();
    let mut after = port.clone();
    for (key, value) in change {
        let mut value = value.clone();
        if key == "allowed_address_pairs" {
            for pair in value
                .as_array_mut()
                .into_iter()
                .flatten()
                .filter_map(Value::as_object_mut)
            {
                pair.entry("mac_address")
                    .or_insert_with(|| mac.clone().into());
            }
        }
        after.insert(key.clone(), value);
    }
    if after != before {
        expect_revision(request, &before)?;
        Model::touched(&clock, &mut after);
        port.clone_from(&after);
    }
    one(Kind::Port, after)
}

pub(crate) fn remove_tag(model: &mut Model, request: &ApiRequest) -> Answer {
    let clock = model.clock;
    let tag = request.nth_id(1);
    let port = model.owned(Kind::Port, &request.project, request.id())?;
    let mut tags = items(port, "tags").to_vec();
    let Some(at) = tags.iter().position(|other_tag| other_tag == tag) else {
        return Err(Refusal::new(
            404,
            "TagNotFound",
            format!("Tag {tag} could not be found."),
        ));
    };
    tags.remove(at);
    set(port, "tags", tags);
    Model::touched(&clock, port);
    Ok(Reply::empty(204))
}
