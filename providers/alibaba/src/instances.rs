//! ECS instances behind Nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, CompleteListing, Error, InstanceMetadata, InstanceState, Instances, LookupRequest,
    MetadataLevel, Node, NodeAddress, Result, async_trait,
};
use futures::future::{join, join_all};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::{Found, Inventory, Machine, MachineSource, SharedPriority, priority};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{Api, ECS, Query, wire};
use crate::lingjun::{self, is_lingjun};
use crate::{ALIAS, NAME};

/// IDs of one request, and instances of one page.
pub(crate) const AT_ONCE: usize = 100;
/// Time for which single reads wait for others, to share a request.
const WINDOW: Duration = Duration::from_millis(20);
/// Labels of Nodes that are not managed at all.
const EXCLUDED: [&str; 3] = [
    "service.alibabacloud.com/exclude-node",
    "service.beta.kubernetes.io/exclude-node",
    "alibabacloud.com/lingjun-tianwen-environment",
];
/// The annotation by which the kubelet chooses the address of its Node.
const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";
const LABELS: &str = "node.alibabacloud.com/";
const NODE_POOL: &str = "ack.alibabacloud.com/nodepool-id";

wire! {
    /// An instance as ECS describes it.
    InstanceAnswer {
        instance_id: Box<str>, instance_name: Box<str>, instance_type: Box<str>, region_id: Box<str>, zone_id: Box<str>,
        status: Box<str>, instance_charge_type: Box<str>, spot_strategy: Box<str>, public_ip_address: Ips,
        inner_ip_address: Ips, eip_address: Eip, vpc_attributes: VpcAttributes, network_interfaces: Interfaces,
        tags: Tags,
    }
    Ips { ip_address: Vec<IpAddr> }
    Eip { ip_address: Box<str> }
    VpcAttributes { private_ip_address: Ips }
    Interfaces { network_interface: Vec<Interface> }
    Interface { network_interface_id: Box<str>, r#type: Box<str>, ipv6_sets: Ipv6Sets }
    Ipv6Sets { ipv6_set: Vec<Ipv6Set> }
    Ipv6Set { ipv6_address: Option<IpAddr> }
    Tags { tag: Vec<Tag> }
    /// A tag, as ECS and SLB write it.
    Tag {
        #[serde(alias = "Key")] tag_key: String,
        #[serde(alias = "Value")] tag_value: String,
    }
}

/// An instance. Thousands are kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instance {
    /// Region and ID, as in provider IDs: `<region>.<instance>`.
    id: Box<str>,
    name: Box<str>,
    kind: Box<str>,
    zone: Box<str>,
    status: Box<str>,
    labels: Box<[(&'static str, Box<str>)]>,
    public: Box<[IpAddr]>,
    pub(crate) private: Box<[IpAddr]>,
    /// IPv6 addresses of the primary network interface.
    ipv6: Box<[IpAddr]>,
    /// The primary network interface.
    pub(crate) interface: Box<str>,
}

impl From<InstanceAnswer> for Instance {
    fn from(object: InstanceAnswer) -> Self {
        let interfaces = object.network_interfaces.network_interface;
        let primary = interfaces
            .iter()
            .find(|interface| &*interface.r#type == "Primary")
            .or(interfaces.first());
        let pool = object
            .tags
            .tag
            .into_iter()
            .find(|tag| tag.tag_key == NODE_POOL)
            .map(|tag| tag.tag_value);
        let labels = [
            ("instance-charge-type", object.instance_charge_type),
            ("spot-strategy", object.spot_strategy),
            ("nodepool-id", pool.unwrap_or_default().into()),
        ];
        let eip = object.eip_address.ip_address.parse().ok();
        let ipv6 = primary
            .iter()
            .flat_map(|interface| &interface.ipv6_sets.ipv6_set)
            .filter_map(|ipv6_set| ipv6_set.ipv6_address);
        Self {
            ipv6: ipv6.collect(),
            interface: primary
                .map(|interface| interface.network_interface_id.clone())
                .unwrap_or_default(),
            id: format!("{}.{}", object.region_id, object.instance_id).into(),
            name: object.instance_name,
            kind: object.instance_type,
            zone: object.zone_id,
            status: object.status,
            labels: labels
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect(),
            public: object
                .public_ip_address
                .ip_address
                .into_iter()
                .chain(eip)
                .collect(),
            private: object
                .inner_ip_address
                .ip_address
                .into_iter()
                .chain(object.vpc_attributes.private_ip_address.ip_address)
                .collect(),
        }
    }
}

impl Machine for Instance {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        &*self.status == "Stopped"
    }
    fn is_settled(&self) -> bool {
        &*self.status != "Pending"
    }
}

impl Instance {
    /// Returns the ID of the instance without its region.
    pub(crate) fn instance_id(&self) -> &str {
        parts(&self.id).1
    }
}

/// Returns the region and the instance ID of `<region>.<instance>`.
fn parts(id: &str) -> (&str, &str) {
    id.split_once('.').unwrap_or(("", id))
}

/// Returns the instance ID in a provider ID: `<region>.<instance>`, with or without `alicloud://`.
///
/// # Errors
/// *Invalid*, naming the form.
pub(crate) fn machine_id(provider_id: &str) -> Result<&str> {
    regional_id(provider_id).map(|id| parts(id).1)
}

/// Returns the part `<region>.<instance>` of a provider ID.
///
/// # Errors
/// *Invalid*, naming the form.
fn regional_id(provider_id: &str) -> Result<&str> {
    let rest = match provider_id.split_once("://") {
        Some((ALIAS | NAME, rest)) => Some(rest),
        Some(_) => None,
        None => Some(provider_id),
    };
    let id = rest.and_then(|text| {
        let (region, more) = text.split_once('.')?;
        let instance = more.split('.').next()?;
        (!region.is_empty() && !instance.is_empty())
            .then(|| &text[..region.len() + 1 + instance.len()])
    });
    id.ok_or_else(|| {
        Error::invalid(format!(
            "provider ID {provider_id:?} is not of the form <region>.<instance ID>"
        ))
    })
}

/// Returns the reason why a Node is not managed, if there is one.
pub(crate) fn exclusion(node: &Node) -> Option<String> {
    let label = EXCLUDED
        .into_iter()
        .find(|key| node.labels.get(key).is_some());
    label.map(|key| format!("Node {} has the label {key} and is not managed", node.name))
}

/// Reads by priority and region.
type Batches = Coalescer<(Priority, String), String, Option<Instance>>;

/// Source of instances, read from ECS.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) api: Api,
    batches: Arc<Batches>,
}

impl Source {
    pub(crate) fn new(api: Api) -> Self {
        let of_batches = api.clone();
        let batches = Coalescer::answering_each(
            move |(priority, region): (Priority, String), ids: Vec<String>| {
                let api = of_batches.clone();
                async move {
                    let mut answers = Vec::with_capacity(ids.len());
                    for ids in ids.chunks(AT_ONCE) {
                        answers.extend(by_ids(&api, &region, ids, priority).await);
                    }
                    answers
                }
            },
        );
        Self {
            api,
            batches: Arc::new(batches),
        }
    }
}

async fn describe(
    api: &Api,
    query: Query,
    shared: &SharedPriority,
) -> Result<ListResult<Instance>> {
    let id = |instance: &InstanceAnswer| instance.instance_id.clone();
    let found = api
        .tokens(
            query,
            ("MaxResults", AT_ONCE),
            "/Instances/Instance",
            shared,
            id,
        )
        .await?;
    Ok(found.flat_map(|instance| [Instance::from(instance)]))
}

/// Reads these instances of a region with one request. ECS leaves out those that do not exist.
async fn by_ids(
    api: &Api,
    region: &str,
    ids: &[String],
    priority: Priority,
) -> Vec<Result<Option<Instance>>> {
    let list: Vec<_> = ids.iter().map(|id| parts(id).1).collect();
    let list = serde_json::to_string(&list).unwrap_or_default();
    let query = Query::new(ECS, "DescribeInstances")
        .of_region(region)
        .set("InstanceIds", list);
    let found = describe(api, query, &SharedPriority::of(priority))
        .await
        .and_then(ListResult::complete);
    let found = found.map(CompleteListing::into_items);
    ids.iter()
        .map(|id| match &found {
            Ok(all) => Ok(all.iter().find(|instance| *instance.id == **id).cloned()),
            Err(error) => Err(error.clone()),
        })
        .collect()
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Instance;

    /// Lists the instances of the cluster. An instance without the cluster's tag is read by its ID.
    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        let query =
            Query::new(ECS, "DescribeInstances").set("VpcId", self.api.metadata.vpc().await?);
        let query = query.set(
            "Tag",
            serde_json::json!([{"Key": self.api.config.cluster_tag}]),
        );
        describe(&self.api, query, shared_priority).await
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let region = parts(id).0.to_owned();
        self.batches
            .join_at((priority, region), id.to_owned(), |_| {
                Instant::now() + WINDOW
            })
            .await
    }

    fn concurrent_reads(&self) -> usize {
        AT_ONCE
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        let query =
            Query::new(ECS, "DescribeInstances").set("VpcId", self.api.metadata.vpc().await?);
        let query = query.set("InstanceName", name);
        let found = describe(&self.api, query, &SharedPriority::of(priority)).await?;
        Ok(found
            .complete()?
            .into_items()
            .into_iter()
            .filter(|instance| &*instance.name == name)
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        regional_id(provider_id)
    }

    fn metadata(&self, instance: &Instance, _node: &Node) -> InstanceMetadata {
        let public = instance.public.iter().copied();
        let addresses = Addresses::default().external(public, AddressFamily::Dualstack);
        let ipv6 = instance
            .ipv6
            .iter()
            .filter(|_| self.api.config.has_dual_stack);
        let internal = instance.private.iter().chain(ipv6).copied();
        let labels = instance
            .labels
            .iter()
            .map(|(key, value)| (format!("{LABELS}{key}"), value.to_string()));
        InstanceMetadata {
            provider_id: instance.id.to_string(),
            instance_type: instance.kind.to_string(),
            zone: instance.zone.to_string(),
            region: parts(&instance.id).0.to_owned(),
            node_addresses: addresses.internal(internal).build(),
            additional_labels: labels.collect::<BTreeMap<_, _>>(),
        }
    }

    fn place(&self) -> String {
        format!("ECS, cluster {:?}", self.api.config.cluster)
    }
}

/// Look-ups of the instances behind Nodes.
pub(crate) struct Nodes(pub(crate) Inventory<Source>);

impl Nodes {
    /// Gives Nodes without a provider ID that of the instance with their internal address. Only a Node without an
    /// internal address is looked up by its name, which need not be that of its instance.
    ///
    /// # Errors
    /// The error of reading the instances; *other*, unless exactly one instance has the address. A missing tag of the
    /// cluster is no proof that the instance does not exist.
    async fn known_by_address(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<Arc<Node>>> {
        let is_known =
            |node: &Node| node.provider_id().is_some() || internal_addresses(node).is_empty();
        if nodes.iter().all(|node| is_known(node)) {
            return nodes.iter().cloned().map(Ok).collect();
        }
        let list = self.0.snapshot(priority(request)).await;
        let known = |node: &Arc<Node>| {
            if is_known(node) {
                return Ok(Arc::clone(node));
            }
            let list = list.as_ref().map_err(Clone::clone)?;
            let ips = internal_addresses(node);
            let found: Vec<_> = list
                .machines()
                .iter()
                .filter(|instance| instance.private.iter().any(|ip| ips.contains(ip)))
                .collect();
            match (&found[..], list.partial_reason()) {
                ([it], _) => Ok(Arc::new(Node {
                    provider_id: (*it.id).into(),
                    ..(**node).clone()
                })),
                (_, Some(reason)) => Err(reason.clone()),
                _ => Err(Error::other(format!(
                    "Node {} has no provider ID, and {} instances have its internal address {} and the tag {}; tag its \
                     instance, or start the kubelet with the provider ID",
                    node.name,
                    found.len(),
                    ips.iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(" or "),
                    self.0.source().api.config.cluster_tag
                ))),
            }
        };
        nodes.iter().map(known).collect()
    }

    async fn of_ecs(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let known = self.known_by_address(nodes, request).await;
        let asked: Vec<_> = known.iter().flatten().cloned().collect();
        let mut found = self
            .0
            .find_all(&asked, request.fresh, priority(request))
            .await
            .into_iter();
        let state = |(node, known): (&Arc<Node>, Result<_>)| {
            let found = known.and_then(|_| found.next().unwrap_or_else(no_answer))?;
            self.state(found, node, request)
        };
        nodes.iter().zip(known).map(state).collect()
    }

    fn state(
        &self,
        found: Found<Instance>,
        node: &Node,
        request: LookupRequest,
    ) -> Result<InstanceState> {
        let mut state = self.0.state_of(found, node, request);
        let chosen = node
            .annotations
            .get(PROVIDED_IP)
            .filter(|_| request.metadata != MetadataLevel::No);
        if let (
            Some(ip),
            InstanceState::Present {
                metadata: Some(metadata),
                ..
            },
        ) = (chosen, &mut state)
        {
            choose(&mut metadata.node_addresses, ip, &node.name)?;
        }
        Ok(state)
    }
}

fn internal_addresses(node: &Node) -> Vec<IpAddr> {
    let all = node
        .addresses
        .iter()
        .filter(|address| address.kind == AddressType::InternalIP);
    all.filter_map(|address| address.address.parse().ok())
        .collect()
}

/// Puts the address that the kubelet chose first.
fn choose(addresses: &mut [NodeAddress], ip: &str, node: &str) -> Result<()> {
    let at = addresses.iter().position(|address| &*address.address == ip);
    let at = at.ok_or_else(|| {
        let known: Vec<_> = addresses.iter().map(|address| &*address.address).collect();
        Error::invalid(format!(
            "annotation {PROVIDED_IP} of Node {node}: {ip:?} is no address of its instance; it has {}",
            known.join(", ")
        ))
    })?;
    addresses[..=at].rotate_right(1);
    Ok(())
}

#[async_trait]
impl Instances for Nodes {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let is_managed = |node: &&Arc<Node>| exclusion(node).is_none();
        let (lingjun, ecs): (Vec<_>, Vec<_>) = nodes
            .iter()
            .filter(is_managed)
            .cloned()
            .partition(|node| is_lingjun(node));
        let api = &self.0.source().api;
        let lingjun = join_all(
            lingjun
                .iter()
                .map(|node| lingjun::state(api, node, request)),
        );
        let (lingjun, ecs) = join(lingjun, self.of_ecs(&ecs, request)).await;
        let mut lingjun = lingjun.into_iter();
        let mut ecs = ecs.into_iter();
        let state = |node: &Arc<Node>| match exclusion(node) {
            Some(reason) => Err(Error::invalid(reason)),
            None => if is_lingjun(node) {
                lingjun.next()
            } else {
                ecs.next()
            }
            .unwrap_or_else(no_answer),
        };
        nodes.iter().map(state).collect()
    }
}

fn no_answer<T>() -> Result<T> {
    Err(Error::other("a look-up returned no answer for a Node"))
}

/// Switches the source and destination check of the primary interfaces off: routes of the VPC need that.
pub(crate) async fn disable_checks(api: &Api, interfaces: &[String]) -> Result<()> {
    let query = Query::new(ECS, "DescribeNetworkInterfaces").set("NetworkInterfaceId", interfaces);
    let answer: Value = api.read(query.set("MaxResults", 500)).await?;
    let all = answer["NetworkInterfaceSets"]["NetworkInterfaceSet"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for entry in all
        .iter()
        .filter(|object| object["SourceDestCheck"] == true)
    {
        let query =
            Query::new(ECS, "ModifyNetworkInterfaceAttribute").set("SourceDestCheck", false);
        api.change(query.set("NetworkInterfaceId", &entry["NetworkInterfaceId"]))
            .await?;
    }
    Ok(())
}
