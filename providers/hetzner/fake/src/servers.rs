//! Cloud servers of the API.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;
use serde_json::{Value, json};

use crate::catalogue::location;
use crate::lists::{page, selects};
use crate::model::{CREATED, Kind, Model, Owned, asked_for, of};
use crate::refusal::Answer;
use crate::routes::{ApiRequest, ok};

/// A cloud server of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// ID of the server.
    pub id: u64,
    /// Name of the server.
    pub name: String,
    /// Status of the server: `running`, `off` …
    pub status: String,
    /// Type of the server, such as `cx22`.
    pub server_type: String,
    /// Location of the server, such as `fsn1`.
    pub location: String,
    /// Labels of the server.
    pub labels: BTreeMap<String, String>,
    /// Public IPv4 address of the server, if any.
    pub ipv4: Option<Ipv4Addr>,
    /// Public IPv6 network of the server, if any.
    pub ipv6: Option<Ipv6Net>,
    /// The networks that it is attached to.
    pub private_net: Vec<ServerNet>,
}

/// A server's attachment to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNet {
    /// Id of the network.
    pub network: u64,
    /// Address of the server in the network.
    pub ip: Ipv4Addr,
    /// Further addresses of the server in the network.
    pub alias_ips: Vec<Ipv4Addr>,
}

impl Server {
    /// Returns the server's address in a network.
    #[must_use]
    pub fn ip_in(&self, network: u64) -> Option<Ipv4Addr> {
        self.private_net
            .iter()
            .find(|private_net| private_net.network == network)
            .map(|network| network.ip)
    }

    pub(crate) fn json(&self) -> Value {
        let ipv4 = self
            .ipv4
            .map(|ip| json!({"id": self.id, "ip": ip, "blocked": false, "dns_ptr": format!("static.{ip}.example")}));
        let ipv6 = self
            .ipv6
            .map(|ip| json!({"id": self.id, "ip": ip, "blocked": false, "dns_ptr": []}));
        let private_net: Vec<Value> = self
            .private_net
            .iter()
            .map(|network| json!({"network": network.network, "ip": network.ip, "alias_ips": network.alias_ips, "mac_address": "86:00:ff:2a:7d:e1"}))
            .collect();
        json!({
            "id": self.id, "name": self.name, "status": self.status, "created": CREATED, "labels": self.labels,
            "server_type": server_type(&self.server_type), "location": location(&self.location),
            "public_net": {"ipv4": ipv4, "ipv6": ipv6, "floating_ips": [], "firewalls": []},
            "private_net": private_net, "image": null, "iso": null, "rescue_enabled": false, "locked": false,
            "backup_window": null, "outgoing_traffic": 0, "ingoing_traffic": 0, "included_traffic": 1,
            "protection": {"delete": false, "rebuild": false}, "volumes": [], "load_balancers": [],
            "primary_disk_size": 40, "placement_group": null,
        })
    }
}

fn server_type(name: &str) -> Value {
    json!({"id": 104, "name": name, "description": name, "cores": 2, "memory": 4.0, "disk": 40, "deprecated": false,
        "prices": [], "storage_type": "local", "cpu_type": "shared", "architecture": "x86", "category": "cost_optimized",
        "locations": [], "deprecation": null})
}

impl Model {
    /// Adds a running server with addresses of both families.
    pub(crate) fn add_server(&mut self, project: &str, name: &str) -> Server {
        let (id, number) = self.next_id(Kind::Server);
        let [high, low, ..] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
        let server = Server {
            id,
            name: name.to_owned(),
            status: "running".to_owned(),
            server_type: "cx22".to_owned(),
            location: "fsn1".to_owned(),
            labels: BTreeMap::new(),
            ipv4: Some(Ipv4Addr::new(198, 18, high, low)),
            ipv6: Ipv6Net::new(
                Ipv6Addr::new(
                    0x2001,
                    0xdb8,
                    u16::from_be_bytes([high, low]),
                    0,
                    0,
                    0,
                    0,
                    0,
                ),
                64,
            )
            .ok(),
            private_net: Vec::new(),
        };
        self.servers.insert(
            id,
            Owned {
                project: project.to_owned(),
                object: server.clone(),
            },
        );
        server
    }

    /// Removes a server with its attachments, also from the targets of load balancers.
    pub(crate) fn remove_server(&mut self, id: u64) -> Option<Server> {
        let server = self.servers.remove(&id)?;
        for balancer in self.balancers.values_mut() {
            balancer
                .object
                .targets
                .retain(|target| target.server() != Some(id));
        }
        Some(server.object)
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    let servers =
        of(&model.servers, request).filter(|server| selects(request, &server.name, &server.labels));
    page(request, "servers", servers, Server::json)
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(json!({"server": asked_for(&model.servers, request, "server")?.json()}))
}
