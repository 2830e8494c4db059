//! Load balancers as a cloud for the engine of provider-kit. All Services of one kind share one load balancer of Azure:
//! what the engine calls a load balancer is a Service's share of it, with its public address and its security rules.

pub(crate) mod address;
mod apply;
pub(crate) mod document;
pub(crate) mod link;
pub(crate) mod members;
pub(crate) mod placement;
pub(crate) mod security;
pub(crate) mod spec;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{
    AddressType, Caches, Cluster, Fence, LoadBalancerIngress, LoadBalancerStatus, Node, Result, Service, async_trait,
    default_load_balancer_name,
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::coalescer::Coalescer;
use provider_kit::endpoint_nodes::EndpointNodes;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, LoadBalancerCloud, NameUniqueness, Naming, ObservedLoadBalancer,
    OwnerTags, Published, Query, ResourceGraph, Scope, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;
use serde_json::Value;

use self::document::{CLUSTER_TAG, FRONTEND, Share, prefix};
use self::members::MemberChange;
use self::spec::{Family, Spec};
use crate::arm::{Arm, LOAD_BALANCERS, PUBLIC_ADDRESSES, id_of, items, name_of, text};
use crate::config::{Config, CurrentConfig, PoolKind, StandardBalancer};
use crate::documents::{DocumentKey, DocumentKind, Shared};
use crate::machines::{Machines, VirtualMachine};
use crate::nodes::{compared, is_of_group, is_unmanaged};
use crate::tags;

/// The end of the names of internal load balancers.
const INTERNAL_SUFFIX: &str = "-internal";
/// The attribute with the name of the load balancer, where there are several of a kind.
const BALANCER: &str = "loadBalancer";
/// The kinds of load balancers.
const EXTERNAL: &str = "external";
const INTERNAL: &str = "internal";
/// The time for which the zones of the region are kept.
const ZONES_AGE: Duration = Duration::from_secs(1800);

/// The load balancers of a cluster.
#[derive(Clone)]
pub(crate) struct AzureLoadBalancers(Arc<Inner>);

pub(crate) struct Inner {
    config: CurrentConfig,
    /// The load balancers of each kind, if there are several.
    balancers: Vec<StandardBalancer>,
    documents: Shared,
    machines: Inventory<Machines>,
    caches: OnceLock<Arc<dyn Caches>>,
    cluster_name: OnceLock<String>,
    zones: Cached<Vec<String>>,
    /// Reads of both load balancers and the security group, which concurrent callers share.
    reads: Coalescer<(), AzureLoadBalancers, Arc<Observed>>,
    members: Coalescer<(DocumentKey, String), (Shared, MemberChange)>,
    placed: Mutex<placement::Placed>,
    endpoint_nodes: EndpointNodes,
    cluster_view: ClusterView,
    /// Addresses to which security rules of a Service must lead, and the families whose own addresses they replace.
    further: Mutex<HashMap<String, FurtherDestinations>>,
}

/// Addresses, and for each family that they replace whether it is IPv6.
type FurtherDestinations = (BTreeSet<IpAddr>, Vec<bool>);

impl std::ops::Deref for AzureLoadBalancers {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The documents that Services have shares in, as they were read.
struct Observed {
    /// Load balancers, each with its kind.
    load_balancers: Vec<(&'static str, Value)>,
    security_group: Value,
}

impl AzureLoadBalancers {
    pub(crate) fn new(
        config: CurrentConfig,
        documents: Shared,
        machines: Inventory<Machines>,
        cluster_view: ClusterView,
        fence: Fence,
    ) -> Self {
        let members =
            Coalescer::new(|(key, pool): (DocumentKey, String), items: Vec<(Shared, MemberChange)>| async move {
                let (all, changes): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                members::change(&all[0], &key, &pool, &changes).await
            });
        let reads =
            Coalescer::new(|(), callers: Vec<Self>| async move { callers[0].read_documents().await.map(Arc::new) });
        Self(Arc::new(Inner {
            balancers: config.get().file.balancers.clone(),
            config,
            documents,
            machines,
            caches: OnceLock::new(),
            cluster_name: OnceLock::new(),
            zones: Cached::default(),
            reads,
            members,
            placed: Mutex::default(),
            endpoint_nodes: EndpointNodes::new(cluster_view.clone(), fence),
            cluster_view,
            further: Mutex::default(),
        }))
    }

    pub(crate) fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.caches.get_or_init(|| caches);
    }

    pub(crate) fn learn_cluster(&self, cluster: &Cluster) {
        self.cluster_name.get_or_init(|| cluster.name.clone());
    }

    pub(crate) fn arm(&self) -> &Arm {
        self.documents.store().arm()
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.get()
    }

    fn cluster(&self) -> &str {
        self.cluster_name.get().map_or("kubernetes", String::as_str)
    }

    /// Returns the load balancer of this kind and name, without the suffix of internal ones.
    fn key(&self, kind: &str, base: &str) -> DocumentKey {
        let name = if kind == INTERNAL { format!("{base}{INTERNAL_SUFFIX}") } else { base.to_owned() };
        DocumentKey { kind: DocumentKind::LoadBalancer, group: self.config().load_balancers.clone(), name }
    }

    /// Returns the load balancer that a resource graph is a share of.
    fn key_in(&self, kind: &str, graph: &ResourceGraph) -> DocumentKey {
        let stated = graph.balancer_attributes().and_then(|it| it.text(BALANCER).map(str::to_owned));
        self.key(kind, &stated.unwrap_or_else(|| self.config().balancer_names(self.cluster()).remove(0)))
    }

    /// Returns all load balancers of the cluster, existing or not.
    fn keys(&self) -> Vec<(&'static str, DocumentKey)> {
        let names = self.config().balancer_names(self.cluster());
        let both = |name: String| [EXTERNAL, INTERNAL].map(|kind| (kind, self.key(kind, &name)));
        names.into_iter().flat_map(both).collect()
    }

    fn security_key(&self) -> DocumentKey {
        let (group, name) = (self.config().security_group.clone(), self.config().file.security_group_name.clone());
        DocumentKey { kind: DocumentKind::SecurityGroup, group, name }
    }

    /// Returns the zones of the region; none in an edge zone.
    pub(crate) async fn zones(&self) -> Result<Vec<String>> {
        if self.config().is_edge() || self.config().file.is_basic() {
            return Ok(Vec::new());
        }
        let read = async || {
            self.arm().zones(&self.config().nodes.subscription, "publicIPAddresses", &self.config().region()).await
        };
        let (zones, _) = self
            .zones
            .get(ZONES_AGE, read)
            .await
            .map_err(|error| error.context("cannot read the zones of the region"))?;
        Ok((*zones).clone())
    }

    async fn read_documents(&self) -> Result<Observed> {
        let store = self.documents.store();
        let keys = self.keys();
        let (balancers, security_group) =
            futures::try_join!(try_join_all(keys.iter().map(|(_, key)| store.get(key))), self.security_group())?;
        let kinds = keys.iter().map(|(kind, _)| *kind);
        let load_balancers = kinds.zip(balancers).filter(|(_, it)| !it.is_null()).collect();
        Ok(Observed { load_balancers, security_group })
    }

    async fn security_group(&self) -> Result<Value> {
        match self.config().file.security_group_name.is_empty() {
            true => Ok(Value::Null),
            false => self.documents.store().get(&self.security_key()).await,
        }
    }

    fn services(&self) -> Vec<Arc<Service>> {
        self.caches.get().map(|it| it.services()).unwrap_or_default()
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.caches.get().map(|it| it.nodes()).unwrap_or_default()
    }

    /// Returns the Services of the cluster, by the beginning of the names of their elements.
    fn services_by_owner(&self) -> HashMap<String, Arc<Service>> {
        self.services().into_iter().map(|it| (default_load_balancer_name(&it), it)).collect()
    }

    /// Returns one Service's share.
    fn actual(
        &self,
        owner: &str,
        kind: &'static str,
        observed: &Observed,
        (addresses, links): (&[Value], &[Value]),
        service: Option<&Service>,
    ) -> Result<Option<ObservedLoadBalancer>> {
        if let Some(service) = service.filter(|_| !self.further.lock().contains_key(owner)) {
            let nodes = self.nodes();
            self.note_destinations(owner, &Spec::of(service, &self.config()).spec, &nodes);
        }
        let none = Value::Null;
        let mut of_kind = observed.load_balancers.iter().filter(|(its, _)| *its == kind).map(|(_, it)| it);
        let first = of_kind.clone().next().unwrap_or(&none);
        let balancer = of_kind.find(|it| !Share::of(it, owner).frontends.is_empty()).unwrap_or(first);
        let share = Share::of(balancer, owner);
        let is_own =
            |it: &&Value| kind == EXTERNAL && address::is_managed(it, self.cluster()) && address::is_of(it, owner);
        let mut graph = share.graph(balancer, self.cluster(), ResourceGraph::default())?;
        if let Some(mut attributes) = graph.balancer_attributes().cloned() {
            if !self.balancers.is_empty() {
                attributes = attributes.set(BALANCER, base_name(text(balancer, "/name")));
            }
            let config = self.config();
            graph = graph.balancer(tags::observed(attributes, &config, balancer, &config.tags));
        }
        let own: Vec<&Value> = addresses.iter().filter(is_own).collect();
        for address in &own {
            graph = graph.resource(address::resource(text(address, "/name")), self.observed_address(address, service));
        }
        if graph.resources.is_empty() {
            return Ok(None);
        }
        let ingress = ingress_of(&share, addresses);
        let rules = security::observed(&observed.security_group, &self.destinations(owner, &ingress));
        if !rules.is_empty() {
            graph = graph.resource(security::resource(), security::settings(&rules));
        }
        if let Some(link) = self.link_of(&share, links, service.map(address::full_name).as_deref()) {
            graph = graph.resource(link::resource(text(link, "/name")), Attributes::observed(&link::observed(link))?);
        }
        let cluster = balancer["tags"][CLUSTER_TAG].as_str().map(str::to_owned);
        let owner_tags = match (own.first().map(|it| address::owner_tags(it)), cluster) {
            (Some(tags), _) => tags,
            (None, Some(cluster)) => OwnerTags { cluster: Some(cluster), service: Some(uid(owner, service)) },
            (None, None) => OwnerTags::default(),
        };
        let owner_tags = if owner_tags.service.is_none() { OwnerTags::default() } else { owner_tags };
        Ok(Some(ObservedLoadBalancer {
            id: share_id(kind, owner),
            name: owner.to_owned(),
            cloud_name_and_id: Some((owner.to_owned(), self.key_in(kind, &graph).name)),
            owner_tags,
            legacy_owner: Some(owner.to_owned()),
            kind,
            ingress,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }))
    }

    /// Notes the addresses to which the security rules of a Service lead: those of the Nodes, without a floating address.
    fn note_destinations(&self, owner: &str, spec: &Spec, nodes: &[Arc<Node>]) {
        let to_nodes: Vec<bool> = spec.families.iter().filter(|it| it.to_nodes).map(|it| it.is_ipv6).collect();
        let of_family = |is_ipv6: &bool| nodes.iter().filter_map(|node| internal(node, *is_ipv6)).collect::<Vec<_>>();
        let further = spec.additional.iter().copied().chain(to_nodes.iter().flat_map(of_family)).collect();
        self.further.lock().insert(owner.to_owned(), (further, to_nodes));
    }

    /// Returns the addresses to which the security rules of a Service lead.
    fn destinations(&self, owner: &str, ingress: &[LoadBalancerIngress]) -> BTreeSet<IpAddr> {
        let (further, replaced) = self.further.lock().get(owner).cloned().unwrap_or_default();
        let own = ingress.iter().filter_map(|it| it.ip.as_deref()?.parse().ok());
        own.filter(|ip: &IpAddr| !replaced.contains(&ip.is_ipv6())).chain(further).collect()
    }

    /// Reads the shares of one Service, of both kinds. The Service, if it is known, may name the resource group of its
    /// address.
    async fn find(&self, owner: &str, service: Option<&Service>) -> Result<Vec<ObservedLoadBalancer>> {
        let observed = self.reads.join((), self.clone()).await?;
        let mut addresses = Vec::new();
        let mut place = self.config().load_balancers.clone();
        let annotations = service.and_then(|it| it.metadata.annotations.as_ref());
        let group = annotations.and_then(|it| it.get(crate::annotations::GROUP.key()));
        place.name = group.map_or(place.name, |it| it.to_ascii_lowercase());
        let links = self.links(service).await?;
        let families = service.and_then(|it| it.spec.as_ref()?.ip_families.as_ref()).map_or(1, Vec::len);
        for suffix in ["", spec::IPV6].into_iter().take(families.max(1)) {
            let default = address::default_name(self.cluster(), owner, &Family { suffix, ..Family::default() });
            addresses.extend(self.arm().get::<Value>(&PUBLIC_ADDRESSES, &place, &[&default]).await?);
        }
        let shares = observed.load_balancers.iter().map(|(_, balancer)| Share::of(balancer, owner));
        let ids = shares.flat_map(|share| share.addresses().map(str::to_ascii_lowercase).collect::<Vec<_>>());
        self.add_missing(ids.collect(), &mut addresses).await?;
        let actuals =
            [EXTERNAL, INTERNAL].map(|kind| self.actual(owner, kind, &observed, (&addresses, &links), service));
        actuals.into_iter().filter_map(Result::transpose).collect()
    }

    /// Reads the addresses with these IDs, in lower case, that are not among those that were read.
    async fn add_missing(&self, ids: BTreeSet<String>, addresses: &mut Vec<Value>) -> Result<()> {
        let known: BTreeSet<String> = addresses.iter().map(id_of).collect();
        let missing = ids.difference(&known).map(|id| self.address_by_id(id));
        addresses.extend(try_join_all(missing).await?.into_iter().flatten());
        Ok(())
    }

    /// Reads the shares of all Services.
    async fn all(&self) -> Result<Vec<ObservedLoadBalancer>> {
        let group = self.config().load_balancers.clone();
        let (balancers, mut addresses, security_group, links) = futures::try_join!(
            self.arm().all(&LOAD_BALANCERS, &group),
            self.arm().all(&PUBLIC_ADDRESSES, &group),
            self.security_group(),
            self.links(None)
        )?;
        let keys = self.keys();
        let kind = |it: &Value| {
            let known = keys.iter().find(|(_, key)| key.name.eq_ignore_ascii_case(text(it, "/name")));
            known.map(|(kind, key)| (*kind, key))
        };
        let mut load_balancers = Vec::new();
        for balancer in balancers {
            if let Some((kind, key)) = kind(&balancer) {
                self.documents.store().note(key, &balancer);
                load_balancers.push((kind, balancer));
            }
        }
        // Addresses may be in other resource groups.
        let frontends = load_balancers.iter().flat_map(|(_, it)| items(it, "frontendIPConfigurations"));
        let ids = frontends.map(|it| text(it, FRONTEND[0].1).to_ascii_lowercase()).filter(|id| !id.is_empty());
        self.add_missing(ids.collect(), &mut addresses).await?;
        let observed = Observed { load_balancers, security_group };
        let mut owners: BTreeSet<(&'static str, String)> = BTreeSet::new();
        for (kind, balancer) in &observed.load_balancers {
            let lists = ["frontendIPConfigurations", "loadBalancingRules"].into_iter();
            let names = lists.flat_map(|list| items(balancer, list)).map(|it| text(it, "/name").to_ascii_lowercase());
            owners.extend(names.filter_map(|name| Some((*kind, prefix(&name)?.to_owned()))));
        }
        let managed = addresses.iter().filter(|it| address::is_managed(it, self.cluster()));
        owners.extend(managed.filter_map(|it| Some((EXTERNAL, address::owner_in(text(it, "/name"))?))));
        let services = self.services_by_owner();
        let actuals = owners.iter().map(|(kind, owner)| {
            let service = services.get(owner).map(|it| &**it);
            self.actual(owner, kind, &observed, (&addresses, &links), service)
        });
        actuals.filter_map(Result::transpose).collect()
    }

    /// Returns the members that these Nodes are in a pool of a family; `None` if none of them is known.
    async fn targets(&self, nodes: &[Arc<Node>], is_ipv6: bool) -> Result<Option<Targets>> {
        let config = self.config();
        let set = config.file.primary_set();
        let is_in_set = |it: &VirtualMachine| set.is_empty() || it.set_name().eq_ignore_ascii_case(set);
        let found: Vec<String> = match config.file.pool_kind {
            PoolKind::Nic => {
                let known: Vec<_> = nodes.iter().filter(|it| it.provider_id().is_some()).map(compared).collect();
                let machines = self.machines.find_all(&known, false, Priority::Ordinary).await;
                let there = machines.into_iter().filter_map(|found| match found {
                    Ok(Found::Present(machine)) if !machine.has_family(is_ipv6) || !is_in_set(&machine) => None,
                    Ok(Found::Present(machine)) => Some(Ok(machine.interface.to_string())),
                    Ok(Found::Gone(_)) => None,
                    Err(error) if error.is_invalid() => None,
                    Err(error) => Some(Err(error)),
                });
                there.collect::<Result<_>>()?
            }
            _ => nodes.iter().filter_map(|node| internal(node, is_ipv6)).map(|ip| ip.to_string()).collect(),
        };
        let found: Targets = found.iter().filter(|it| !it.is_empty()).collect();
        Ok((nodes.is_empty() || !found.is_empty()).then_some(found))
    }

    /// Returns the Nodes that may be in pools.
    fn usable(&self, nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
        let config = self.config();
        let has_control = config.file.exclude_master_from_standard_lb != Some(false);
        let is_control = |node: &Node| {
            let mut roles = ["control-plane", "master"].iter().map(|it| format!("node-role.kubernetes.io/{it}"));
            has_control && roles.any(|it| node.labels.get(&it).is_some())
        };
        let is_here = |node: &Node| is_of_group(node, &config.nodes.name);
        nodes.iter().filter(|node| !is_unmanaged(node) && !is_control(node) && is_here(node)).cloned().collect()
    }
}

/// Returns the ID of a Service's share.
fn share_id(kind: &str, owner: &str) -> String {
    format!("{kind}/{owner}")
}

/// Returns the name of the pool for a family: that of the cluster, or of the Service alone.
fn pool_of(family: &Family, own: Option<&str>, cluster: &str) -> String {
    match own {
        Some(own) if family.is_ipv6 => format!("{own}{}", spec::IPV6.to_ascii_lowercase()),
        Some(own) => own.to_owned(),
        None => family.pool(cluster),
    }
}

/// Returns the internal address of a Node of this family.
fn internal(node: &Node, is_ipv6: bool) -> Option<IpAddr> {
    let internal = node.addresses.iter().filter(|it| it.kind == AddressType::InternalIP);
    { internal }.filter_map(|it| it.address.parse().ok()).find(|ip: &IpAddr| ip.is_ipv6() == is_ipv6)
}

/// Returns the UID of the Service whose elements begin with `owner`. The name lacks the last digit of the UID: for a
/// Service that no longer exists, so does the result.
fn uid(owner: &str, service: Option<&Service>) -> String {
    let digits = &owner[1..];
    let parts = [0..8, 8..12, 12..16, 16..20, 20..31].map(|range| digits.get(range).unwrap_or_default());
    service.and_then(|it| it.metadata.uid.clone()).unwrap_or_else(|| parts.join("-"))
}

/// Returns the name of a load balancer without the suffix of internal ones.
fn base_name(name: &str) -> &str {
    name.strip_suffix(INTERNAL_SUFFIX).unwrap_or(name)
}

/// Returns the addresses of a share.
fn ingress_of(share: &Share<'_>, addresses: &[Value]) -> Vec<LoadBalancerIngress> {
    let address = |frontend: &Value| match text(frontend, "/properties/publicIPAddress/id") {
        "" => text(frontend, "/properties/privateIPAddress").to_owned(),
        id => {
            let used = addresses.iter().find(|it| text(it, "/id").eq_ignore_ascii_case(id));
            used.map(|it| text(it, "/properties/ipAddress").to_owned()).unwrap_or_default()
        }
    };
    let all = share.frontends.values().map(|frontend| address(frontend));
    all.filter(|it| !it.is_empty()).map(|ip| ObservedLoadBalancer::ip(&ip)).collect()
}

#[async_trait]
impl LoadBalancerCloud for AzureLoadBalancers {
    type Spec = Spec;

    /// Returns `Unique`: the elements of a Service are known by their names, and a second one of a name is the first one.
    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        self.learn_cluster(cluster);
        let key = format!("{}{}", crate::annotations::PREFIX, "azure-load-balancer-internal");
        let annotation = service.metadata.annotations.as_ref().and_then(|it| it.get(&key));
        let is_internal = annotation.is_some_and(|it| it.eq_ignore_ascii_case("true"));
        Naming {
            legacy_owner: Some(default_load_balancer_name(service)),
            kind: if is_internal { INTERNAL } else { EXTERNAL },
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.config())
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let (spec, request) = (input.spec, input.request);
        let cluster = request.cluster.name.as_str();
        let owner = default_load_balancer_name(request.service);
        let kind = if spec.is_internal { INTERNAL } else { EXTERNAL };
        let nodes = self.usable(request.nodes);
        let base = self.place(request.service, spec, kind).await?;
        let (nodes, own_pool) = self.members_of(request.service, base.as_deref(), nodes).await?;
        let mut graph = ResourceGraph::default();
        for family in &spec.families {
            let targets = match self.config().file.is_preconfigured(spec.is_internal) {
                true => None,
                false => self.targets(&nodes, family.is_ipv6).await?,
            };
            graph = graph.pool(&pool_of(family, own_pool.as_deref(), cluster), Attributes::default(), targets);
        }
        if input.scope == Scope::Targets {
            return Ok(graph);
        }
        self.note_destinations(&owner, spec, request.nodes);
        let mut frontend = Attributes::default();
        if let Some(base) = base {
            frontend = frontend.set(BALANCER, base);
        }
        for family in &spec.families {
            let key = |field: &str| format!("{field}{}", family.suffix);
            if spec.is_internal {
                let subnet = self.config().subnet_id(spec.subnet.as_deref().unwrap_or_default());
                frontend = frontend.set(key("subnet"), subnet);
                if let Some(ip) = family.address {
                    frontend = frontend.set(key("privateIPAddress"), ip.to_string());
                }
            } else {
                let default = address::default_name(cluster, &owner, family);
                let stated = self.stated_address(spec, family).await?;
                let stated = stated.filter(|it| !text(it, "/name").eq_ignore_ascii_case(&default));
                let id = match &stated {
                    Some(address) => text(address, "/id").to_owned(),
                    None => {
                        let settings = self.desired_address(spec, request.service, cluster);
                        graph = graph.resource(address::resource(&default), settings);
                        self.address_group(spec).id(PUBLIC_ADDRESSES.kind, &default)
                    }
                };
                frontend = frontend.set(key("publicIPAddress"), id.to_ascii_lowercase());
            }
            let pool = pool_of(family, own_pool.as_deref(), cluster);
            for port in &spec.ports {
                let (number, protocol, rule) = port.listener(family);
                graph = graph.listener(number, protocol, &pool, Attributes::desired(&rule)?);
            }
        }
        let config = self.config();
        graph = graph.balancer(tags::desired(frontend, &config, config.tags.iter()));
        if let Some(link) = &spec.link {
            let name = link.name(&apply::frontend_name(&owner, spec.named_subnet.as_deref()));
            graph = graph.resource(link::resource(&name), Attributes::desired(&link.settings)?);
        }
        if let Some(rules) = spec.security.as_ref().filter(|it| !it.is_empty()) {
            graph = graph.resource(security::resource(), security::settings(rules));
        }
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => Ok(ListResult::of(self.all().await?.into_iter().map(|it| it.sharing(sets)).collect())),
            Query::Owner(identity) => self.find(&identity.name, Some(identity.service)).await.map(ListResult::of),
            Query::Ids(ids, _) => {
                let owners: BTreeSet<&str> = ids.iter().map(|id| name_of(id)).collect();
                let services = self.services_by_owner();
                let found = owners.iter().map(|owner| self.find(owner, services.get(*owner).map(|it| &**it)));
                let found = try_join_all(found).await?;
                Ok(ListResult::of(found.into_iter().flatten().filter(|it| ids.contains(&it.id)).collect()))
            }
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        // Other Services are synced meanwhile, so that their changes join the same write.
        change.callbacks.release_permit();
        let outcome = self.carry_out(change, spec).await;
        change.callbacks.reacquire_permit().await;
        outcome
    }

    fn published(&self, observed: &ObservedLoadBalancer, _: &Service, spec: &Spec) -> Published {
        let mut ingress = observed.ingress.clone();
        // In the order of the Service's families.
        let begins_with_ipv6 = spec.families.first().is_some_and(|it| it.is_ipv6);
        ingress.sort_by_key(|it| it.ip.as_ref().is_some_and(|ip| ip.contains(':')) != begins_with_ipv6);
        if !ingress.is_empty() {
            ingress.extend(spec.additional.iter().map(|ip| ObservedLoadBalancer::ip(&ip.to_string())));
        }
        Published {
            status: LoadBalancerStatus { ingress: (!ingress.is_empty()).then_some(ingress) },
            annotations: Vec::new(),
        }
    }
}
