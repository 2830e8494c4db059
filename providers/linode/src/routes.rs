//! Routes: ranges of addresses on the VPC interfaces of Linodes.

use std::collections::BTreeSet;

use cloud_provider::{Error, Node, Result, Route, async_trait};
use parking_lot::Mutex;
use provider_kit::inventory::{Found, Inventory, Key, Machine as _};
use provider_kit::keyed_lock::KeyedLock;
use provider_kit::routes::{Change, CloudRoute, IpNet, RouteCloud, Target};
use provider_kit::transport::{Call, Priority};
use serde_json::{Value, json};

use crate::linodes::{IDS, Source};
use crate::vpcs::VpcAddress;

/// The ranges of the VPC interfaces of all Linodes of the cluster.
pub(crate) struct InterfaceRanges {
    linodes: Inventory<Source>,
    /// Changes of one Linode go one after the other: each writes the whole list of its ranges.
    locks: KeyedLock<String>,
    /// IPv6 routes, as the ID of a Linode and a Pod CIDR. They exist only in memory: a Pod CIDR in the Linode's own
    /// range needs no route in the cloud.
    ipv6: Mutex<BTreeSet<(String, String)>>,
}

/// The VPC interface of a Linode, and how its ranges are written.
struct Interface {
    path: Call,
    ranges: Vec<String>,
    has_address: bool,
    is_legacy: bool,
}

impl InterfaceRanges {
    pub(crate) fn new(linodes: Inventory<Source>) -> Self {
        Self {
            linodes,
            locks: KeyedLock::default(),
            ipv6: Mutex::default(),
        }
    }

    fn source(&self) -> &Source {
        self.linodes.source()
    }

    /// Finds the interface in one of the VPCs of the configuration.
    async fn interface(&self, linode: &str) -> Result<Interface> {
        let http = &self.source().api.http;
        let vpcs = self.source().vpcs.configured().await?;
        let is_ours = |id: &Value| vpcs.iter().any(|vpc| Some(vpc.id) == id.as_u64());
        let shown: Value = http
            .read(Call::get("/linode/instances/{id}", &[linode]))
            .await?;
        let texts = |list: &Value, key: Option<&str>| -> Vec<String> {
            let items = list.as_array().into_iter().flatten();
            items
                .filter_map(|object| {
                    key.map_or(object, |key| &object[key])
                        .as_str()
                        .map(str::to_owned)
                })
                .collect()
        };
        if shown["interface_generation"] == "linode" {
            let answer: Value = http
                .read(Call::get("/linode/instances/{id}/interfaces", &[linode]).list())
                .await?;
            // The API description and the vendor's client disagree about the form of this answer, so both forms are
            // accepted.
            let list = answer["interfaces"]
                .as_array()
                .or(answer["data"].as_array());
            let found = list
                .into_iter()
                .flatten()
                .find(|object| is_ours(&object["vpc"]["vpc_id"]));
            let found = found.ok_or_else(|| not_in_vpc(linode))?;
            let ipv4 = &found["vpc"]["ipv4"];
            let id = found["id"].as_u64().unwrap_or_default().to_string();
            return Ok(Interface {
                path: Call::put(
                    "/linode/instances/{id}/interfaces/{interface}",
                    &[linode, &id],
                ),
                ranges: texts(&ipv4["ranges"], Some("range")),
                has_address: ipv4["addresses"]
                    .as_array()
                    .is_some_and(|address| !address.is_empty()),
                is_legacy: false,
            });
        }
        let configs = Call::get("/linode/instances/{id}/configs", &[linode]);
        let configs: Vec<Value> = self
            .source()
            .api
            .all(configs, |api: &Value| api["id"].as_u64())
            .await?;
        let interfaces = configs.iter().flat_map(|config| {
            let all = config["interfaces"].as_array().into_iter().flatten();
            all.map(move |interface| (&config["id"], interface))
        });
        let (config, found) = { interfaces }
            .find(|(_, object)| object["purpose"] == "vpc" && is_ours(&object["vpc_id"]))
            .ok_or_else(|| not_in_vpc(linode))?;
        let [config, id] =
            [config, &found["id"]].map(|id| id.as_u64().unwrap_or_default().to_string());
        Ok(Interface {
            path: Call::put(
                "/linode/instances/{id}/configs/{config}/interfaces/{interface}",
                &[linode, &config, &id],
            ),
            ranges: texts(&found["ip_ranges"], None),
            has_address: found["ipv4"]["vpc"].is_string(),
            is_legacy: true,
        })
    }
}

fn not_in_vpc(linode: &str) -> Error {
    Error::invalid(format!(
        "Linode {linode} has no interface in a VPC of the configuration; attach it to one"
    ))
}

#[async_trait]
impl RouteCloud for InterfaceRanges {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        self.source().vpcs.forget().await;
        let addresses = self
            .source()
            .vpcs
            .addresses(std::time::Duration::ZERO)
            .await?;
        let range = |address: &VpcAddress| {
            Some((
                address.linode_id?.to_string(),
                address.address_range.clone()?,
            ))
        };
        let ipv6 = self.ipv6.lock().clone();
        let route = |(id, destination): (String, String)| CloudRoute {
            name: format!("{id}-{destination}"),
            destination,
            target: Target::Machine {
                id,
                name: String::new(),
            },
            ..CloudRoute::default()
        };
        Ok(addresses
            .iter()
            .filter_map(range)
            .chain(ipv6)
            .map(route)
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        IDS.read(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        _route: &Route,
        _destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let key = node
            .provider_id()
            .map(|id| IDS.read(id))
            .transpose()?
            .map_or(Key::Name(&node.name), Key::Id);
        match self.linodes.find(key, false, Priority::Ordinary).await? {
            Found::Present(linode) => {
                let id = linode.id().to_owned();
                let name = linode.name().to_owned();
                Ok((Vec::new(), Target::Machine { id, name }))
            }
            Found::Gone(_) => Err(Error::other(format!(
                "the Linode of node {:?} does not exist",
                node.name
            ))),
        }
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let (linode, destination) = match &route.target {
            Target::Machine { id, .. } => (id.clone(), route.destination.clone()),
            _ => {
                let id = route.name.split('-').next().unwrap_or_default();
                (id.to_owned(), route.destination.clone())
            }
        };
        if destination.contains(':') {
            let mut known = self.ipv6.lock();
            let entry = (linode, destination);
            if change == Change::Add {
                known.insert(entry)
            } else {
                known.remove(&entry)
            };
            return Ok(());
        }
        let _lock = self.locks.lock(linode.clone()).await;
        let Interface {
            path,
            mut ranges,
            has_address,
            is_legacy,
        } = self.interface(&linode).await?;
        let is_there = ranges.contains(&destination);
        match change {
            Change::Add if is_there => return Ok(()),
            Change::Remove if !is_there => return Ok(()),
            Change::Add if !has_address => {
                return Err(Error::invalid(format!(
                    "the VPC interface of Linode {linode} has no IPv4 address"
                )));
            }
            Change::Add => ranges.push(destination),
            Change::Remove => ranges.retain(|range| *range != destination),
        }
        let body = match is_legacy {
            true => json!({ "ip_ranges": ranges }),
            false => {
                let ranges: Vec<_> = ranges
                    .iter()
                    .map(|range| json!({ "range": range }))
                    .collect();
                json!({"vpc": {"ipv4": {"ranges": ranges}}})
            }
        };
        self.source().api.http.send(path.json(&body)).await?;
        self.source().vpcs.forget().await;
        Ok(())
    }
}
