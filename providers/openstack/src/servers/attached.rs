//! The addresses that servers have through their ports (§2.3, 1 and 4).

use std::collections::{HashMap, HashSet};

use cloud_provider::Result;
use provider_kit::inventory::Urgency;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::ports::{Port, Ports, of_device};
use crate::services::Services;

/// What one server has through its ports.
#[derive(Debug, Default)]
pub(super) struct Attached {
    /// Addresses of its active ports, in their order.
    pub(super) ips: Vec<Box<str>>,
    /// What its ports carry for other networks: the network's name, and an address.
    pub(super) trunk: Vec<(Box<str>, Box<str>)>,
}

/// Network and address of sub-ports, by the port's id.
type Carried = HashMap<Box<str>, Vec<(Box<str>, Box<str>)>>;

/// What servers have.
#[derive(Default)]
pub(super) struct Attachments {
    /// Sorted by device.
    ports: Vec<Port>,
    carried: Carried,
}

#[derive(Deserialize)]
struct Network {
    id: Box<str>,
    name: Box<str>,
}

impl Attachments {
    /// What all servers of the project have.
    pub(super) async fn all(services: &Services, ports: &Ports, urgency: &Urgency) -> Result<Self> {
        let ports = ports.read_all(urgency).await?;
        let carried = carried(services, &ports, &ports).await;
        Ok(Self { ports, carried })
    }

    /// What one server has.
    pub(super) async fn of_one(services: &Services, ports: &Ports, server: &str, priority: Priority) -> Result<Self> {
        let its = ports.of(server, priority).await?;
        let sub_ports: Vec<_> = its.iter().flat_map(Port::sub_ports).map(str::to_owned).collect();
        let mut known = Vec::new();
        if !sub_ports.is_empty() {
            match ports.with("id", &sub_ports, &[]).await {
                Ok(ports) => known = ports,
                Err(error) => tracing::warn!(server, %error, "the sub-ports of its trunk could not be read"),
            }
        }
        let carried = carried(services, &its, &known).await;
        Ok(Self { ports: its, carried })
    }

    /// What this server has.
    pub(super) fn of(&self, server: &str) -> Attached {
        let ports = of_device(&self.ports, server);
        let active = ports.iter().filter(|port| port.is_active());
        let ips = active.flat_map(|port| port.fixed_ips.iter().map(|it| it.ip.clone())).collect();
        let sub_ports = ports.iter().flat_map(Port::sub_ports);
        let trunk = sub_ports.filter_map(|id| self.carried.get(id)).flatten().cloned().collect();
        Attached { ips, trunk }
    }
}

/// What the sub-ports of these ports have, each known one. One that nothing is known of is left out: the others count all the
/// same.
async fn carried(services: &Services, ports: &[Port], known: &[Port]) -> Carried {
    let mut wanted: HashSet<&str> = ports.iter().flat_map(Port::sub_ports).collect();
    let known: Vec<&Port> = known.iter().filter(|port| wanted.contains(&*port.id)).collect();
    let networks: HashSet<&str> = known.iter().map(|port| &*port.network).collect();
    let names = if networks.is_empty() { Ok(HashMap::new()) } else { network_names(services, networks).await };
    let names = names.unwrap_or_else(|error| {
        tracing::warn!(%error, "the networks of sub-ports could not be read");
        HashMap::new()
    });
    let mut carried = HashMap::new();
    for port in known {
        if let Some(name) = names.get(&port.network) {
            wanted.remove(&*port.id);
            carried.insert(port.id.clone(), port.fixed_ips.iter().map(|it| (name.clone(), it.ip.clone())).collect());
        }
    }
    if !wanted.is_empty() {
        tracing::warn!(ports = ?wanted, "sub-ports of trunks are left out: they, or their networks, are not known");
    }
    carried
}

async fn network_names(services: &Services, ids: HashSet<&str>) -> Result<HashMap<Box<str>, Box<str>>> {
    let call = Call::get("/networks", &[]).query("fields", "id").query("fields", "name");
    let call = ids.iter().fold(call, |call, id| call.query("id", id));
    let keep = |it: Network| (it.id, it.name);
    let names = services.list(&services.network, call, "networks", keep, |(id, _)| id.clone()).await?;
    Ok(names.into_items().into_iter().collect())
}
