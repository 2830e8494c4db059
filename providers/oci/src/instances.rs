//! Instances as machines of Nodes.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, InstanceMetadata, Node, Result, async_trait};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::{MachineSource, SharedPriority};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority};

use crate::annotations::{IPV6_LABEL, NODE_COMPARTMENT};
use crate::api::Api;
use crate::instance::{IDS, Instance, InstanceAnswer, ocid};
use crate::region::region_of;
use crate::subnets::Subnets;

/// The time for which one list of a compartment's instances answers whether instances are really gone.
const ABSENCE_AGE: Duration = Duration::from_secs(2);

/// OCIDs of instances, in the order of their text.
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
        Self {
            subnets: Arc::new(Subnets::new(api.clone())),
            api,
            cluster,
            known: Arc::default(),
        }
    }

    fn instances(compartment: &str) -> Call {
        Call::get("/20160918/instances", &[]).query("compartmentId", compartment)
    }

    /// Reads the OCIDs of the instances that exist now. A cached list may be older than a termination.
    pub(crate) async fn existing(&self) -> Result<Ids> {
        let call =
            Self::instances(&self.api.region.compartment().await?).with_priority(Priority::Urgent);
        let all: Vec<InstanceAnswer> = self
            .api
            .all(call, |instance: &InstanceAnswer| instance.id.clone())
            .await?;
        Ok(all
            .into_iter()
            .filter(|instance| !instance.is_gone())
            .map(|instance| instance.id)
            .collect())
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
        match node.and_then(|node| node.annotations.get(NODE_COMPARTMENT)) {
            Some(compartment) => Ok(compartment.to_owned()),
            None => self.api.region.compartment().await,
        }
    }

    /// Returns `true` if a list of the compartment has the instance, although a read by its OCID was answered 404, which
    /// may also mean that the read is not permitted.
    async fn is_listed(&self, id: &str) -> Result<bool> {
        // Without its Node, nothing says which compartment to list.
        let nodes = self
            .cluster
            .nodes()
            .ok_or_else(|| Error::other("the Nodes of the cluster are not known yet"))?;
        let node = nodes.iter().find(|node| node.provider_id.ends_with(id));
        let compartment = self.compartment_of(node.map(|node| &**node)).await?;
        let known = Arc::clone(self.known.lock().entry(compartment.clone()).or_default());
        let read = async || {
            let call = Self::instances(&compartment);
            let all: Vec<InstanceAnswer> = self
                .api
                .all(call, |instance: &InstanceAnswer| instance.id.clone())
                .await?;
            Ok(all.into_iter().map(|instance| instance.id).collect())
        };
        Ok(known.get(ABSENCE_AGE, read).await?.0.contains(id))
    }

    /// Returns the region of an instance, if that is another one than the cluster's: the API does not show it.
    async fn other_region(&self, id: &str) -> Option<&'static str> {
        let theirs = region_of(id)?;
        let own_region = self.api.region.name().await.ok()?;
        (theirs != own_region).then_some(theirs)
    }

    pub(crate) async fn answer(
        &self,
        id: &str,
        priority: Priority,
    ) -> Result<Option<InstanceAnswer>> {
        let call = Call::get("/20160918/instances/{id}", &[id]).with_priority(priority);
        let found = self.api.iaas.find::<InstanceAnswer>(call).await?;
        if found.is_none()
            && let Some(other) = self.other_region(id).await
        {
            return Err(Error::other(format!(
                "instance {id} is of region {other}, which the configuration does not name: its existence is unknown"
            )));
        }
        match found {
            None if self.is_listed(id).await? => Err(Error::unauthorized(format!(
                "instance {id} exists, and may not be read: allow the principal to read instances"
            ))),
            found => Ok(found.filter(|instance| !instance.is_gone())),
        }
    }
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Instance;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        let compartment = self.api.region.compartment().await?;
        let call = Self::instances(&compartment);
        let list = self
            .api
            .list(call, shared_priority, |instance: &InstanceAnswer| {
                instance.id.clone()
            })
            .await?;
        if matches!(list, ListResult::Partial { .. }) {
            // It proves nothing, and its instances are read one by one.
            return Ok(list.flat_map(|answer| {
                Some(Instance::bare(answer)).filter(|instance| !instance.answer.is_gone())
            }));
        }
        let domains = list
            .items()
            .iter()
            .map(|instance| instance.availability_domain.clone())
            .collect();
        let mut vnics = self.vnics(&compartment, &domains, shared_priority).await?;
        for answer in list
            .items()
            .iter()
            .filter(|instance| instance.openshift.is_some())
        {
            vnics.insert(
                answer.id.clone(),
                self.own_vnics(answer, shared_priority.now()).await?,
            );
        }
        let machine = |answer: InstanceAnswer| {
            let vnics = vnics.get(&answer.id).map(Vec::as_slice).unwrap_or_default();
            // What cannot be parsed is read again by its OCID, where it is an error.
            let instance =
                Instance::new(answer.clone(), vnics).unwrap_or_else(|_| Instance::bare(answer));
            Some(instance).filter(|instance| !instance.answer.is_gone())
        };
        Ok(list.flat_map(machine))
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let Some(answer) = self.answer(id, priority).await? else {
            return Ok(None);
        };
        let vnics = self.own_vnics(&answer, priority).await?;
        Instance::new(answer, &vnics).map(Some)
    }

    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        Ok(self.answer(id, priority).await?.map(Instance::bare))
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        let compartment = self
            .compartment_of(self.cluster.node(name).as_deref())
            .await?;
        let call = Self::instances(&compartment).query("displayName", name);
        let list = self
            .api
            .list(
                call,
                &SharedPriority::of(priority),
                |instance: &InstanceAnswer| instance.id.clone(),
            )
            .await?;
        let found = list
            .complete()?
            .into_items()
            .into_iter()
            .filter(|instance| &*instance.display_name == name);
        let machine = async |answer: InstanceAnswer| {
            let vnics = self.own_vnics(&answer, priority).await?;
            Instance::new(answer, &vnics)
        };
        let machines = try_join_all(found.map(machine)).await?;
        Ok(machines
            .into_iter()
            .filter(|instance| !instance.answer.is_gone())
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        ocid(provider_id)
    }

    fn metadata(&self, instance: &Instance, node: &Node) -> InstanceMetadata {
        let is_ula = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unique_local());
        let shows_ipv6 = node.labels.contains_key(IPV6_LABEL);
        let (internal, external): (Vec<IpAddr>, Vec<IpAddr>) = instance
            .ipv6
            .iter()
            .filter(|_| shows_ipv6)
            .copied()
            .partition(is_ula);
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
            additional_labels: labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        }
    }

    fn place(&self) -> String {
        "the compartment of the cluster".to_owned()
    }
}
