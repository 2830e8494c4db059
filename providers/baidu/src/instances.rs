//! BCC instances, the machines of Nodes.

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{
    AddressType, InstanceMetadata, InstanceState, Instances, LookupRequest, Node, Result,
    async_trait,
};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::inventory::{Inventory, Machine, MachineSource, SharedPriority, priority};
use provider_kit::paging::ListResult;
use provider_kit::provider_id::ProviderIds;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::NAME;
use crate::api::Api;

/// Provider IDs: `cce://i-8xVxUWbi`.
pub(crate) const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<instance ID>",
    valid: |id| {
        !id.is_empty()
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    },
};

const LIST: &str = "/v2/instance";

/// An instance, as far as a Node needs it: thousands are kept.
#[derive(Debug)]
pub(crate) struct Instance {
    id: Box<str>,
    name: Box<str>,
    is_off: bool,
    spec: Box<str>,
    is_gpu: bool,
    zone: Box<str>,
    internal: Box<[IpAddr]>,
    public: Option<IpAddr>,
    pub(crate) vpc: Box<str>,
    pub(crate) subnet: Box<str>,
}

/// The answer of the API. Addresses are texts, so that an address that cannot be parsed does not fail the list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InstanceAnswer {
    id: Box<str>,
    name: Option<Box<str>>,
    hostname: Option<Box<str>>,
    spec: Option<Box<str>>,
    status: Box<str>,
    card_count: Option<Box<str>>,
    zone_name: Option<Box<str>>,
    internal_ip: Option<Box<str>>,
    ipv6: Option<Box<str>>,
    #[serde(rename = "Ipv6Addresses")]
    ipv6_addresses: Option<Vec<Box<str>>>,
    public_ip: Option<Box<str>>,
    vpc_id: Option<Box<str>>,
    subnet_id: Option<Box<str>>,
}

impl InstanceAnswer {
    /// Returns the instance; `None` if it was deleted.
    fn instance(self) -> Option<Instance> {
        let ipv6 = self.ipv6.iter().chain(self.ipv6_addresses.iter().flatten());
        (&*self.status != "Deleted").then(|| Instance {
            internal: self
                .internal_ip
                .iter()
                .chain(ipv6)
                .filter_map(|ip| ip.parse().ok())
                .collect(),
            public: self.public_ip.and_then(|ip| ip.parse().ok()),
            is_off: ["Stopped", "Expired", "Recycled"].contains(&&*self.status),
            is_gpu: self
                .card_count
                .is_some_and(|count| !["", "0"].contains(&&*count)),
            name: self
                .hostname
                .filter(|name| !name.is_empty())
                .or(self.name)
                .unwrap_or_default(),
            id: self.id,
            spec: self.spec.unwrap_or_default(),
            zone: self.zone_name.unwrap_or_default(),
            vpc: self.vpc_id.unwrap_or_default(),
            subnet: self.subnet_id.unwrap_or_default(),
        })
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
        self.is_off
    }
    fn is_settled(&self) -> bool {
        !self.internal.is_empty()
    }
}

/// Source of instances, read from the API.
#[derive(Clone)]
pub(crate) struct Source(pub(crate) Api);

impl Source {
    async fn read(
        &self,
        call: Call,
        shared_priority: &SharedPriority,
    ) -> Result<ListResult<Instance>> {
        let call = self
            .0
            .config
            .vpc
            .iter()
            .fold(call, |call, vpc| call.query("vpcId", vpc));
        let keep = |instance: InstanceAnswer| (instance.id.clone(), instance.instance());
        let list = self
            .0
            .bcc
            .list(call, "instances", shared_priority, keep, |(id, _)| {
                id.clone()
            })
            .await?;
        Ok(list.flat_map(|(_, instance)| instance))
    }
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Instance;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        self.read(Call::get(LIST, &[]), shared_priority).await
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let call = Call::get("/v2/instance/{instanceId}", &[id])
            .inside("instance")
            .with_priority(priority);
        Ok(self
            .0
            .bcc
            .find::<InstanceAnswer>(call)
            .await?
            .and_then(InstanceAnswer::instance))
    }

    /// Reads all instances: the API searches neither for host names nor for several things at once.
    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        let call = match name.parse::<IpAddr>() {
            Ok(ip) => Call::get(LIST, &[]).query("internalIp", ip),
            Err(_) => Call::get(LIST, &[]),
        };
        let found = self
            .read(call, &SharedPriority::of(priority))
            .await?
            .complete()?
            .into_items();
        Ok(found
            .into_iter()
            .filter(|instance| instance.is_named(name))
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        IDS.read(provider_id)
    }

    fn metadata(&self, instance: &Instance, node: &Node) -> InstanceMetadata {
        let config = &self.0.config;
        let legacy = if instance.is_gpu { "GPU" } else { "BCC" };
        let addresses = Addresses::default().internal(instance.internal.iter().copied());
        let addresses = addresses
            .external(instance.public, AddressFamily::Dualstack)
            .build();
        let hostname = Addresses::of(&node.name).build();
        InstanceMetadata {
            provider_id: IDS.write(&instance.id),
            instance_type: if config.is_type_legacy {
                legacy
            } else {
                &*instance.spec
            }
            .to_owned(),
            zone: instance.zone.to_string(),
            region: config.region.clone(),
            node_addresses: [addresses, hostname].concat(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        format!(
            "region {} of the account of the access key",
            self.0.config.region
        )
    }
}

impl Instance {
    /// Returns `true` if a Node of this name is on the instance: CCE names Nodes by host name or by address.
    fn is_named(&self, name: &str) -> bool {
        &*self.name == name || name.parse().is_ok_and(|ip| self.internal.contains(&ip))
    }
}

/// Machine source for Nodes, by instances.
pub(crate) struct BccInstances(pub(crate) Inventory<Source>);

impl BccInstances {
    /// Looks up Nodes without a provider ID by an address, if no instance has their name.
    async fn known_by_address(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Arc<Node>> {
        let mut nodes = nodes.to_vec();
        let is_unknown = |node: &&mut Arc<Node>| node.provider_id().is_none();
        if nodes.iter_mut().any(|node| is_unknown(&node))
            && let Ok(list) = self.0.snapshot(priority(request)).await
        {
            for node in nodes.iter_mut().filter(is_unknown) {
                if list.by_name(&node.name).len() > 0 {
                    continue;
                }
                let internal = node
                    .addresses
                    .iter()
                    .filter(|address| address.kind == AddressType::InternalIP);
                let texts: Vec<_> = internal
                    .map(|address| &*address.address)
                    .chain([&*node.name])
                    .collect();
                let is_its_instance =
                    |instance: &&Instance| texts.iter().any(|text| instance.is_named(text));
                if let Some(instance) = list.machines().iter().find(is_its_instance) {
                    *node = Arc::new(Node {
                        provider_id: IDS.write(&instance.id).into(),
                        ..(**node).clone()
                    });
                }
            }
        }
        nodes
    }
}

#[async_trait]
impl Instances for BccInstances {
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
            .map(|(node, found)| Ok(self.0.state_of(found?, node, request)))
            .collect()
    }
}
