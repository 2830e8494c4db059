//! CVM instances behind Nodes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, CompleteListing, Error, InstanceMetadata, InstanceState, Instances, LookupRequest,
    Node, Result, async_trait,
};
use futures::future::{join_all, try_join_all};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::{Inventory, Machine, MachineSource, SharedPriority, priority};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::action::{Action, CVM};
use crate::api::{Api, PAGE};
use crate::{NAME, TKE_SCHEME};

/// Time for which single reads wait for others, to share a request.
const WINDOW: Duration = Duration::from_millis(20);
/// Values of one filter.
const VALUES: usize = 5;
/// The label with the charge type of the instance.
const CHARGE_LABEL: &str = "cloud.tencent.com/instance-charge-type";
/// States of instances that do not exist any more, or never will.
const GONE: [&str; 2] = ["TERMINATING", "LAUNCH_FAILED"];

/// An instance as CVM describes it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InstanceAnswer {
    instance_id: Box<str>,
    instance_name: Option<Box<str>>,
    host_name: Option<Box<str>>,
    instance_type: Option<Box<str>>,
    instance_charge_type: Option<Box<str>>,
    instance_state: Box<str>,
    restrict_state: Option<Box<str>>,
    placement: Placement,
    virtual_private_cloud: Option<Network>,
    private_ip_addresses: Option<Vec<IpAddr>>,
    public_ip_addresses: Option<Vec<IpAddr>>,
    #[serde(rename = "IPv6Addresses")]
    ipv6_addresses: Option<Vec<IpAddr>>,
    #[serde(rename = "PublicIPv6Addresses")]
    public_ipv6_addresses: Option<Vec<IpAddr>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Placement {
    zone: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Network {
    vpc_id: Box<str>,
}

/// An instance. Thousands are kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instance {
    id: Box<str>,
    name: Box<str>,
    /// The host name, if it is not the name.
    host: Box<str>,
    kind: Box<str>,
    zone: Box<str>,
    charge: Box<str>,
    vpc: Box<str>,
    state: Box<str>,
    is_restricted: bool,
    internal: Box<[IpAddr]>,
    external: Box<[IpAddr]>,
}

impl From<InstanceAnswer> for Instance {
    fn from(instance: InstanceAnswer) -> Self {
        let all = |one: Option<Vec<IpAddr>>, other: Option<Vec<IpAddr>>| {
            one.into_iter().chain(other).flatten().collect::<Box<[_]>>()
        };
        let host = instance
            .host_name
            .filter(|host| Some(host) != instance.instance_name.as_ref());
        Self {
            id: instance.instance_id,
            host: host.unwrap_or_default(),
            name: instance.instance_name.unwrap_or_default(),
            kind: instance.instance_type.unwrap_or_default(),
            zone: instance.placement.zone,
            charge: instance.instance_charge_type.unwrap_or_default(),
            vpc: instance
                .virtual_private_cloud
                .map(|network| network.vpc_id)
                .unwrap_or_default(),
            state: instance.instance_state,
            is_restricted: instance
                .restrict_state
                .is_some_and(|text| !text.is_empty() && &*text != "NORMAL"),
            internal: all(instance.private_ip_addresses, instance.ipv6_addresses),
            external: all(instance.public_ip_addresses, instance.public_ipv6_addresses),
        }
    }
}

impl Instance {
    fn provider_id(&self) -> String {
        format!("{NAME}:///{}/{}", self.zone, self.id)
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
        ["STOPPED", "SHUTDOWN"].contains(&&*self.state) || self.is_restricted
    }
    fn is_settled(&self) -> bool {
        &*self.state != "PENDING" && !self.internal.is_empty()
    }
}

/// Returns the region of a zone: `ap-guangzhou` of `ap-guangzhou-3`.
fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}

/// Returns the region of the zone in a provider ID; `None` if the zone is a number, as kubelets of TKE write it.
fn zone_region(provider_id: &str) -> Option<&str> {
    let zone = provider_id.split_once(":///")?.1.split('/').next()?;
    zone.contains('-').then(|| region_of(zone))
}

/// Returns the instance ID in a provider ID: `tencentcloud:///<zone>/<ID>`, `qcloud:///<zone number>/<ID>`, or the ID
/// alone.
///
/// # Errors
/// *Invalid*, naming the forms.
pub(crate) fn machine_id(provider_id: &str) -> Result<&str> {
    let rest = match provider_id.split_once("://") {
        Some((NAME | TKE_SCHEME, rest)) => match rest.split('/').collect::<Vec<_>>()[..] {
            ["", _, id] => Some(id),
            _ => None,
        },
        Some(_) => None,
        None => Some(provider_id),
    };
    let is_id = |id: &&str| {
        id.strip_prefix("ins-").is_some_and(|text| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    rest.filter(is_id).ok_or_else(|| {
        Error::invalid(format!(
            "provider ID {provider_id:?} is not of the form {NAME}:///<zone>/ins-<ID>"
        ))
    })
}

type Batches = Coalescer<Priority, String, Option<Instance>>;

/// Source of instances, read from CVM.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) api: Api,
    batches: Arc<Batches>,
}

impl Source {
    pub(crate) fn new(api: Api) -> Self {
        let of_batches = api.clone();
        let batches = Coalescer::answering_each(move |priority, ids: Vec<String>| {
            let api = of_batches.clone();
            async move {
                let mut answers = Vec::with_capacity(ids.len());
                for ids in ids.chunks(PAGE) {
                    answers.extend(by_ids(&api, ids, priority).await);
                }
                answers
            }
        });
        Self {
            api,
            batches: Arc::new(batches),
        }
    }

    /// Reads the instances of the VPC that a filter selects.
    async fn filtered(
        &self,
        filter: Option<(&str, &[String])>,
        shared: &SharedPriority,
    ) -> Result<ListResult<Instance>> {
        let vpc = self.api.metadata.vpc().await?;
        let mut filters = vec![json!({"Name": "vpc-id", "Values": [vpc]})];
        filters.extend(filter.map(|(name, values)| json!({"Name": name, "Values": values})));
        describe(
            &self.api,
            Action::new(CVM, "DescribeInstances").set("Filters", filters),
            shared,
        )
        .await
    }

    /// Reads the instances of the VPC with these private addresses.
    async fn by_addresses(&self, ips: &[IpAddr], priority: Priority) -> Result<Vec<Instance>> {
        let ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
        let shared = SharedPriority::of(priority);
        let found = try_join_all(ips.chunks(VALUES).map(async |ips| {
            self.filtered(Some(("private-ip-address", ips)), &shared)
                .await?
                .complete()
        }));
        Ok(found
            .await?
            .into_iter()
            .flat_map(CompleteListing::into_items)
            .collect())
    }
}

async fn describe(
    api: &Api,
    action: Action,
    shared: &SharedPriority,
) -> Result<ListResult<Instance>> {
    let id = |instance: &InstanceAnswer| instance.instance_id.clone();
    let found = api
        .pages(action, ("InstanceSet", false), shared, id)
        .await?;
    Ok(found.flat_map(|instance| {
        Some(Instance::from(instance)).filter(|instance| !GONE.contains(&&*instance.state))
    }))
}

/// Reads these instances with one request. CVM leaves out those that do not exist. An instance of another VPC is none
/// of the cluster, but no proof that the machine does not exist.
///
/// CVM may refuse the request because of an instance that does not exist. Then each one is read alone, so that this one
/// keeps no other Node from being answered.
async fn by_ids(api: &Api, ids: &[String], priority: Priority) -> Vec<Result<Option<Instance>>> {
    let is_unknown =
        |answer: &Result<Option<Instance>>| answer.as_ref().is_err_and(Error::is_not_found);
    let mut answers = at_once(api, ids, priority).await;
    if answers.iter().all(is_unknown) {
        if ids.len() > 1 {
            answers = join_all(ids.chunks(1).map(|id| at_once(api, id, priority)))
                .await
                .concat();
        }
        answers
            .iter_mut()
            .filter(|answer| is_unknown(answer))
            .for_each(|answer| *answer = Ok(None));
    }
    answers
}

async fn at_once(api: &Api, ids: &[String], priority: Priority) -> Vec<Result<Option<Instance>>> {
    let action = Action::new(CVM, "DescribeInstances").set("InstanceIds", ids);
    let found = async {
        let vpc = api.metadata.vpc().await?;
        let found = describe(api, action, &SharedPriority::of(priority))
            .await?
            .complete()?;
        Ok((vpc, found.into_items()))
    };
    let found: Result<_> = found.await;
    let one = |id: &String| {
        let (vpc, all) = found.as_ref().map_err(Clone::clone)?;
        match all.iter().find(|instance| *instance.id == **id) {
            Some(object) if *object.vpc != **vpc => {
                let text = format!(
                    "instance {id} is in VPC {}, and the cluster in {vpc}; correct vpc_id",
                    object.vpc
                );
                Err(Error::invalid(text))
            }
            found => Ok(found.cloned()),
        }
    };
    ids.iter().map(one).collect()
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Instance;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        self.filtered(None, shared_priority).await
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        self.batches
            .join_at(priority, id.to_owned(), |_| Instant::now() + WINDOW)
            .await
    }

    fn concurrent_reads(&self) -> usize {
        PAGE
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        let names = [name.to_owned()];
        let found = self
            .filtered(
                Some(("instance-name", &names)),
                &SharedPriority::of(priority),
            )
            .await?;
        // The filter matches parts of names, too.
        Ok(found
            .complete()?
            .into_items()
            .into_iter()
            .filter(|instance| &*instance.name == name)
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        machine_id(provider_id)
    }

    fn metadata(&self, instance: &Instance, node: &Node) -> InstanceMetadata {
        let addresses = Addresses::default().internal(instance.internal.iter().copied());
        let addresses =
            addresses.external(instance.external.iter().copied(), AddressFamily::Dualstack);
        let mut node_addresses = addresses.build();
        node_addresses.extend(Addresses::of(&node.name).build());
        let charge = (!instance.charge.is_empty())
            .then(|| (CHARGE_LABEL.to_owned(), instance.charge.to_string()));
        InstanceMetadata {
            provider_id: instance.provider_id(),
            instance_type: instance.kind.to_string(),
            zone: instance.zone.to_string(),
            region: self
                .api
                .config
                .region
                .clone()
                .unwrap_or_else(|| region_of(&instance.zone).to_owned()),
            node_addresses,
            additional_labels: charge.into_iter().collect(),
        }
    }

    fn place(&self) -> String {
        format!(
            "VPC {:?} of Tencent Cloud",
            self.api.config.vpc.as_deref().unwrap_or("of the machine")
        )
    }
}

/// Look-ups of the instances behind Nodes.
pub(crate) struct Nodes(pub(crate) Inventory<Source>);

/// Returns the addresses by which a Node without a provider ID is found: its name, which kubelets of the Go program's
/// clusters take from the machine's address, or else its internal addresses.
fn addresses(node: &Node) -> Vec<IpAddr> {
    if let Ok(ip) = node.name.parse() {
        return vec![ip];
    }
    let internal = node
        .addresses
        .iter()
        .filter(|address| address.kind == AddressType::InternalIP);
    internal
        .filter_map(|address| address.address.parse().ok())
        .collect()
}

impl Nodes {
    /// Gives Nodes without a provider ID that of the instance with one of their addresses, or else with their name as
    /// host name, for which the API does not search. An address that the last list lacks is searched for, because the
    /// instance may be newer than the list.
    async fn known_by_address(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Result<Vec<Arc<Node>>> {
        let mut nodes = nodes.to_vec();
        if nodes.iter().all(|node| node.provider_id().is_some()) {
            return Ok(nodes);
        }
        let unknown: Vec<_> = nodes
            .iter()
            .filter(|node| node.provider_id().is_none())
            .flat_map(|node| addresses(node))
            .collect();
        let list = self.0.snapshot(priority(request)).await?;
        let has = |ip: &IpAddr| {
            list.machines()
                .iter()
                .any(|instance| instance.internal.contains(ip))
        };
        let missing: Vec<_> = unknown.iter().copied().filter(|ip| !has(ip)).collect();
        let others = self
            .0
            .source()
            .by_addresses(&missing, priority(request))
            .await?;
        for node in nodes.iter_mut().filter(|node| node.provider_id().is_none()) {
            let ips = addresses(node);
            let all = || list.machines().iter().chain(&others);
            let of = |is_wanted: &dyn Fn(&Instance) -> bool| {
                all()
                    .filter(|instance| is_wanted(instance))
                    .collect::<Vec<_>>()
            };
            let mut found = of(&|instance| instance.internal.iter().any(|ip| ips.contains(ip)));
            if found.is_empty() && of(&|instance| *instance.name == *node.name).is_empty() {
                found = of(&|instance| *instance.host == *node.name);
            }
            let mut found = found.into_iter();
            let first = found.next().map(Instance::provider_id);
            if let Some(provider_id) =
                first.filter(|id| found.all(|instance| instance.provider_id() == *id))
            {
                *node = Arc::new(Node {
                    provider_id: provider_id.into(),
                    ..(**node).clone()
                });
            }
        }
        Ok(nodes)
    }
}

#[async_trait]
impl Instances for Nodes {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let known = match self.known_by_address(nodes, request).await {
            Ok(known) => known,
            Err(error) => return nodes.iter().map(|_| Err(error.clone())).collect(),
        };
        let found = self
            .0
            .find_all(&known, request.fresh, priority(request))
            .await;
        let region = self.0.source().api.metadata.region().await;
        let known = |node: &Node, state: InstanceState| {
            let zone = node.provider_id().and_then(zone_region);
            match (&state, zone, &region) {
                (InstanceState::Gone(_), Some(_), Err(error)) => Err(error.clone()),
                (InstanceState::Gone(_), Some(other), Ok(region)) if other != region => {
                    Err(Error::other(format!(
                        "provider ID {:?} is of region {other}, and the configuration of {region}: the existence of the \
                     instance is unknown",
                        node.provider_id
                    )))
                }
                _ => Ok(state),
            }
        };
        nodes
            .iter()
            .zip(found)
            .map(|(node, found)| known(node, self.0.state_of(found?, node, request)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
