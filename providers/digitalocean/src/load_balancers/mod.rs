//! Load balancers: the Service's spec, and the particulars of this cloud. The kit does the rest.

mod certificates;
pub(crate) mod disown;
pub(crate) mod object;
pub(crate) mod spec;
mod targets;

use std::sync::Arc;

use cloud_provider::{
    Cluster, Error, EventSubject, LoadBalancerStatus, Result, Service, async_trait, default_load_balancer_name,
};
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Adoption, Applied, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud, NameUniqueness, Naming, Object,
    ObjectApi, ObservedLoadBalancer, Operation, OwnerTags, Published, Query, Recovery, ResourceGraph, Scope, State,
    WholeObjects,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority, Transport};

use self::certificates::Certificates;
use self::object::{LoadBalancer, OWNER_TAGS};
use self::spec::{Certificate, Spec};
use crate::annotations as key;
use crate::api::Api;
use crate::config::{Config, LoadBalancerType};

const ALL: &str = LoadBalancer::PATHS.collection;
const COLLECTION: &str = "load_balancers";

/// Returns the name of a Service's load balancer.
pub(crate) fn name_of(service: &Service) -> String {
    key::NAME.text_on(service).map_or_else(|| default_load_balancer_name(service), |name| name.trim().to_owned())
}

#[async_trait]
impl ObjectApi for Api {
    type Object = LoadBalancer;

    fn transport(&self) -> &Transport {
        &self.http
    }

    async fn list(
        &self,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        self.http
            .list(Call::get(ALL, &[]), COLLECTION, &SharedPriority::default(), keep, |actual| actual.id.clone())
            .await
    }

    /// Finds load balancers by name, and by the ID in the Service's annotation.
    async fn candidates(
        &self,
        identity: &Identity<'_>,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        let shared_priority =
            SharedPriority::of(if identity.is_leaving() { Priority::Urgent } else { Priority::Ordinary });
        let call = Call::get(ALL, &[]).query("names", &identity.name);
        let named = self
            .http
            .list(call, COLLECTION, &shared_priority, keep, |actual: &ObservedLoadBalancer| actual.id.clone())
            .await?;
        let Some(id) = identity.legacy_owner.as_ref().filter(|id| !named.items().iter().any(|it| it.id == **id)) else {
            return Ok(named);
        };
        let mut found = named.complete()?.into_items();
        found.extend(self.by_ids(std::slice::from_ref(id), Detail::Whole, keep).await?);
        Ok(ListResult::of(found))
    }
}

/// The load balancers of an account.
pub(crate) struct DigitalOceanLoadBalancers {
    objects: WholeObjects<Api>,
    config: Config,
    certificates: Certificates,
    deduplicator: EventDeduplicator,
}

impl DigitalOceanLoadBalancers {
    pub(crate) fn new(api: Api, config: Config, cluster: &ClusterView) -> Self {
        let (certificates, deduplicator) =
            (Certificates::new(api.clone()), EventDeduplicator::new(cluster.events().clone()));
        Self { objects: WholeObjects::new(api.clone(), Arc::new(api)), config, certificates, deduplicator }
    }

    fn api(&self) -> &Api {
        self.objects.api()
    }

    fn refuse(&self, service: &Service, error: Error) -> Error {
        self.deduplicator.warn(true, EventSubject::Service(service), "LoadBalancerConfigError", &error.to_string());
        error
    }

    /// Adds the owner tags that a load balancer lacks.
    async fn tag(&self, id: &str, owner: &OwnerTags) -> Result<()> {
        for tag in OWNER_TAGS.among(owner, Vec::new()) {
            crate::tags::add(self.api(), &tag, &[id.to_owned()]).await?;
        }
        Ok(())
    }
}

/// Returns the text of a field of the load balancer itself.
fn text<'a>(graph: Option<&'a ResourceGraph>, field: &str) -> Option<&'a str> {
    graph?.balancer_attributes()?.text(field)
}

#[async_trait]
impl LoadBalancerCloud for DigitalOceanLoadBalancers {
    type Spec = Spec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let id = key::ID.text_on(service).map(str::to_owned);
        Naming { name: name_of(service), legacy_owner: id.clone(), requested_id: id, ..Naming::of(service) }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let (spec, request) = (input.spec, input.request);
        let mut wanted = spec.load_balancer.clone();
        let chosen = targets::choose(request.nodes, &wanted);
        let chosen = chosen.map_err(|error| self.refuse(request.service, error))?;
        wanted.network_stack = Some(chosen.stack);
        if input.scope == Scope::Everything {
            wanted.region = Some(self.api().region()?.to_owned());
            wanted.tags.extend(self.config.cluster_tag());
            if let Some(certificate) = spec.certificate.as_ref().filter(|_| spec.needs_certificate()) {
                let id = self.certificates.id(certificate).await?;
                let rules = wanted.forwarding_rules.iter_mut().filter(|rule| rule.ends_tls());
                rules.for_each(|rule| rule.certificate_id = Some(id.clone()));
            }
            for warning in &spec.warnings {
                self.deduplicator.warn(true, EventSubject::Service(request.service), "QuestionableAnnotation", warning);
            }
        }
        self.objects.desired(&wanted, chosen.targets)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        self.objects.read(query).await
    }

    /// Keeps the observed value of settings that the user does not state: a changed default must not replace a load
    /// balancer. A certificate that the cloud renewed stays as well.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        _: &Identity<'_>,
        spec: &Spec,
    ) -> Result<ResourceGraph> {
        for (name, key, is_stated) in
            [("type", key::TYPE.key(), spec.states_type), ("network", key::NETWORK.key(), spec.states_network)]
        {
            let (wanted, has) = (text(Some(&desired), name), text(observed.graph.as_ref(), name));
            if let (Some(wanted), Some(has), false) = (wanted, has, is_stated)
                && wanted != has
            {
                return Err(Error::invalid(format!(
                    "load balancer {} ({}) is {has}, and the default is {wanted}: set annotation {key}: {has} to keep it, or \
                     {key}: {wanted} to have it replaced, with another address",
                    observed.name, observed.id
                )));
            }
        }
        self.certificates.keep_renewed(&mut desired, observed);
        Ok(desired)
    }

    fn adopts(&self, observed: &ObservedLoadBalancer, _: &Identity<'_>) -> Adoption {
        let tags =
            observed.graph.as_ref().and_then(ResourceGraph::balancer_attributes).and_then(|it| it.get("tags").cloned());
        let tags: Vec<String> = tags.and_then(|tags| serde_json::from_value(tags).ok()).unwrap_or_default();
        let is_others = |tag: &String| tag.starts_with("k8s:") && Some(tag) != self.config.cluster_tag().as_ref();
        match tags.iter().find(|tag| is_others(tag)) {
            Some(_) => Adoption::RefuseUnless(format!(
                "or set annotation {}: {} if it is this cluster's",
                key::ID.key(),
                observed.id
            )),
            None => Adoption::Adopt,
        }
    }

    fn published(&self, observed: &ObservedLoadBalancer, _: &Service, spec: &Spec) -> Published {
        let kind = text(observed.graph.as_ref(), "type").map(str::to_owned);
        let mut annotations = vec![(key::ID.key(), Some(observed.id.clone()))];
        annotations.extend(kind.map(|kind| (key::TYPE.key(), Some(kind))));
        if let Some(Certificate::Id(stated)) = &spec.certificate {
            let renewed = self.certificates.renewed(stated, observed);
            annotations.extend(renewed.map(|id| (key::CERTIFICATE_ID.key(), Some(id))));
        }
        let ingress = match &spec.hostname {
            Some(name) if observed.state == State::Ready => vec![ObservedLoadBalancer::host(name)],
            Some(_) => Vec::new(),
            None => observed.ingress.clone(),
        };
        // With a proxy, Pods must connect to its address (`ipMode: Proxy`), because a shortcut would omit its TLS and
        // its PROXY header.
        let is_proxy = spec.load_balancer.kind == LoadBalancerType::Regional
            && (spec.load_balancer.enable_proxy_protocol || spec.needs_certificate());
        let mode = |mut it: cloud_provider::LoadBalancerIngress| {
            it.ip_mode = (is_proxy && it.ip.is_some()).then(|| "Proxy".to_owned());
            it
        };
        let ingress: Vec<_> = ingress.into_iter().map(mode).collect();
        Published { status: LoadBalancerStatus { ingress: (!ingress.is_empty()).then_some(ingress) }, annotations }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let (before, after) = (change.actual, change.outcome_of_all());
        let (Some(before), Some(after)) = (before, after) else { return self.objects.apply(change).await };
        if let Some(Certificate::Id(stated)) = &spec.certificate
            && self.certificates.decide(stated, before).await?
        {
            return Ok(Applied::PlanAgain(Box::new(before.clone())));
        }
        if change.operations.iter().any(|it| matches!(it, Operation::Tag)) {
            self.tag(&before.id, &change.identity.owner_tags()).await?;
            if change.operations.len() == 1 {
                return Ok(Applied::all(change, after));
            }
        }
        // The API cannot change these settings in place.
        let differs = |field: &&str| text(before.graph.as_ref(), field) != text(after.graph.as_ref(), field);
        if !["type", "network"].iter().any(differs) {
            return self.objects.apply(change).await;
        }
        tracing::warn!(id = before.id, name = before.name, "a load balancer is replaced: its type or network changed");
        self.api().http.remove(Call::delete(LoadBalancer::PATHS.item, &[&before.id])).await?;
        // After a *conflict*, the engine reads and plans again, and creates the new load balancer.
        Err(Error::conflict(format!("load balancer {} was deleted to be created again", before.name)))
    }

    /// Replaces only a load balancer that never worked, because users would lose the address of any other.
    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        let shows_none = provider_kit::status::shown(service).is_empty();
        if shows_none && observed.ingress.is_empty() { Recovery::Replace } else { Recovery::Never }
    }
}
