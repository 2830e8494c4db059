//! Load balancers (CLB): the cloud as the engine of provider-kit sees it.

mod apply;
mod certificates;
mod classic;
mod creation;
mod groups;
mod listeners;
mod model;
mod parameters;
mod read;
mod spec;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    Cluster, Error, EventSubject, Fence, Result, Service, TargetHealth, async_trait,
};
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::endpoint_nodes::EndpointNodes;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    LoadBalancerEngine, NameUniqueness, Naming, Notice, ObservedLoadBalancer, Options, OwnerTags,
    Published, Query, ResourceGraph, ResourceKey, Scope, Targets, check_account,
    check_adoptable_tag,
};
use provider_kit::operation::Polling;
use provider_kit::paging::ListResult;
use provider_kit::status::shown;
use serde_json::{Value, json};

use self::classic::is_classic;
use self::listeners::KnownPorts;
use self::model::Group;
use self::read::Reads;
use self::spec::{Spec, generated_name};
use self::targets::{server_of, target};
use crate::action::{Action, CLB};
use crate::annotations as key;
use crate::api::{Api, list, text};
use crate::endpoints::Pods;
use crate::instances::Source;

/// The tag of load balancers that the program may delete, those of the owner, and the one of load balancers with a
/// security group for source ranges. Controllers of TKE write the first three.
const CREATED_TAG: &str = "tke-createdBy-flag";
const CLUSTER_TAG: &str = "tke-clusterId";
const SERVICE_TAG: &str = "tke-lb-serviceuuid";
const RANGES_TAG: &str = "ccm-rs/source-ranges";
/// Types of load balancers.
const PUBLIC: &str = "OPEN";
const INTERNAL: &str = "INTERNAL";
/// The kind of load balancers of users. The kind of others is their type, with the subnet of internal ones.
const EXISTING: &str = "existing";
/// The name that the Go program gives load balancers, unless an annotation has another one.
const GO_NAME: &str = "kubernetes-loadbalancer";
/// ID of a resource in the cloud.
const ID: &str = "Id";
/// Settings that decide about the price.
const PRICE: &[&str] = &[
    "LoadBalancerType",
    "InternetChargeType",
    "InternetMaxBandwidthOut",
];

/// The owner tag of the cluster, known from the start of the provider on.
pub(crate) type ClusterTag = Arc<Mutex<Option<String>>>;

/// The load balancers of a region.
pub(crate) struct TencentLoadBalancers {
    api: Api,
    reads: Reads,
    source: Source,
    cluster: ClusterView,
    endpoint_nodes: EndpointNodes,
    deduplicator: EventDeduplicator,
    /// The owner tag of the cluster, as the engine writes it.
    cluster_tag: ClusterTag,
    /// IDs of load balancers that annotations of Services name, by UID of the Service, and names in annotations.
    requested: Mutex<BTreeMap<String, String>>,
    names: Mutex<BTreeSet<String>>,
    ports: KnownPorts,
    /// Creations that the cloud has answered, by UID of the Service: each one has another token.
    creations: Mutex<BTreeMap<String, u32>>,
}

/// Returns the load balancers of a region.
pub(crate) fn load_balancers(
    api: Api,
    source: Source,
    cluster: ClusterView,
    cluster_tag: ClusterTag,
    fence: Fence,
) -> LoadBalancerEngine {
    let polling = Polling {
        first: Duration::from_millis(500),
        max_interval: Duration::from_secs(3),
        timeout: Duration::from_secs(300),
        ..Polling::default()
    };
    let options = Options {
        polling,
        price: PRICE,
        annotates_id: true,
        ..Options::default()
    };
    let deduplicator = EventDeduplicator::new(cluster.events().clone());
    let (requested, names, ports, creations) = Default::default();
    let machines = Arc::new(source.clone());
    let endpoint_nodes = EndpointNodes::new(cluster.clone(), fence);
    let reads = Reads::new(&api);
    let cloud = TencentLoadBalancers {
        api,
        reads,
        source,
        cluster,
        endpoint_nodes,
        deduplicator,
        cluster_tag,
        requested,
        names,
        ports,
        creations,
    };
    LoadBalancerEngine::of(cloud, machines, options)
}

/// Returns the kind of internal load balancers in a subnet. Kinds live as long as the process, and there are as many as
/// subnets.
fn internal_kind(subnet: &str) -> &'static str {
    static KINDS: Mutex<BTreeMap<String, &str>> = Mutex::new(BTreeMap::new());
    let mut kinds = KINDS.lock();
    if let Some(kind) = kinds.get(subnet) {
        return kind;
    }
    let kind: &str = format!("{INTERNAL} in {subnet}").leak();
    kinds.insert(subnet.to_owned(), kind);
    kind
}

/// Returns the security group for source ranges as a resource.
fn group_key() -> ResourceKey {
    ResourceKey::created_before(0, "security group", "source ranges")
}

/// Returns the desired state in which the load balancer no longer bypasses the security groups of Nodes, if only source
/// ranges, which are gone, made it do so.
fn without_pass(desired: ResourceGraph, seen: &ResourceGraph) -> ResourceGraph {
    const PASS: &str = "LoadBalancerPassToTarget";
    let loses_ranges =
        seen.resources.contains_key(&group_key()) && !desired.resources.contains_key(&group_key());
    match desired.balancer_attributes().cloned() {
        Some(settings) if loses_ranges && settings.get(PASS).is_none() => {
            desired.balancer(settings.set(PASS, false))
        }
        _ => desired,
    }
}

/// Returns the first address in the status of a Service.
fn shown_address(service: &Service) -> Option<String> {
    shown(service).iter().find_map(|entry| entry.ip.clone())
}

impl TencentLoadBalancers {
    /// Returns the tags of the owner.
    fn tags(&self, identity: &Identity<'_>, is_created: bool) -> BTreeMap<String, String> {
        let cluster = self.api.config.cluster_id.clone();
        let OwnerTags {
            cluster: own,
            service,
        } = identity.owner_tags();
        let created = is_created.then(|| "yes".to_owned());
        let all = [
            (CREATED_TAG, created),
            (CLUSTER_TAG, cluster.or(own)),
            (SERVICE_TAG, service),
        ];
        all.into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// Checks that the credential is for the account of the Nodes: a load balancer in another account would not be found
    /// again.
    async fn check_account(&self) -> Result<()> {
        let nodes = self.cluster.nodes().unwrap_or_default();
        check_account(
            &self.source,
            nodes,
            "use a credential of the account that has them",
        )
        .await
    }

    /// Warns of settings that cannot be changed.
    fn report_fixed(
        &self,
        desired: &ResourceGraph,
        seen: &ResourceGraph,
        identity: &Identity<'_>,
        place: &str,
    ) {
        let (Some(wanted), Some(observed_settings)) =
            (desired.balancer_attributes(), seen.balancer_attributes())
        else {
            return;
        };
        let mut events = PendingEvents::default();
        for name in ["LoadBalancerType", "SubnetId", "InternetChargeType"] {
            // The state after a creation in this process lacks what the creation left to the cloud.
            let from = observed_settings.text(name).unwrap_or("of its creation");
            if let Some(to) = wanted.text(name).filter(|to| *to != from) {
                let text = format!("{place} keeps {name} {from}: it cannot be changed to {to}");
                let text = format!(
                    "{text}; restore the annotation, or give the Service another load balancer"
                );
                events.warn("ImmutableSetting", text);
            }
        }
        self.deduplicator
            .record_new(identity.service, "fixed", &events);
    }
}

#[async_trait]
impl LoadBalancerCloud for TencentLoadBalancers {
    type Spec = Spec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        *self.cluster_tag.lock() = Some(OwnerTags::cluster(cluster).to_owned());
        let own_name_key = key::LB_NAME_KEY
            .text_on(service)
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(str::to_owned);
        self.names.lock().extend(own_name_key.clone());
        let requested_id = key::existing(service);
        let uid = service.metadata.uid.clone().unwrap_or_default();
        match &requested_id {
            Some(id) => self.requested.lock().insert(uid, id.clone()),
            None => self.requested.lock().remove(&uid),
        };
        let id = self
            .api
            .config
            .cluster_id
            .as_deref()
            .unwrap_or_else(|| OwnerTags::cluster(cluster));
        let legacy_owner = requested_id
            .as_ref()
            .map(|id| format!("ID {id}"))
            .or_else(|| shown_address(service));
        let kind = match (&requested_id, key::is_internal(service)) {
            (Some(_), _) => EXISTING,
            (None, true) => internal_kind(key::internal_subnet(service).unwrap_or_default()),
            (None, false) => PUBLIC,
        };
        let name = own_name_key.unwrap_or_else(|| generated_name(id, service));
        let recorded_id = key::ID.text_on(service).map(str::to_owned);
        Naming {
            name,
            legacy_owner,
            requested_id,
            recorded_id,
            kind,
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        let own_cluster_tag = self.cluster_tag.lock().clone().unwrap_or_default();
        Spec::of(
            service,
            self.api
                .config
                .cluster_id
                .as_deref()
                .unwrap_or(&own_cluster_tag),
        )
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let spec = input.spec;
        let service = input.request.service;
        if spec.is_skipped {
            return Err(Error::implemented_elsewhere());
        }
        let mut events = PendingEvents::default();
        let mut follows = spec.pods;
        let pods = match self.endpoints(spec, service).await {
            // The Pods would decide about UDP ports only.
            Err(error)
                if error.is_unauthorized()
                    && follows.is_some_and(|pods| !pods.is_direct && !pods.binds_nodes) =>
            {
                let text = format!(
                    "UDP ports lead to all Nodes, although externalTrafficPolicy is Local: {error}"
                );
                events.warn("EndpointsUnknown", text);
                follows = None;
                None
            }
            pods => pods?,
        };
        // As long as the Pods are not known, targets stay.
        let machines = match spec.is_direct || follows.is_some() && pods.is_none() {
            true => None,
            false => {
                let pods = pods
                    .as_ref()
                    .filter(|_| follows.is_some_and(|pods| pods.binds_nodes));
                self.machines(spec, input.request.nodes, pods, &mut events)
            }
        };
        // The health check of UDP listeners does not find out that a Node has no Pod.
        let with_pods = match pods.is_some() && spec.ports.iter().any(|port| port.needs_pods) {
            true => self.machines(spec, input.request.nodes, pods.as_ref(), &mut events),
            false => machines.clone(),
        };
        let targets = |port: &spec::Port| match (&pods, &spec.pods) {
            (
                Some(pods),
                Some(Pods {
                    is_direct: true,
                    keeps_terminating,
                    ..
                }),
            ) => {
                let all = pods.of_port(&port.name, port.transport, *keeps_terminating, spec.weight);
                Some(
                    all.iter()
                        .map(|(ip, port, weight)| target(ip, *port, *weight))
                        .collect::<Targets>(),
                )
            }
            _ => {
                let all = if port.needs_pods {
                    &with_pods
                } else {
                    &machines
                };
                all.as_ref().map(|all| {
                    all.iter()
                        .map(|(id, weight)| target(id, port.node_port, *weight))
                        .collect()
                })
            }
        };
        for port in &spec.stale {
            let text = format!(
                "the listener of port {port} keeps its targets, because the protocol that annotation {} names is not \
                 supported: delete it, or give the port TCP, UDP or TCP_SSL",
                key::PROTOCOLS.key()
            );
            self.deduplicator
                .warn(true, EventSubject::Service(service), "StaleTargets", &text);
        }
        let mut graph = ResourceGraph::default();
        for port in &spec.ports {
            graph = graph.pool(&port.pool, Attributes::default(), targets(port));
        }
        if input.scope == Scope::Targets {
            self.deduplicator.record_new(service, "targets", &events);
            return Ok(graph);
        }
        graph = graph.balancer(spec.balancer.clone());
        if !spec.ranges.is_empty() {
            let ranges: Vec<_> = spec.ranges.iter().map(ToString::to_string).collect();
            let group = Group(json!({"Ranges": ranges, "IsAttached": true}));
            graph = graph.resource(group_key(), Attributes::desired(&group)?);
        }
        for port in &spec.ports {
            let mut listener = port.listener.clone();
            if let Some(secret) = &port.secret {
                listener = listener.set("CertId", self.certificate(service, secret).await?);
            }
            graph = graph.listener(port.number, port.transport, &port.pool, listener);
        }
        spec.warnings
            .iter()
            .for_each(|(reason, text)| events.warn(reason, text));
        self.deduplicator.record_new(service, "", &events);
        Ok(graph)
    }

    /// Refuses ports that have a listener of somebody else.
    fn fit(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        _spec: &Spec,
    ) -> Result<ResourceGraph> {
        let Some(seen) = &observed.graph else {
            return Ok(desired);
        };
        if observed.adopted && observed.owner_tags.service.as_deref() != Some(identity.uid()) {
            let required = self.api.config.adoptable_tag.as_ref();
            check_adoptable_tag(&observed.place(), required, self.adoption_tags(observed))?;
        }
        if is_classic(seen) {
            return self.fit_classic(&desired, seen, identity.service, &observed.place());
        }
        let foreign = seen
            .balancer_attributes()
            .and_then(|settings| settings.get("Foreign"))
            .cloned()
            .unwrap_or_default();
        for (port, _) in desired.listeners() {
            if list(&foreign).any(|object| *object == *port.to_string()) {
                return Err(Error::invalid(format!(
                    "port {port} of {} has a listener that is not this Service's; delete the listener, or choose another port",
                    observed.place()
                )));
            }
        }
        let desired = without_pass(desired, seen);
        let desired =
            self.with_listeners_of_users(desired, seen, identity.service, &observed.place());
        self.report_fixed(&desired, seen, identity, &observed.place());
        Ok(desired)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(_) => self.all().await,
            Query::Owner(identity) => self.of_service(identity).await.map(ListResult::of),
            Query::Ids(ids, detail) => self
                .by_ids(ids, detail == Detail::Whole)
                .await
                .map(ListResult::of),
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    /// Warns of another address before the old load balancer is deleted or released.
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
            format!("load balancer {} ({address})", load_balancer.id)
        };
        let text = format!(
            "the Service has moved to {}; {} is deleted or released",
            place(to),
            place(from)
        );
        self.deduplicator.warn(
            true,
            EventSubject::Service(service),
            "LoadBalancerMoved",
            &text,
        );
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        service: &Service,
        _spec: &Spec,
    ) -> Published {
        let id = Some(observed.id.clone()).filter(|id| !id.is_empty());
        if let Some(address) = service
            .spec
            .as_ref()
            .and_then(|spec| spec.load_balancer_ip.as_deref())
            && !address.is_empty()
            && !observed.ingress.is_empty()
            && !observed
                .ingress
                .iter()
                .any(|ingress| ingress.ip.as_deref() == Some(address))
        {
            let text = format!(
                "loadBalancerIP {address} has no effect: it is no address of {}",
                observed.place()
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(service),
                "LoadBalancerIPIgnored",
                &text,
            );
        }
        Published {
            status: observed.status(),
            annotations: vec![(key::ID.key(), id)],
        }
    }

    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        if observed.graph.as_ref().is_some_and(is_classic) {
            return Ok(None);
        }
        let action =
            Action::new(CLB, "DescribeTargetHealth").set("LoadBalancerIds", [&observed.id]);
        let answer: Value = self.api.send(action).await?;
        let listeners = list(&answer["LoadBalancers"])
            .flat_map(|load_balancer| list(&load_balancer["Listeners"]));
        let checked: Vec<_> = listeners
            .flat_map(|listener| list(&listener["Rules"]))
            .flat_map(|rule| list(&rule["Targets"]))
            .collect();
        let graph = observed.graph.iter();
        let mut health = BTreeMap::new();
        for target in graph
            .flat_map(|graph| graph.targets.iter())
            .flat_map(|(_, targets)| targets.iter())
        {
            let is_this_object = |object: &&&Value| {
                ["TargetId", "IP"].iter().any(|key| {
                    server_of(target) == format!("{} {}", text(object, key), object["Port"])
                })
            };
            let all: Vec<_> = checked
                .iter()
                .filter(is_this_object)
                .map(|object| text(object, "HealthStatusDetail"))
                .collect();
            // A target that fails for one listener is not healthy.
            let detail = all
                .iter()
                .copied()
                .find(|text| *text == "Dead")
                .or(all.first().copied());
            if let Some(detail) = detail.filter(|detail| *detail != "Unknown") {
                let health_of = TargetHealth {
                    is_healthy: detail != "Dead",
                    detail: detail.to_owned(),
                };
                health.insert(target.to_owned(), health_of);
            }
        }
        Ok(Some(health))
    }
}
