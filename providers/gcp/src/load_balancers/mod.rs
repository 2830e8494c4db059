//! Load balancers: desired state, reads, names and status.

mod apply;
mod firewalls;
mod groups;
mod held_addresses;
mod members;
mod names;
mod nodes;
mod objects;
mod snapshot;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, Cluster, Error, EventSubject, Node, Result, Service, TargetHealth, async_trait,
    default_load_balancer_name,
};
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cached::Cached;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::Inventory;
use provider_kit::keyed_lock::KeyedLock;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, Identity, LoadBalancerCloud,
    LoadBalancerEngine, NameUniqueness, Naming, ObservedLoadBalancer, Options, Published, Query,
    ResourceGraph, ResourceKey, Scope, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::shared_document::SharedDocuments;
use provider_kit::transport::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::apply::check_tags;
use self::groups::Groups;
use self::names::{IPV6, LbNames, denial, is_ipv6, traffic};
use self::objects::{
    Check, Firewall, Pool, Ports, Rule, firewall_description, service_description,
};
use self::snapshot::Snapshot;
pub(crate) use self::spec::Spec;
use self::spec::{BOTH, Backend, Frontend, MOST_PORTS};
use crate::api::{ADDRESS, Api, BACKEND_SERVICE, FIREWALL, Kind, Place, TARGET_POOL, name, short};
use crate::instances::Source;
use crate::kubernetes::{self, Kubernetes};

/// The path and the port at which kube-proxy says whether a Node takes traffic.
const NODE_CHECK: (&str, i32) = ("/healthz", 10256);
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
    let api = instances.source().api.clone();
    let machines = Arc::new(instances.source().clone());
    let groups = SharedDocuments::new(Groups {
        api: api.clone(),
        members: Cached::default(),
    });
    let deduplicator = EventDeduplicator::new(kubernetes.cluster.events().clone());
    let instances = instances.clone();
    let kubernetes = kubernetes.clone();
    let caches = Arc::clone(caches);
    let kept_firewalls = Mutex::default();
    let released = Mutex::default();
    let shared = KeyedLock::default();
    let cloud = GceLoadBalancers {
        api,
        instances,
        kubernetes,
        deduplicator,
        groups,
        caches,
        kept_firewalls,
        released,
        shared,
    };
    LoadBalancerEngine::of(cloud, machines, Options::default())
}

/// Returns the target that an instance is: `zone:name`.
fn target(path: &str) -> Option<String> {
    let mut parts = path.rsplit('/');
    let name = parts.next()?;
    let zone = parts.find(|part| *part != "instances")?;
    Some(format!("{zone}:{name}"))
}

impl GceLoadBalancers {
    async fn names(&self, name: &str) -> Result<LbNames> {
        Ok(LbNames::new(name, &self.kubernetes.cluster_id().await?))
    }

    fn pool(names: &LbNames, spec: &Spec, backend: Backend) -> Result<Attributes> {
        let protocol = if spec.protocol == BOTH {
            "UNSPECIFIED"
        } else {
            spec.protocol
        };
        let of_service = |text: String| backend.has_groups().then_some(text);
        Attributes::desired(&Pool {
            session_affinity: Some(spec.affinity.to_owned()),
            health_checks: vec![names.check_of(spec, backend)],
            protocol: of_service(protocol.to_owned()),
            load_balancing_scheme: of_service(backend.scheme.to_owned()),
            description: of_service(if spec.is_shared {
                String::new()
            } else {
                service_description(&spec.service)
            }),
            ..Pool::default()
        })
    }

    fn rule(
        spec: &Spec,
        Frontend { is_ipv6, backend }: Frontend,
        place: &Place,
    ) -> Result<Attributes> {
        let ports: BTreeSet<_> = spec
            .ports
            .iter()
            .map(|(_, number)| number.to_string())
            .collect();
        let all = (backend.has_groups() && (ports.len() > MOST_PORTS || spec.protocol == BOTH))
            .then_some(true);
        let subnetwork = match &spec.subnet {
            Some(name) if !place.is_legacy => Some(place.subnetwork_url(name)),
            _ => place.subnetwork.clone(),
        };
        let (first, last) = spec.port_range();
        let is_global = spec.is_internal && spec.has_global_access && !place.is_legacy;
        let has_subnetwork = spec.is_internal || is_ipv6;
        let rule = Attributes::desired(&Rule {
            ip: spec.ip.clone().filter(|ip| ip.contains(':') == is_ipv6),
            protocol: Some(spec.protocol.to_owned()),
            ip_version: Some(if is_ipv6 { "IPV6" } else { "IPV4" }.to_owned()),
            port_range: (!backend.has_groups()).then(|| format!("{first}-{last}")),
            ports: (backend.has_groups() && all.is_none()).then(|| ports.into_iter().collect()),
            all_ports: all,
            load_balancing_scheme: Some(backend.scheme.to_owned()),
            network_tier: spec.tier.clone(),
            allow_global_access: is_global.then_some(true),
            subnetwork: subnetwork
                .filter(|_| has_subnetwork)
                .map(|url| short(&url).to_owned()),
            ..Rule::default()
        })?;
        Ok(if has_subnetwork {
            rule
        } else {
            rule.set("subnetwork", ())
        })
    }

    fn warn_of_options(&self, service: &Service) {
        let subject = EventSubject::Service(service);
        let reason = "ILBOptionsIgnored";
        let text = "The network has no subnetworks: global access and subnetwork of the load balancer are ignored";
        if self.deduplicator.is_first(subject, reason, text) {
            self.kubernetes
                .cluster
                .events()
                .warning(subject, reason, text);
        }
    }

    async fn whole(
        &self,
        input: &DesiredStateInput<'_, Spec>,
        names: &LbNames,
        place: &Place,
    ) -> Result<ResourceGraph> {
        let spec = &input.spec.fitted(place)?;
        let config = &self.api.config;
        if place.is_legacy && spec.is_internal && (spec.has_global_access || spec.subnet.is_some())
        {
            self.warn_of_options(input.request.service);
        }
        let tags = self.tags(input.request.nodes).await?;
        let targets = |backend| self.targets(input.request.nodes, backend, place);
        let firewall = |sources: Vec<String>, allowed: Vec<Ports>| Firewall {
            source_ranges: sources,
            target_tags: Some(tags.clone()).filter(|tags| !tags.is_empty()),
            allowed: Some(allowed),
            ..Firewall::default()
        };
        let (path, port) = spec.check.unwrap_or(NODE_CHECK);
        let mut graph = ResourceGraph::default();
        for frontend in spec.frontends() {
            let Frontend { is_ipv6, backend } = frontend;
            let check = names.check_of(spec, backend);
            let pool = names.pool(spec, backend);
            let (description, of_check) = match (backend.has_groups(), spec.check) {
                (true, None) => (String::new(), Some(String::new())),
                (true, Some(_)) => (service_description(&spec.service), Some(String::new())),
                (false, None) => (
                    service_description(name(&check)),
                    Some(format!(
                        r#"{{"kubernetes.io/cluster-id":"{}"}}"#,
                        names.cluster_id
                    )),
                ),
                (false, Some(_)) => (service_description(name(&check)), None),
            };
            let sources = if is_ipv6 {
                &config.ipv6_check_sources
            } else {
                &config.check_sources
            }
            .clone();
            let checked = vec![Ports::new("tcp", u16::try_from(port))];
            let of_check = Firewall {
                description: of_check,
                ..firewall(sources, checked)
            };
            if backend.has_groups() {
                graph = graph.resource(names.group_resource(), Attributes::default());
            }
            let denies = config.denies && !spec.is_internal;
            let priority = Some(if denies { 999 } else { 1000 });
            let allowed = Firewall {
                priority,
                ..firewall(spec.ranges(is_ipv6), Ports::of(&spec.ports))
            };
            let protocol = format!("{}{}", spec.protocol, if is_ipv6 { IPV6 } else { "" });
            graph = graph
                .resource(
                    names.check_firewall_resource(&check, is_ipv6),
                    Attributes::desired(&of_check)?,
                )
                .resource(
                    names.check_resource(&check),
                    Attributes::desired(&Check::new(
                        !backend.has_groups(),
                        path,
                        port,
                        description,
                    ))?,
                )
                .pool(&pool, Self::pool(names, spec, backend)?, targets(backend))
                .listener(
                    spec.port_range().0,
                    protocol,
                    &pool,
                    Self::rule(spec, frontend, place)?,
                )
                .resource(
                    traffic(names.firewall(is_ipv6)),
                    Attributes::desired(&allowed)?,
                );
            if denies {
                let denying = Firewall {
                    source_ranges: vec![if is_ipv6 { "::/0" } else { "0.0.0.0/0" }.to_owned()],
                    allowed: None,
                    denied: Some(vec![Ports {
                        protocol: "all".to_owned(),
                        ports: Vec::new(),
                    }]),
                    priority: Some(1000),
                    ..allowed
                };
                graph = graph.resource(
                    denial(names.denial(is_ipv6)),
                    Attributes::desired(&denying)?,
                );
            }
        }
        Ok(graph)
    }

    /// Returns `true` if a Service other than that of load balancer `name` uses an object that Services share: one for
    /// which `is_user` holds, until its pool is deleted. So the last of many Services that are deleted at once deletes what
    /// they shared.
    fn has_other_users(&self, name: &str, is_user: impl Fn(&Spec) -> bool) -> bool {
        let others = self
            .caches
            .get()
            .map(|caches| caches.services())
            .unwrap_or_default();
        let mut released = self.released.lock();
        let names: BTreeSet<_> = others
            .iter()
            .map(|other| default_load_balancer_name(other))
            .collect();
        released.retain(|name| names.contains(name));
        others.iter().any(|other| {
            let other_name = default_load_balancer_name(other);
            let type_ = other.spec.as_ref().and_then(|spec| spec.type_.as_deref());
            let is_leaving =
                other.metadata.deletion_timestamp.is_some() || type_ != Some("LoadBalancer");
            let has_pool = !is_leaving
                || kubernetes::is_cleaned_up_later(other) && !released.contains(&other_name);
            has_pool && other_name != name && {
                let spec = Spec::of(other, &self.api.config).spec;
                is_user(&spec) && !spec.is_elsewhere
            }
        })
    }

    /// Returns the targets that the Nodes of the cluster are which may receive traffic; `None` if they are not known yet.
    fn balanced_nodes(&self) -> Option<BTreeSet<String>> {
        let is_balanced = |node: &&Arc<Node>| {
            node.labels
                .get(cloud_provider::names::LABEL_EXCLUDE_BALANCER)
                .is_none()
        };
        let nodes = self.kubernetes.cluster.nodes()?;
        Some(
            nodes
                .iter()
                .filter(is_balanced)
                .filter_map(|node| target(&node.provider_id))
                .collect(),
        )
    }

    /// Notes that a load balancer whose Service is being deleted has no pool, or that it has one again.
    fn set_released(&self, name: &str, is_released: bool) {
        let mut released = self.released.lock();
        let _is_changed = if is_released {
            released.insert(name.to_owned())
        } else {
            released.remove(name)
        };
    }

    /// Reads a load balancer by its name, with what may be left of one that is not complete.
    fn read_one<'a>(
        &'a self,
        name: &'a str,
        is_leaving: bool,
    ) -> BoxFuture<'a, Result<Option<ObservedLoadBalancer>>> {
        let read = async move {
            let place = self.api.place().await?;
            let names = self.names(name).await?;
            let snapshot = Snapshot::of_one(self, &place, &names, is_leaving).await?;
            let found = snapshot.actual(&names, self.api.config.removes_denials)?;
            let kept = self.kept_firewalls.lock();
            let counts = |resource: &ResourceKey| match resource {
                ResourceKey::CreatedBefore(auxiliary) | ResourceKey::CreatedAfter(auxiliary)
                    if auxiliary.kind == FIREWALL.word =>
                {
                    !kept.contains(&*auxiliary.name)
                }
                _ => true,
            };
            let is_more = |load_balancer: &ObservedLoadBalancer| {
                load_balancer
                    .graph
                    .iter()
                    .any(|graph| graph.resources.keys().any(counts))
            };
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
        Naming {
            legacy_owner: Some(name.clone()),
            name,
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.api.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        if input.spec.is_elsewhere {
            return Err(Error::implemented_elsewhere());
        }
        let place = self.api.place().await?;
        let names = self
            .names(&default_load_balancer_name(input.request.service))
            .await?;
        match input.scope {
            Scope::Everything => self.whole(input, &names, &place).await,
            Scope::Targets => {
                // A mistake that keeps the Service from IPv6 keeps no Node from becoming a target.
                let spec = input
                    .spec
                    .fitted(&place)
                    .unwrap_or_else(|_| input.spec.clone());
                let mut graph = ResourceGraph::default();
                // The load balancer may still be of the other kind, also because of a mistake in the annotation.
                for spec in [false, true].map(|is_internal| Spec {
                    is_internal,
                    ..spec.clone()
                }) {
                    for Frontend { backend, .. } in spec.frontends() {
                        let targets = self.targets(input.request.nodes, backend, &place);
                        graph =
                            graph.pool(&names.pool(&spec, backend), Attributes::default(), targets);
                    }
                    graph = self
                        .with_tags(graph, input.request.nodes, &names, &spec)
                        .await?;
                }
                Ok(graph)
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
        let seen = observed.graph.as_ref();
        let held = |is_for_ipv6: bool| {
            let (_, entry) = seen?.resources.iter().find(|(resource, _)| {
                matches!(resource, ResourceKey::CreatedAfter(object) if object.kind == ADDRESS.word && is_ipv6(&object.name) == is_for_ipv6)
            })?;
            // That of a load balancer of the other kind is released.
            if (entry.text("addressType") == Some("INTERNAL")) != spec.is_internal {
                return None;
            }
            let length = entry.number::<u8>("prefixLength").filter(|_| is_for_ipv6);
            Some(
                entry.text("address")?.to_owned()
                    + &length
                        .map(|length| format!("/{length}"))
                        .unwrap_or_default(),
            )
        };
        let shown = |is_for_ipv6: bool| {
            let mut rules = seen.into_iter().flat_map(ResourceGraph::listeners);
            rules
                .find(|(port, _)| is_ipv6(&port.protocol) == is_for_ipv6)
                .and_then(|(_, settings)| Some(settings.text("IPAddress")?.to_owned()))
        };
        let resources: Vec<_> = desired
            .resources
            .iter()
            .map(|(resource, settings)| (resource.clone(), settings.clone()))
            .collect();
        for (resource, settings) in resources {
            let of_name = match &resource {
                ResourceKey::CreatedBefore(auxiliary) | ResourceKey::CreatedAfter(auxiliary) => {
                    is_ipv6(&auxiliary.name)
                }
                ResourceKey::Listener(port) => is_ipv6(&port.protocol),
                _ => continue,
            };
            let ip = shown(of_name).or_else(|| held(of_name));
            let text =
                |ip: &str| firewall_description(&spec.service, ip.split('/').next().unwrap_or(ip));
            let fitted = match (&resource, ip.as_deref()) {
                (ResourceKey::CreatedAfter(_), Some(ip)) => settings
                    .set("destinationRanges", [ip])
                    .set("description", text(ip)),
                (ResourceKey::CreatedBefore(it), Some(ip))
                    if it.kind == FIREWALL.word && settings.get("description").is_none() =>
                {
                    settings.set("description", text(ip))
                }
                (ResourceKey::Listener(_), Some(ip))
                    if shown(of_name).is_none() && settings.get("IPAddress").is_none() =>
                {
                    settings.set("IPAddress", ip)
                }
                _ => continue,
            };
            desired.resources.insert(resource, fitted);
        }
        self.keep_priorities(&mut desired, seen, &LbNames::new(&observed.name, ""));
        // An address is held until the forwarding rule is there again, even if the cloud refuses it.
        for is_for_ipv6 in [false, true]
            .into_iter()
            .filter(|is_ipv6| shown(*is_ipv6).is_none())
        {
            let name = LbNames::new(&observed.name, "").rule(is_for_ipv6);
            let settings = seen.and_then(|graph| graph.resources.get(&names::held(name.clone())));
            if let (Some(settings), Some(_)) = (settings.cloned(), held(is_for_ipv6)) {
                desired = desired.resource(names::held(name), settings);
            }
        }
        let nodes = self.balanced_nodes();
        let stays = |text: &&str| nodes.as_ref().is_none_or(|nodes| nodes.contains(*text));
        let pools: Vec<_> = desired
            .targets
            .iter()
            .map(|(pool, targets)| (pool.clone(), targets.clone()))
            .collect();
        for (pool, targets) in pools
            .into_iter()
            .filter(|(pool, _)| pool.starts_with(BACKEND_SERVICE.word))
        {
            let stay: Targets = seen
                .map(|graph| graph.targets_of(&pool))
                .unwrap_or_default()
                .iter()
                .filter(stays)
                .collect();
            desired.targets.insert(pool, targets.with(&stay));
        }
        Ok(desired)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => {
                let place = self.api.place().await?;
                let cluster_id = self.kubernetes.cluster_id().await?;
                let snapshot = Snapshot::of_all(self, &place, &cluster_id).await?;
                let mut all = Vec::new();
                for name in snapshot.names() {
                    let found = snapshot.actual(
                        &LbNames::new(name, &cluster_id),
                        self.api.config.removes_denials,
                    )?;
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

    async fn check_creation(
        &self,
        _: &Identity<'_>,
        _: &Spec,
        desired: &ResourceGraph,
    ) -> Result<()> {
        desired
            .resources
            .iter()
            .try_for_each(|(resource, settings)| check_tags(resource, settings))
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    fn published(&self, observed: &ObservedLoadBalancer, _: &Service, _: &Spec) -> Published {
        let shown = |kind: Kind| {
            let mut rules = observed.graph.iter().flat_map(ResourceGraph::listeners);
            rules
                .find_map(|(_, settings)| {
                    settings
                        .text("pool")?
                        .strip_prefix(kind.word)?
                        .strip_prefix('/')
                })
                .map(str::to_owned)
        };
        let keys = [
            ("networking.gke.io/target-pool", TARGET_POOL),
            ("networking.gke.io/backend-service", BACKEND_SERVICE),
        ];
        let keys = keys
            .into_iter()
            .filter(|_| self.api.config.annotates)
            .map(|(key, kind)| (key, shown(kind)));
        Published {
            status: observed.status(),
            annotations: keys.collect(),
        }
    }

    fn owner_name(&self, observed: &ObservedLoadBalancer) -> Option<(String, String)> {
        let (namespace, name) = observed.labels.get(snapshot::SERVICE)?.split_once('/')?;
        Some((namespace.to_owned(), name.to_owned()))
    }

    /// Reads the health of the instances of a target pool, one by one. A backend service tells that of a whole group.
    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        let pools = observed.graph.iter().flat_map(|graph| graph.targets.iter());
        let mut own_pools =
            pools.filter_map(|(pool, targets)| Some((pool.strip_prefix("targetPools/")?, targets)));
        let Some((name, targets)) = own_pools.next() else {
            return Ok(None);
        };
        let place = self.api.place().await?;
        let health = async |target: &str| {
            let (zone, instance) = target.split_once(':').unwrap_or_default();
            let body = json!({"instance": place.instance(zone, instance)});
            let path = "/projects/{project}/regions/{region}/targetPools/{name}/getHealth";
            let call = place
                .action(Method::POST, TARGET_POOL, path, "", name)
                .json(&body)
                .reading();
            let state = self.api.http.read::<Value>(call).await?;
            let state = state
                .pointer("/healthStatus/0/healthState")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let health = TargetHealth {
                is_healthy: state == "HEALTHY",
                detail: state,
            };
            Ok::<_, Error>((target.to_owned(), health))
        };
        Ok(Some(
            try_join_all(targets.iter().map(health))
                .await?
                .into_iter()
                .collect(),
        ))
    }
}
