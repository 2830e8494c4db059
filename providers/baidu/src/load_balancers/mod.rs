//! BLB load balancers with EIPs, as a cloud for the engine of provider-kit.

mod annotated;
mod apply;
mod borrowed;
mod eip;
mod legacy;
mod object;
mod place;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{
    Caches, Cluster, Error, EventSubject, Fence, LoadBalancerIngress, LoadBalancerRequest,
    LoadBalancerStatus, Node, Result, Service, async_trait,
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::endpoint_nodes::EndpointNodes;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::health_check::needs_health_check;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Adoption, Applied, Attributes, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    LoadBalancerEngine, NameUniqueness, Naming, Notice, ObservedLoadBalancer, Options, Published,
    Query, ResourceGraph, Scope, machine_ids,
};
use provider_kit::operation::Polling;
use provider_kit::paging::ListResult;
use provider_kit::signing::sha256_hex;
use provider_kit::transport::Call;

use self::annotated::{is_fixed, is_lent, requested_id, text_on};
use self::legacy::{GENERATED_NAME, LegacyOwners, legacy_name, legacy_owner};
use self::object::{
    Backend, Blb, EDITED, EIP_SETTINGS, EipSettings, GENERATED_WORDS, Listener, OWN, POOL,
    SHARE_GROUP, eip_key,
};
pub(crate) use self::place::Place;
use self::spec::BlbSpec;
use crate::annotations as key;
use crate::api::{Api, all};
use crate::instances::{IDS, Source};

const ALL: &str = "/v1/blb";
const ONE: &str = "/v1/blb/{blbId}";
const BACKENDS: &str = "/v1/blb/{blbId}/backendserver";
/// Number of BLBs from which their states are read with one list.
const FEW: usize = 4;
/// The most characters of a name.
const LONGEST_NAME: usize = 65;

/// The caches of the process, once they are known.
pub(crate) type SharedCaches = Arc<OnceLock<Arc<dyn Caches>>>;

/// The BLBs of a region.
struct BlbLoadBalancers {
    api: Api,
    source: Source,
    place: Arc<Place>,
    endpoint_nodes: EndpointNodes,
    deduplicator: EventDeduplicator,
    /// The Services of the cluster.
    caches: SharedCaches,
    blbs: Cached<Vec<Blb>>,
    /// Subnets of BLBs, by ID: only lists show them.
    subnets: Mutex<BTreeMap<String, String>>,
    /// IDs of BLBs that annotations of Services name: several Services may name one.
    named: Mutex<BTreeSet<String>>,
}

/// Returns the load balancers of a region.
pub(crate) fn load_balancers(
    source: Source,
    place: Arc<Place>,
    cluster: &ClusterView,
    caches: SharedCaches,
    fence: Fence,
) -> LoadBalancerEngine {
    let polling = Polling {
        max_interval: Duration::from_secs(2),
        timeout: Duration::from_secs(60),
        ..Polling::default()
    };
    let options = Options {
        polling,
        annotates_id: true,
        ..Options::default()
    };
    let deduplicator = EventDeduplicator::new(cluster.events().clone());
    let (subnets, named) = Default::default();
    let api = source.0.clone();
    let machines = Arc::new(source.clone());
    let endpoint_nodes = EndpointNodes::new(cluster.clone(), fence);
    let blbs = Cached::default();
    let cloud = BlbLoadBalancers {
        api,
        source,
        place,
        endpoint_nodes,
        deduplicator,
        caches,
        blbs,
        subnets,
        named,
    };
    LoadBalancerEngine::of(cloud, machines, options)
}

/// Shortens a name that is too long; a hash keeps it different from others.
fn shortened(name: String) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name;
    }
    let hash = sha256_hex(name.as_bytes());
    let start: String = name.chars().take(LONGEST_NAME - 9).collect();
    format!("{start}-{}", &hash[..8])
}

impl BlbLoadBalancers {
    /// Returns the Services that untagged BLBs may belong to: those of the cluster, and the Service at hand.
    fn legacy_owners(&self, service: Option<&Service>) -> LegacyOwners {
        let mut services = self
            .caches
            .get()
            .map(|caches| caches.services())
            .unwrap_or_default();
        if let Some(service) = service {
            services.retain(|other_service| other_service.metadata.uid != service.metadata.uid);
            services.push(Arc::new(service.clone()));
        }
        LegacyOwners::new(&self.api.config, services)
    }

    /// Returns the Nodes that may be backends: with `externalTrafficPolicy: Local` those that have endpoints of the Service.
    async fn candidates(
        &self,
        request: &LoadBalancerRequest<'_>,
        pending_events: &mut PendingEvents,
    ) -> Result<Vec<Arc<Node>>> {
        let mut nodes = request.nodes.to_vec();
        if !needs_health_check(request.service) {
            return Ok(nodes);
        }
        match self.endpoint_nodes.of(request.service).await {
            Ok(Some(names)) => nodes.retain(|node| names.contains(&*node.name)),
            Ok(None) => {}
            Err(error) if error.is_unauthorized() => {
                let text = format!(
                    "all Nodes are backends, although externalTrafficPolicy is Local: {error}"
                );
                pending_events.warn("EndpointsUnknown", text);
            }
            Err(error) => return Err(error),
        }
        Ok(nodes)
    }

    /// Returns all BLBs, read after this call began. Concurrent callers share one list.
    async fn blbs(&self) -> Result<Arc<Vec<Blb>>> {
        let read = async || {
            all(
                &self.api.blb,
                Call::get(ALL, &[]),
                "blbList",
                |load_balancer: &Blb| load_balancer.blb_id.clone(),
            )
            .await
        };
        let found = self.blbs.get(Duration::ZERO, read).await?.0;
        found
            .iter()
            .for_each(|load_balancer| self.note_subnet(load_balancer));
        Ok(found)
    }

    async fn list(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let owners = self.legacy_owners(None);
        let call = Call::get(ALL, &[]);
        let id = |load_balancer: &ObservedLoadBalancer| load_balancer.id.clone();
        let generated = self.api.config.description();
        let keep = |load_balancer: Blb| {
            self.note_subnet(&load_balancer);
            owners.observed(load_balancer.observed(&generated))
        };
        self.api
            .blb
            .list(call, "blbList", &SharedPriority::default(), keep, id)
            .await
    }

    /// Reads the BLBs that may be the Service's: by owner tags, by name, and by the IDs in its annotations. The API
    /// cannot search for owner tags, so the whole list is compared.
    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let service = identity.service;
        let owners = self.legacy_owners(Some(service));
        let generated = self.api.config.description();
        let observed =
            |load_balancer: &Blb| owners.observed(load_balancer.clone().observed(&generated));
        let mut found: Vec<_> = self.blbs().await?.iter().map(observed).collect();
        let added = text_on(service, key::ADDED_ID.key());
        let missing = [identity.requested_id.clone(), added].into_iter().flatten();
        for id in missing
            .filter(|id| !found.iter().any(|load_balancer| load_balancer.id == *id))
            .collect::<BTreeSet<_>>()
        {
            found.extend(self.by_id(&id, Detail::State, Some(service)).await?);
        }
        if identity.is_leaving() {
            self.report_without_owner(identity, &found);
        }
        found.retain(|load_balancer| {
            let is_named = load_balancer.name == identity.name
                || identity.other_names.contains(&load_balancer.name);
            let is_legacy = load_balancer.legacy_owner.is_some()
                && load_balancer.legacy_owner == identity.legacy_owner;
            let is_requested = identity.requested_id.as_ref() == Some(&load_balancer.id);
            is_named
                || is_legacy
                || is_requested
                || load_balancer.owner_tags.service.as_deref() == Some(identity.uid())
        });
        if found.is_empty() && identity.is_leaving() {
            found.extend(self.left_eip(identity).await?);
        }
        Ok(found)
    }

    /// Returns the EIP that was created for a Service whose BLB was deleted by hand, as all that is left of the BLB.
    async fn left_eip(&self, identity: &Identity<'_>) -> Result<Option<ObservedLoadBalancer>> {
        let name = identity.name.clone();
        let owner_tags = identity.owner_tags();
        let left = ObservedLoadBalancer {
            name,
            owner_tags,
            ..ObservedLoadBalancer::default()
        };
        let eips = self.api.eips().await?;
        let Some(eip) = eips
            .iter()
            .find(|eip| eip.instance().is_none() && self.is_own(eip, &left))
        else {
            return Ok(None);
        };
        let settings = Attributes::observed(&EipSettings::observed(eip, "", true))?;
        let graph = Some(ResourceGraph::default().resource(eip_key(), settings));
        Ok(Some(ObservedLoadBalancer {
            id: format!("eip/{}", eip.eip),
            graph,
            ..left
        }))
    }

    /// Reads a BLB with its listeners, backends and EIP.
    async fn by_id(
        &self,
        id: &str,
        detail: Detail,
        service: Option<&Service>,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let Some(blb) = self.api.blb.find::<Blb>(Call::get(ONE, &[id])).await? else {
            return Ok(None);
        };
        let ipv6 = blb.has_ipv6();
        let mut observed = blb.observed(&self.api.config.description());
        observed = self.legacy_owners(service).observed(observed);
        if detail == Detail::State {
            return Ok(Some(observed));
        }
        let listeners = Call::get("/v1/blb/{blbId}/listener", &[id]);
        let listeners = all(&self.api.blb, listeners, "listenerList", Listener::port);
        let backends = Call::get(BACKENDS, &[id]);
        let backends = all(
            &self.api.blb,
            backends,
            "backendServerList",
            |backend: &Backend| backend.instance_id.clone(),
        );
        let (listeners, backends, eips) = futures::try_join!(listeners, backends, self.api.eips())?;
        let eip = self.eip_of(&eips, &observed);
        let eip = eip.map(|eip| EipSettings::observed(eip, id, self.is_own(eip, &observed)));
        let graph = object::graph(ipv6, listeners, &backends, eip.as_ref())?;
        Ok(Some(ObservedLoadBalancer {
            graph: Some(graph),
            ..observed
        }))
    }
}

#[async_trait]
impl LoadBalancerCloud for BlbLoadBalancers {
    type Spec = BlbSpec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let owner = legacy_owner(&self.api.config.cluster, service);
        let generated = format!("{GENERATED_NAME}{owner}");
        let default = Naming::of(service);
        let chosen = text_on(service, key::NAME.key());
        let legacy = legacy_name(chosen.as_ref().unwrap_or(&generated));
        let added = text_on(service, key::ADDED_ID.key());
        let requested_id = requested_id(service);
        self.named
            .lock()
            .extend(added.iter().chain(&requested_id).cloned());
        let recorded_id = added.clone();
        let former: String = default.name.chars().take(32).collect();
        Naming {
            name: chosen.unwrap_or_else(|| shortened(generated)),
            former_names: vec![former, legacy],
            legacy_owner: Some(owner),
            requested_id,
            recorded_id,
            ..default
        }
    }

    fn spec(&self, service: &Service) -> Parsed<BlbSpec> {
        BlbSpec::of(service, &self.api.config.cluster)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, BlbSpec>) -> Result<ResourceGraph> {
        let spec = input.spec;
        let request = input.request;
        if requested_id(request.service).is_some() {
            // A BLB that exists does not need it, but is compared with it.
            _ = self.place.vpc().await;
        }
        let pool = Attributes::default().set(object::WEIGHT, object::FULL_WEIGHT);
        let mut pending_events = PendingEvents::default();
        let nodes = self.candidates(request, &mut pending_events).await?;
        let mut graph = ResourceGraph::default().pool(POOL, pool, machine_ids(&nodes, &IDS));
        graph = graph.limit(POOL, spec.most_backends);
        for node in request
            .nodes
            .iter()
            .filter(|node| node.provider_id().is_none() && !node.is_uninitialized())
        {
            pending_events.warn_node(
                node,
                "NoProviderID",
                "this Node is no backend: it has no provider ID",
            );
        }
        if input.scope == Scope::Targets {
            self.deduplicator
                .record_new(request.service, "targets", &pending_events);
            return Ok(graph);
        }
        spec.warnings
            .iter()
            .for_each(|text| pending_events.warn("QuestionableSetting", text));
        self.deduplicator
            .record_new(request.service, "", &pending_events);
        graph = graph.balancer(object::balancer(spec.has_ipv6));
        for listener in &spec.listeners {
            let (port, transport) = listener.port();
            graph = graph.listener(port, transport, POOL, Attributes::desired(listener)?);
        }
        if let Some(eip) = &spec.eip {
            graph = graph.resource(eip_key(), Attributes::desired(&EipSettings::desired(eip))?);
        }
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(_) => self.list().await,
            Query::Owner(identity) => self.find(identity).await.map(ListResult::of),
            Query::Ids(ids, detail) => {
                let mut found = Vec::new();
                if detail == Detail::State && ids.len() >= FEW {
                    found = self.list().await?.into_items();
                    found.retain(|load_balancer| ids.contains(&load_balancer.id));
                }
                let missing = ids
                    .iter()
                    .filter(|id| !found.iter().any(|load_balancer| load_balancer.id == **id));
                let missing: Vec<_> = missing.cloned().collect();
                let read =
                    try_join_all(missing.iter().map(|id| self.by_id(id, detail, None))).await?;
                found.extend(read.into_iter().flatten());
                Ok(ListResult::of(found))
            }
        }
    }

    /// Refuses a BLB of the user that is in use, and what an EIP cannot change. Keeps the bandwidth of an EIP that shares that of a group.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        _spec: &BlbSpec,
    ) -> Result<ResourceGraph> {
        let Some(seen) = &observed.graph else {
            return Ok(desired);
        };
        self.check_vpc(identity, observed)?;
        self.check_unused(&desired, observed, seen, identity)?;
        self.check_tag(identity, observed)?;
        self.report_name(observed, identity.service);
        self.report_subnet(observed, identity.service);
        if observed.labels.contains_key(EDITED)
            && let Some(settings) = desired.balancer_attributes().cloned()
        {
            desired =
                desired.balancer(settings.set(GENERATED_WORDS, self.api.config.description()));
        }
        if let (Some(wanted), Some(current_eip)) = (
            desired.resources.get(&eip_key()),
            seen.resources.get(&eip_key()),
        ) {
            let is_same = wanted
                .text("ip")
                .is_none_or(|ip| current_eip.text("ip") == Some(ip));
            let is_own = current_eip.get(OWN).is_some();
            let differences = wanted.differences(current_eip);
            let changed = |keys: &[&str]| {
                differences
                    .iter()
                    .find(|difference| is_same && keys.contains(&&*difference.key))
                    .cloned()
            };
            if !is_own {
                self.report_found(identity.service, current_eip, changed(&EIP_SETTINGS));
                desired.keep(seen, &eip_key(), &EIP_SETTINGS);
            } else if let Some(change) = changed(&["paymentTiming", "billingMethod"]) {
                let ip = current_eip.text("ip").unwrap_or_default();
                return Err(Error::invalid(format!(
                    "EIP {ip} cannot change ({change}); restore the annotation, or create the Service again"
                )));
            }
            if current_eip.get(SHARE_GROUP).is_some() {
                desired.keep(seen, &eip_key(), &["bandwidthInMbps"]);
            }
        }
        Ok(desired)
    }

    /// Says what makes a BLB the Service's: it can get no tags after its creation.
    fn adopts(&self, _: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        let words = object::described(&identity.owner_tags(), &self.api.config.description());
        Adoption::RefuseWithAdvice(format!(
            "write this into its description to have it adopted: {words}"
        ))
    }

    fn lock(&self, observed: &ObservedLoadBalancer) -> Option<String> {
        self.named
            .lock()
            .contains(&observed.id)
            .then(|| observed.id.clone())
    }

    async fn apply(&self, change: Change<'_>, spec: &BlbSpec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        service: &Service,
        spec: &BlbSpec,
    ) -> Published {
        let is_ipv6 =
            |ingress: &&LoadBalancerIngress| ingress.ip.as_ref().is_some_and(|ip| ip.contains(':'));
        let is_shown = |ingress: &&LoadBalancerIngress| match is_ipv6(ingress) {
            true => spec.has_ipv6,
            // The address of the EIP has a mode, the address in the VPC has none.
            false => ingress.ip_mode.is_some() == spec.eip.is_some(),
        };
        let shown = observed.ingress.iter().filter(is_shown).cloned();
        let shown = shown.map(|entry| LoadBalancerIngress {
            ip_mode: Some("VIP".to_owned()),
            ..entry
        });
        let ingress: Vec<_> = shown.collect();
        let status = LoadBalancerStatus {
            ingress: (!ingress.is_empty()).then_some(ingress),
        };
        // The Go program deletes no listener of a Service without the second one.
        let mut annotations = vec![(key::ADDED_ID.key(), Some(observed.id.clone()))];
        if text_on(service, key::EXIST_ID.key()).is_none() {
            annotations.push((key::ID.key(), Some(observed.id.clone())));
        }
        let eip = observed
            .graph
            .as_ref()
            .and_then(|graph| graph.resources.get(&eip_key()));
        let own_eip = eip
            .filter(|eip| eip.get(OWN).is_some())
            .and_then(|eip| eip.text("ip"));
        annotations.extend(own_eip.map(|ip| (key::ADDED_EIP.key(), Some(ip.to_owned()))));
        Published {
            status,
            annotations,
        }
    }

    fn report(&self, notice: Notice<'_>) {
        if let Notice::TargetsLeftOut {
            request, targets, ..
        } = notice
        {
            let annotation = key::MAX_BACKENDS.key();
            let text = format!(
                "Nodes are no backends, because the BLB has as many as {annotation} allows: {targets}"
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(request.service),
                "TooManyBackends",
                &text,
            );
        }
    }
}

#[cfg(test)]
mod tests;
