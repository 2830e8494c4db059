//! Servers, which are the machines of Nodes.

use std::net::IpAddr;

use cloud_provider::{InstanceMetadata, Node, Result, async_trait};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::inventory::{Machine, MachineSource, SharedPriority};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::{Api, IDS};

/// A server, as far as its Node needs it. All servers are kept in memory.
#[derive(Deserialize)]
pub(crate) struct Server {
    id: Box<str>,
    name: Box<str>,
    region: Box<str>,
    plan: Box<str>,
    status: Box<str>,
    public_ip: Option<IpAddr>,
    private_ip: Option<IpAddr>,
}

impl Machine for Server {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        &*self.status == "stopped"
    }
}

#[async_trait]
impl MachineSource for Api {
    type Machine = Server;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Server>> {
        let id = |server: &Server| server.id.clone();
        self.0
            .list(
                Call::get("/v1/servers", &[]),
                "servers",
                shared_priority,
                |server| server,
                id,
            )
            .await
    }

    /// Returns `true`: each page says how many servers there are, so a list that lacks a page is noticed.
    fn lists_prove_absence(&self) -> bool {
        true
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Server>> {
        self.0
            .find(Call::get("/v1/servers/{id}", &[id]).with_priority(priority))
            .await
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Server>> {
        let call = Call::get("/v1/servers", &[])
            .list()
            .query("name", name)
            .inside("servers");
        self.0.read(call.with_priority(priority)).await
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        IDS.read(provider_id)
    }

    fn metadata(&self, server: &Server, _node: &Node) -> InstanceMetadata {
        let addresses = Addresses::of(&server.name).internal(server.private_ip);
        InstanceMetadata {
            provider_id: IDS.write(&server.id),
            instance_type: server.plan.to_string(),
            region: server.region.to_string(),
            node_addresses: addresses
                .external(server.public_ip, AddressFamily::Dualstack)
                .build(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        format!("the account of the token, at {}", self.0.base())
    }
}
