//! Load balancers: the spec of a Service, the objects of Octavia and Neutron, and the requests. The rest is the kit's.

mod apply;
mod create;
mod find;
mod fit;
mod floating_ip;
mod health;
mod networks;
mod octavia;
mod project;
mod published;
mod read;
mod rename;
mod requests;
mod second_vip;
mod security_group;
mod spec;
mod tags;
mod unused;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{
    AdoptableTag, Cluster, Error, EventSubject, Node, Result, Service, TargetHealth,
    TargetIdentity, async_trait,
};
use provider_kit::annotations::Parsed;
use provider_kit::events::{EventWriter, PendingEvents};
use provider_kit::load_balancers::{
    Adoption, Applied, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    LoadBalancerEngine, Machines, NameUniqueness, Naming, Notice, ObservedLoadBalancer, Options,
    Published, Query, Recovery, ResourceGraph, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::Call;
use serde_json::Value;

use self::project::{Project, polling};
use self::published::{addresses, is_published, requested_id};
use self::spec::{Selector, ServiceSpec};
use self::tags::{LEGACY, balancer_id, legacy_name, legacy_tag, service_of};
use crate::annotations as key;
use crate::config;
use crate::id::ServerId;
use crate::ports::Ports;
use crate::services::Services;

/// The load balancers of a project.
struct OctaviaLoadBalancers(Project);

/// Returns the load balancers of a project.
pub(crate) fn balancers(
    services: &Services,
    config: Arc<config::Balancers>,
    ports: Ports,
    events: EventWriter,
    adoptable_tag: Option<AdoptableTag>,
) -> LoadBalancerEngine {
    let options = Options {
        polling: polling(config.wait_steps),
        targets_follow_addresses: true,
        target_identity: TargetIdentity::Addresses,
        annotates_id: true,
        outlives: security_group::has_resource,
        price: &["provider", "flavor_id", "availability_zone"],
        adoptable_tag,
    };
    let cloud = OctaviaLoadBalancers(Project::new(services.clone(), config, ports, events));
    LoadBalancerEngine::of(cloud, Arc::new(NovaServers(services.clone())), options)
}

#[async_trait]
impl LoadBalancerCloud for OctaviaLoadBalancers {
    /// The spec, or all mistakes in it.
    type Spec = Result<ServiceSpec>;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn spec(&self, service: &Service) -> Parsed<Self::Spec> {
        let config = &self.0.config;
        let selector = Selector::of(&mut key::annotations_of(service).over(&config.settings));
        ServiceSpec::of(service, config).targets_follow_labels(!selector.selects_all())
    }

    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        let tag = legacy_tag(cluster, service);
        Naming {
            name: tag.clone(),
            former_names: service
                .metadata
                .uid
                .as_deref()
                .map(legacy_name)
                .into_iter()
                .collect(),
            legacy_owner: Some(tag),
            writes_legacy_owner: true,
            // A load balancer that the Service requests is known by the name of the Service's own.
            is_name_chosen: requested_id(service).is_some(),
            requested_id: requested_id(service).map(str::to_owned),
            published_addresses: addresses(service).into_iter().map(str::to_owned).collect(),
            ..Naming::default()
        }
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Self::Spec>) -> Result<ResourceGraph> {
        let spec = input.spec.as_ref().map_err(Clone::clone)?;
        wanted::wanted_graph(&self.0, input.request, spec, input.scope).await
    }

    fn fit(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &Self::Spec,
    ) -> Result<ResourceGraph> {
        let spec = spec.as_ref().map_err(Clone::clone)?;
        let mut pending_events = PendingEvents::default();
        let warnings = unused::changed_after_creation(identity.service, spec, observed);
        warnings
            .iter()
            .for_each(|text| pending_events.warn("QuestionableAnnotation", text));
        self.0
            .deduplicator
            .record_new(identity.service, "creation", &pending_events);
        fit::fit_to_observed(desired, observed, spec)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => self.0.everything(sets).await,
            Query::Owner(identity) => self.0.of_service(identity).await.map(ListResult::of),
            Query::Ids(ids, Detail::Whole) => self.0.by_ids(ids).await.map(ListResult::of),
            Query::Ids(ids, Detail::State) => self.0.states(ids).await.map(ListResult::of),
        }
    }

    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        health::targets(&self.0, observed).await
    }

    async fn apply(&self, change: Change<'_>, spec: &Self::Spec) -> Result<Applied> {
        apply::apply(&self.0, change, spec).await
    }

    /// Adopts the load balancer in the Service's annotation, and a load balancer that was created for the Service and
    /// is now used only by other Services.
    fn adopts(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        let is_requested = requested_id(identity.service) == Some(balancer_id(&observed.id));
        let is_free =
            is_requested || (!observed.id.contains('/') && observed.name.starts_with(LEGACY));
        if is_free && !identity.is_leaving() {
            Adoption::Adopt
        } else {
            Adoption::Refuse
        }
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        service: &Service,
        _: &Self::Spec,
    ) -> Published {
        let status = published::status(observed, service, &self.0.config);
        Published {
            status,
            annotations: published::annotations(observed),
        }
    }

    fn lock(&self, observed: &ObservedLoadBalancer) -> Option<String> {
        Some(balancer_id(&observed.id).to_owned())
    }

    fn owner_name(&self, observed: &ObservedLoadBalancer) -> Option<(String, String)> {
        let (namespace, name) = service_of(observed.legacy_owner.as_deref()?)?;
        Some((namespace.to_owned(), name.to_owned()))
    }

    /// Replaces only a load balancer whose address was never published.
    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        if !observed.id.contains('/') && !is_published(service) {
            return Recovery::Replace;
        }
        Recovery::ByHand(format!(
            "{}; or delete it to get a new one",
            apply::repair(observed)
        ))
    }

    fn report(&self, notice: Notice<'_>) {
        let Notice::Moved { service, from, to } = notice else {
            return;
        };
        let place = |load_balancer: &ObservedLoadBalancer| {
            let address = load_balancer
                .ingress
                .iter()
                .find_map(|ingress| ingress.ip.as_deref())
                .unwrap_or("no address");
            format!(
                "load balancer {} ({address})",
                balancer_id(&load_balancer.id)
            )
        };
        let text = format!(
            "the Service has moved to {}; {} is deleted or released",
            place(to),
            place(from)
        );
        self.0.deduplicator.warn(
            true,
            EventSubject::Service(service),
            "LoadBalancerMoved",
            &text,
        );
    }
}

struct NovaServers(Services);

#[async_trait]
impl Machines for NovaServers {
    async fn has(&self, node: &Node) -> Result<Option<bool>> {
        let Ok(id) = ServerId::read(&node.provider_id) else {
            return Ok(None);
        };
        if self
            .0
            .region()
            .is_some_and(|ours| !id.region.is_empty() && id.region != ours)
        {
            return Ok(None);
        }
        let found: Option<Value> = self
            .0
            .compute
            .find(Call::get("/servers/{id}", &[id.server]))
            .await?;
        Ok(Some(found.is_some()))
    }

    /// Not supported: members are addresses, which Octavia accepts even if no server has them.
    async fn ids(&self) -> Result<Targets> {
        Err(Error::not_implemented())
    }
}
