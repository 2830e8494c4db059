//! Droplets as machines of Nodes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use cloud_provider::{
    Error, InstanceMetadata, InstanceState, Instances, LookupRequest, MetadataLevel, Node, Result,
    async_trait,
};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::inventory::{Found, Inventory, Machine, MachineSource, SharedPriority, priority};
use provider_kit::paging::ListResult;
use provider_kit::provider_id::{ProviderIds, number};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::NAME;
use crate::api::Api;

/// Provider IDs of Nodes: `digitalocean://3164444`.
pub(crate) const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<droplet id>",
    valid: |id| number(id).is_some_and(|id| id > 0),
};

/// A droplet, as far as a Node needs it: thousands are kept.
#[derive(Debug, Deserialize)]
#[serde(from = "DropletAnswer")]
pub(crate) struct Droplet {
    id: Box<str>,
    name: Box<str>,
    is_off: bool,
    size: Box<str>,
    region: Box<str>,
    vpc: Option<Box<str>>,
    private: Option<Ipv4Addr>,
    public: Option<Ipv4Addr>,
    public_v6: Option<Ipv6Addr>,
}

#[derive(Deserialize)]
struct DropletAnswer {
    id: u64,
    name: Box<str>,
    status: Box<str>,
    size_slug: Box<str>,
    region: RegionAnswer,
    vpc_uuid: Option<Box<str>>,
    networks: Option<Networks>,
}

#[derive(Deserialize)]
struct RegionAnswer {
    slug: Box<str>,
}

#[derive(Default, Deserialize)]
struct Networks {
    #[serde(default)]
    v4: Vec<NetworkAddress>,
    #[serde(default)]
    v6: Vec<NetworkAddress>,
}

/// An address as text, so that an address that cannot be parsed does not fail the list of all droplets.
#[derive(Deserialize)]
struct NetworkAddress {
    ip_address: Box<str>,
    #[serde(rename = "type")]
    kind: Box<str>,
}

impl From<DropletAnswer> for Droplet {
    fn from(answer: DropletAnswer) -> Self {
        let networks = answer.networks.unwrap_or_default();
        let first = |kind: &str| {
            let of_kind = networks.v4.iter().filter(|address| &*address.kind == kind);
            // Old droplets list the anchor of a reserved address among their private ones, too.
            let mut ips = of_kind
                .filter_map(|address| address.ip_address.parse().ok())
                .collect::<Vec<Ipv4Addr>>();
            ips.sort_by_key(is_anchor);
            ips.into_iter().next()
        };
        let public_v6 = networks
            .v6
            .iter()
            .filter(|address| &*address.kind == "public");
        Self {
            id: answer.id.to_string().into(),
            is_off: &*answer.status == "off",
            private: first("private"),
            public: first("public"),
            public_v6: public_v6
                .filter_map(|address| address.ip_address.parse().ok())
                .next(),
            name: answer.name,
            size: answer.size_slug,
            region: answer.region.slug,
            vpc: answer.vpc_uuid,
        }
    }
}

/// Returns `true` for an address from 10.10.0.0 to 10.19.255.255: the range of the anchor IPs to which DigitalOcean
/// routes reserved IPs.
fn is_anchor(ip: &Ipv4Addr) -> bool {
    matches!(ip.octets(), [10, 10..=19, ..])
}

impl Droplet {
    fn public_addresses(&self) -> impl Iterator<Item = IpAddr> {
        [self.public.map(IpAddr::V4), self.public_v6.map(IpAddr::V6)]
            .into_iter()
            .flatten()
    }

    /// Returns `true` if the droplet has this address. A private address means something only in the region and VPC of the
    /// cluster: droplets of other VPCs may have the same one.
    fn has_address(&self, ip: IpAddr, region: Option<&str>, vpc: Option<&str>) -> bool {
        let is_near = region.is_none_or(|region| region == &*self.region)
            && vpc.is_none_or(|vpc| self.vpc.as_deref() == Some(vpc));
        self.public_addresses().any(|address| address == ip)
            || is_near && self.private.map(IpAddr::V4) == Some(ip)
    }
}

impl Machine for Droplet {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        self.is_off
    }
    /// Returns `true` if the droplet has a private address; without one, it is still being created.
    fn is_settled(&self) -> bool {
        self.private.is_some()
    }
}

#[async_trait]
impl MachineSource for Api {
    type Machine = Droplet;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Droplet>> {
        let call = Call::get("/v2/droplets", &[]);
        self.http
            .list(
                call,
                "droplets",
                shared_priority,
                |droplet| droplet,
                |droplet: &Droplet| droplet.id.clone(),
            )
            .await
    }

    /// Returns `true`: each page contains the total.
    fn lists_prove_absence(&self) -> bool {
        true
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Droplet>> {
        self.http
            .find(
                Call::get("/v2/droplets/{id}", &[id])
                    .inside("droplet")
                    .with_priority(priority),
            )
            .await
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Droplet>> {
        let call = Call::get("/v2/droplets", &[]).query("name", name);
        let shared_priority = SharedPriority::of(priority);
        let id = |droplet: &Droplet| droplet.id.clone();
        Ok(self
            .http
            .list(call, "droplets", &shared_priority, |droplet| droplet, id)
            .await?
            .complete()?
            .into_items())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        IDS.read(provider_id)
    }

    fn metadata(&self, droplet: &Droplet, _node: &Node) -> InstanceMetadata {
        InstanceMetadata {
            provider_id: IDS.write(&droplet.id),
            instance_type: droplet.size.to_string(),
            region: droplet.region.to_string(),
            node_addresses: Addresses::of(&droplet.name)
                .internal(droplet.private.map(IpAddr::V4))
                .external(droplet.public_addresses(), AddressFamily::Dualstack)
                .build(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        "the account of DO_ACCESS_TOKEN".to_owned()
    }
}

/// Machine source for Nodes, by droplets.
pub(crate) struct Droplets {
    pub(crate) inventory: Inventory<Api>,
    pub(crate) api: Api,
    /// The VPC of the cluster, if it is configured.
    pub(crate) vpc: Option<String>,
}

impl Droplets {
    /// Returns the Nodes, each with the provider ID of its droplet if the Node's name is not the name but an address of
    /// a droplet.
    ///
    /// # Errors
    /// *Invalid*, for a Node whose address several droplets have.
    async fn known_by_address(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<Arc<Node>>> {
        let address = |node: &Node| {
            node.provider_id()
                .is_none()
                .then(|| node.name.parse::<IpAddr>().ok())
                .flatten()
        };
        if !nodes.iter().any(|node| address(node).is_some()) {
            return nodes.iter().cloned().map(Ok).collect();
        }
        let Ok(list) = self.inventory.snapshot(priority(request)).await else {
            return nodes.iter().cloned().map(Ok).collect();
        };
        let region = self.api.region().ok();
        let vpc = self.vpc.as_deref();
        let known = |node: &Arc<Node>| {
            let Some(ip) = address(node) else {
                return Ok(Arc::clone(node));
            };
            let found: Vec<_> = list
                .machines()
                .iter()
                .filter(|droplet| droplet.has_address(ip, region, vpc))
                .collect();
            match found.as_slice() {
                [] => Ok(Arc::clone(node)),
                [droplet] => Ok(Arc::new(Node {
                    provider_id: IDS.write(&droplet.id).into(),
                    ..(**node).clone()
                })),
                [first, second, ..] => Err(Error::invalid(format!(
                    "droplets {} ({}) and {} ({}) both have address {ip}; set DO_CLUSTER_VPC_ID to the VPC of the Nodes",
                    first.name, first.id, second.name, second.id
                ))),
            }
        };
        nodes.iter().map(known).collect()
    }

    fn state(
        &self,
        found: Found<Droplet>,
        node: &Node,
        request: LookupRequest,
    ) -> Result<InstanceState> {
        if let Found::Present(droplet) = &found
            && droplet.private.is_none()
            && request.metadata != MetadataLevel::No
        {
            return Err(Error::other(format!(
                "droplet {} ({}) has no private IPv4 address; it may still be starting",
                droplet.name, droplet.id
            )));
        }
        Ok(self.inventory.state_of(found, node, request))
    }
}

#[async_trait]
impl Instances for Droplets {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let known = self.known_by_address(nodes, request).await;
        let certain: Vec<_> = known
            .iter()
            .filter_map(|node| node.as_ref().ok().cloned())
            .collect();
        let found = self
            .inventory
            .find_all(&certain, request.fresh, priority(request))
            .await;
        let mut found = found.into_iter();
        let state = |(node, known): (&Arc<Node>, Result<Arc<Node>>)| {
            known?;
            let found = found
                .next()
                .unwrap_or_else(|| Err(Error::other("the droplet was not looked up")));
            self.state(found?, node, request)
        };
        nodes.iter().zip(known).map(state).collect()
    }
}
