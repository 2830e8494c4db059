//! Servers behind Nodes: the kept fields, and the metadata of their Nodes.

mod addresses;
mod attached;
mod flavors;

use std::collections::BTreeMap;

use cloud_provider::{Error, InstanceMetadata, Node, NodeAddress, Result, async_trait};
use futures::try_join;
use provider_kit::inventory::{Inventory, Machine, MachineSource, SharedPriority, system_uuids};
use provider_kit::labels::value_from;
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use self::attached::{Attached, Attachments, of_all, of_one};
use self::flavors::{Flavor, Flavors};
use crate::config::{Config, Networking, Scope};
use crate::id::ServerId;
use crate::ports::Ports;
use crate::services::Services;

/// Requested number of servers in a page; Nova may answer fewer.
const PAGE_SIZE: usize = 500;

/// The servers of the project, read once and shared.
pub(crate) type Servers = Inventory<Source>;

/// The source of servers, and of the metadata of their Nodes.
pub(crate) struct Source {
    services: Services,
    ports: Ports,
    flavors: Flavors,
    networking: Networking,
    /// Region, which is also the Nodes' label.
    region: String,
    /// If set, provider IDs carry the region.
    regional: bool,
    place: String,
}

/// A server, as far as a Node needs it: thousands are kept.
pub(crate) struct Server {
    id: Box<str>,
    name: Box<str>,
    is_off: bool,
    /// If set, Nova has chosen neither its zone nor its addresses yet.
    is_being_made: bool,
    flavor: Flavor,
    zone: Box<str>,
    addresses: Box<[NodeAddress]>,
}

/// A server, as Nova returns it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    id: Box<str>,
    name: Box<str>,
    status: Box<str>,
    #[serde(rename = "accessIPv4")]
    access_ipv4: Option<Box<str>>,
    #[serde(rename = "accessIPv6")]
    access_ipv6: Option<Box<str>>,
    metadata: Metadata,
    /// Addresses by the name of the network.
    addresses: BTreeMap<Box<str>, Vec<Address>>,
    flavor: Flavor,
    #[serde(rename = "OS-EXT-AZ:availability_zone")]
    zone: Option<Box<str>>,
}

/// The metadata of a server, with the fields that are read.
#[derive(Default, Deserialize)]
struct Metadata {
    hostname: Option<Box<str>>,
}

/// An address in a network.
#[derive(Deserialize)]
struct Address {
    addr: Box<str>,
    /// Type of the address: `fixed` or `floating`.
    #[serde(rename = "OS-EXT-IPS:type")]
    kind: Option<Box<str>>,
}

impl Machine for Server {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        self.is_off
    }
    fn is_settled(&self) -> bool {
        !self.is_being_made
    }
}

/// Returns the servers of the project.
pub(crate) fn servers(services: &Services, ports: &Ports, config: &Config) -> Servers {
    let region = config.region.clone().unwrap_or_default();
    let project = match &config.auth.scope {
        Scope::ProjectId(id) => format!("project {id:?}"),
        Scope::Project(name, _) => format!("project {name:?}"),
        _ => "the credential's project".to_owned(),
    };
    let in_region = if region.is_empty() {
        String::new()
    } else {
        format!(", region {region:?}")
    };
    Inventory::new(Source {
        services: services.clone(),
        ports: ports.clone(),
        flavors: Flavors::default(),
        networking: config.networking.clone(),
        regional: config.regional,
        place: format!("{project} at {}{in_region}", config.auth.url),
        region,
    })
}

impl Source {
    fn server(&self, wire: Wire, attached: &Attachments) -> Server {
        let none = Attached::default();
        Server {
            addresses: addresses::addresses(
                &wire,
                attached.get(&wire.id).unwrap_or(&none),
                &self.networking,
            ),
            // Every other state counts as running, asleep and broken ones included.
            is_off: &*wire.status == "SHUTOFF",
            is_being_made: &*wire.status == "BUILD",
            zone: value_from(wire.zone.as_deref().unwrap_or_default()).into(),
            flavor: wire.flavor,
            id: wire.id,
            // Node names are lower-case, and the databases of Nova compare names without case.
            name: wire.name.to_ascii_lowercase().into(),
        }
    }

    async fn one(&self, wire: Wire, attached: &Attachments, priority: Priority) -> Result<Server> {
        let server = self.server(wire, attached);
        self.flavors
            .learn(&self.services, [&server.flavor].into_iter(), priority)
            .await?;
        Ok(server)
    }

    async fn read(&self, id: &str, priority: Priority) -> Result<Option<Wire>> {
        self.services
            .compute
            .find(
                Call::get("/servers/{id}", &[id])
                    .inside("server")
                    .with_priority(priority),
            )
            .await
    }
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Server;

    /// Reads ports before servers, so that only the needed fields of each page of servers are kept.
    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Server>> {
        let attached = of_all(&self.services, &self.ports, shared_priority).await?;
        let keep = |wire: Wire| self.server(wire, &attached);
        let call = Call::get("/servers/detail", &[]).query("limit", PAGE_SIZE);
        let id = |server: &Server| server.id.clone();
        let reading = self
            .services
            .compute
            .list(call, "servers", shared_priority, keep, id)
            .await?;
        let flavors = reading.items().iter().map(|server| &server.flavor);
        self.flavors
            .learn(&self.services, flavors, shared_priority.now())
            .await?;
        Ok(reading)
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Server>> {
        let attached = of_one(&self.services, &self.ports, id, priority);
        let (wire, attached) = try_join!(self.read(id, priority), attached)?;
        match wire {
            Some(wire) => self.one(wire, &attached, priority).await.map(Some),
            None => Ok(None),
        }
    }

    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<Server>> {
        let none = Attachments::default();
        Ok(self
            .read(id, priority)
            .await?
            .map(|wire| self.server(wire, &none)))
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Server>> {
        let call = Call::get("/servers/detail", &[])
            .query("name", exactly(name))
            .with_priority(priority);
        let found = self
            .services
            .all(&self.services.compute, call, "servers", |service: &Wire| {
                service.id.clone()
            })
            .await?;
        let mut servers = Vec::new();
        for wire in found
            .into_iter()
            .filter(|entry| entry.name.eq_ignore_ascii_case(name))
        {
            let attached = of_one(&self.services, &self.ports, &wire.id, priority).await?;
            servers.push(self.one(wire, &attached, priority).await?);
        }
        Ok(servers)
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        let ServerId { region, server } = ServerId::read(provider_id)?;
        // Servers of another region cannot be read, so their absence proves nothing.
        if !region.is_empty() && region != self.region {
            return Err(Error::invalid(format!(
                "provider id {provider_id:?} is of region {region:?}, and this program looks after {:?} ([Global] region)",
                self.region
            )));
        }
        Ok(server)
    }

    /// Returns the IDs in the Node's firmware, because Nova writes a server's ID there.
    fn guesses(&self, node: &Node) -> Vec<String> {
        system_uuids(node)
    }

    fn confirms_guess(&self, server: &Server, node: &Node) -> bool {
        let names = node
            .addresses
            .iter()
            .map(|address| &*address.address)
            .chain([&*node.name]);
        let mut names = names.chain(
            node.requested_ip()
                .into_iter()
                .flat_map(|ips| ips.split(',').map(str::trim)),
        );
        names.any(|name| {
            server.name.eq_ignore_ascii_case(name)
                || server.addresses.iter().any(|its| *its.address == *name)
        })
    }

    fn metadata(&self, server: &Server, _node: &Node) -> InstanceMetadata {
        let region = if self.regional { &*self.region } else { "" };
        InstanceMetadata {
            provider_id: ServerId {
                region,
                server: &server.id,
            }
            .to_string(),
            instance_type: self
                .flavors
                .instance_type(&server.flavor)
                .unwrap_or_default(),
            zone: server.zone.to_string(),
            region: self.region.clone(),
            node_addresses: server.addresses.to_vec(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

/// Returns a pattern that only this name fits.
fn exactly(name: &str) -> String {
    let special = |c| r"\.+*?()|[]{}^$".contains(c);
    let escaped = name
        .chars()
        .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]));
    format!("^{}$", escaped.collect::<String>())
}

#[cfg(test)]
mod tests;
