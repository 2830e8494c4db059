//! Instances as machines of Nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, InstanceMetadata, Node, Result, async_trait};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::{Machine, MachineSource, SharedPriority};
use provider_kit::paging::ListResult;
use provider_kit::provider_id::ProviderIds;
use provider_kit::transport::{Call, Priority};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::NAME;
use crate::annotations::{FAULT_DOMAIN, FULL_AD, IPV6_LABEL, NODE_COMPARTMENT};
use crate::api::Api;
use crate::subnets::Subnets;

/// Provider IDs of Nodes: `oci://ocid1.instance.oc1…`.
pub(crate) const IDS: ProviderIds = ProviderIds { scheme: NAME, form: "<instance OCID>", valid: is_ocid };
/// The time for which one list of a compartment's instances answers whether instances are really gone.
const ABSENCE_AGE: Duration = Duration::from_secs(2);

fn is_ocid(id: &str) -> bool {
    id.starts_with("ocid1.") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// Returns the OCID in a provider ID. Kubelets of OKE write the OCID alone.
pub(crate) fn ocid(provider_id: &str) -> Result<&str> {
    if is_ocid(provider_id) { Ok(provider_id) } else { IDS.read(provider_id) }
}

/// The instance part of a machine, as the API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceAnswer {
    id: Box<str>,
    #[serde(default)]
    display_name: Box<str>,
    shape: Box<str>,
    region: Box<str>,
    availability_domain: Box<str>,
    #[serde(default)]
    fault_domain: Option<Box<str>>,
    pub(crate) compartment_id: Box<str>,
    lifecycle_state: Box<str>,
    /// The namespace of the tags of an OpenShift cluster.
    #[serde(default, rename = "definedTags", deserialize_with = "openshift_namespace")]
    openshift: Option<Box<str>>,
}

impl InstanceAnswer {
    fn is_gone(&self) -> bool {
        ["TERMINATING", "TERMINATED"].contains(&&*self.lifecycle_state)
    }
}

fn openshift_namespace<'de, D: Deserializer<'de>>(tags: D) -> Result<Option<Box<str>>, D::Error> {
    let tags = Option::<BTreeMap<Box<str>, IgnoredAny>>::deserialize(tags)?.unwrap_or_default();
    Ok(tags.into_keys().find(|it| it.starts_with("openshift-")))
}

/// An attachment of a VNIC.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    id: Box<str>,
    instance_id: Box<str>,
    lifecycle_state: Box<str>,
    vnic_id: Option<Box<str>>,
    subnet_id: Option<Box<str>>,
    time_created: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Vnic {
    pub(crate) id: Box<str>,
    #[serde(default)]
    is_primary: bool,
    private_ip: Option<Box<str>>,
    public_ip: Option<Box<str>>,
    hostname_label: Option<Box<str>>,
    subnet_id: Option<Box<str>>,
    #[serde(default)]
    ipv6_addresses: Vec<Box<str>>,
    #[serde(default)]
    defined_tags: BTreeMap<Box<str>, Value>,
}

/// An address in a subnet: a private IP, or an IPv6.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubnetAddress {
    id: Box<str>,
    ip_address: Box<str>,
    vnic_id: Option<Box<str>>,
    #[serde(default)]
    is_primary: bool,
    hostname_label: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PublicIp {
    id: Box<str>,
    ip_address: Option<Box<str>>,
    assigned_entity_id: Option<Box<str>>,
}

/// An instance, as far as a Node needs it: thousands are kept.
#[derive(Debug)]
pub(crate) struct Instance {
    answer: InstanceAnswer,
    internal: Box<[IpAddr]>,
    external: Box<[IpAddr]>,
    ipv6: Box<[IpAddr]>,
    hostname: Option<Box<str>>,
    pub(crate) subnet: Option<Box<str>>,
}

impl Instance {
    /// Returns an instance with its VNICs, the primary one first.
    ///
    /// # Errors
    /// *Other*, if an address cannot be parsed.
    fn new(answer: InstanceAnswer, vnics: &[Vnic]) -> Result<Self> {
        let parsed = |texts: Vec<&str>| {
            let ip = |text: &str| {
                let ip = text.split('/').next().and_then(|it| it.parse().ok());
                ip.ok_or_else(|| {
                    Error::other(format!("instance {} has the address {text:?}, which is not one", answer.id))
                })
            };
            texts.into_iter().filter(|it| !it.is_empty()).map(ip).collect::<Result<Box<[IpAddr]>>>()
        };
        let first = vnics.first();
        Ok(Self {
            internal: parsed(vnics.iter().filter_map(|it| it.private_ip.as_deref()).collect())?,
            external: parsed(vnics.iter().filter_map(|it| it.public_ip.as_deref()).collect())?,
            ipv6: parsed(first.iter().flat_map(|it| &it.ipv6_addresses).map(|it| &**it).collect())?,
            hostname: first.and_then(|it| it.hostname_label.clone()),
            subnet: first.and_then(|it| it.subnet_id.clone()),
            answer,
        })
    }

    /// Returns an instance whose addresses are not known.
    fn bare(answer: InstanceAnswer) -> Self {
        let (internal, external, ipv6) = Default::default();
        Self { answer, internal, external, ipv6, hostname: None, subnet: None }
    }

    /// Returns the availability domain without the prefix of the tenancy.
    fn zone(&self) -> &str {
        let full = &*self.answer.availability_domain;
        full.split_once(':').map_or(full, |(_, zone)| zone)
    }

    /// Returns the labels that a Node has for its instance.
    pub(crate) fn labels(&self, is_ipv6: bool) -> Vec<(&'static str, String)> {
        let fault_domain = self.answer.fault_domain.as_ref().map(|it| (FAULT_DOMAIN, it.to_string()));
        let full = is_ipv6.then(|| (FULL_AD, self.answer.availability_domain.replace(':', ".")));
        fault_domain.into_iter().chain(full).collect()
    }

    pub(crate) fn compartment(&self) -> &str {
        &self.answer.compartment_id
    }

    pub(crate) fn is_at(&self, text: &str) -> bool {
        let ips = || self.internal.iter().chain(&self.external);
        let dashed = || self.ipv6.iter().any(|it| it.to_string().replace(':', "-") == text);
        text.parse().is_ok_and(|ip: IpAddr| ips().any(|it| *it == ip))
            || self.hostname.as_deref() == text.split('.').next()
            || dashed()
    }
}

impl Machine for Instance {
    fn id(&self) -> &str {
        &self.answer.id
    }
    fn name(&self) -> &str {
        &self.answer.display_name
    }
    fn is_shut_down(&self) -> bool {
        ["STOPPING", "STOPPED"].contains(&&*self.answer.lifecycle_state)
    }
    fn is_settled(&self) -> bool {
        self.hostname.is_some() || self.subnet.is_some()
    }
}

/// OCIDs of instances.
pub(crate) type Ids = BTreeSet<Box<str>>;

/// Source of instances, read from the API.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) api: Api,
    pub(crate) subnets: Arc<Subnets>,
    cluster: ClusterView,
    /// OCIDs of all instances of each compartment, for answers "no such instance, or not permitted".
    known: Arc<Mutex<HashMap<String, Arc<Cached<Ids>>>>>,
}

impl Source {
    pub(crate) fn new(api: Api, cluster: ClusterView) -> Self {
        Self { subnets: Arc::new(Subnets::new(api.clone())), api, cluster, known: Arc::default() }
    }

    fn instances(compartment: &str) -> Call {
        Call::get("/20160918/instances", &[]).query("compartmentId", compartment)
    }

    async fn attachments(
        &self,
        compartment: &str,
        instance: Option<&str>,
        priority: &SharedPriority,
    ) -> Result<Vec<Attachment>> {
        let call = Call::get("/20160918/vnicAttachments", &[]).query("compartmentId", compartment);
        let call = instance.iter().fold(call, |call, id| call.query("instanceId", id));
        let all = self.api.list(call, priority, |it: &Attachment| it.id.clone()).await?.complete()?.into_items();
        Ok(all.into_iter().filter(|it| &*it.lifecycle_state == "ATTACHED" && it.vnic_id.is_some()).collect())
    }

    async fn vnic(&self, id: &str, priority: Priority) -> Result<Option<Vnic>> {
        self.api.iaas.find(Call::get("/20160918/vnics/{id}", &[id]).with_priority(priority)).await
    }

    /// Reads the VNICs of one instance that a Node has the addresses of: the primary one first, and on OpenShift those of
    /// boot volumes.
    pub(crate) async fn own_vnics(&self, instance: &InstanceAnswer, priority: Priority) -> Result<Vec<Vnic>> {
        let (compartment, priority_of_list) = (&instance.compartment_id, SharedPriority::of(priority));
        let attachments = self.attachments(compartment, Some(&instance.id), &priority_of_list).await?;
        let vnics = attachments.iter().filter_map(|it| it.vnic_id.as_deref()).map(|id| self.vnic(id, priority));
        let is_of_boot_volume = |it: &Vnic| {
            let tags = instance.openshift.as_ref().and_then(|namespace| it.defined_tags.get(namespace));
            tags.is_some_and(|it| it["boot-volume-type"] == "ISCSI")
        };
        let mut vnics: Vec<_> = try_join_all(vnics).await?.into_iter().flatten().collect();
        vnics.retain(|it| it.is_primary || is_of_boot_volume(it));
        vnics.sort_by_key(|it| !it.is_primary);
        Ok(vnics)
    }

    /// Reads the primary VNICs of all instances from a few lists: the first attachment of an instance is its primary VNIC.
    async fn vnics(
        &self,
        compartment: &str,
        domains: &BTreeSet<Box<str>>,
        priority: &SharedPriority,
    ) -> Result<HashMap<Box<str>, Vec<Vnic>>> {
        let mut first: HashMap<Box<str>, Attachment> = HashMap::new();
        for attachment in self.attachments(compartment, None, priority).await? {
            let is_later =
                first.get(&attachment.instance_id).is_some_and(|it| it.time_created <= attachment.time_created);
            if !is_later {
                first.insert(attachment.instance_id.clone(), attachment);
            }
        }
        let subnets: BTreeSet<_> = first.values().filter_map(|it| it.subnet_id.clone()).collect();
        let (mut private, mut ipv6) = (HashMap::new(), HashMap::<Box<str>, Vec<Box<str>>>::new());
        let mut is_public = false;
        for subnet in &subnets {
            let list = |path| {
                self.api
                    .list(Call::get(path, &[]).query("subnetId", subnet), priority, |it: &SubnetAddress| it.id.clone())
            };
            let addresses = list("/20160918/privateIps").await?.complete()?.into_items();
            private.extend(
                addresses.into_iter().filter(|it| it.is_primary).filter_map(|it| Some((it.vnic_id.clone()?, it))),
            );
            let subnet = self.subnets.get(subnet).await?;
            is_public |= !subnet.prohibit_public_ip_on_vnic;
            if subnet.has_ipv6() {
                for address in list("/20160918/ipv6").await?.complete()?.into_items() {
                    let vnic = address.vnic_id.unwrap_or_default();
                    ipv6.entry(vnic).or_default().push(address.ip_address);
                }
            }
        }
        let public = if is_public { self.public_ips(compartment, domains, priority).await? } else { HashMap::new() };
        let vnic = |attachment: Attachment| {
            let id = attachment.vnic_id?;
            let address: Option<SubnetAddress> = private.remove(&id);
            let public_ip = address.as_ref().and_then(|it| public.get(&it.id).cloned());
            let ipv6_addresses = ipv6.remove(&id).unwrap_or_default();
            let (private_ip, hostname_label) =
                address.map_or((None, None), |it| (Some(it.ip_address), it.hostname_label));
            let subnet_id = attachment.subnet_id;
            let (is_primary, defined_tags) = (true, BTreeMap::new());
            let vnic =
                Vnic { id, is_primary, private_ip, public_ip, hostname_label, subnet_id, ipv6_addresses, defined_tags };
            Some((attachment.instance_id, vec![vnic]))
        };
        Ok(first.into_values().filter_map(vnic).collect())
    }

    /// Reads the public addresses by the private addresses that they are assigned to.
    async fn public_ips(
        &self,
        compartment: &str,
        domains: &BTreeSet<Box<str>>,
        priority: &SharedPriority,
    ) -> Result<HashMap<Box<str>, Box<str>>> {
        let call =
            |scope| Call::get("/20160918/publicIps", &[]).query("compartmentId", compartment).query("scope", scope);
        let of_domains = domains.iter().map(|domain| call("AVAILABILITY_DOMAIN").query("availabilityDomain", domain));
        let calls = of_domains.chain([call("REGION")]);
        let lists = calls.map(|call| self.api.list(call, priority, |it: &PublicIp| it.id.clone()));
        let mut all = HashMap::new();
        for list in try_join_all(lists).await? {
            let pairs = list.complete()?.into_items().into_iter();
            all.extend(pairs.filter_map(|it| Some((it.assigned_entity_id?, it.ip_address?))));
        }
        Ok(all)
    }

    /// Reads the OCIDs of the instances that exist now. A cached list may be older than a termination.
    pub(crate) async fn existing(&self) -> Result<Ids> {
        let call = Self::instances(&self.api.region.compartment().await?).with_priority(Priority::Urgent);
        let all: Vec<InstanceAnswer> = self.api.all(call, |it: &InstanceAnswer| it.id.clone()).await?;
        Ok(all.into_iter().filter(|it| !it.is_gone()).map(|it| it.id).collect())
    }

    /// Returns `true` if the instance is in the network of the cluster. Other networks may have the same addresses.
    pub(crate) async fn is_in_network(&self, instance: &Instance) -> Result<bool> {
        let config = &self.api.config;
        let network = match (&config.vcn, config.subnets.first()) {
            (Some(vcn), _) => vcn.clone(),
            (None, Some(subnet)) => self.subnets.get(subnet).await?.vcn_id.clone(),
            (None, None) => return Ok(true),
        };
        match &instance.subnet {
            Some(subnet) => Ok(self.subnets.get(subnet).await?.vcn_id == network),
            None => Ok(false),
        }
    }

    /// Returns the compartment that a Node's annotation names, or that of the cluster.
    async fn compartment_of(&self, node: Option<&Node>) -> Result<String> {
        match node.and_then(|it| it.annotations.get(NODE_COMPARTMENT)) {
            Some(compartment) => Ok(compartment.to_owned()),
            None => self.api.region.compartment().await,
        }
    }

    /// Returns `true` if a list of the compartment has the instance, although a read by its OCID was answered 404, which
    /// may also mean that the read is not permitted.
    async fn is_listed(&self, id: &str) -> Result<bool> {
        // Without its Node, nothing says which compartment to list.
        let nodes = self.cluster.nodes().ok_or_else(|| Error::other("the Nodes of the cluster are not known yet"))?;
        let node = nodes.iter().find(|node| node.provider_id.ends_with(id));
        let compartment = self.compartment_of(node.map(|it| &**it)).await?;
        let known = Arc::clone(self.known.lock().entry(compartment.clone()).or_default());
        let read = async || {
            let call = Self::instances(&compartment);
            let all: Vec<InstanceAnswer> = self.api.all(call, |it: &InstanceAnswer| it.id.clone()).await?;
            Ok(all.into_iter().map(|it| it.id).collect())
        };
        Ok(known.get(ABSENCE_AGE, read).await?.0.contains(id))
    }

    pub(crate) async fn answer(&self, id: &str, priority: Priority) -> Result<Option<InstanceAnswer>> {
        let call = Call::get("/20160918/instances/{id}", &[id]).with_priority(priority);
        match self.api.iaas.find::<InstanceAnswer>(call).await? {
            None if self.is_listed(id).await? => Err(Error::unauthorized(format!(
                "instance {id} exists, and may not be read: allow the principal to read instances"
            ))),
            found => Ok(found.filter(|it| !it.is_gone())),
        }
    }
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Instance;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        let compartment = self.api.region.compartment().await?;
        let call = Self::instances(&compartment);
        let list = self.api.list(call, shared_priority, |it: &InstanceAnswer| it.id.clone()).await?;
        if matches!(list, ListResult::Partial { .. }) {
            // It proves nothing, and its instances are read one by one.
            return Ok(list.flat_map(|answer| Some(Instance::bare(answer)).filter(|it| !it.answer.is_gone())));
        }
        let domains = list.items().iter().map(|it| it.availability_domain.clone()).collect();
        let mut vnics = self.vnics(&compartment, &domains, shared_priority).await?;
        for answer in list.items().iter().filter(|it| it.openshift.is_some()) {
            vnics.insert(answer.id.clone(), self.own_vnics(answer, shared_priority.now()).await?);
        }
        let machine = |answer: InstanceAnswer| {
            let vnics = vnics.get(&answer.id).map(Vec::as_slice).unwrap_or_default();
            // What cannot be parsed is read again by its OCID, where it is an error.
            let instance = Instance::new(answer.clone(), vnics).unwrap_or_else(|_| Instance::bare(answer));
            Some(instance).filter(|it| !it.answer.is_gone())
        };
        Ok(list.flat_map(machine))
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let Some(answer) = self.answer(id, priority).await? else { return Ok(None) };
        let vnics = self.own_vnics(&answer, priority).await?;
        Instance::new(answer, &vnics).map(Some)
    }

    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        Ok(self.answer(id, priority).await?.map(Instance::bare))
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        let compartment = self.compartment_of(self.cluster.node(name).as_deref()).await?;
        let call = Self::instances(&compartment).query("displayName", name);
        let list = self.api.list(call, &SharedPriority::of(priority), |it: &InstanceAnswer| it.id.clone()).await?;
        let found = list.complete()?.into_items().into_iter().filter(|it| &*it.display_name == name);
        let machine = async |answer: InstanceAnswer| {
            let vnics = self.own_vnics(&answer, priority).await?;
            Instance::new(answer, &vnics)
        };
        let machines = try_join_all(found.map(machine)).await?;
        Ok(machines.into_iter().filter(|it| !it.answer.is_gone()).collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        ocid(provider_id)
    }

    fn metadata(&self, instance: &Instance, node: &Node) -> InstanceMetadata {
        let is_ula = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unique_local());
        let shows_ipv6 = node.labels.contains_key(IPV6_LABEL);
        let (internal, external): (Vec<IpAddr>, Vec<IpAddr>) =
            instance.ipv6.iter().filter(|_| shows_ipv6).copied().partition(is_ula);
        let addresses = Addresses::of("")
            .internal(instance.internal.iter().copied())
            .external(instance.external.iter().copied(), AddressFamily::Dualstack)
            .internal(internal)
            .external(external, AddressFamily::Dualstack);
        let labels = instance.labels(self.api.config.is_ipv6);
        InstanceMetadata {
            provider_id: IDS.write(&instance.answer.id),
            instance_type: instance.answer.shape.to_string(),
            region: instance.answer.region.to_string(),
            zone: instance.zone().to_owned(),
            node_addresses: addresses.build(),
            additional_labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        }
    }

    fn place(&self) -> String {
        "the compartment of the cluster".to_owned()
    }
}
