//! The addresses that servers have through their ports.

use std::collections::{HashMap, HashSet};

use cloud_provider::Result;
use provider_kit::inventory::SharedPriority;
use provider_kit::transport::{Call, Priority};

use crate::ports::{Port, Ports, VALUES_AT_ONCE};
use crate::services::Services;

/// The addresses of one server's ports.
#[derive(Debug, Default)]
pub(super) struct Attached {
    /// Addresses of its active ports, in their order.
    pub(super) ips: Vec<Box<str>>,
    /// Addresses that its ports carry for other networks, each with the network's name.
    pub(super) trunk: Vec<(String, Box<str>)>,
}

/// The addresses of servers' ports, by the servers' IDs.
pub(super) type Attachments = HashMap<Box<str>, Attached>;

/// Reads the addresses of all servers of the project.
pub(super) async fn of_all(
    services: &Services,
    ports: &Ports,
    shared_priority: &SharedPriority,
) -> Result<Attachments> {
    let ports = ports.read_all(shared_priority).await?;
    attachments(services, &ports, &ports).await
}

/// Reads the addresses of one server.
pub(super) async fn of_one(
    services: &Services,
    ports: &Ports,
    server: &str,
    priority: Priority,
) -> Result<Attachments> {
    let its = ports.of(server, priority).await?;
    let sub_ports: Vec<_> = its
        .iter()
        .flat_map(Port::sub_ports)
        .map(str::to_owned)
        .collect();
    let known = ports.with("id", &sub_ports, &[]).await?;
    attachments(services, &its, &known).await
}

/// Returns the addresses of servers by these ports and by their sub-ports, which are searched in `known`. A sub-port
/// that is not found is left out.
async fn attachments(services: &Services, ports: &[Port], known: &[Port]) -> Result<Attachments> {
    let carried: HashSet<&str> = ports.iter().flat_map(Port::sub_ports).collect();
    let carried: HashMap<&str, &Port> = known
        .iter()
        .filter(|port| carried.contains(&*port.id))
        .map(|port| (&*port.id, port))
        .collect();
    let names = network_names(
        services,
        carried.values().map(|port| &*port.network).collect(),
    )
    .await?;
    let mut attachments = Attachments::new();
    for port in ports.iter().filter(|port| !port.device.is_empty()) {
        let its = attachments.entry(port.device.clone()).or_default();
        if port.is_active {
            its.ips
                .extend(port.fixed_ips.iter().map(|fixed_ip| fixed_ip.ip.clone()));
        }
        for id in port.sub_ports() {
            let known = carried
                .get(id)
                .and_then(|port| Some((port, names.get(&*port.network)?)));
            let Some((port, network)) = known else {
                tracing::warn!(
                    port = id,
                    "a sub-port of a trunk is left out: it, or its network, is not shown"
                );
                continue;
            };
            its.trunk.extend(
                port.fixed_ips
                    .iter()
                    .map(|fixed_ip| (network.clone(), fixed_ip.ip.clone())),
            );
        }
    }
    Ok(attachments)
}

async fn network_names(services: &Services, ids: HashSet<&str>) -> Result<HashMap<String, String>> {
    let ids = Vec::from_iter(ids);
    let mut names = HashMap::new();
    for ids in ids.chunks(VALUES_AT_ONCE) {
        let call = Call::get("/networks", &[])
            .query("fields", "id")
            .query("fields", "name");
        let call = ids.iter().fold(call, |call, id| call.query("id", id));
        let found = services
            .texts(&services.network, call, "networks", ["id", "name"])
            .await?;
        names.extend(found.into_iter().map(<(_, _)>::from));
    }
    Ok(names)
}
