//! Nodes of Fargate: a network interface stands for each.

use std::collections::HashMap;

use aws_protocol::Query;
use cloud_provider::{Error, Result};
use provider_kit::inventory::SharedPriority;
use provider_kit::transport::Priority;

use crate::addresses::Named;
use crate::api::{Api, PAGE};
use crate::instances::{Instance, InterfaceAnswer};

/// Prefix of the IDs of Fargate's Nodes.
pub(crate) const PREFIX: &str = "fargate-";

/// Returns the address in an ID: of `fargate-192.168.1.2`, or of `fargate-ip-192-168-1-2.us-west-2.compute.internal`.
pub(crate) fn address(id: &str) -> Option<String> {
    let rest = id.strip_prefix(PREFIX)?;
    let Some(name) = rest.strip_prefix("ip-") else { return Some(rest.to_owned()) };
    Some(name.split('.').next().unwrap_or(name).replace('-', "."))
}

/// Reads the interfaces of these Nodes with one request.
pub(crate) async fn by_ids(api: &Api, ids: &[String], priority: Priority) -> Vec<Result<Option<Instance>>> {
    let interfaces = match interfaces(api, ids, priority).await {
        Ok(interfaces) => interfaces,
        Err(error) => return ids.iter().map(|_| Err(error.clone())).collect(),
    };
    let answer = |id: &String| match interfaces.get(&address(id).unwrap_or_default()).map_or(&[][..], Vec::as_slice) {
        [] => Ok(None),
        [one] => Ok(Some(instance(id, one))),
        several => {
            let text =
                format!("{} network interfaces have the address of Node {id}; detach all but one", several.len());
            Err(Error::invalid(text))
        }
    };
    ids.iter().map(answer).collect()
}

async fn interfaces(api: &Api, ids: &[String], priority: Priority) -> Result<HashMap<String, Vec<InterfaceAnswer>>> {
    let query = Query::new("DescribeNetworkInterfaces").filter("attachment.status", ["attached"]);
    let query = query.filter("vpc-id", [api.identity().await?.vpc.clone()]);
    let query = query.filter("private-ip-address", ids.iter().filter_map(|id| address(id))).page(PAGE);
    let (keep, key) = (|it: InterfaceAnswer| it, |it: &InterfaceAnswer| it.network_interface_id.clone());
    let found = api.aws.ec2.list(query, "networkInterfaceSet", &SharedPriority::of(priority), keep, key).await?;
    let mut by_address: HashMap<String, Vec<_>> = HashMap::new();
    for interface in found.complete()?.into_items() {
        by_address.entry(interface.private_ip_address.to_string()).or_default().push(interface);
    }
    Ok(by_address)
}

fn instance(id: &str, interface: &InterfaceAnswer) -> Instance {
    let mut odd_address = None;
    Instance {
        id: id.into(),
        state: "running".into(),
        zone: interface.availability_zone.clone(),
        names: Named { private_dns: interface.private_dns_name.clone(), ..Named::default() },
        interfaces: [interface.read(&mut odd_address)].into(),
        odd_address,
        ..Instance::default()
    }
}
