//! Load balancers: desired state, reads, names and status.

mod apply;
mod backends;
mod objects;
mod spec;

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{
    Cluster, EventSubject, LoadBalancerIngress, LoadBalancerStatus, Result, Service, async_trait,
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::inventory::SharedPriority;
use provider_kit::key_pair::KeyPair;
use provider_kit::load_balancers::{
    Adoption, Applied, Attributes, Change, DesiredStateInput, Identity, LoadBalancerCloud,
    LoadBalancerEngine, NameUniqueness, Naming, ObservedLoadBalancer, Options, OwnerTags,
    Published, Query, Recovery, Replacement, ResourceGraph, Scope,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::Call;
use tokio::time::Instant;

use self::objects::{
    AccessList, Certificate, LABEL_CLUSTER, LABEL_KEEP_ON_DELETE, LABEL_SERVICE, LABEL_UID,
    LoadBalancer, PRESERVED, Settings, access_list_resource, certificate_resource, group_name,
    label_setting, uploaded,
};
use self::spec::Spec;
use crate::annotations as key;
use crate::api::Api;

const ALL: &str = "/v1/loadbalancers";
const ONE: &str = "/v1/loadbalancers/{id}";
/// The resources that are read with a load balancer: all of them.
const EXPAND: &str = "listeners,groups,members,access_lists,certificates";

/// The load balancers of a region.
pub(crate) struct MycloudLoadBalancers {
    api: Api,
    cluster: ClusterView,
    deduplicator: EventDeduplicator,
    /// The time when the drain of a member began, by group and member.
    draining: Mutex<BTreeMap<(String, String), Instant>>,
}

pub(crate) fn load_balancers(api: &Api, cluster: &ClusterView) -> LoadBalancerEngine {
    let deduplicator = EventDeduplicator::new(cluster.events().clone());
    let api = api.clone();
    let cluster = cluster.clone();
    let machines = Arc::new(api.clone());
    let cloud = MycloudLoadBalancers {
        api,
        cluster,
        deduplicator,
        draining: Mutex::default(),
    };
    let options = Options {
        targets_follow_addresses: true,
        price: &["spec", "bandwidth_mbps"],
        adoptable_tag: cloud.api.config.adoptable_tag.clone(),
        ..Options::default()
    };
    LoadBalancerEngine::of(cloud, machines, options)
}

impl MycloudLoadBalancers {
    async fn some(&self, parameter: &str, value: &str) -> Result<Vec<ObservedLoadBalancer>> {
        Ok(self
            .list(Some((parameter, value)), |actual| actual)
            .await?
            .complete()?
            .into_items())
    }

    async fn list(
        &self,
        filter: Option<(&str, &str)>,
        keep: impl Fn(ObservedLoadBalancer) -> ObservedLoadBalancer + Send + Sync,
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        let call = self.api.call(Call::get(ALL, &[])).query("expand", EXPAND);
        let call = filter.iter().fold(call, |call, (parameter, value)| {
            call.query(parameter, value)
        });
        let keep = |shown: LoadBalancer| keep(shown.into_actual(&self.api.config));
        self.api
            .http
            .list(
                call,
                "items",
                &SharedPriority::default(),
                keep,
                |actual: &ObservedLoadBalancer| actual.id.clone(),
            )
            .await
    }

    async fn by_id(&self, id: &str) -> Result<Option<ObservedLoadBalancer>> {
        let call = self.api.call(Call::get(ONE, &[id])).query("expand", EXPAND);
        let found: Option<LoadBalancer> = self.api.http.find(call).await?;
        Ok(found.map(|shown| shown.into_actual(&self.api.config)))
    }

    /// Reads what may be the Service's: by the ID that the user chose, by its labels, and only then by name.
    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let mut found = self
            .some("label", &format!("{LABEL_UID}={}", identity.uid()))
            .await?;
        if let Some(id) = identity
            .requested_id
            .as_ref()
            .filter(|id| !found.iter().any(|load_balancer| load_balancer.id == **id))
            && let Some(mut chosen) = self.by_id(id).await?
        {
            if !chosen.labels.contains_key(LABEL_CLUSTER)
                && chosen.owner_tags == OwnerTags::default()
            {
                chosen.adopted = true;
            }
            found.push(chosen);
        }
        if !found.is_empty() || identity.is_leaving() {
            return Ok(found);
        }
        let named = self.some("name", &identity.name).await?;
        for other in &named {
            self.report_collision(identity, other);
        }
        Ok(named)
    }

    /// Reads a certificate from a Secret of the Service's namespace, and returns the name that its content gives it.
    async fn upload(&self, service: &Service, secret: &str) -> Result<(String, KeyPair)> {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let pair = KeyPair::read(&self.cluster, namespace, secret).await;
        let pair = pair
            .map_err(|error| error.context(format!("annotation {}", key::LISTENER_SECRET.key())))?;
        Ok((pair.digest().chars().take(16).collect(), pair))
    }

    fn report_collision(&self, identity: &Identity<'_>, other: &ObservedLoadBalancer) {
        let full = spec::full_name(identity.service);
        if let Some(owner) = other
            .labels
            .get(LABEL_SERVICE)
            .filter(|owner| **owner != full)
        {
            let cluster = other.labels.get(LABEL_CLUSTER).map_or("", String::as_str);
            let text = format!(
                "{} has the name of this one, and belongs to Service {owner} of cluster {cluster:?}",
                other.place()
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(identity.service),
                "LoadBalancerNameCollision",
                &text,
            );
        }
    }
}

/// Returns the fixed settings that differ, for people; `None` if none does.
fn fixed_changes(wanted: &Attributes, seen: &Attributes) -> Option<String> {
    let changes = wanted
        .differences(seen)
        .into_iter()
        .filter(|difference| Settings::FIXED.contains(&&*difference.key));
    let changes: Vec<_> = changes.map(|difference| difference.to_string()).collect();
    (!changes.is_empty()).then(|| changes.join(", "))
}

#[async_trait]
impl LoadBalancerCloud for MycloudLoadBalancers {
    type Spec = Spec;

    /// Returns `NotUnique`: two Services may have one name, as `b-c/d` and `b/c-d` have.
    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let adopts = key::ADOPT.text_on(service) == Some("true");
        Naming {
            name: spec::name(service, &self.api.config),
            legacy_owner: service.metadata.uid.clone(),
            // Names of cluster, namespace and Service prove nothing: somebody else may have chosen them.
            is_name_chosen: true,
            writes_legacy_owner: true,
            requested_id: key::ID
                .text_on(service)
                .filter(|_| adopts)
                .map(str::to_owned),
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.api.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let spec = input.spec;
        let mut pending_events = PendingEvents::default();
        let backends =
            backends::backends(input.request.nodes, spec, &self.api, &mut pending_events);
        spec.warnings
            .iter()
            .for_each(|text| pending_events.warn("QuestionableAnnotation", text));
        self.deduplicator
            .record_new(input.request.service, "backends", &pending_events);
        let mut graph = ResourceGraph::default();
        if input.scope == Scope::Everything {
            let settings = Attributes::desired(&spec.settings)?;
            let settings = spec.labels.iter().fold(settings, |all, (label, value)| {
                all.set(label_setting(label), value)
            });
            // A label that the Service no longer has is removed.
            let kept = spec.labels.get(LABEL_KEEP_ON_DELETE);
            graph = graph.balancer(settings.set(label_setting(LABEL_KEEP_ON_DELETE), kept));
            if !spec.ranges.is_empty() {
                let list = AccessList {
                    entries: spec.ranges.clone(),
                    ..AccessList::default()
                };
                graph = graph.resource(access_list_resource(), Attributes::desired(&list)?);
            }
        }
        for port in &spec.ports {
            let name = group_name(port.port.number, port.port.protocol);
            let targets = backends
                .as_ref()
                .map(|backends| backends::targets(backends, port.port.node_port));
            graph = graph.pool(&name, Attributes::desired(&port.group)?, targets);
            if input.scope == Scope::Everything {
                let mut listener = port.listener.clone();
                if let Some(secret) = &port.secret {
                    let (name, _) = self.upload(input.request.service, secret).await?;
                    listener.certificate_ids = Some(vec![uploaded(&name)]);
                    graph = graph.resource(
                        certificate_resource(&name),
                        Attributes::desired(&Certificate::default())?,
                    );
                }
                let settings = Attributes::desired(&listener)?;
                graph = graph.listener(port.port.number, port.port.protocol, &name, settings);
            }
        }
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => {
                let label = format!("{LABEL_CLUSTER}={}", self.api.config.cluster_id);
                self.list(Some(("label", &*label)), |actual| actual.sharing(sets))
                    .await
            }
            Query::Owner(identity) => self.find(identity).await.map(ListResult::of),
            Query::Ids(ids, _) => {
                let found = try_join_all(ids.iter().map(|id| self.by_id(id))).await?;
                Ok(ListResult::of(found.into_iter().flatten().collect()))
            }
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    /// Refuses settings that only another load balancer can have, unless the user allows a replacement.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        _: &Identity<'_>,
        _: &Spec,
    ) -> Result<ResourceGraph> {
        let seen = observed
            .graph
            .as_ref()
            .and_then(ResourceGraph::balancer_attributes);
        let (Some(wanted), Some(seen)) = (desired.balancer_attributes().cloned(), seen) else {
            return Ok(desired);
        };
        let kept = label_setting(LABEL_KEEP_ON_DELETE);
        if observed.adopted && seen.text(&kept) != Some(PRESERVED) {
            let fitted = Settings::FIXED
                .iter()
                .fold(wanted, |wanted, field| wanted.set(*field, seen.get(field)));
            desired = desired.balancer(fitted.set(kept.clone(), seen.get(&kept)));
            return Ok(desired);
        }
        match fixed_changes(&wanted, seen) {
            None => Ok(desired),
            Some(changes) => Err(spec::needs_recreation(&observed.place(), &changes)),
        }
    }

    /// Replaces a load balancer whose fixed settings differ, if the user allows it. An address can be used once: then the
    /// old load balancer must be deleted first, which needs a further permission.
    fn replacement(
        &self,
        desired: &ResourceGraph,
        observed: &ObservedLoadBalancer,
        _: &Service,
        spec: &Spec,
    ) -> Result<Replacement> {
        let seen = observed
            .graph
            .as_ref()
            .and_then(ResourceGraph::balancer_attributes);
        let (Some(wanted), Some(seen)) = (desired.balancer_attributes(), seen) else {
            return Ok(Replacement::None);
        };
        let Some(changes) = fixed_changes(wanted, seen) else {
            return Ok(Replacement::None);
        };
        let is_address_taken = wanted
            .text("ip")
            .is_some_and(|ip| seen.text("ip") == Some(ip));
        match (
            spec.allows_recreation,
            is_address_taken,
            spec.allows_interruption,
        ) {
            (false, ..) => Err(spec::needs_recreation(&observed.place(), &changes)),
            (true, false, _) => Ok(Replacement::NewFirst(changes)),
            (true, true, true) => Ok(Replacement::OldFirst(changes)),
            (true, true, false) => Err(spec::needs_interruption(&observed.place(), &changes)),
        }
    }

    /// Replaces a load balancer that never worked: it has no address to lose.
    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        let is_unused =
            observed.ingress.is_empty() && provider_kit::status::shown(service).is_empty();
        if is_unused {
            Recovery::Replace
        } else {
            Recovery::Never
        }
    }

    /// Adopts load balancers without an owner if the user permits it, and those of an earlier Service of the same name.
    fn adopts(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        let is_free = !observed.labels.contains_key(LABEL_CLUSTER);
        let is_same =
            observed.labels.get(LABEL_SERVICE) == Some(&spec::full_name(identity.service));
        let is_left_behind = is_same && observed.legacy_owner.is_some();
        match key::ADOPT.text_on(identity.service) {
            _ if is_left_behind => Adoption::Adopt,
            Some("true") if is_free => Adoption::Adopt,
            _ if is_free => {
                Adoption::RefuseUnless(format!("or set annotation {}: \"true\"", key::ADOPT.key()))
            }
            _ => Adoption::Refuse,
        }
    }

    fn published(&self, observed: &ObservedLoadBalancer, _: &Service, spec: &Spec) -> Published {
        let is_proxy = spec.ports.iter().any(|port| port.listener.is_proxy());
        let mode = if is_proxy { "Proxy" } else { "VIP" };
        let shown = |ingress: &LoadBalancerIngress| LoadBalancerIngress {
            ip_mode: Some(mode.to_owned()),
            ..ingress.clone()
        };
        let ingress: Vec<_> = match &spec.hostname {
            Some(name) => vec![ObservedLoadBalancer::host(name)],
            None => observed.ingress.iter().map(shown).collect(),
        };
        let status = LoadBalancerStatus {
            ingress: (!ingress.is_empty()).then_some(ingress),
        };
        Published {
            status,
            annotations: vec![(key::ID.key(), Some(observed.id.clone()))],
        }
    }

    fn owner_name(&self, observed: &ObservedLoadBalancer) -> Option<(String, String)> {
        let (namespace, name) = observed.labels.get(LABEL_SERVICE)?.split_once('/')?;
        Some((namespace.to_owned(), name.to_owned()))
    }

    fn target_annotations(&self) -> &[String] {
        &self.api.config.node_annotations
    }
}
