//! Nodes of Fargate: a network interface stands for each.

use std::collections::HashMap;

use aws_protocol::Query;
use cloud_provider::{Error, Result};
use provider_kit::inventory::SharedPriority;
use provider_kit::transport::Priority;

use crate::api::{Api, PAGE, wire};
use crate::instances::{Instance, Interface, Ipv6Address, Placement, PrivateAddress, State};

/// Prefix of the IDs of Fargate's Nodes.
pub(crate) const PREFIX: &str = "fargate-";

wire! { "camelCase";
    /// A network interface of a Pod on Fargate, as EC2 describes it.
    NetworkInterface {
        network_interface_id: Box<str>, availability_zone: Box<str>, private_ip_address: Box<str>, private_dns_name: Box<str>,
        private_ip_addresses_set: Vec<PrivateAddress>, ipv6_addresses_set: Vec<Ipv6Address>,
    }
}

/// Returns the address in an ID: of `fargate-192.168.1.2`, or of `fargate-ip-192-168-1-2.us-west-2.compute.internal`.
pub(crate) fn address(id: &str) -> Option<String> {
    let rest = id.strip_prefix(PREFIX)?;
    let Some(name) = rest.strip_prefix("ip-") else {
        return Some(rest.to_owned());
    };
    Some(name.split('.').next().unwrap_or(name).replace('-', "."))
}

/// Reads the interfaces of these Nodes with one request.
pub(crate) async fn by_ids(
    api: &Api,
    ids: &[String],
    priority: Priority,
) -> Vec<Result<Option<Instance>>> {
    let interfaces = match interfaces(api, ids, priority).await {
        Ok(interfaces) => interfaces,
        Err(error) => return ids.iter().map(|_| Err(error.clone())).collect(),
    };
    let answer = |id: &String| match interfaces
        .get(&address(id).unwrap_or_default())
        .map_or(&[][..], Vec::as_slice)
    {
        [] => Ok(None),
        [one] => Ok(Some(instance(id, one))),
        several => {
            let text = format!(
                "{} network interfaces have the address of Node {id}; detach all but one",
                several.len()
            );
            Err(Error::invalid(text))
        }
    };
    ids.iter().map(answer).collect()
}

async fn interfaces(
    api: &Api,
    ids: &[String],
    priority: Priority,
) -> Result<HashMap<String, Vec<NetworkInterface>>> {
    let query = Query::new("DescribeNetworkInterfaces").filter("attachment.status", ["attached"]);
    let query = query.filter("vpc-id", [api.identity().await?.vpc.clone()]);
    let query = query
        .filter(
            "private-ip-address",
            ids.iter().filter_map(|id| address(id)),
        )
        .page(PAGE);
    let keep = |network_interface: NetworkInterface| network_interface;
    let key = |network_interface: &NetworkInterface| network_interface.network_interface_id.clone();
    let found = api
        .aws
        .ec2
        .list(
            query,
            "networkInterfaceSet",
            &SharedPriority::of(priority),
            keep,
            key,
        )
        .await?;
    let mut by_address: HashMap<String, Vec<_>> = HashMap::new();
    for interface in found.complete()?.into_items() {
        by_address
            .entry(interface.private_ip_address.to_string())
            .or_default()
            .push(interface);
    }
    Ok(by_address)
}

fn instance(id: &str, interface: &NetworkInterface) -> Instance {
    let mut all = interface.clone();
    // EC2 may show the address outside of the set.
    if all.private_ip_addresses_set.is_empty() && !all.private_ip_address.is_empty() {
        all.private_ip_addresses_set.push(PrivateAddress {
            private_ip_address: all.private_ip_address,
        });
    }
    let NetworkInterface {
        private_ip_addresses_set,
        ipv6_addresses_set,
        ..
    } = all;
    Instance {
        instance_id: id.into(),
        instance_state: State {
            name: "running".into(),
        },
        placement: Placement {
            availability_zone: all.availability_zone,
        },
        private_dns_name: all.private_dns_name,
        network_interface_set: vec![Interface {
            private_ip_addresses_set,
            ipv6_addresses_set,
            ..Interface::default()
        }],
        ..Instance::default()
    }
}
