//! Neutron's ports: the addresses of servers, their security groups, and what else may come from them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::inventory::Urgency;
use provider_kit::shelf::Shelf;
use provider_kit::transport::{Call, Priority};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::services::Services;

/// As many ports are asked for at once; Neutron may answer fewer.
const PAGE_SIZE: usize = 1000;
/// How often somebody else may change a port between our reading and our writing it.
const ATTEMPTS: usize = 5;
/// What is read of a port, and no more.
const FIELDS: [&str; 12] = [
    "id",
    "device_id",
    "device_owner",
    "network_id",
    "status",
    "fixed_ips",
    "security_groups",
    "port_security_enabled",
    "allowed_address_pairs",
    "trunk_details",
    "tags",
    "revision_number",
];

/// The ports of the project. Cheap to clone; clones share what was read.
#[derive(Clone)]
pub(crate) struct Ports {
    services: Services,
    shelf: Arc<Shelf<Port>>,
    turns: Arc<Turns>,
}

/// Whose turn it is to change a port, by its id. Neutron takes two changes of the same moment for one, whatever revision they
/// are based on.
type Turns = std::sync::Mutex<HashMap<Box<str>, Arc<Mutex<()>>>>;

/// A port, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Port {
    pub(crate) id: Box<str>,
    /// What it is plugged into: a server's id; empty if nothing.
    #[serde(rename = "device_id", default)]
    pub(crate) device: Box<str>,
    #[serde(rename = "device_owner", default)]
    owner: Box<str>,
    #[serde(rename = "network_id")]
    pub(crate) network: Box<str>,
    #[serde(rename = "status", deserialize_with = "is_active", default)]
    pub(crate) is_active: bool,
    #[serde(default)]
    pub(crate) fixed_ips: Box<[FixedIp]>,
    #[serde(default)]
    pub(crate) security_groups: Box<[Box<str>]>,
    /// Port security: without it, security groups and address pairs are refused.
    #[serde(rename = "port_security_enabled", default = "yes")]
    pub(crate) is_secured: bool,
    #[serde(rename = "allowed_address_pairs", default)]
    pub(crate) pairs: Box<[AddressPair]>,
    #[serde(default)]
    trunk_details: Option<Box<Trunk>>,
    #[serde(default)]
    pub(crate) tags: Box<[Box<str>]>,
    #[serde(default)]
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

/// Whose packets may leave a port besides its own.
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

#[derive(Deserialize)]
struct One {
    port: Port,
}

fn yes() -> bool {
    true
}

fn is_active<'de, D: Deserializer<'de>>(status: D) -> std::result::Result<bool, D::Error> {
    Ok(&*Box::<str>::deserialize(status)? == "ACTIVE")
}

impl Port {
    /// The ports that are carried by this one (a trunk).
    pub(crate) fn sub_ports(&self) -> impl Iterator<Item = &str> {
        self.trunk_details.iter().flat_map(|trunk| trunk.sub_ports.iter().map(|it| &*it.port_id))
    }

    /// Whether this is one of its addresses.
    pub(crate) fn has(&self, ip: &str) -> bool {
        self.fixed_ips.iter().any(|it| it.ip.parse::<IpAddr>().is_ok_and(|its| ip.parse() == Ok(its)))
    }

    /// Whether it may be a server's: not a router's, a DHCP server's, a floating IP's or a load balancer's.
    fn may_be_a_servers(&self) -> bool {
        !["network:", "Octavia", "octavia"].iter().any(|owner| self.owner.starts_with(owner))
    }
}

/// Those plugged into a device, of ports in the order of [`Ports::all`].
pub(crate) fn of_device<'a>(all: &'a [Port], device: &str) -> &'a [Port] {
    let start = all.partition_point(|port| &*port.device < device);
    let end = all.partition_point(|port| &*port.device <= device);
    &all[start..end]
}

impl Ports {
    /// The ports behind Neutron's API.
    pub(crate) fn new(services: Services) -> Self {
        Self { services, shelf: Arc::default(), turns: Arc::default() }
    }

    /// All ports that may be servers', as they were read at most `age` before this call; sorted by device, and then as they
    /// are listed.
    ///
    /// # Errors
    /// What Neutron answered; if the list was not whole.
    pub(crate) async fn all(&self, age: Duration) -> Result<Arc<Vec<Port>>> {
        let urgency = Urgency::of(Priority::Ordinary);
        Ok(self.shelf.list(age, async || self.read_all(&urgency).await).await?.0)
    }

    /// All ports that may be servers', read now; kept for nobody.
    pub(crate) async fn read_all(&self, urgency: &Urgency) -> Result<Vec<Port>> {
        let call = self.in_project(fields(Call::get("/ports", &[])).query("limit", PAGE_SIZE)).await;
        let network = &self.services.network;
        let id = |port: &Port| port.id.clone();
        let reading = self.services.list_for_all(network, call, "ports", urgency, |port: Port| port, id);
        // A port that is missing would take an address from a Node: half a list is none.
        let mut ports = reading.await?.complete()?.into_items();
        ports.retain(Port::may_be_a_servers);
        ports.sort_by(|a, b| a.device.cmp(&b.device));
        Ok(ports)
    }

    /// Those plugged into a server.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn of(&self, server: &str, priority: Priority) -> Result<Vec<Port>> {
        let call = Call::get("/ports", &[]).query("device_id", server).priority(priority);
        self.list(self.in_project(call).await).await
    }

    /// Those of a router: some of them are nobody's.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn of_router(&self, router: &str) -> Result<Vec<Port>> {
        self.list(Call::get("/ports", &[]).query("device_id", router)).await
    }

    /// One port.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn by_id(&self, id: &str) -> Result<Option<Port>> {
        let found: Option<One> = self.services.network.find(fields(Call::get("/ports/{id}", &[id]))).await?;
        Ok(found.map(|found| found.port))
    }

    /// Those of these ids that there are.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn by_ids(&self, ids: impl Iterator<Item = &str>, priority: Priority) -> Result<Vec<Port>> {
        let call = Call::get("/ports", &[]).priority(priority);
        self.list(ids.fold(call, |call, id| call.query("id", id))).await
    }

    /// Those that a security group is on.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn carrying(&self, security_group: &str) -> Result<Vec<Port>> {
        self.list(Call::get("/ports", &[]).query("security_groups", security_group)).await
    }

    /// Those of one of these networks that have one of these addresses.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn at(&self, networks: &[Box<str>], ips: &[String]) -> Result<Vec<Port>> {
        let call = networks.iter().fold(Call::get("/ports", &[]), |call, network| call.query("network_id", network));
        self.list(ips.iter().fold(call, |call, ip| call.query("fixed_ips", format_args!("ip_address={ip}")))).await
    }

    /// Changes a port as `change` says, unless it says `None`: the fields of a PUT. If somebody else has changed the port
    /// since it was read, it is read and asked again. Whether anything was changed.
    ///
    /// # Errors
    /// What Neutron answered; *not found* if the port is gone.
    pub(crate) async fn change(&self, mut port: Port, change: impl Fn(&Port) -> Option<Value>) -> Result<bool> {
        let turn = self.turn(&port.id);
        let _turn = match turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = turn.lock().await;
                port = self.again(&port.id).await?;
                turn
            }
        };
        for attempt in 1.. {
            let Some(fields) = change(&port) else { return Ok(false) };
            let call = Call::put("/ports/{id}", &[&port.id]).json(&json!({ "port": fields }));
            let call = match port.revision_number {
                Some(revision) => call.header("If-Match", format!("revision_number={revision}")),
                None => call,
            };
            match self.services.network.send(call).await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => port = self.again(&port.id).await?,
                answer => return answer.map(|_| true),
            }
        }
        Ok(false)
    }

    /// An administrator is shown the ports of everybody.
    async fn in_project(&self, call: Call) -> Call {
        match self.services.project_id().await {
            Ok(project) => call.query("project_id", project),
            Err(_) => call,
        }
    }

    fn turn(&self, port: &str) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(port.into()).or_default())
    }

    async fn again(&self, id: &str) -> Result<Port> {
        let gone = || Error::not_found(format!("port {id} does not exist any more"));
        self.by_id(id).await?.ok_or_else(gone)
    }

    async fn list(&self, call: Call) -> Result<Vec<Port>> {
        let network = &self.services.network;
        let ports = self.services.list(network, fields(call), "ports", |port: Port| port, |port| port.id.clone());
        Ok(ports.await?.complete()?.into_items())
    }
}

fn fields(call: Call) -> Call {
    FIELDS.iter().fold(call, |call, field| call.query("fields", field))
}
