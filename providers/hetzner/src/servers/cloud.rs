//! Cloud servers: the fields that are kept, and the metadata of their Nodes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cloud_provider::{Error, InstanceMetadata, Node, NodeAddress, Result, async_trait};
use ipnet::Ipv6Net;
use provider_kit::addresses::Addresses;
use provider_kit::inventory::{Machine, MachineSource, SharedPriority};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::api::Api;
use crate::config;
use crate::id::{MachineId, PROVIDED_BY, digits, first_address};
use crate::network::PrivateNetwork;

/// The cloud servers of the token's project, and the metadata of their Nodes.
#[derive(Clone)]
pub(crate) struct CloudServers {
    pub(super) api: Api,
    pub(super) config: config::Instances,
    pub(super) network: Option<PrivateNetwork>,
}

/// A cloud server, as far as a Node, a route or a load balancer needs it: thousands are kept.
#[derive(Debug, Deserialize)]
#[serde(from = "Wire")]
pub(crate) struct CloudServer {
    id: Box<str>,
    name: Box<str>,
    is_off: bool,
    server_type: Box<str>,
    location: Box<str>,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    private: Box<[Attachment]>,
}

#[derive(Debug)]
struct Attachment {
    network: u64,
    ip: IpAddr,
}

#[derive(Deserialize)]
struct Wire {
    id: u64,
    name: Box<str>,
    status: Box<str>,
    server_type: Named,
    location: Named,
    public_net: PublicNet,
    #[serde(default)]
    private_net: Vec<PrivateNet>,
}

#[derive(Deserialize)]
struct PrivateNet {
    network: u64,
    ip: Box<str>,
}

#[derive(Deserialize)]
struct Named {
    name: Box<str>,
}

#[derive(Deserialize)]
struct PublicNet {
    ipv4: Option<Public>,
    ipv6: Option<Public>,
}

/// A public address, as text, so that an address that cannot be parsed does not fail the list of all servers.
#[derive(Deserialize)]
struct Public {
    ip: Box<str>,
}

impl From<Wire> for CloudServer {
    fn from(wire: Wire) -> Self {
        let ipv4: Option<Ipv4Addr> = wire
            .public_net
            .ipv4
            .and_then(|public| public.ip.parse().ok());
        let ipv6: Option<Ipv6Net> = wire
            .public_net
            .ipv6
            .and_then(|public| public.ip.parse().ok());
        let attachment = |other_network: PrivateNet| {
            Some(Attachment {
                network: other_network.network,
                ip: other_network.ip.parse().ok()?,
            })
        };
        Self {
            id: wire.id.to_string().into(),
            name: wire.name,
            is_off: &*wire.status == "off",
            server_type: wire.server_type.name,
            location: wire.location.name,
            ipv4: ipv4.filter(|ip| !ip.is_unspecified()),
            // A server has the first address of its IPv6 network.
            ipv6: ipv6
                .map(|net| net.addr())
                .filter(|ip| !ip.is_unspecified())
                .map(first_address),
            private: wire
                .private_net
                .into_iter()
                .filter_map(attachment)
                .collect(),
        }
    }
}

impl CloudServer {
    /// Returns the server's address in a private network, if the server is attached to it.
    pub(crate) fn private_ip(&self, network: u64) -> Option<IpAddr> {
        self.private_ips(network).next()
    }

    fn private_ips(&self, network: u64) -> impl Iterator<Item = IpAddr> {
        self.private
            .iter()
            .filter(move |attachment| attachment.network == network)
            .map(|attachment| attachment.ip)
    }

    /// Returns the zone of the server. The API no longer reports datacenters, so the zone is derived from the location,
    /// with the names that Nodes always had.
    fn zone(&self) -> &str {
        match &*self.location {
            "nbg1" => "nbg1-dc3",
            "hel1" => "hel1-dc2",
            "fsn1" => "fsn1-dc14",
            "ash" => "ash-dc1",
            "hil" => "hil-dc1",
            "sin" => "sin-dc1",
            location => location,
        }
    }
}

impl Machine for CloudServer {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        self.is_off
    }
}

impl CloudServers {
    fn addresses(&self, server: &CloudServer) -> Vec<NodeAddress> {
        // The network is read at the start, before any request for a machine.
        let network = self.network.as_ref().and_then(|network| network.id().ok());
        let public = [server.ipv4.map(IpAddr::V4), server.ipv6.map(IpAddr::V6)]
            .into_iter()
            .flatten();
        Addresses::of(&server.name)
            .external(public, self.config.address_family)
            .internal(
                network
                    .into_iter()
                    .flat_map(|network| server.private_ips(network)),
            )
            .build()
    }
}

#[async_trait]
impl MachineSource for CloudServers {
    type Machine = CloudServer;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<CloudServer>> {
        let call = Call::get("/servers", &[]);
        let id = |server: &CloudServer| server.id.clone();
        self.api
            .http
            .list(call, "servers", shared_priority, |server| server, id)
            .await
    }

    fn lists_prove_absence(&self) -> bool {
        true
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<CloudServer>> {
        self.api
            .http
            .find(
                Call::get("/servers/{id}", &[id])
                    .inside("server")
                    .with_priority(priority),
            )
            .await
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<CloudServer>> {
        let call = Call::get("/servers", &[])
            .list()
            .query("name", name)
            .inside("servers");
        self.api.http.read(call.with_priority(priority)).await
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        match MachineId::read(provider_id)? {
            MachineId::Cloud(_) => Ok(digits(provider_id)),
            MachineId::Robot(_) => Err(Error::invalid(format!(
                "{provider_id:?} is no cloud server"
            ))),
        }
    }

    fn metadata(&self, server: &CloudServer, _node: &Node) -> InstanceMetadata {
        InstanceMetadata {
            provider_id: format!("hcloud://{}", server.id),
            instance_type: server.server_type.to_string(),
            zone: if self.config.zone_label {
                server.zone().to_owned()
            } else {
                String::new()
            },
            region: server.location.to_string(),
            node_addresses: self.addresses(server),
            additional_labels: [(PROVIDED_BY.to_owned(), "cloud".to_owned())].into(),
        }
    }

    fn place(&self) -> String {
        "the project of HCLOUD_TOKEN".to_owned()
    }
}
