//! The addresses that a server has through its ports (§2.3, 1 and 4).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Result;
use provider_kit::inventory::Urgency;
use provider_kit::shelf::Shelf;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::ports::{Port, Ports, of_device};
use crate::services::Services;

/// How old the names of networks may be.
const NAMES_AGE: Duration = Duration::from_secs(600);

/// What one server has through its ports.
#[derive(Debug, Default)]
pub(super) struct Attached {
    /// Addresses of its active ports, in their order.
    pub(super) ips: Vec<Box<str>>,
    /// What its ports carry for other networks: the network's name, and an address.
    pub(super) trunk: Vec<(Arc<str>, Box<str>)>,
}

/// How it is read.
#[derive(Clone)]
pub(super) struct Attachments {
    services: Services,
    ports: Ports,
    /// Only asked for where there are trunks.
    names: Arc<Shelf<(Box<str>, Arc<str>)>>,
}

/// What all servers have.
pub(super) struct AllAttached {
    ports: Vec<Port>,
    carried: Carried,
}

/// Network and address of sub-ports, by the port's id.
type Carried = HashMap<Box<str>, Vec<(Arc<str>, Box<str>)>>;

#[derive(Deserialize)]
struct Network {
    id: Box<str>,
    name: Box<str>,
}

impl Attachments {
    pub(super) fn new(services: Services, ports: Ports) -> Self {
        Self { services, ports, names: Arc::default() }
    }

    /// What all servers of the project have.
    pub(super) async fn all(&self, urgency: &Urgency) -> Result<AllAttached> {
        let ports = self.ports.read_all(urgency).await?;
        let wanted: HashSet<&str> = ports.iter().flat_map(Port::sub_ports).collect();
        let known = ports.iter().filter(|port| wanted.contains(&*port.id)).collect();
        let carried = if wanted.is_empty() { HashMap::new() } else { self.carried(&wanted, known).await };
        Ok(AllAttached { ports, carried })
    }

    /// What one server has.
    pub(super) async fn of(&self, server: &str, priority: Priority) -> Result<Attached> {
        let ports = self.ports.of(server, priority).await?;
        let wanted: HashSet<&str> = ports.iter().flat_map(Port::sub_ports).collect();
        let mut carried = HashMap::new();
        if !wanted.is_empty() {
            match self.ports.by_ids(wanted.iter().copied(), priority).await {
                Ok(known) => carried = self.carried(&wanted, known.iter().collect()).await,
                Err(error) => {
                    tracing::warn!(server, %error, "sub-ports of its trunk could not be read: they are left out")
                }
            }
        }
        Ok(attached(&ports, &carried))
    }

    /// The addresses of sub-ports. One that nothing is known of is left out: the others count all the same.
    async fn carried(&self, wanted: &HashSet<&str>, known: Vec<&Port>) -> Carried {
        let names = self.network_names(&known).await;
        let mut carried = HashMap::with_capacity(known.len());
        for port in known {
            match names.get(&port.network) {
                Some(name) => {
                    let addresses = port.fixed_ips.iter().map(|it| (Arc::clone(name), it.ip.clone()));
                    carried.insert(port.id.clone(), addresses.collect());
                }
                None => tracing::warn!(
                    port = &*port.id,
                    network = &*port.network,
                    "the network of a sub-port is not known: it is left out"
                ),
            }
        }
        for port in wanted.iter().filter(|id| !carried.contains_key(**id)) {
            tracing::warn!(port, "a sub-port of a server's trunk is not known: it is left out");
        }
        carried
    }

    /// The names of their networks by id, as far as they can be found out.
    async fn network_names(&self, ports: &[&Port]) -> HashMap<Box<str>, Arc<str>> {
        let read = async || {
            let call = Call::get("/networks", &[]).query("fields", "id").query("fields", "name");
            let keep = |it: Network| (it.id, Arc::from(&*it.name));
            let listing = self.services.list(&self.services.network, call, "networks", keep, |(id, _)| id.clone());
            Ok(listing.await?.into_items())
        };
        let mut names = HashMap::new();
        // What is known may be from before the youngest network.
        for age in [NAMES_AGE, Duration::ZERO] {
            match self.names.list(age, read).await {
                Ok((listed, _)) => names = listed.iter().cloned().collect(),
                Err(error) => tracing::warn!(%error, "the networks of sub-ports could not be read"),
            }
            if ports.iter().all(|port| names.contains_key(&port.network)) {
                break;
            }
        }
        names
    }
}

impl AllAttached {
    /// What this server has.
    pub(super) fn of(&self, server: &str) -> Attached {
        attached(of_device(&self.ports, server), &self.carried)
    }
}

fn attached(ports: &[Port], carried: &Carried) -> Attached {
    let active = ports.iter().filter(|port| port.is_active);
    let ips = active.flat_map(|port| port.fixed_ips.iter().map(|it| it.ip.clone())).collect();
    let sub_ports = ports.iter().flat_map(Port::sub_ports);
    let trunk = sub_ports.filter_map(|id| carried.get(id)).flatten().cloned().collect();
    Attached { ips, trunk }
}
