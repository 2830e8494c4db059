//! Load balancers: the cloud as the kit's engine sees it.

pub(crate) mod adoption;
mod apply;
pub(crate) mod catalogue;
mod create;
mod desired;
mod requests;
mod spec;
mod targets;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{
    CloudMetrics, Cluster, EventSubject, LoadBalancerRequest, Node, Result, Service, TargetHealth,
    async_trait,
};
use futures::future::try_join_all;
use jiff::Timestamp;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::declared::Defaults;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{
    Adoption, Applied, Attributes, Change, DesiredStateInput, Identity, LoadBalancerCloud,
    NameUniqueness, Naming, Notice, ObservedLoadBalancer, Published, Query, ResourceGraph, Scope,
    Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority};

use self::adoption::{with_targets_of_others, without_others};
use self::catalogue::{BalancerType, Catalogue};
use self::desired::Facts;
use self::spec::{Certificates, ServiceSpec};
use self::targets::Dedicated;
use self::wire::{LEGACY_OWNER_LABEL, LOCATION, LoadBalancer, NETWORK_ZONE, POOL};
use crate::annotations::{self as key, DEFAULT_TYPE};
use crate::api::Api;
use crate::id::MachineId;
use crate::metrics::balancer_types;
use crate::network::PrivateNetwork;
use crate::robot::Robot;
use crate::servers::CloudServers;
use crate::variables::LOAD_BALANCERS_ADOPTION_LABEL;

/// Settings that decide about the price of a load balancer.
pub(crate) const PRICE: &[&str] = &["type", LOCATION];

const ALL: &str = "/load_balancers";
const ONE: &str = "/load_balancers/{id}";

/// The load balancers of a project.
pub(crate) struct HcloudLoadBalancers {
    api: Api,
    defaults: Defaults,
    network: Option<PrivateNetwork>,
    dedicated: Option<Option<Robot>>,
    catalogue: Catalogue,
    deduplicator: EventDeduplicator,
    servers: Inventory<CloudServers>,
    cluster: ClusterView,
    metrics: Arc<dyn CloudMetrics>,
}

impl HcloudLoadBalancers {
    /// `dedicated`: `None` if dedicated servers are no targets, `Some(None)` if Robot cannot be queried about them.
    pub(crate) fn new(
        api: Api,
        defaults: Defaults,
        network: Option<PrivateNetwork>,
        dedicated: Option<Option<Robot>>,
        servers: Inventory<CloudServers>,
        cluster: ClusterView,
    ) -> Self {
        let catalogue = Catalogue::new(api.clone());
        let metrics = api.http.metrics();
        let deduplicator = EventDeduplicator::new(cluster.events().clone());
        Self {
            catalogue,
            deduplicator,
            metrics,
            api,
            defaults,
            network,
            dedicated,
            servers,
            cluster,
        }
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.cluster.nodes().unwrap_or_default()
    }

    fn network(&self) -> Result<Option<u64>> {
        self.network.as_ref().map(PrivateNetwork::id).transpose()
    }

    fn actual(&self, shown: LoadBalancer) -> ObservedLoadBalancer {
        without_others(shown.into_actual(self.network().ok().flatten()))
    }

    async fn some(
        &self,
        key: &str,
        value: &str,
        priority: Priority,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let call = Call::get(ALL, &[])
            .query(key, value)
            .with_priority(priority);
        let actual = |shown: LoadBalancer| self.actual(shown);
        let found = self
            .api
            .list("load_balancers", call, actual, |load_balancer| {
                load_balancer.id.clone()
            })
            .await?;
        // The result is incomplete if another page follows, so it does not prove an absence.
        Ok(found.complete()?.into_items())
    }

    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        // A deletion and the read at its beginning are urgent (P-3).
        let priority = if identity.is_leaving() {
            Priority::Urgent
        } else {
            Priority::Ordinary
        };
        let signed = self
            .some(
                "label_selector",
                &format!("{LEGACY_OWNER_LABEL}={}", identity.uid()),
                priority,
            )
            .await?;
        // A load balancer that is to be deleted was tagged when it was created or adopted.
        if !signed.is_empty() || identity.is_leaving() {
            return Ok(signed);
        }
        self.some("name", &identity.name, priority).await
    }

    async fn by_id(&self, id: &str) -> Result<Option<ObservedLoadBalancer>> {
        let found: Option<LoadBalancer> = self
            .api
            .http
            .find(Call::get(ONE, &[id]).inside("load_balancer"))
            .await?;
        Ok(found.map(|shown| self.actual(shown)))
    }

    /// Returns the maximum number of targets of this Service's load balancer.
    async fn most_targets(
        &self,
        spec: &ServiceSpec,
        pending_events: &mut PendingEvents,
    ) -> Result<usize> {
        let name = spec.balancer_type.as_deref().unwrap_or(DEFAULT_TYPE);
        if spec.balancer_type.is_none() {
            let text = format!(
                "no load balancer type is configured, so a new load balancer gets {DEFAULT_TYPE}; set annotation {} or \
                 HCLOUD_LOAD_BALANCERS_TYPE",
                key::TYPE.key()
            );
            pending_events.warn("LoadBalancerTypeUnconfigured", text);
        }
        let (most, deprecated) = self
            .balancer_type(name, |balancer_type| {
                (balancer_type.max_targets, balancer_type.deprecated())
            })
            .await?;
        if let Some(text) = deprecated {
            pending_events.warn("LoadBalancerTypeDeprecated", text);
        }
        Ok(most)
    }

    async fn balancer_type<T>(&self, name: &str, read: impl Fn(&BalancerType) -> T) -> Result<T> {
        let (found, hit) = self
            .catalogue
            .types
            .named(name, |balancer_type| &balancer_type.name, read)
            .await?;
        balancer_types(&*self.metrics, hit);
        Ok(found)
    }

    async fn targets(
        &self,
        spec: &ServiceSpec,
        nodes: &[Arc<Node>],
        pending_events: &mut PendingEvents,
    ) -> Result<Option<Targets>> {
        let mut nodes = nodes.to_vec();
        let has_nodes = !nodes.is_empty();
        nodes.retain(|node| {
            spec.node_selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&node.labels))
        });
        if nodes.is_empty() && has_nodes {
            let text = format!(
                "annotation {}: no Node matches, so there are no targets",
                key::NODE_SELECTOR.key()
            );
            pending_events.warn("QuestionableAnnotation", text);
        }
        let dedicated = self.dedicated(&nodes).await?;
        Ok(targets::targets(
            &nodes,
            spec.use_private_ip,
            &dedicated,
            pending_events,
        ))
    }

    async fn dedicated(&self, nodes: &[Arc<Node>]) -> Result<Dedicated> {
        let is_dedicated = |node: &Arc<Node>| {
            matches!(MachineId::read(&node.provider_id), Ok(MachineId::Robot(_)))
        };
        Ok(match &self.dedicated {
            None => Dedicated::Off,
            Some(None) => Dedicated::NoCredential,
            Some(Some(robot)) if nodes.iter().any(is_dedicated) => {
                let servers = robot.servers().await?;
                let public = servers.machines().iter().filter_map(|dedicated_server| {
                    Some((dedicated_server.number, dedicated_server.ipv4?.to_string()))
                });
                Dedicated::Known(public.collect())
            }
            Some(Some(_)) => Dedicated::Known(BTreeMap::new()),
        })
    }

    async fn certificates(
        &self,
        spec: &ServiceSpec,
        uid: &str,
        pending_events: &mut PendingEvents,
    ) -> Result<Option<Vec<u64>>> {
        match &spec.certificates {
            Certificates::Unstated => Ok(None),
            Certificates::Uploaded(certificates) => {
                self.catalogue.uploaded(certificates).await.map(Some)
            }
            Certificates::Managed(wanted) => {
                let found = self.catalogue.managed(uid).await?;
                if let Some(text) = found
                    .as_ref()
                    .and_then(|found| found.for_others(&wanted.domains))
                {
                    pending_events.warn("CertificateForOtherDomains", text);
                }
                Ok(found.map(|found| vec![found.id]))
            }
        }
    }

    /// Reports targets whose server does not exist; their Nodes will be deleted, too.
    fn report_unknown(&self, targets: &Targets) {
        let text = "as a target of load balancers: its server does not exist; it is left out";
        for node in self
            .nodes()
            .iter()
            .filter(|node| targets::is_among(node, targets))
        {
            self.deduplicator
                .warn(true, EventSubject::Node(node), "ServerNotFound", text);
        }
    }

    /// Reports a location annotation that was set after the load balancer's creation.
    fn report_place(&self, service: &Service, actual: &ObservedLoadBalancer) {
        let is_at = actual
            .graph
            .as_ref()
            .and_then(ResourceGraph::balancer_attributes);
        let places = [
            (&key::LOCATION, LOCATION),
            (&key::NETWORK_ZONE, NETWORK_ZONE),
        ];
        let stated = places.iter().find_map(|(annotation, setting)| {
            let wanted = annotation
                .text_on(service)
                .map(str::trim)
                .filter(|text| !text.is_empty())?;
            Some((
                annotation.key(),
                wanted,
                is_at?.text(setting).filter(|place| !place.is_empty())?,
            ))
        });
        let mut pending_events = PendingEvents::default();
        if let Some((key, wanted, place)) = stated.filter(|(_, wanted, place)| wanted != place) {
            let text = format!(
                "annotation {key}: {wanted:?} has no effect: load balancer {:?} ({}) is in {place}, and cannot be \
                 moved; set {place:?}, or delete and create the Service again",
                actual.name, actual.id
            );
            pending_events.warn("QuestionableAnnotation", text);
        }
        self.deduplicator
            .record_new(service, "place", &pending_events);
    }

    fn report_left_out(&self, service: &Service, nodes: &[Arc<Node>], targets: &Targets) {
        let text = format!(
            "this Node is not a target of Service {}: the load balancer has the maximum number of targets of its type; \
             choose a larger type with annotation {}",
            service.metadata.name.as_deref().unwrap_or_default(),
            key::TYPE.key()
        );
        self.report_limit(nodes, targets, "", &text);
    }

    /// Reports on each Node of these targets, once for each `subject`, that a load balancer has no room for it.
    fn report_limit(&self, nodes: &[Arc<Node>], targets: &Targets, subject: &str, text: &str) {
        for node in nodes.iter().filter(|node| targets::is_among(node, targets)) {
            let about = EventSubject::Node(node);
            let reason = "MaxTargetsReached";
            if self.deduplicator.is_first(about, reason, subject) {
                self.deduplicator.warn(true, about, reason, text);
            }
        }
    }
}

#[async_trait]
impl LoadBalancerCloud for HcloudLoadBalancers {
    type Spec = ServiceSpec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn spec(&self, service: &Service) -> Parsed<ServiceSpec> {
        ServiceSpec::of(service, &self.defaults)
            .targets_follow_labels(key::NODE_SELECTOR.text_on(service).is_some())
    }

    async fn desired(&self, input: &DesiredStateInput<'_, ServiceSpec>) -> Result<ResourceGraph> {
        let LoadBalancerRequest { service, nodes, .. } = *input.request;
        let spec = input.spec;
        let mut pending_events = PendingEvents::default();
        if input.scope == Scope::Targets {
            spec.check_network(self.network()?)?;
            let targets = self.targets(spec, nodes, &mut pending_events).await?;
            self.deduplicator
                .record_new(service, "targets", &pending_events);
            return Ok(ResourceGraph::default().pool(POOL, Attributes::default(), targets));
        }
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let facts = Facts {
            network: self.network()?,
            ports: spec.ports.clone(),
            most_targets: self.most_targets(spec, &mut pending_events).await?,
            certificates: self.certificates(spec, uid, &mut pending_events).await?,
            targets: self.targets(spec, nodes, &mut pending_events).await?,
        };
        spec.warnings
            .iter()
            .for_each(|&(reason, ref text)| pending_events.warn(reason, text));
        let unused = spec.without_network(facts.network);
        unused
            .iter()
            .for_each(|text| pending_events.warn("QuestionableAnnotation", text));
        self.deduplicator.record_new(service, "", &pending_events);
        desired::desired(spec, facts)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => {
                let keep = |shown| self.actual(shown).sharing(sets);
                self.api
                    .list("load_balancers", Call::get(ALL, &[]), keep, |actual| {
                        actual.id.clone()
                    })
                    .await
            }
            Query::Owner(identity) => self.find(identity).await.map(ListResult::of),
            Query::Ids(ids, _) => {
                let found = try_join_all(ids.iter().map(|id| self.by_id(id))).await?;
                Ok(ListResult::of(found.into_iter().flatten().collect()))
            }
        }
    }

    async fn check_creation(
        &self,
        identity: &Identity<'_>,
        _: &ServiceSpec,
        desired: &ResourceGraph,
    ) -> Result<()> {
        create::check(identity, desired)
    }

    async fn apply(&self, change: Change<'_>, spec: &ServiceSpec) -> Result<Applied> {
        self.carry_out(change, spec, Timestamp::now()).await
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let naming = Naming::of(service);
        let name = key::NAME
            .text_on(service)
            .map_or_else(|| naming.name.clone(), str::to_owned);
        let is_name_chosen = name != naming.name;
        Naming {
            name,
            is_name_chosen,
            legacy_owner: service.metadata.uid.clone(),
            writes_legacy_owner: true,
            ..naming
        }
    }

    fn fit(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        _: &ServiceSpec,
    ) -> Result<ResourceGraph> {
        self.report_place(identity.service, observed);
        desired::check_reachable(&desired, observed.graph.as_ref())?;
        Ok(with_targets_of_others(desired, observed))
    }

    /// Adopts by name, which is how users import load balancers that they created themselves. A load balancer whose
    /// legacy owner tag names a Service that this cluster does not know may belong to another cluster: it is adopted
    /// only if its targets are machines of this cluster.
    fn adopts(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        let targets = observed
            .graph
            .as_ref()
            .map(|graph| graph.targets_of(POOL))
            .unwrap_or_default();
        let is_free = observed.legacy_owner.is_none() || targets::are_of(&targets, &self.nodes());
        match &self.defaults.get(&LOAD_BALANCERS_ADOPTION_LABEL) {
            label
                if is_free
                    && label
                        .as_ref()
                        .is_none_or(|label| label.allows(observed, identity)) =>
            {
                Adoption::Adopt
            }
            Some(label) => Adoption::RefuseUnless(label.hint()),
            None => Adoption::Refuse,
        }
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        _: &Service,
        spec: &ServiceSpec,
    ) -> Published {
        Published {
            status: spec.status(observed),
            annotations: Vec::new(),
        }
    }

    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        let call = Call::get(ONE, &[&observed.id]).inside("load_balancer");
        let found: Option<LoadBalancer> = self.api.http.find(call).await?;
        Ok(found.map(|shown| shown.health()))
    }

    fn report(&self, notice: Notice<'_>) {
        if let Notice::TargetsLeftOut {
            request, targets, ..
        } = notice
        {
            self.report_left_out(request.service, request.nodes, targets);
        }
    }
}
