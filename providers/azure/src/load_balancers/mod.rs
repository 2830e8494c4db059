//! Load balancers as a cloud for the engine of provider-kit. All Services of one kind share one load balancer of Azure:
//! what the engine calls a load balancer is a Service's share of it, with its public address and its security rules.

mod additional;
pub(crate) mod address;
mod apply;
mod destinations;
pub(crate) mod document;
mod edit;
pub(crate) mod link;
pub(crate) mod members;
pub(crate) mod placement;
mod probes;
mod reading;
pub(crate) mod security;
pub(crate) mod spec;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{
    AddressType, Caches, Cluster, Fence, LoadBalancerStatus, Node, Result, Service, async_trait,
    default_load_balancer_name,
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::coalescer::Coalescer;
use provider_kit::endpoint_nodes::EndpointNodes;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, LoadBalancerCloud, NameUniqueness, Naming,
    ObservedLoadBalancer, Published, Query, ResourceGraph, Scope, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;

use self::destinations::Destinations;
use self::members::MemberChange;
use self::reading::{Observed, ingress_of};
use self::spec::{Family, Spec};
use crate::arm::{Arm, PUBLIC_ADDRESSES, name_of, text};
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
    members: Coalescer<(DocumentKey, String), (Shared, MemberChange), members::Refused>,
    placed: Mutex<placement::Placed>,
    endpoint_nodes: EndpointNodes,
    cluster_view: ClusterView,
    /// Addresses to which security rules of Services lead, by the beginning of the names of their elements.
    further: Mutex<HashMap<String, Destinations>>,
    deduplicator: EventDeduplicator,
}

impl std::ops::Deref for AzureLoadBalancers {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl AzureLoadBalancers {
    pub(crate) fn new(
        config: CurrentConfig,
        documents: Shared,
        machines: Inventory<Machines>,
        cluster_view: ClusterView,
        fence: Fence,
    ) -> Self {
        let members = Coalescer::new(
            |(key, pool): (DocumentKey, String), items: Vec<(Shared, MemberChange)>| async move {
                let (all, changes): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                members::change(&all[0], &key, &pool, &changes).await
            },
        );
        let reads = Coalescer::new(|(), callers: Vec<Self>| async move {
            callers[0].read_documents().await.map(Arc::new)
        });
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
            deduplicator: EventDeduplicator::new(cluster_view.events().clone()),
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
        let name = if kind == INTERNAL {
            format!("{base}{INTERNAL_SUFFIX}")
        } else {
            base.to_owned()
        };
        DocumentKey {
            kind: DocumentKind::LoadBalancer,
            group: self.config().load_balancers.clone(),
            name,
        }
    }

    /// Returns the load balancer that a resource graph is a share of.
    fn key_in(&self, kind: &str, graph: &ResourceGraph) -> DocumentKey {
        let stated = graph
            .balancer_attributes()
            .and_then(|settings| settings.text(BALANCER).map(str::to_owned));
        self.key(
            kind,
            &stated.unwrap_or_else(|| self.config().balancer_names(self.cluster()).remove(0)),
        )
    }

    /// Returns all load balancers of the cluster, existing or not.
    fn keys(&self) -> Vec<(&'static str, DocumentKey)> {
        let names = self.config().balancer_names(self.cluster());
        let both = |name: String| [EXTERNAL, INTERNAL].map(|kind| (kind, self.key(kind, &name)));
        names.into_iter().flat_map(both).collect()
    }

    fn security_key(&self) -> DocumentKey {
        let group = self.config().security_group.clone();
        let name = self.config().file.security_group_name.clone();
        DocumentKey {
            kind: DocumentKind::SecurityGroup,
            group,
            name,
        }
    }

    /// Returns the zones of the region; none in an edge zone.
    pub(crate) async fn zones(&self) -> Result<Vec<String>> {
        if self.config().is_edge() || self.config().file.is_basic() {
            return Ok(Vec::new());
        }
        let read = async || {
            self.arm()
                .zones(
                    &self.config().nodes.subscription,
                    "publicIPAddresses",
                    &self.config().region(),
                )
                .await
        };
        let (zones, _) = self
            .zones
            .get(ZONES_AGE, read)
            .await
            .map_err(|error| error.context("cannot read the zones of the region"))?;
        Ok((*zones).clone())
    }

    fn services(&self) -> Vec<Arc<Service>> {
        self.caches
            .get()
            .map(|caches| caches.services())
            .unwrap_or_default()
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.caches
            .get()
            .map(|caches| caches.nodes())
            .unwrap_or_default()
    }

    /// Returns the Services of the cluster, by the beginning of the names of their elements.
    fn services_by_owner(&self) -> HashMap<String, Arc<Service>> {
        self.services()
            .into_iter()
            .map(|service| (default_load_balancer_name(&service), service))
            .collect()
    }

    /// Returns the members that these Nodes are in a pool of a family; `None` if none of them is known.
    async fn targets(&self, nodes: &[Arc<Node>], is_ipv6: bool) -> Result<Option<Targets>> {
        let config = self.config();
        let set = config.file.primary_set();
        let is_in_set = |machine: &VirtualMachine| {
            set.is_empty() || machine.set_name().eq_ignore_ascii_case(set)
        };
        let found: Vec<String> = match config.file.pool_kind {
            PoolKind::Nic => {
                let known: Vec<_> = nodes
                    .iter()
                    .filter(|node| node.provider_id().is_some())
                    .map(compared)
                    .collect();
                let machines = self
                    .machines
                    .find_all(&known, false, Priority::Ordinary)
                    .await;
                let present_machines = machines.into_iter().filter_map(|found| match found {
                    Ok(Found::Present(machine))
                        if !machine.has_family(is_ipv6) || !is_in_set(&machine) =>
                    {
                        None
                    }
                    Ok(Found::Present(machine)) => Some(Ok(machine.interface.to_string())),
                    Ok(Found::Gone(_)) => None,
                    Err(error) if error.is_invalid() => None,
                    Err(error) => Some(Err(error)),
                });
                present_machines.collect::<Result<_>>()?
            }
            _ => nodes
                .iter()
                .filter_map(|node| internal(node, is_ipv6))
                .map(|ip| ip.to_string())
                .collect(),
        };
        let found: Targets = found.iter().filter(|text| !text.is_empty()).collect();
        Ok((nodes.is_empty() || !found.is_empty()).then_some(found))
    }

    /// Returns `true` if a pool keeps its members while all Nodes are excluded: the machines reach the Internet by it.
    fn keeps_outbound(&self, spec: &Spec, base: Option<&str>) -> bool {
        let is_by_interface = self.config().file.pool_kind == PoolKind::Nic;
        is_by_interface && base.is_none() && !spec.is_internal && !self.nodes().is_empty()
    }

    /// Returns the Nodes that may be in pools.
    fn usable(&self, nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
        let config = self.config();
        let has_control = config.file.exclude_master_from_standard_lb != Some(false);
        let is_control = |node: &Node| {
            let mut roles = ["control-plane", "master"]
                .iter()
                .map(|master| format!("node-role.kubernetes.io/{master}"));
            has_control && roles.any(|role| node.labels.get(&role).is_some())
        };
        let is_here = |node: &Node| is_of_group(node, &config.nodes.name);
        nodes
            .iter()
            .filter(|node| !is_unmanaged(node) && !is_control(node) && is_here(node))
            .cloned()
            .collect()
    }
}

/// Returns the ID of a Service's share.
fn share_id(kind: &str, owner: &str) -> String {
    format!("{kind}/{owner}")
}

/// Returns the name of the pool for a family: that of the cluster, or of the Service alone.
fn pool_of(family: &Family, own_pool: Option<&str>, cluster: &str) -> String {
    match own_pool {
        Some(own_pool) if family.is_ipv6 => {
            format!("{own_pool}{}", spec::IPV6.to_ascii_lowercase())
        }
        Some(own_pool) => own_pool.to_owned(),
        None => family.pool(cluster),
    }
}

/// Returns the internal address of a Node of this family.
fn internal(node: &Node, is_ipv6: bool) -> Option<IpAddr> {
    let internal = node
        .addresses
        .iter()
        .filter(|address| address.kind == AddressType::InternalIP);
    { internal }
        .filter_map(|address| address.address.parse().ok())
        .find(|ip: &IpAddr| ip.is_ipv6() == is_ipv6)
}

/// Returns the name of a load balancer without the suffix of internal ones.
fn base_name(name: &str) -> &str {
    name.strip_suffix(INTERNAL_SUFFIX).unwrap_or(name)
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
        let is_internal = Annotations::of(service).get(&crate::annotations::INTERNAL) == Some(true);
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
        let spec = input.spec;
        let request = input.request;
        let cluster = request.cluster.name.as_str();
        let owner = default_load_balancer_name(request.service);
        let kind = if spec.is_internal { INTERNAL } else { EXTERNAL };
        let nodes = self.usable(request.nodes);
        if input.scope != Scope::Targets {
            self.check_additional(request.service, spec)?;
            self.check_denial(request.service, spec)?;
        }
        let further = self.note_destinations(&owner, request.service, spec, &nodes);
        let base = self.place(request.service, spec, kind).await?;
        let (nodes, own_pool) = self
            .members_of(request.service, base.as_deref(), nodes)
            .await?;
        let mut graph = ResourceGraph::default();
        for family in &spec.families {
            let targets = match self.config().file.is_preconfigured(spec.is_internal) {
                true => None,
                false => self.targets(&nodes, family.is_ipv6).await?,
            };
            self.warn_of_empty_pool(request.service, &nodes, family.is_ipv6, targets.as_ref());
            let targets = targets.filter(|targets| {
                !targets.is_empty() || !self.keeps_outbound(spec, base.as_deref())
            });
            graph = graph.pool(
                &pool_of(family, own_pool.as_deref(), cluster),
                Attributes::default(),
                targets,
            );
        }
        let security = spec.security.as_ref().filter(|names| !names.is_empty());
        if input.scope == Scope::Targets {
            let follows = security.is_some() && spec.families.iter().any(|family| family.to_nodes);
            return Ok(match follows {
                true => graph
                    .resource_of_nodes(security::resource(), security::destinations_of(&further)),
                false => graph,
            });
        }
        let mut frontend = Attributes::default();
        if let Some(base) = base {
            frontend = frontend.set(BALANCER, base);
        }
        for family in &spec.families {
            let key = |field: &str| format!("{field}{}", family.suffix);
            if spec.is_internal {
                let subnet = self
                    .config()
                    .subnet_id(spec.subnet.as_deref().unwrap_or_default());
                frontend = frontend.set(key("subnet"), subnet);
                if let Some(ip) = family.address {
                    frontend = frontend.set(key("privateIPAddress"), ip.to_string());
                }
            } else {
                let default = address::default_name(cluster, &owner, family);
                let stated = self.stated_address(spec, family).await?;
                let stated =
                    stated.filter(|object| !text(object, "/name").eq_ignore_ascii_case(&default));
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
        if let Some(rules) = security {
            let further = Some(&further).filter(|entry| !entry.is_empty());
            graph = graph.resource(security::resource(), security::settings(rules, further));
        }
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => Ok(ListResult::of(
                self.all()
                    .await?
                    .into_iter()
                    .map(|load_balancer| load_balancer.sharing(sets))
                    .collect(),
            )),
            Query::Owner(identity) => self
                .find(&identity.name, Some(identity.service))
                .await
                .map(ListResult::of),
            Query::Ids(ids, _) => {
                let owners: BTreeSet<&str> = ids.iter().map(|id| name_of(id)).collect();
                let services = self.services_by_owner();
                let found = owners
                    .iter()
                    .map(|owner| self.find(owner, services.get(*owner).map(|owner| &**owner)));
                let found = try_join_all(found).await?;
                Ok(ListResult::of(
                    found
                        .into_iter()
                        .flatten()
                        .filter(|load_balancer| ids.contains(&load_balancer.id))
                        .collect(),
                ))
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

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        service: &Service,
        spec: &Spec,
    ) -> Published {
        let mut ingress = observed.ingress.clone();
        // In the order of the Service's families.
        let begins_with_ipv6 = spec.families.first().is_some_and(|family| family.is_ipv6);
        ingress.sort_by_key(|ingress| {
            ingress.ip.as_ref().is_some_and(|ip| ip.contains(':')) != begins_with_ipv6
        });
        if !ingress.is_empty() {
            let additional = self.additional(service, spec);
            ingress.extend(
                additional
                    .iter()
                    .map(|ip| ObservedLoadBalancer::ip(&ip.to_string())),
            );
        }
        Published {
            status: LoadBalancerStatus {
                ingress: (!ingress.is_empty()).then_some(ingress),
            },
            annotations: Vec::new(),
        }
    }
}
