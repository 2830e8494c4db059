//! A small cloud that answers at once and takes one change with one request, with controls for its answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AdoptableTag, Caches, Cluster, Error, LoadBalancerRequest, Node, Result, Service, TargetHealth,
    async_trait,
};
use parking_lot::{Mutex, MutexGuard};

use super::super::{
    Adoption, Applied, Attributes, Change, DesiredStateInput, Identity, LoadBalancerCloud,
    LoadBalancerEngine, Machines, NameUniqueness, Naming, Notice, ObservedLoadBalancer, Operation,
    Options, OwnerTags, Published, Query, Replacement, ResourceGraph, ResourceKey, Targets,
};
use crate::annotations::{Annotations, Parsed};
use crate::paging::ListResult;

/// Setting of the load balancer: when its value changes, the targets are lost.
pub(super) const NETWORK: &str = "network";
/// Setting of the load balancer that counts only when it is created.
pub(super) const ZONE: &str = "zone";
/// Annotation of a Service that permits no replacement.
pub(super) const REFUSES_REPLACEMENT: &str = "refuses-replacement";
/// Setting of the load balancer that the cloud ignores.
pub(super) const IGNORED: &str = "ignored";

#[derive(Default)]
pub(super) struct State {
    pub(super) balancers: BTreeMap<String, ObservedLoadBalancer>,
    /// The desired state by Service UID.
    pub(super) wanted: BTreeMap<String, ResourceGraph>,
    /// Requests. Reads are `find`, `read`, `list` and `machine`; writes are `create`, the operation's name and
    /// `delete`.
    pub(super) requests: Vec<String>,
    pub(super) protected: BTreeSet<String>,
    /// Load balancers that another client deletes right before our request.
    pub(super) vanishing: BTreeSet<String>,
    /// If set, a search finds load balancers without an owner, too.
    pub(super) haunted: bool,
    pub(super) most_targets: Option<usize>,
    pub(super) adopts: bool,
    /// If set, the legacy owner tag is made from an annotation.
    pub(super) states_legacy_owner: bool,
    pub(super) adoptable_tag: Option<AdoptableTag>,
    /// The number of creations that fail, and whether the load balancer is created all the same.
    pub(super) has_no_time: (usize, bool),
    pub(super) machines_are_known: bool,
    pub(super) left_out: Vec<(String, Targets)>,
    /// Settings that the cloud chooses by itself for a new load balancer, and does not show in the answer.
    pub(super) chosen: Option<Attributes>,
    /// If set, another zone needs another load balancer; if the inner value is set, the old one is deleted first.
    pub(super) replaces: Option<bool>,
    pub(super) names_are_not_unique: bool,
    /// The health of the targets of load balancers, by the load balancer's ID.
    pub(super) health: BTreeMap<String, bool>,
    /// Resources that were deleted with a load balancer, as the operations name them.
    pub(super) deleted: Vec<String>,
    /// Reported moves: UID, from and to.
    pub(super) moved: Vec<(String, String, String)>,
    made: usize,
}

#[derive(Clone)]
pub(super) struct Small(Arc<Mutex<State>>);

impl Default for Small {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            machines_are_known: true,
            ..State::default()
        })))
    }
}

impl Small {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub(super) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }

    pub(super) fn add(
        &self,
        name: &str,
        owner_tags: OwnerTags,
        legacy_owner: Option<&str>,
        graph: ResourceGraph,
    ) -> String {
        let mut state = self.state();
        state.made += 1;
        let id = format!("lb-{}", state.made);
        let ingress = vec![ObservedLoadBalancer::ip(&format!("192.0.2.{}", state.made))];
        let legacy_owner = legacy_owner.map(str::to_owned);
        let name = name.to_owned();
        let graph = Some(graph);
        let actual = ObservedLoadBalancer {
            id: id.clone(),
            name,
            owner_tags,
            legacy_owner,
            ingress,
            graph,
            ..ObservedLoadBalancer::default()
        };
        state.balancers.insert(id.clone(), actual);
        id
    }

    /// Adds a label to a load balancer.
    pub(super) fn label(&self, id: &str, label: &str) {
        self.state()
            .balancers
            .get_mut(id)
            .unwrap()
            .labels
            .insert(label.to_owned(), String::new());
    }

    pub(super) fn one(&self, id: &str) -> ObservedLoadBalancer {
        self.state().balancers[id].clone()
    }
}

impl State {
    fn shown(&self, actual: &ObservedLoadBalancer) -> ObservedLoadBalancer {
        let mut shown = actual.clone();
        if let Some(most) = self.most_targets {
            shown.graph = shown.graph.map(|graph| graph.limit("main", most));
        }
        shown
    }

    fn change(&mut self, change: Change<'_>) -> Result<Applied> {
        let Some(before) = change.actual else {
            return Ok(Applied::all(change, self.create(change)?));
        };
        let id = before.id.clone();
        self.requests.push(name(&change.operations[0]));
        let mut graph = self.balancers[&id]
            .graph
            .clone()
            .unwrap()
            .after(&change.operations[..1]);
        let outcome = change.outcome(1).unwrap();
        let attributes =
            |graph: &ResourceGraph| graph.balancer_attributes().cloned().unwrap_or_default();
        let network = |graph: &ResourceGraph| attributes(graph).text(NETWORK).map(str::to_owned);
        let has_moved = network(&graph) != network(before.graph.as_ref().unwrap());
        if has_moved {
            graph.targets.insert("main".into(), Targets::default());
        }
        if self
            .most_targets
            .is_some_and(|most| graph.targets_of("main").len() > most)
        {
            return Err(Error::quota("no more targets"));
        }
        let ignores = attributes(&graph).get(IGNORED).is_some();
        let known = attributes(&graph).set(IGNORED, ()).for_creation();
        graph = graph.balancer(known);
        let stored = self.balancers.get_mut(&id).unwrap();
        (stored.graph, stored.owner_tags, stored.legacy_owner) =
            (Some(graph), outcome.owner_tags, outcome.legacy_owner);
        let stored = stored.clone();
        let shown = Box::new(self.shown(&stored));
        Ok(if has_moved || ignores {
            Applied::PlanAgain(shown)
        } else {
            Applied::Shown(1, shown)
        })
    }

    fn create(&mut self, change: Change<'_>) -> Result<ObservedLoadBalancer> {
        self.requests.push("create".into());
        let is_unique = !self.names_are_not_unique;
        if is_unique
            && self.balancers.values().any(|load_balancer| {
                load_balancer.name == change.identity.name
                    && load_balancer.kind == change.identity.kind
            })
        {
            return Err(Error::conflict("name taken"));
        }
        self.made += 1;
        let outcome = change.outcome_of_all().unwrap();
        let has_time = self.has_no_time.0 == 0;
        self.has_no_time.0 = self.has_no_time.0.saturating_sub(1);
        if !has_time && !self.has_no_time.1 {
            return Err(Error::rate_limited("slow down", Duration::from_secs(60)));
        }
        let actual = ObservedLoadBalancer {
            id: format!("lb-{}", self.made),
            ingress: vec![ObservedLoadBalancer::ip(&format!("192.0.2.{}", self.made))],
            ..outcome
        };
        let mut stored = actual.clone();
        if let (Some(chosen), Some(graph)) = (&self.chosen, &mut stored.graph) {
            let wanted = graph.balancer_attributes().cloned().unwrap_or_default();
            *graph = graph.clone().balancer(chosen.overlaid_with(&wanted));
        }
        self.balancers.insert(actual.id.clone(), stored);
        if has_time {
            Ok(self.shown(&actual))
        } else {
            Err(Error::rate_limited("slow down", Duration::from_secs(60)))
        }
    }
}

fn name(operation: &Operation) -> String {
    format!("{operation:?}")
        .split([' ', '('])
        .next()
        .unwrap_or_default()
        .to_owned()
}

impl Small {
    fn balancers(&self) -> LoadBalancerEngine {
        let outlives = |resource: &ResourceKey| matches!(resource, ResourceKey::CreatedBefore(_));
        let options = Options {
            outlives,
            adoptable_tag: self.state().adoptable_tag.clone(),
            ..Options::default()
        };
        LoadBalancerEngine::of(self.clone(), Arc::new(self.clone()), options)
    }

    async fn of_service(&self, identity: &Identity<'_>) -> Vec<ObservedLoadBalancer> {
        // One request: a concurrent change is not in its answer.
        let found = {
            let mut state = self.state();
            state.requests.push("find".into());
            let is_its_load_balancer = |load_balancer: &&ObservedLoadBalancer| {
                load_balancer.name == identity.name
                    || load_balancer.owner_tags.service == identity.owner_tags().service
                    || load_balancer.legacy_owner == identity.legacy_owner
                    || identity
                        .requested_id
                        .as_ref()
                        .is_some_and(|id| *id == load_balancer.id)
            };
            state
                .balancers
                .values()
                .filter(is_its_load_balancer)
                .map(|load_balancer| state.shown(load_balancer))
                .collect()
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        found
    }
}

#[async_trait]
impl LoadBalancerCloud for Small {
    type Spec = ();

    fn name_uniqueness(&self) -> NameUniqueness {
        if self.state().names_are_not_unique {
            NameUniqueness::NotUnique
        } else {
            NameUniqueness::Unique
        }
    }

    fn replacement(
        &self,
        desired: &ResourceGraph,
        observed: &ObservedLoadBalancer,
        service: &Service,
        (): &(),
    ) -> Result<Replacement> {
        let is_refused = service
            .metadata
            .annotations
            .iter()
            .any(|annotation| annotation.contains_key(REFUSES_REPLACEMENT));
        let zone =
            |graph: &ResourceGraph| graph.balancer_attributes()?.text(ZONE).map(str::to_owned);
        let wanted = zone(desired);
        let seen = observed.graph.as_ref().and_then(zone);
        let changes = format!("zone: {seen:?} → {wanted:?}");
        Ok(match self.state().replaces {
            _ if wanted.is_none() || wanted == seen => Replacement::None,
            _ if is_refused => return Err(Error::invalid(changes)),
            Some(false) => Replacement::NewFirst(changes),
            Some(true) => Replacement::OldFirst(changes),
            None => return Err(Error::invalid(changes)),
        })
    }

    fn spec(&self, service: &Service) -> Parsed<()> {
        Annotations::of(service).parsed(())
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let annotations = service.metadata.annotations.clone().unwrap_or_default();
        let uid = service.metadata.uid.as_ref().unwrap();
        Naming {
            name: annotations
                .get("name")
                .cloned()
                .unwrap_or_else(|| format!("a{uid}")),
            legacy_owner: Some(format!("legacy-{uid}")),
            writes_legacy_owner: true,
            is_legacy_owner_stated: self.state().states_legacy_owner,
            is_name_chosen: annotations.contains_key("name"),
            requested_id: annotations.get("id").cloned(),
            kind: if annotations.contains_key("network") {
                "network"
            } else {
                ""
            },
            ..Naming::of(service)
        }
    }

    fn adopts(&self, _actual: &ObservedLoadBalancer, _identity: &Identity<'_>) -> Adoption {
        if self.state().adopts {
            Adoption::Adopt
        } else {
            Adoption::Refuse
        }
    }

    fn report(&self, notice: Notice<'_>) {
        match notice {
            Notice::Moved { service, from, to } => {
                let uid = service.metadata.uid.clone().unwrap();
                self.state()
                    .moved
                    .push((uid, from.id.clone(), to.id.clone()));
            }
            Notice::TargetsLeftOut { pool, targets, .. } => {
                self.state()
                    .left_out
                    .push((pool.to_owned(), targets.clone()));
            }
        }
    }

    async fn desired(&self, input: &DesiredStateInput<'_, ()>) -> Result<ResourceGraph> {
        Ok(self.state().wanted[input.request.service.metadata.uid.as_deref().unwrap()].clone())
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        if let Query::Owner(identity) = query {
            return Ok(ListResult::of(self.of_service(identity).await));
        }
        let mut state = self.state();
        let shown: Vec<ObservedLoadBalancer> = match query {
            Query::Ids(ids, _) => {
                state.requests.extend(ids.iter().map(|_| "read".into()));
                ids.iter()
                    .filter_map(|id| state.balancers.get(id))
                    .map(|load_balancer| state.shown(load_balancer))
                    .collect()
            }
            _ => {
                state.requests.push("list".into());
                state
                    .balancers
                    .values()
                    .map(|load_balancer| state.shown(load_balancer))
                    .collect()
            }
        };
        Ok(ListResult::of(shown))
    }

    async fn apply(&self, change: Change<'_>, (): &()) -> Result<Applied> {
        if !matches!(
            change.operations.last(),
            Some(Operation::Delete {
                resource: ResourceKey::Balancer
            })
        ) {
            return self.state().change(change);
        }
        let mut state = self.state();
        let id = &change.actual.unwrap().id;
        if state.protected.contains(id) {
            return Ok(Applied::Protected);
        }
        state.requests.push("delete".into());
        let deleted = change
            .operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Delete { resource } => Some(resource.to_string()),
                _ => None,
            });
        state.deleted.extend(deleted);
        if state.haunted {
            return Ok(Applied::Gone);
        }
        let found = state
            .balancers
            .remove(id)
            .filter(|_| !state.vanishing.contains(id));
        Ok(if found.is_some() {
            Applied::Removed
        } else {
            Applied::Gone
        })
    }

    async fn target_health(
        &self,
        actual: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        let health = self.state().health.get(&actual.id).copied();
        Ok(health.map(|is_healthy| {
            [(
                "a".to_owned(),
                TargetHealth {
                    is_healthy,
                    detail: String::new(),
                },
            )]
            .into()
        }))
    }

    fn published(&self, actual: &ObservedLoadBalancer, service: &Service, (): &()) -> Published {
        let name = service
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get("hostname"));
        let shown = name.map(|name| ObservedLoadBalancer {
            ingress: vec![ObservedLoadBalancer::host(name)],
            ..ObservedLoadBalancer::default()
        });
        Published {
            status: shown.as_ref().unwrap_or(actual).status(),
            annotations: Vec::new(),
        }
    }
}

#[async_trait]
impl Machines for Small {
    async fn has(&self, _node: &Node) -> Result<Option<bool>> {
        self.state().requests.push("machine".into());
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(Some(self.state().machines_are_known))
    }

    async fn ids(&self) -> Result<Targets> {
        Ok(Targets::default())
    }
}

/// The Services and Nodes of a cluster.
#[derive(Default)]
pub(super) struct Cached {
    pub(super) services: Mutex<Vec<Arc<Service>>>,
    nodes: Mutex<Vec<Arc<Node>>>,
}

impl Caches for Cached {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().clone()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes().into_iter().find(|node| &*node.name == name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        self.services.lock().clone()
    }
}

/// A cluster with Services on this cloud.
pub(super) struct Town {
    pub(super) cloud: Small,
    pub(super) balancers: LoadBalancerEngine,
    pub(super) cluster: Cluster,
    pub(super) cached: Arc<Cached>,
}

impl Default for Town {
    fn default() -> Self {
        let cloud = Small::default();
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: Some("c1".into()),
        };
        let town = Self {
            balancers: cloud.balancers(),
            cloud,
            cluster,
            cached: Arc::default(),
        };
        town.balancers.set_caches(town.cached.clone());
        let node = Node {
            name: "n".into(),
            provider_id: "small://n".into(),
            ..Node::default()
        };
        town.cached.nodes.lock().push(Arc::new(node));
        town
    }
}

impl Town {
    /// Returns a town in which a load balancer needs this tag to be adopted.
    pub(super) fn requiring(tag: &str) -> Self {
        let mut town = Self::default();
        town.cloud.state().adoptable_tag = Some(tag.parse().unwrap());
        town.balancers = town.cloud.balancers();
        town.balancers.set_caches(town.cached.clone());
        town
    }

    /// Returns a Service that the cluster's cache contains, with its desired state.
    pub(super) fn service(&self, uid: &str, wanted: ResourceGraph) -> Service {
        let service: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "default", "name": uid, "uid": uid},
            "spec": {"type": "LoadBalancer"},
        }))
        .unwrap();
        self.cached.services.lock().push(Arc::new(service.clone()));
        self.want(uid, wanted);
        service
    }

    pub(super) fn want(&self, uid: &str, wanted: ResourceGraph) {
        self.cloud.state().wanted.insert(uid.into(), wanted);
    }

    /// Puts the Service into the cluster's cache, as a user has changed it.
    pub(super) fn change(&self, service: &Service) {
        let mut services = self.cached.services.lock();
        services.retain(|other_service| other_service.metadata.uid != service.metadata.uid);
        services.push(Arc::new(service.clone()));
    }

    pub(super) fn owner_tags(&self, uid: &str) -> OwnerTags {
        OwnerTags {
            cluster: self.cluster.id.clone(),
            service: Some(uid.into()),
        }
    }

    pub(super) fn request<'a>(&'a self, service: &'a Service) -> LoadBalancerRequest<'a> {
        LoadBalancerRequest {
            cluster: &self.cluster,
            service,
            nodes: &[],
            callbacks: &(),
        }
    }

    /// Simulates a restart of the process.
    pub(super) fn restart(&mut self) {
        self.balancers = self.cloud.balancers();
        self.balancers.set_caches(self.cached.clone());
    }
}

/// Returns a load balancer with one pool and these targets.
pub(super) fn with_targets(targets: &[&str]) -> ResourceGraph {
    ResourceGraph::default()
        .balancer(Attributes::default())
        .pool(
            "main",
            Attributes::default(),
            Some(targets.iter().copied().collect()),
        )
}
