//! Hosts as machines of Nodes.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{
    AddressType, Error, InstanceMetadata, InstanceState, Instances, LookupRequest, MetadataLevel,
    Node, NodeAddress, Result, async_trait,
};
use futures::{StreamExt, TryStreamExt, stream};
use provider_kit::inventory::{Found, Inventory, Machine, MachineSource, SharedPriority, priority};
use provider_kit::paging::ListResult;
use provider_kit::provider_id::ProviderIds;
use provider_kit::transport::Priority;
use serde::Deserialize;
use serde_json::Value;

use crate::NAME;
use crate::api::{Api, Links};
use crate::config::Config;

/// Provider IDs of Nodes: `rancher://7d9d…`, with the UUID of the host.
pub(crate) const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<UUID of the host>",
    valid: |id| {
        !id.is_empty()
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    },
};

/// Filters of lists of hosts.
const ALL: [(&str, &str); 2] = [("removed_null", "1"), ("include", "ipAddresses")];

/// Number of hosts whose addresses are read at the same time, if lists do not include them.
const CONCURRENT: usize = 8;

/// A host, as far as a Node needs it: thousands are kept.
#[derive(Debug)]
pub(crate) struct Host {
    uuid: Box<str>,
    hostname: Box<str>,
    is_off: bool,
    is_removed: bool,
    instance_type: Box<str>,
    zone: Box<str>,
    region: Box<str>,
    addresses: Box<[IpAddr]>,
}

/// The answer of the API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostAnswer {
    #[serde(flatten)]
    resource: Links,
    uuid: Box<str>,
    hostname: Option<Box<str>>,
    state: Option<Box<str>>,
    agent_state: Option<Box<str>>,
    driver: Option<Box<str>>,
    labels: Option<BTreeMap<String, Value>>,
    /// The addresses, if the list includes them.
    ip_addresses: Option<Vec<IpAddress>>,
}

#[derive(Clone, Deserialize)]
struct IpAddress {
    address: Option<String>,
}

impl Machine for Host {
    fn id(&self) -> &str {
        &self.uuid
    }
    fn name(&self) -> &str {
        &self.hostname
    }
    fn is_shut_down(&self) -> bool {
        self.is_off
    }
    /// Returns `false` for a host without addresses: its agent is registering, or the list does not include addresses.
    fn is_settled(&self) -> bool {
        !self.addresses.is_empty()
    }
}

/// Returns `true` if a host has the name of a Node, regardless of case. If only one of the names has a domain, the
/// domain does not count.
fn is_named(hostname: &str, node: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    match hostname.contains('.') == node.contains('.') {
        true => hostname.eq_ignore_ascii_case(node),
        false => first(hostname).eq_ignore_ascii_case(&first(node)),
    }
}

/// Source of hosts, read from the API.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) api: Api,
    pub(crate) config: Arc<Config>,
}

impl Source {
    fn host(&self, answer: HostAnswer) -> Host {
        let is_any =
            |state: Option<&str>, all: &[&str]| state.is_some_and(|state| all.contains(&state));
        let state = answer.state.as_deref();
        let label = |key: &str| {
            answer
                .labels
                .as_ref()
                .and_then(|all| all.get(key)?.as_str())
                .unwrap_or_default()
                .into()
        };
        let addresses = answer
            .ip_addresses
            .iter()
            .flatten()
            .filter_map(|address| address.address.as_ref()?.parse().ok());
        Host {
            is_off: is_any(state, &["inactive", "deactivating"])
                || is_any(answer.agent_state.as_deref(), &["disconnected"]),
            is_removed: is_any(state, &["removing", "removed", "purging", "purged"]),
            instance_type: match &answer.driver {
                Some(driver) if self.config.types_are_drivers => driver.clone(),
                _ => NAME.into(),
            },
            zone: label(&self.config.zone_label),
            region: label(&self.config.region_label),
            addresses: addresses.collect(),
            hostname: answer.hostname.unwrap_or_default(),
            uuid: answer.uuid,
        }
    }

    /// Reads hosts with their addresses. Addresses that the list does not include are read by the link of each host.
    async fn read(
        &self,
        filter: Option<(&str, &str)>,
        shared_priority: &SharedPriority,
    ) -> Result<ListResult<Host>> {
        let filters: Vec<_> = ALL.into_iter().chain(filter).collect();
        let key = |host: &HostAnswer| host.uuid.clone();
        let list = self
            .api
            .list(
                "host",
                &filters,
                shared_priority,
                |host: HostAnswer| host,
                key,
            )
            .await?;
        let has_none = |host: &&HostAnswer| host.ip_addresses.as_ref().is_none_or(Vec::is_empty);
        let linked = list
            .items()
            .iter()
            .filter(has_none)
            .map(async |host: &HostAnswer| {
                let key = |address: &IpAddress| address.address.clone();
                // A host that is being removed, or that never had an agent, keeps no other one from being read.
                if !host.resource.has_link("ipAddresses") {
                    return Ok((host.uuid.clone(), Vec::new()));
                }
                match self
                    .api
                    .linked(&host.resource, "ipAddresses", shared_priority, key)
                    .await
                {
                    Err(error) if error.is_not_found() => Ok((host.uuid.clone(), Vec::new())),
                    read => Ok::<_, Error>((host.uuid.clone(), read?)),
                }
            });
        let linked: Vec<_> = linked.collect();
        let linked: HashMap<_, _> = stream::iter(linked)
            .buffer_unordered(CONCURRENT)
            .try_collect()
            .await?;
        let host = |mut answer: HostAnswer| {
            answer.ip_addresses = linked.get(&answer.uuid).cloned().or(answer.ip_addresses);
            Some(self.host(answer)).filter(|host| !host.is_removed)
        };
        Ok(list.flat_map(host))
    }
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Host;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Host>> {
        self.read(None, shared_priority).await
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Host>> {
        let found = self
            .read(Some(("uuid", id)), &SharedPriority::of(priority))
            .await?
            .complete()?;
        Ok(found
            .into_items()
            .into_iter()
            .find(|host| *host.uuid == *id))
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Host>> {
        let all = self
            .read(None, &SharedPriority::of(priority))
            .await?
            .complete()?;
        Ok(all
            .into_items()
            .into_iter()
            .filter(|host| is_named(&host.hostname, name))
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        IDS.read(provider_id)
    }

    fn metadata(&self, host: &Host, _: &Node) -> InstanceMetadata {
        let both = |ip: &IpAddr| {
            [AddressType::ExternalIP, AddressType::InternalIP]
                .map(|address_type| NodeAddress::new(address_type, &ip.to_string()))
        };
        let name = NodeAddress::new(AddressType::Hostname, &host.hostname);
        InstanceMetadata {
            provider_id: IDS.write(&host.uuid),
            instance_type: host.instance_type.to_string(),
            zone: host.zone.to_string(),
            region: host.region.to_string(),
            node_addresses: host.addresses.iter().flat_map(both).chain([name]).collect(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        format!(
            "the environment of the API key, at {}",
            self.api.http.base()
        )
    }
}

/// Machines of Nodes: hosts, by UUID or by name.
pub(crate) struct Hosts(pub(crate) Inventory<Source>);

impl Hosts {
    /// Returns the Nodes with the provider IDs of the hosts that have their names; an error for a name that several
    /// hosts have.
    async fn known_by_name(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<Arc<Node>>> {
        let is_new = |node: &Arc<Node>| node.provider_id().is_none();
        let list = match nodes.iter().any(is_new) {
            true => self.0.snapshot(priority(request)).await.ok(),
            false => None,
        };
        let known = |node: &Arc<Node>| {
            let hosts = list
                .iter()
                .filter(|_| is_new(node))
                .flat_map(|list| list.machines());
            let mut found = hosts.filter(|host| is_named(&host.hostname, &node.name));
            match (found.next(), found.next()) {
                (Some(host), None) => Ok(Arc::new(Node {
                    provider_id: IDS.write(&host.uuid).into(),
                    ..(**node).clone()
                })),
                (Some(host), Some(other)) => Err(Error::invalid(format!(
                    "Node {}: hosts {} ({}) and {} ({}) both have this name; rename one of them",
                    node.name, host.hostname, host.uuid, other.hostname, other.uuid
                ))),
                (None, _) => Ok(Arc::clone(node)),
            }
        };
        nodes.iter().map(known).collect()
    }

    fn state(
        &self,
        found: Found<Host>,
        node: &Node,
        request: LookupRequest,
    ) -> Result<InstanceState> {
        match &found {
            Found::Present(host) if !host.is_settled() && request.metadata != MetadataLevel::No => {
                Err(Error::other(format!(
                    "host {} ({}) has no IP addresses: its agent is not registered",
                    host.hostname, host.uuid
                )))
            }
            _ => Ok(self.0.state_of(found, node, request)),
        }
    }
}

#[async_trait]
impl Instances for Hosts {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let known = self.known_by_name(nodes, request).await;
        let clear: Vec<_> = known
            .iter()
            .filter_map(|entry| entry.as_ref().ok().cloned())
            .collect();
        let mut found = self
            .0
            .find_all(&clear, request.fresh, priority(request))
            .await
            .into_iter();
        let states = nodes.iter().zip(known).map(|(node, known)| {
            known?;
            let unanswered = || Err(Error::other("a lookup returned no answer for a Node"));
            self.state(found.next().unwrap_or_else(unanswered)?, node, request)
        });
        states.collect()
    }
}
