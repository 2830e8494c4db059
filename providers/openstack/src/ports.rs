//! Neutron's ports: the addresses of servers, their security groups, and their allowed address pairs.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::cached::Cached;
use provider_kit::inventory::SharedPriority;
use provider_kit::keyed_lock::KeyedLock;
use provider_kit::transport::{Call, Priority};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::services::{Services, based_on};

/// Requested number of ports in a page; Neutron may answer fewer.
const PAGE_SIZE: usize = 1000;
/// Most values of one attribute in a request: servers refuse long URLs.
pub(crate) const VALUES_AT_ONCE: usize = 50;
/// Number of reads of a port that another client changed between our read and our write.
const ATTEMPTS: usize = 5;
/// Fields that are read of thousands of ports.
const FIELDS: &str = "id device_id device_owner network_id status fixed_ips security_groups port_security_enabled trunk_details";
/// Further fields of ports that may be changed.
const MORE_FIELDS: &str = "allowed_address_pairs tags revision_number";

/// The ports of the project. Cheap to clone; clones share the kept list.
#[derive(Clone)]
pub(crate) struct Ports {
    pub(crate) services: Services,
    cached: Arc<Cached<Vec<Port>>>,
    /// Locks by port ID, because Neutron may lose one of two concurrent changes of a port, even if they name the
    /// revision that they are based on.
    locks: Arc<KeyedLock<Box<str>>>,
}

/// A port, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Port {
    pub(crate) id: Box<str>,
    /// ID of the server that the port is attached to; empty if there is none.
    #[serde(rename = "device_id")]
    pub(crate) device: Box<str>,
    #[serde(rename = "device_owner", deserialize_with = "may_be_a_server")]
    may_be_a_servers: bool,
    #[serde(rename = "network_id")]
    pub(crate) network: Box<str>,
    #[serde(rename = "status", deserialize_with = "is_active")]
    pub(crate) is_active: bool,
    pub(crate) fixed_ips: Box<[FixedIp]>,
    pub(crate) security_groups: Box<[Box<str>]>,
    /// Without port security, security groups and address pairs are refused.
    #[serde(rename = "port_security_enabled", default = "yes")]
    pub(crate) is_secured: bool,
    #[serde(rename = "allowed_address_pairs")]
    pub(crate) pairs: Box<[AddressPair]>,
    trunk_details: Option<Box<Trunk>>,
    pub(crate) tags: Box<[Box<str>]>,
    revision_number: Option<u64>,
}

/// An address of a port.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FixedIp {
    #[serde(rename = "subnet_id")]
    pub(crate) subnet: Box<str>,
    #[serde(rename = "ip_address")]
    pub(crate) ip: Box<str>,
}

/// An address, besides its own, whose packets may leave a port.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct AddressPair {
    pub(crate) ip_address: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mac_address: Option<Box<str>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Trunk {
    #[serde(default)]
    sub_ports: Box<[SubPort]>,
}

#[derive(Clone, Debug, Deserialize)]
struct SubPort {
    port_id: Box<str>,
}

fn yes() -> bool {
    true
}

fn is_active<'de, D: Deserializer<'de>>(status: D) -> Result<bool, D::Error> {
    Ok(*Box::<str>::deserialize(status)? == *"ACTIVE")
}

/// Returns `false` for a router, a DHCP server, a floating IP or a load balancer.
fn may_be_a_server<'de, D: Deserializer<'de>>(owner: D) -> Result<bool, D::Error> {
    let owner = Box::<str>::deserialize(owner)?;
    Ok(!["network:", "Octavia", "octavia"]
        .iter()
        .any(|octavia| owner.starts_with(octavia)))
}

impl Port {
    /// Returns the ports that this one carries (a trunk).
    pub(crate) fn sub_ports(&self) -> impl Iterator<Item = &str> {
        self.trunk_details
            .iter()
            .flat_map(|trunk| trunk.sub_ports.iter().map(|sub_port| &*sub_port.port_id))
    }

    /// Returns `true` if this is one of its addresses.
    pub(crate) fn has(&self, ip: &str) -> bool {
        self.fixed_ips.iter().any(|fixed_ip| {
            fixed_ip
                .ip
                .parse::<IpAddr>()
                .is_ok_and(|its| ip.parse() == Ok(its))
        })
    }
}

/// Returns the ports of a device, from ports in the order of [`Ports::all`].
pub(crate) fn of_device<'a>(all: &'a [Port], device: &str) -> &'a [Port] {
    let start = all.partition_point(|port| &*port.device < device);
    let end = all.partition_point(|port| &*port.device <= device);
    &all[start..end]
}

impl Ports {
    /// Returns the ports behind Neutron's API.
    pub(crate) fn new(services: Services) -> Self {
        Self {
            services,
            cached: Arc::default(),
            locks: Arc::default(),
        }
    }

    /// Returns all ports that may be servers', as they were read at most `age` before this call; sorted by device, and then as
    /// they are listed. Without the fields that a [change](Self::change) needs.
    ///
    /// # Errors
    /// Neutron's answer; *other* if the list was partial.
    pub(crate) async fn all(&self, age: Duration) -> Result<Arc<Vec<Port>>> {
        let shared_priority = SharedPriority::of(Priority::Ordinary);
        Ok(self
            .cached
            .get(age, async || self.read_all(&shared_priority).await)
            .await?
            .0)
    }

    /// Reads all ports that may be servers', without keeping them.
    pub(crate) async fn read_all(&self, shared_priority: &SharedPriority) -> Result<Vec<Port>> {
        let call = fields(Call::get("/ports", &[]).query("limit", PAGE_SIZE), FIELDS);
        let call = self.services.in_project(call).await?;
        let reading = self
            .services
            .network
            .list(call, "ports", shared_priority, |port: Port| port, id)
            .await?;
        // A missing port would remove an address from a Node: a partial list is an error.
        let mut ports = reading.complete()?.into_items();
        ports.retain(|port| port.may_be_a_servers);
        ports.sort_by(|a, b| a.device.cmp(&b.device));
        Ok(ports)
    }

    /// Reads the ports of a server.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(crate) async fn of(&self, server: &str, priority: Priority) -> Result<Vec<Port>> {
        let call = Call::get("/ports", &[])
            .query("device_id", server)
            .with_priority(priority);
        self.list(self.services.in_project(call).await?).await
    }

    /// Reads the ports of which an attribute is one of these values, in these networks (none: in all).
    ///
    /// # Errors
    /// Neutron's answer.
    pub(crate) async fn with(
        &self,
        key: &str,
        values: &[String],
        networks: &[&str],
    ) -> Result<Vec<Port>> {
        let mut found = Vec::new();
        for values in values.chunks(VALUES_AT_ONCE) {
            let call = networks.iter().fold(Call::get("/ports", &[]), |call, id| {
                call.query("network_id", id)
            });
            found.extend(
                self.list(
                    values
                        .iter()
                        .fold(call, |call, value| call.query(key, value)),
                )
                .await?,
            );
        }
        Ok(found)
    }

    /// Reads one port.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(crate) async fn by_id(&self, id: &str) -> Result<Option<Port>> {
        self.services
            .network
            .find(all_fields(Call::get("/ports/{id}", &[id])).inside("port"))
            .await
    }

    /// Reads the ports that carry a security group.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(crate) async fn carrying(&self, security_group: &str) -> Result<Vec<Port>> {
        self.with("security_groups", &[security_group.to_owned()], &[])
            .await
    }

    /// Changes a port. `change` returns the fields of a PUT, or `None` if no change is needed. If another client has
    /// changed the port since it was read, it is read and `change` is called again. Returns `true` if the port was
    /// changed.
    ///
    /// # Errors
    /// Neutron's answer; *not found* if the port no longer exists.
    pub(crate) async fn change(
        &self,
        mut port: Port,
        change: impl Fn(&Port) -> Option<Value>,
    ) -> Result<bool> {
        let _held = match self.locks.try_lock(port.id.clone()) {
            Some(held) => held,
            None => {
                let held = self.locks.lock(port.id.clone()).await;
                port = self.again(&port.id).await?;
                held
            }
        };
        for attempt in 1.. {
            let Some(fields) = change(&port) else {
                return Ok(false);
            };
            let call = Call::put("/ports/{id}", &[&port.id]).json(&json!({ "port": fields }));
            match self
                .services
                .network
                .send(based_on(port.revision_number, call))
                .await
            {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                    port = self.again(&port.id).await?;
                }
                answer => return answer.map(|_| true),
            }
        }
        Ok(false)
    }

    async fn again(&self, id: &str) -> Result<Port> {
        self.by_id(id)
            .await?
            .ok_or_else(|| Error::not_found(format!("port {id} does not exist any more")))
    }

    async fn list(&self, call: Call) -> Result<Vec<Port>> {
        self.services
            .all(&self.services.network, all_fields(call), "ports", id)
            .await
    }
}

fn id(port: &Port) -> Box<str> {
    port.id.clone()
}

fn fields(call: Call, fields: &str) -> Call {
    fields
        .split(' ')
        .fold(call, |call, field| call.query("fields", field))
}

fn all_fields(call: Call) -> Call {
    fields(fields(call, FIELDS), MORE_FIELDS)
}
