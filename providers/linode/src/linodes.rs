//! Linodes as machines of Nodes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, Error, InstanceMetadata, InstanceState, Instances, LookupRequest, MetadataLevel,
    Node, Result, async_trait,
};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::inventory::{Found, Inventory, Machine, MachineSource, SharedPriority, priority};
use provider_kit::paging::ListResult;
use provider_kit::provider_id::{ProviderIds, number};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::NAME;
use crate::annotations::HOST_UUID;
use crate::api::Api;
use crate::config::Config;
use crate::vpcs::{VpcAddress, Vpcs, without_length};

/// Provider IDs of Nodes: `linode://12345`.
pub(crate) const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<Linode ID>",
    valid: |id| number(id).is_some_and(|id| id > 0),
};

/// A Linode, as far as a Node needs it: thousands are kept.
#[derive(Debug)]
pub(crate) struct Linode {
    id: Box<str>,
    label: Box<str>,
    is_off: bool,
    kind: Box<str>,
    region: Box<str>,
    host: Box<str>,
    ipv4: Box<[Ipv4Addr]>,
    /// IPv6 address as the API writes it: with its length.
    ipv6: Option<Box<str>>,
    vpc_ipv4: Box<[IpAddr]>,
    vpc_ipv6: Box<[(IpAddr, bool)]>,
}

/// The answer of the API. Addresses are texts, so that an address that cannot be parsed does not fail the list of all
/// Linodes.
#[derive(Deserialize)]
struct LinodeAnswer {
    id: u64,
    label: Box<str>,
    status: Box<str>,
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    region: Box<str>,
    host_uuid: Option<Box<str>>,
    #[serde(default)]
    ipv4: Vec<Box<str>>,
    ipv6: Option<Box<str>>,
}

impl Linode {
    fn new(answer: LinodeAnswer, vpc: &[VpcAddress]) -> Self {
        let vpc_addresses = || {
            vpc.iter()
                .filter(|address| address.linode_id == Some(answer.id))
        };
        Self {
            id: answer.id.to_string().into(),
            vpc_ipv4: vpc_addresses().filter_map(VpcAddress::ipv4).collect(),
            vpc_ipv6: vpc_addresses().flat_map(VpcAddress::ipv6).collect(),
            label: answer.label,
            is_off: ["offline", "shutting_down", "stopped", "billing_suspension"]
                .contains(&&*answer.status),
            kind: answer.kind.unwrap_or_default(),
            region: answer.region,
            host: answer.host_uuid.unwrap_or_default(),
            ipv4: answer
                .ipv4
                .iter()
                .filter_map(|ip| ip.parse().ok())
                .collect(),
            ipv6: answer.ipv6.filter(|ip| !ip.is_empty()),
        }
    }

    /// Returns the UUID of the host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the first private address.
    pub(crate) fn private_ip(&self) -> Option<Ipv4Addr> {
        self.ipv4.iter().copied().find(Ipv4Addr::is_private)
    }

    /// Returns the public IPv6 address, with its length.
    pub(crate) fn ipv6(&self) -> Option<&str> {
        self.ipv6.as_deref()
    }

    fn has_addresses(&self) -> bool {
        !(self.ipv4.is_empty()
            && self.ipv6.is_none()
            && self.vpc_ipv4.is_empty()
            && self.vpc_ipv6.is_empty())
    }

    fn has_public(&self, ip: &str) -> bool {
        ip.parse()
            .is_ok_and(|ip: Ipv4Addr| !ip.is_private() && self.ipv4.contains(&ip))
    }
}

impl Machine for Linode {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.label
    }
    fn is_shut_down(&self) -> bool {
        self.is_off
    }
    fn is_settled(&self) -> bool {
        self.has_addresses()
    }
}

/// Source of Linodes, read from the API.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) api: Api,
    pub(crate) vpcs: Arc<Vpcs>,
    pub(crate) config: Arc<Config>,
}

impl Source {
    async fn vpc_addresses(&self, age: Duration) -> Result<Arc<Vec<VpcAddress>>> {
        match self.config.vpc.vpcs.is_empty() {
            true => Ok(Arc::default()),
            false => self.vpcs.addresses(age).await,
        }
    }

    /// Returns a Linode with its VPC addresses. If the cached list of addresses lacks the Linode, the list is read
    /// again.
    async fn with_vpc(&self, answer: LinodeAnswer) -> Result<Linode> {
        let mut vpc = self.vpc_addresses(self.config.instances_max_age).await?;
        if !self.config.vpc.vpcs.is_empty()
            && !vpc
                .iter()
                .any(|address| address.linode_id == Some(answer.id))
        {
            vpc = self.vpc_addresses(Duration::ZERO).await?;
        }
        Ok(Linode::new(answer, &vpc))
    }

    async fn read(
        &self,
        filter: Option<Value>,
        shared_priority: &SharedPriority,
    ) -> Result<ListResult<Linode>> {
        let call = Call::get("/linode/instances", &[]);
        let vpc = self.vpc_addresses(Duration::ZERO).await?;
        let linode = |answer: LinodeAnswer| Linode::new(answer, &vpc);
        self.api
            .list(call, filter, shared_priority, linode, |linode: &Linode| {
                linode.id.clone()
            })
            .await
    }
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Linode;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Linode>> {
        let filter = self
            .config
            .tag_filter
            .as_ref()
            .map(|tag| json!({"tags": {"+contains": tag}}));
        self.read(filter, shared_priority).await
    }

    /// Returns `false` with a tag filter: each page contains the total, but a Linode without the tag exists, too.
    fn lists_prove_absence(&self) -> bool {
        self.config.tag_filter.is_none()
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Linode>> {
        let call = Call::get("/linode/instances/{id}", &[id]).with_priority(priority);
        match self.api.http.find(call).await? {
            None => Ok(None),
            Some(answer) => self.with_vpc(answer).await.map(Some),
        }
    }

    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<Linode>> {
        let call = Call::get("/linode/instances/{id}", &[id]).with_priority(priority);
        Ok(self
            .api
            .http
            .find(call)
            .await?
            .map(|answer| Linode::new(answer, &[])))
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Linode>> {
        let found = self
            .read(Some(json!({"label": name})), &SharedPriority::of(priority))
            .await?;
        Ok(found
            .complete()?
            .into_items()
            .into_iter()
            .filter(|linode| &*linode.label == name)
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        IDS.read(provider_id)
    }

    fn metadata(&self, linode: &Linode, node: &Node) -> InstanceMetadata {
        let mut addresses = Addresses::of(&linode.label).internal(linode.vpc_ipv4.iter().copied());
        for ip in &linode.ipv4 {
            let is_external = self
                .config
                .external_subnet
                .is_some_and(|range| range.contains(&IpAddr::V4(*ip)));
            addresses = match ip.is_private() && !is_external {
                true => addresses.internal([IpAddr::V4(*ip)]),
                false => addresses.external([IpAddr::V4(*ip)], AddressFamily::Dualstack),
            };
        }
        for (ip, is_public) in &linode.vpc_ipv6 {
            addresses = match is_public {
                true => addresses.external([*ip], AddressFamily::Dualstack),
                false => addresses.internal([*ip]),
            };
        }
        let known = |kind: &AddressType| *kind == AddressType::InternalIP;
        let kubelets = node
            .addresses
            .iter()
            .filter(|address| known(&address.kind))
            .filter_map(|address| address.address.parse().ok());
        let public = linode.ipv6().and_then(without_length);
        let host =
            (!linode.host.is_empty()).then(|| (HOST_UUID.to_owned(), linode.host.to_string()));
        InstanceMetadata {
            provider_id: IDS.write(&linode.id),
            instance_type: linode.kind.to_string(),
            region: linode.region.to_string(),
            node_addresses: addresses
                .external(public, AddressFamily::Dualstack)
                .internal(kubelets)
                .build(),
            additional_labels: host.into_iter().collect(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        "the account of LINODE_API_TOKEN".to_owned()
    }
}

/// Machine source for Nodes, by Linodes.
pub(crate) struct Linodes(pub(crate) Inventory<Source>);

impl Linodes {
    /// Looks up Nodes by a public address if their name is not a Linode's label.
    async fn known_by_address(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Arc<Node>> {
        let mut nodes = nodes.to_vec();
        if nodes
            .iter()
            .any(|node| node.provider_id().is_none() && !node.addresses.is_empty())
            && let Ok(list) = self.0.snapshot(priority(request)).await
        {
            for node in nodes.iter_mut().filter(|node| node.provider_id().is_none()) {
                if list.by_name(&node.name).len() > 0 {
                    continue;
                }
                let is_its_linode = |linode: &&Linode| {
                    node.addresses
                        .iter()
                        .any(|address| linode.has_public(&address.address))
                };
                if let Some(linode) = list.machines().iter().find(is_its_linode) {
                    *node = Arc::new(Node {
                        provider_id: IDS.write(&linode.id).into(),
                        ..(**node).clone()
                    });
                }
            }
        }
        nodes
    }

    fn state(
        &self,
        found: Found<Linode>,
        node: &Node,
        request: LookupRequest,
    ) -> Result<InstanceState> {
        if let Found::Present(linode) = &found
            && !linode.has_addresses()
            && request.metadata != MetadataLevel::No
        {
            return Err(Error::other(format!(
                "Linode {} ({}) has no IP addresses",
                linode.label, linode.id
            )));
        }
        Ok(self.0.state_of(found, node, request))
    }
}

#[async_trait]
impl Instances for Linodes {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let known = self.known_by_address(nodes, request).await;
        let found = self
            .0
            .find_all(&known, request.fresh, priority(request))
            .await;
        nodes
            .iter()
            .zip(found)
            .map(|(node, found)| self.state(found?, node, request))
            .collect()
    }
}
