//! Load balancers: desired state, reads, names and status.

mod apply;
mod firewalls;
mod groups;
mod names;
mod objects;
mod snapshot;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, Cluster, Error, EventSubject, Node, Result, Service, TargetHealth, async_trait, default_load_balancer_name,
};
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cached::Cached;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::keyed_lock::KeyedLock;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, Identity, LoadBalancerCloud, LoadBalancerEngine, NameUniqueness,
    Naming, ObservedLoadBalancer, Options, Published, Query, ResourceGraph, ResourceKey, Scope, Targets, machine_ids,
};
use provider_kit::paging::ListResult;
use provider_kit::shared_document::SharedDocuments;
use provider_kit::transport::{Method, Priority};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::groups::Groups;
use self::names::{ADDRESSES, CHECKS, FIREWALLS, HTTP_CHECKS, LbNames};
use self::objects::{Check, Firewall, Pool, Ports, Rule, firewall_description, service_description};
use self::snapshot::Snapshot;
use self::spec::MOST_PORTS;
pub(crate) use self::spec::Spec;
use crate::api::{Api, Place, TARGET_POOL, short};
use crate::instances::{IDS, Source};
use crate::kubernetes::{self, Kubernetes};

/// The path and the port at which kube-proxy says whether a Node takes traffic.
const NODE_CHECK: (&str, i32) = ("/healthz", 10256);
/// The label of Nodes in another subnetwork than the cluster's.
const SUBNET_LABEL: &str = "cloud.google.com/gke-node-pool-subnet";
/// Most instances of an instance group.
const MOST_OF_A_GROUP: usize = 1000;

/// The load balancers of a region.
pub(crate) struct GceLoadBalancers {
    api: Api,
    instances: Inventory<Source>,
    kubernetes: Kubernetes,
    deduplicator: EventDeduplicator,
    groups: SharedDocuments<Groups>,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
    /// Names of firewalls of a shared network that may not be deleted: they keep no Service.
    kept_firewalls: Mutex<BTreeSet<String>>,
    /// Names of load balancers without a pool whose Services are being deleted: they no longer use what Services share.
    released: Mutex<BTreeSet<String>>,
    /// Objects that Services share, by collection and name, and when this program created (`true`) or deleted them: one Service sends the
    /// request, the others wait for it.
    shared: KeyedLock<String, Option<(bool, Instant)>>,
}

pub(crate) fn load_balancers(
    instances: &Inventory<Source>,
    kubernetes: &Kubernetes,
    caches: &Arc<OnceLock<Arc<dyn Caches>>>,
) -> LoadBalancerEngine {
    let (api, machines) = (instances.source().api.clone(), Arc::new(instances.source().clone()));
    let groups = SharedDocuments::new(Groups { api: api.clone(), members: Cached::default() });
    let deduplicator = EventDeduplicator::new(kubernetes.cluster.events().clone());
    let (instances, kubernetes, caches) = (instances.clone(), kubernetes.clone(), Arc::clone(caches));
    let (kept_firewalls, released, shared) = (Mutex::default(), Mutex::default(), KeyedLock::default());
    let cloud =
        GceLoadBalancers { api, instances, kubernetes, deduplicator, groups, caches, kept_firewalls, released, shared };
    LoadBalancerEngine::of(cloud, machines, Options::default())
}

/// Returns the target that an instance is: `zone:name`.
fn target(path: &str) -> Option<String> {
    let mut parts = path.rsplit('/');
    let (name, zone) = (parts.next()?, parts.find(|part| *part != "instances")?);
    Some(format!("{zone}:{name}"))
}

impl GceLoadBalancers {
    async fn names(&self, name: &str) -> Result<LbNames> {
        Ok(LbNames::new(name, &self.kubernetes.cluster_id().await?))
    }

    /// Returns the targets that the Nodes are; `None` if no instance is known.
    fn targets(&self, nodes: &[Arc<Node>], spec: &Spec, place: &Place) -> Option<Targets> {
        let cluster_subnet = place.subnetwork.as_deref().map(crate::api::name);
        let is_in_subnet = |node: &&Arc<Node>| match node.labels.get(SUBNET_LABEL) {
            Some(subnet) if spec.is_internal && !subnet.is_empty() => cluster_subnet.is_none_or(|own| own == subnet),
            _ => true,
        };
        let nodes: Vec<_> = nodes.iter().filter(is_in_subnet).cloned().collect();
        let known = machine_ids(&nodes, &IDS)?;
        let limit = if spec.is_internal { MOST_OF_A_GROUP } else { usize::MAX };
        let (mut zones, mut all) =
            (BTreeMap::<String, usize>::new(), known.iter().filter_map(target).collect::<Vec<_>>());
        all.sort();
        all.retain(|target| {
            let count = zones.entry(target.split(':').next().unwrap_or_default().to_owned()).or_default();
            *count += 1;
            *count <= limit
        });
        Some(all.into_iter().collect())
    }

    /// Returns the network tags of the Nodes: the configured ones, or of each instance the longest that begins its name.
    async fn tags(&self, nodes: &[Arc<Node>]) -> Result<Vec<String>> {
        if !self.api.config.node_tags.is_empty() {
            return Ok(self.api.config.node_tags.clone());
        }
        let found = self.instances.find_all(nodes, false, Priority::Ordinary).await;
        let mut tags = BTreeSet::new();
        for found in found {
            let Found::Present(instance) = found? else { continue };
            let name = provider_kit::inventory::Machine::name(&*instance);
            let own = instance.tags.iter().filter(|tag| name.starts_with(&***tag)).max_by_key(|tag| tag.len());
            let own = own.ok_or_else(|| {
                Error::invalid(format!(
                    "instance {name} has no network tag that begins its name; add one, or set node-tags in the cloud configuration"
                ))
            })?;
            tags.insert(own.to_string());
        }
        Ok(tags.into_iter().collect())
    }

    fn pool(names: &LbNames, spec: &Spec) -> Pool {
        let check = names.check(spec);
        Pool {
            session_affinity: Some(spec.affinity.to_owned()),
            health_checks: vec![format!("{}/{check}", if spec.is_internal { CHECKS } else { HTTP_CHECKS })],
            protocol: spec.is_internal.then(|| spec.protocol.to_owned()),
            description: spec.is_internal.then(|| match spec.is_shared {
                true => String::new(),
                false => service_description(&spec.service),
            }),
            ..Pool::default()
        }
    }

    fn rule(spec: &Spec, place: &Place) -> Result<Attributes> {
        let mut ports: Vec<_> = spec.ports.iter().map(ToString::to_string).collect();
        ports.sort();
        let all = (spec.is_internal && ports.len() > MOST_PORTS).then_some(true);
        let subnetwork = match &spec.subnet {
            Some(name) if !place.is_legacy => Some(place.subnetwork_url(name)),
            _ => place.subnetwork.clone(),
        };
        let is_global = spec.is_internal && spec.has_global_access && !place.is_legacy;
        let rule = Rule {
            ip: spec.ip.clone(),
            protocol: Some(spec.protocol.to_owned()),
            port_range: (!spec.is_internal).then(|| spec.port_range()),
            ports: (spec.is_internal && all.is_none()).then_some(ports),
            all_ports: all,
            load_balancing_scheme: Some(if spec.is_internal { "INTERNAL" } else { "EXTERNAL" }.to_owned()),
            network_tier: spec.tier.clone(),
            allow_global_access: is_global.then_some(true),
            subnetwork: subnetwork.filter(|_| spec.is_internal).map(|url| short(&url).to_owned()),
            ..Rule::default()
        };
        let rule = Attributes::desired(&rule)?;
        Ok(if spec.is_internal { rule } else { rule.set("subnetwork", ()) })
    }

    async fn whole(
        &self,
        input: &DesiredStateInput<'_, Spec>,
        names: &LbNames,
        place: &Place,
    ) -> Result<ResourceGraph> {
        let (spec, config) = (input.spec, &self.api.config);
        if place.is_legacy && spec.is_internal && (spec.has_global_access || spec.subnet.is_some()) {
            let (subject, reason) = (EventSubject::Service(input.request.service), "ILBOptionsIgnored");
            let text = "The network has no subnetworks: global access and subnetwork of the load balancer are ignored";
            if self.deduplicator.is_first(subject, reason, text) {
                self.kubernetes.cluster.events().warning(subject, reason, text);
            }
        }
        let tags = self.tags(input.request.nodes).await?;
        let (path, port) = spec.check.unwrap_or(NODE_CHECK);
        let check = names.check(spec);
        let description = match (spec.is_internal, spec.check) {
            (true, None) => String::new(),
            (true, Some(_)) => service_description(&spec.service),
            (false, _) => service_description(&check),
        };
        let of_check = match (spec.is_internal, spec.check) {
            (true, _) => Some(String::new()),
            (false, None) => Some(format!(r#"{{"kubernetes.io/cluster-id":"{}"}}"#, names.cluster_id)),
            (false, Some(_)) => None,
        };
        let firewall = |protocol: &str, ports: &[u16], sources: &[String]| Firewall {
            source_ranges: sources.to_vec(),
            target_tags: tags.clone(),
            allowed: Some(vec![Ports::new(protocol, ports.iter().copied())]),
            ..Firewall::default()
        };
        let checked = u16::try_from(port).unwrap_or_default();
        let of_check = Firewall { description: of_check, ..firewall("tcp", &[checked], &config.check_sources) };
        let priority = if config.denies && !spec.is_internal { 999 } else { 1000 };
        let traffic = Firewall { priority: Some(priority), ..firewall(spec.protocol, &spec.ports, &spec.ranges) };
        let pool = names.pool(spec);
        let graph = match spec.is_internal {
            true => ResourceGraph::default().resource(names.group_resource(), Attributes::default()),
            false => ResourceGraph::default(),
        };
        let mut graph = graph
            .resource(names.check_firewall_resource(&check, spec.is_internal), Attributes::desired(&of_check)?)
            .resource(
                names.check_resource(&check, spec.is_internal),
                Attributes::desired(&Check::new(!spec.is_internal, path, port, description))?,
            )
            .pool(&pool, Attributes::desired(&Self::pool(names, spec))?, self.targets(input.request.nodes, spec, place))
            .listener(
                spec.ports.iter().min().copied().unwrap_or_default(),
                spec.protocol,
                &pool,
                Self::rule(spec, place)?,
            )
            .resource(ResourceKey::created_after(FIREWALLS, names.firewall()), Attributes::desired(&traffic)?);
        if config.denies && !spec.is_internal {
            let all = Ports { protocol: "all".to_owned(), ports: Vec::new() };
            let denial = Firewall {
                source_ranges: vec!["0.0.0.0/0".to_owned()],
                allowed: None,
                denied: Some(vec![all]),
                priority: Some(1000),
                ..traffic
            };
            graph =
                graph.resource(ResourceKey::created_after(FIREWALLS, names.denial()), Attributes::desired(&denial)?);
        }
        Ok(graph)
    }

    /// Returns `true` if a Service other than that of load balancer `name` uses an object that Services share: one for
    /// which `is_user` holds, until its pool is deleted. So the last of many Services that are deleted at once deletes what
    /// they shared.
    fn has_other_users(&self, name: &str, is_user: impl Fn(&Spec) -> bool) -> bool {
        let others = self.caches.get().map(|caches| caches.services()).unwrap_or_default();
        let mut released = self.released.lock();
        let names: BTreeSet<_> = others.iter().map(|other| default_load_balancer_name(other)).collect();
        released.retain(|name| names.contains(name));
        others.iter().any(|other| {
            let (own, type_) =
                (default_load_balancer_name(other), other.spec.as_ref().and_then(|it| it.type_.as_deref()));
            let is_leaving = other.metadata.deletion_timestamp.is_some() || type_ != Some("LoadBalancer");
            let has_pool = !is_leaving || kubernetes::is_cleaned_up_later(other) && !released.contains(&own);
            has_pool && own != name && {
                let spec = Spec::of(other, &self.api.config).spec;
                is_user(&spec) && !spec.is_elsewhere
            }
        })
    }

    /// Returns the targets that the Nodes of the cluster are which may receive traffic; `None` if they are not known yet.
    fn balanced_nodes(&self) -> Option<BTreeSet<String>> {
        let is_balanced = |node: &&Arc<Node>| node.labels.get(cloud_provider::names::LABEL_EXCLUDE_BALANCER).is_none();
        let nodes = self.kubernetes.cluster.nodes()?;
        Some(nodes.iter().filter(is_balanced).filter_map(|node| target(&node.provider_id)).collect())
    }

    /// Notes that a load balancer whose Service is being deleted has no pool, or that it has one again.
    fn set_released(&self, name: &str, is_released: bool) {
        let mut released = self.released.lock();
        let _is_changed = if is_released { released.insert(name.to_owned()) } else { released.remove(name) };
    }

    /// Reads a load balancer by its name, with what may be left of one that is not complete.
    fn read_one<'a>(&'a self, name: &'a str, is_leaving: bool) -> BoxFuture<'a, Result<Option<ObservedLoadBalancer>>> {
        let read = async move {
            let (place, names) = (self.api.place().await?, self.names(name).await?);
            let snapshot = Snapshot::of_one(self, &place, &names, is_leaving).await?;
            let found = snapshot.actual(&names, self.api.config.removes_denials)?;
            let kept = self.kept_firewalls.lock();
            let counts = |resource: &ResourceKey| match resource {
                ResourceKey::CreatedBefore(it) | ResourceKey::CreatedAfter(it) if it.kind == FIREWALLS => {
                    !kept.contains(&*it.name)
                }
                _ => true,
            };
            let is_more = |it: &ObservedLoadBalancer| it.graph.iter().any(|graph| graph.resources.keys().any(counts));
            Ok(found.filter(|actual| !is_leaving || is_more(actual)))
        };
        read.boxed()
    }
}

#[async_trait]
impl LoadBalancerCloud for GceLoadBalancers {
    type Spec = Spec;

    /// Returns `Unique`: names are unique in a region of a project, and that of a load balancer is the Service's UID.
    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn naming(&self, _: &Cluster, service: &Service) -> Naming {
        let name = default_load_balancer_name(service);
        Naming { legacy_owner: Some(name.clone()), name, ..Naming::of(service) }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.api.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        if input.spec.is_elsewhere {
            return Err(Error::implemented_elsewhere());
        }
        let (place, names) =
            (self.api.place().await?, self.names(&default_load_balancer_name(input.request.service)).await?);
        match input.scope {
            Scope::Everything => self.whole(input, &names, &place).await,
            Scope::Targets => {
                let targets = self.targets(input.request.nodes, input.spec, &place);
                Ok(ResourceGraph::default().pool(&names.pool(input.spec), Attributes::default(), targets))
            }
        }
    }

    /// Fills in the address, which firewalls name, and that of a forwarding rule that is being replaced. Members of a shared
    /// instance group that are Nodes of the cluster stay: other Services send traffic to them.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        _: &Identity<'_>,
        spec: &Spec,
    ) -> Result<ResourceGraph> {
        let held = observed.graph.iter().flat_map(|graph| graph.resources.iter());
        let held = held.filter(|(resource, _)| resource.is_of_kind(ADDRESSES)).find_map(|(_, it)| it.text("address"));
        let ip = observed.ingress.first().and_then(|it| it.ip.as_deref()).or(held);
        let resources: Vec<_> = desired.resources.iter().map(|(resource, it)| (resource.clone(), it.clone())).collect();
        for (resource, settings) in resources {
            let fitted = match (&resource, ip) {
                (ResourceKey::CreatedAfter(_), Some(ip)) => {
                    let text = firewall_description(&spec.service, ip);
                    settings.set("destinationRanges", [ip]).set("description", text)
                }
                (ResourceKey::CreatedBefore(it), Some(ip))
                    if it.kind == FIREWALLS && settings.get("description").is_none() =>
                {
                    settings.set("description", firewall_description(&spec.service, ip))
                }
                (ResourceKey::Listener(_), _) if observed.ingress.is_empty() && spec.ip.is_none() => {
                    held.map_or_else(|| settings.clone(), |ip| settings.clone().set("IPAddress", ip))
                }
                _ => continue,
            };
            desired.resources.insert(resource, fitted);
        }
        if spec.is_internal {
            let nodes = self.balanced_nodes();
            let stays = |it: &&str| nodes.as_ref().is_none_or(|nodes| nodes.contains(*it));
            let pools: Vec<_> = desired.targets.iter().map(|(pool, targets)| (pool.clone(), targets.clone())).collect();
            for (pool, targets) in pools {
                let seen = observed.graph.as_ref().map(|graph| graph.targets_of(&pool)).unwrap_or_default();
                let stay: Targets = seen.iter().filter(stays).collect();
                desired.targets.insert(pool, targets.with(&stay));
            }
        }
        Ok(desired)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => {
                let (place, cluster_id) = (self.api.place().await?, self.kubernetes.cluster_id().await?);
                let snapshot = Snapshot::of_all(self, &place, &cluster_id).await?;
                let mut all = Vec::new();
                for name in snapshot.names() {
                    let found = snapshot.actual(&LbNames::new(name, &cluster_id), self.api.config.removes_denials)?;
                    all.extend(found.map(|actual| actual.sharing(sets)));
                }
                Ok(ListResult::of(all))
            }
            Query::Owner(identity) => {
                let found = self.read_one(&identity.name, identity.is_leaving()).await?;
                Ok(ListResult::of(found.into_iter().collect()))
            }
            Query::Ids(ids, _) => {
                let found = try_join_all(ids.iter().map(|id| self.read_one(id, false))).await?;
                Ok(ListResult::of(found.into_iter().flatten().collect()))
            }
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    fn published(&self, observed: &ObservedLoadBalancer, _: &Service, spec: &Spec) -> Published {
        let name = observed
            .graph
            .iter()
            .flat_map(ResourceGraph::listeners)
            .find_map(|(_, it)| it.text("pool")?.split_once('/'));
        let shown =
            |is_internal: bool| name.filter(|_| spec.is_internal == is_internal).map(|(_, name)| name.to_owned());
        let keys =
            [("networking.gke.io/target-pool", shown(false)), ("networking.gke.io/backend-service", shown(true))];
        let annotations = if self.api.config.annotates { keys.to_vec() } else { Vec::new() };
        Published { status: observed.status(), annotations }
    }

    fn owner_name(&self, observed: &ObservedLoadBalancer) -> Option<(String, String)> {
        let (namespace, name) = observed.labels.get(snapshot::SERVICE)?.split_once('/')?;
        Some((namespace.to_owned(), name.to_owned()))
    }

    /// Reads the health of the instances of a target pool, one by one. A backend service tells that of a whole group.
    async fn target_health(&self, observed: &ObservedLoadBalancer) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        let Some((pool, targets)) = observed.graph.as_ref().and_then(|graph| graph.targets.iter().next()) else {
            return Ok(None);
        };
        let Some(name) = pool.strip_prefix("targetPools/") else { return Ok(None) };
        let place = self.api.place().await?;
        let health = async |target: &str| {
            let (zone, instance) = target.split_once(':').unwrap_or_default();
            let body = json!({"instance": place.instance(zone, instance)});
            let path = "/projects/{project}/regions/{region}/targetPools/{name}/getHealth";
            let call = place.action(Method::POST, TARGET_POOL, path, "", name).json(&body).reading();
            let state = self.api.http.read::<Value>(call).await?;
            let state =
                state.pointer("/healthStatus/0/healthState").and_then(Value::as_str).unwrap_or_default().to_owned();
            let health = TargetHealth { is_healthy: state == "HEALTHY", detail: state };
            Ok::<_, Error>((target.to_owned(), health))
        };
        Ok(Some(try_join_all(targets.iter().map(health)).await?.into_iter().collect()))
    }
}
