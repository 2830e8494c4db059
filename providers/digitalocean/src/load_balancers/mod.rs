//! Load balancers: the Service's spec, and the particulars of this cloud. The kit does the rest.

mod adoption;
mod certificates;
mod defaults;
pub(crate) mod disown;
mod fixed;
pub(crate) mod object;
pub(crate) mod passing;
pub(crate) mod requested;
pub(crate) mod spec;
mod targets;

use std::sync::Arc;

use cloud_provider::{
    Cluster, Error, EventSubject, LoadBalancerStatus, Result, Service, async_trait,
    default_load_balancer_name,
};
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Adoption, Applied, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    NameUniqueness, Naming, Object, ObjectApi, ObservedLoadBalancer, Operation, OwnerTags,
    Published, Query, Recovery, Replacement, ResourceGraph, ResourceKey, Scope, State,
    WholeObjects,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority, Transport};

use self::certificates::Certificates;
use self::defaults::StatedSettings;
use self::object::{LoadBalancer, OTHER_PRODUCT, UNREADABLE};
use self::spec::{Certificate, Spec};
use crate::annotations as key;
use crate::api::Api;
use crate::config::{Config, LoadBalancerType};

const ALL: &str = LoadBalancer::PATHS.collection;
const COLLECTION: &str = "load_balancers";

/// Returns the name of a Service's load balancer.
pub(crate) fn name_of(service: &Service) -> String {
    key::NAME.text_on(service).map_or_else(
        || default_load_balancer_name(service),
        |name| name.trim().to_owned(),
    )
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
            .list(
                Call::get(ALL, &[]),
                COLLECTION,
                &SharedPriority::default(),
                keep,
                |actual| actual.id.clone(),
            )
            .await
    }

    /// Finds load balancers by name, and by the ID in the Service's annotation.
    async fn candidates(
        &self,
        identity: &Identity<'_>,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        let shared_priority = SharedPriority::of(if identity.is_leaving() {
            Priority::Urgent
        } else {
            Priority::Ordinary
        });
        let call = Call::get(ALL, &[]).query("names", &identity.name);
        let named = self
            .http
            .list(
                call,
                COLLECTION,
                &shared_priority,
                keep,
                |actual: &ObservedLoadBalancer| actual.id.clone(),
            )
            .await?;
        let Some(id) = identity.requested_id.as_ref().filter(|id| {
            !named
                .items()
                .iter()
                .any(|load_balancer| load_balancer.id == **id)
        }) else {
            return Ok(named);
        };
        let mut found = named.complete()?.into_items();
        let by_id = self
            .by_ids(std::slice::from_ref(id), Detail::Whole, keep)
            .await?;
        self.requested.note(id, !by_id.is_empty());
        found.extend(by_id);
        Ok(ListResult::of(found))
    }
}

/// The load balancers of an account.
pub(crate) struct DigitalOceanLoadBalancers {
    objects: WholeObjects<Api>,
    config: Config,
    certificates: Certificates,
    deduplicator: EventDeduplicator,
    stated: StatedSettings,
}

impl DigitalOceanLoadBalancers {
    pub(crate) fn new(api: Api, config: Config, cluster: &ClusterView) -> Self {
        let certificates = Certificates::new(api.clone());
        let deduplicator = EventDeduplicator::new(cluster.events().clone());
        let objects = WholeObjects::new(api.clone(), Arc::new(api));
        Self {
            objects,
            config,
            certificates,
            deduplicator,
            stated: StatedSettings::default(),
        }
    }

    fn api(&self) -> &Api {
        self.objects.api()
    }

    fn refuse(&self, service: &Service, error: Error) -> Error {
        self.deduplicator.warn(
            true,
            EventSubject::Service(service),
            "LoadBalancerConfigError",
            &error.to_string(),
        );
        error
    }

    /// Returns `true` for a load balancer with the tag of another cluster.
    fn is_of_another_cluster(&self, observed: &ObservedLoadBalancer) -> bool {
        let cluster = self.config.cluster_tag();
        adoption::tags(observed)
            .iter()
            .any(|tag| tag.starts_with("k8s:") && Some(tag) != cluster.as_ref())
    }

    /// Refuses to sync a load balancer that the Service shows, while its annotation names another one that does not exist.
    fn check_requested(
        &self,
        identity: &Identity<'_>,
        observed: &ObservedLoadBalancer,
    ) -> Result<()> {
        let shows = |ip: &String| {
            observed
                .ingress
                .iter()
                .any(|ingress| ingress.ip.as_ref() == Some(ip))
        };
        let is_shown = provider_kit::status::shown(identity.service)
            .iter()
            .filter_map(|entry| entry.ip.as_ref())
            .any(shows);
        match identity
            .requested_id
            .as_ref()
            .filter(|id| **id != observed.id && is_shown)
        {
            Some(id) if self.api().requested.is_unknown(id) => Err(requested::unknown(
                id,
                &format!("set {} to keep {}", observed.id, observed.place()),
            )),
            _ => Ok(()),
        }
    }

    /// Deletes a load balancer. An answer of the API that confirms the deletion needs no control read, for which the machines
    /// of the cluster may be missing.
    async fn remove(&self, id: &str, identity: &Identity<'_>) -> Result<Applied> {
        let applied = match self
            .api()
            .http
            .send(Call::delete(LoadBalancer::PATHS.item, &[id]))
            .await
        {
            Ok(_) => Applied::ReadAgain,
            Err(error) if error.is_not_found() => Applied::Gone,
            Err(error) => return Err(error),
        };
        self.api().passing.forget(id);
        self.api().requested.note_deletion(id, identity.uid());
        Ok(applied)
    }
}

/// Returns `true` if the Service needs no load balancer any more.
fn is_leaving(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    service.metadata.deletion_timestamp.is_some() || kind.is_some_and(|kind| kind != "LoadBalancer")
}

/// Returns the text of a field of the load balancer itself.
fn text<'a>(graph: Option<&'a ResourceGraph>, field: &str) -> Option<&'a str> {
    graph?.balancer_attributes()?.text(field)
}

/// Returns `true` for a load balancer with a value that this program cannot read, and therefore does not write.
fn is_unreadable(observed: &ObservedLoadBalancer) -> bool {
    matches!(&observed.state, State::Failed(text) if text.starts_with(UNREADABLE))
}

#[async_trait]
impl LoadBalancerCloud for DigitalOceanLoadBalancers {
    type Spec = Spec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let id = requested::id_of(service);
        // A load balancer of the Go program whose ID the Service has lost is found by its name when it is deleted.
        let legacy_name = || is_leaving(service).then(|| default_load_balancer_name(service));
        let legacy_owner = id.clone().or_else(legacy_name);
        Naming {
            name: name_of(service),
            is_name_chosen: key::NAME.text_on(service).is_some(),
            is_legacy_owner_stated: id.is_some(),
            legacy_owner,
            requested_id: id,
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let spec = input.spec;
        let request = input.request;
        let mut wanted = spec.load_balancer.clone();
        let chosen = targets::choose(request.nodes, &wanted);
        let chosen = chosen.map_err(|error| self.refuse(request.service, error))?;
        wanted.network_stack = Some(chosen.stack);
        if input.scope == Scope::Everything {
            self.stated.note(
                request.service.metadata.uid.as_deref().unwrap_or_default(),
                spec,
            );
            wanted.region = Some(self.api().region()?.to_owned());
            wanted.tags.extend(self.config.cluster_tag());
            if let Some(certificate) = spec
                .certificate
                .as_ref()
                .filter(|_| spec.needs_certificate())
            {
                let id = self.certificates.id(certificate).await?;
                let rules = wanted
                    .forwarding_rules
                    .iter_mut()
                    .filter(|rule| rule.ends_tls());
                rules.for_each(|rule| rule.certificate_id = Some(id.clone()));
            }
            for warning in &spec.warnings {
                self.deduplicator.warn(
                    true,
                    EventSubject::Service(request.service),
                    "QuestionableAnnotation",
                    warning,
                );
            }
        }
        let mut graph = self.objects.desired(&wanted, chosen.targets)?;
        if input.scope == Scope::Targets {
            graph
                .resources
                .retain(|resource, _| matches!(resource, ResourceKey::Pool(_)));
        }
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        let found = self
            .objects
            .read(query)
            .await?
            .flat_map(|observed| [self.marked(observed)]);
        let Query::Owner(identity) = query else {
            return Ok(found);
        };
        let name = default_load_balancer_name(identity.service);
        if identity.legacy_owner.as_ref() != Some(&name) {
            return Ok(found);
        }
        let mut found = found.complete()?.into_items();
        for actual in &mut found {
            if actual.name == name
                && actual.owner_tags == OwnerTags::default()
                && !self.is_of_another_cluster(actual)
            {
                actual.legacy_owner = Some(name.clone());
            }
        }
        Ok(ListResult::of(found))
    }

    /// Refuses settings that the API cannot change, and keeps a certificate that the cloud renewed.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &Spec,
    ) -> Result<ResourceGraph> {
        self.check_adoption(identity, observed)?;
        // A sync of targets alone has no settings.
        if desired.balancer_attributes().is_none() {
            return Ok(desired);
        }
        self.check_requested(identity, observed)?;
        if identity.is_adoption(observed) {
            desired = adoption::with_own_name(desired, observed);
        }
        fixed::check(&desired, observed, spec, identity)?;
        for warning in fixed::ignored(observed, spec) {
            self.deduplicator.warn(
                true,
                EventSubject::Service(identity.service),
                "SettingIgnored",
                &warning,
            );
        }
        self.certificates.keep_renewed(&mut desired, observed);
        Ok(self.stated.apply(desired, observed, identity.uid(), spec))
    }

    fn adopts(&self, observed: &ObservedLoadBalancer, _: &Identity<'_>) -> Adoption {
        if observed.kind == OTHER_PRODUCT || is_unreadable(observed) {
            return Adoption::Refuse;
        }
        match self.is_of_another_cluster(observed) {
            true => Adoption::RefuseUnless(
                "and remove the tag k8s:… of the other cluster if it is this cluster's".to_owned(),
            ),
            false => Adoption::Adopt,
        }
    }

    fn adoption_tags(&self, observed: &ObservedLoadBalancer) -> Vec<String> {
        adoption::tags(observed)
    }

    /// Refuses to create a load balancer for a Service whose annotation names one that does not exist. An ID that this
    /// program wrote, and whose load balancer was deleted since, is replaced: the Service still shows its address, another
    /// annotation has the ID, too, or this process has deleted it.
    async fn check_creation(
        &self,
        identity: &Identity<'_>,
        _: &Spec,
        _: &ResourceGraph,
    ) -> Result<()> {
        let Some(id) = &identity.requested_id else {
            return Ok(());
        };
        let was_deleted = self.api().requested.was_deleted(id, identity.uid());
        let is_ours = was_deleted || requested::was_created(identity.service, id);
        if is_ours || !provider_kit::status::shown(identity.service).is_empty() {
            return Ok(());
        }
        let call = Call::get(LoadBalancer::PATHS.item, &[id]).inside("load_balancer");
        match self.api().http.find::<LoadBalancer>(call).await? {
            None => Err(requested::unknown(
                id,
                "remove the annotation to have a new one created",
            )),
            Some(found) if found.head().kind == OTHER_PRODUCT => Err(Error::invalid(format!(
                "annotation {}: {} is of a type that is not possible for Services; possible are REGIONAL and REGIONAL_NETWORK",
                key::ID.key(),
                found.head().place()
            ))),
            Some(_) => Ok(()),
        }
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        service: &Service,
        spec: &Spec,
    ) -> Published {
        self.api().passing.note(observed, service);
        let kind = text(observed.graph.as_ref(), "type").map(str::to_owned);
        let mut annotations = vec![(key::ID.key(), Some(observed.id.clone()))];
        let created = requested::created_to_write(service, &observed.id);
        annotations.extend(created.map(|id| (requested::CREATED, Some(id))));
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
        let mode = |mut load_balancer_ingress: cloud_provider::LoadBalancerIngress| {
            load_balancer_ingress.ip_mode =
                (is_proxy && load_balancer_ingress.ip.is_some()).then(|| "Proxy".to_owned());
            load_balancer_ingress
        };
        let ingress: Vec<_> = ingress.into_iter().map(mode).collect();
        Published {
            status: LoadBalancerStatus {
                ingress: (!ingress.is_empty()).then_some(ingress),
            },
            annotations,
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let before = change.actual;
        let after = change.outcome_of_all();
        if let (Some(before), None) = (before, &after) {
            return self.remove(&before.id, change.identity).await;
        }
        let (Some(before), Some(after)) = (before, after) else {
            return self.objects.apply(change).await;
        };
        if let State::Failed(text) = &before.state
            && is_unreadable(before)
        {
            return Err(Error::other(format!(
                "{} cannot be changed: {text}",
                before.place()
            )));
        }
        if let Some(Certificate::Id(stated)) = &spec.certificate
            && self.certificates.decide(stated, before).await?
        {
            return Ok(Applied::PlanAgain(Box::new(before.clone())));
        }
        if change.operations.contains(&Operation::Untag) {
            return self.release(before, change.identity).await;
        }
        if change.operations.contains(&Operation::Tag) {
            self.tag(before, change.identity).await?;
            if change.operations.len() == 1 {
                let adopted = change.identity.is_adoption(before);
                return Ok(Applied::all(
                    change,
                    ObservedLoadBalancer { adopted, ..after },
                ));
            }
        }
        self.objects.apply(change).await
    }

    /// Replaces a load balancer of another type or network, which the API cannot change, if the user allows it.
    fn replacement(
        &self,
        desired: &ResourceGraph,
        observed: &ObservedLoadBalancer,
        service: &Service,
        spec: &Spec,
    ) -> Result<Replacement> {
        self.api().passing.note(observed, service);
        if is_unreadable(observed) {
            Ok(Replacement::None)
        } else {
            fixed::replacement(desired, observed, spec)
        }
    }

    /// Replaces only a load balancer that never worked, because users would lose the address of any other.
    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        let shows_none =
            provider_kit::status::shown(service).is_empty() && !is_unreadable(observed);
        if shows_none && observed.ingress.is_empty() {
            Recovery::Replace
        } else {
            Recovery::Never
        }
    }
}
