//! Load balancers of both kinds, classic and network: what a Service wants. The rest is the kit's.

mod admission;
mod apply;
mod groups;
mod health;
mod model;
mod names;
mod read;
mod spec;
mod subnets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_protocol::Client;
use cloud_provider::{
    Cluster, Error, Node, Result, Service, TargetHealth, TargetIdentity, async_trait,
    default_load_balancer_name,
};
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::coalescer::Coalescer;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::firewall::texts;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, Identity, LoadBalancerCloud,
    LoadBalancerEngine, NameUniqueness, Naming, ObservedLoadBalancer, Options, Query, Recovery,
    ResourceGraph, ResourceKey, Scope, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::shared_document::SharedDocuments;
use provider_kit::status::shown;
use provider_kit::transport::Priority;
use serde_json::json;

use self::groups::{Group, RuleStore, balancer_rules, chosen, node_rules, read_all, reference};
use self::model::{FIRST_OF_GROUP, GROUP, HealthCheck, IS_OURS, NODES, RULES, group_resource};
use self::names::{SERVICE_TAG, USER_TAGS, security_group, tags};
use self::read::Objects;
use self::spec::Spec;
use self::subnets::{AGE, Subnet, Wanted, choose};
use crate::annotations::BalancerKind;
use crate::api::Api;
use crate::instances::Source;

/// The kind of classic load balancers.
const CLASSIC: &str = "classic";
/// The kind of network load balancers.
const NETWORK: &str = "network";
/// Address ranges of the subnets of a load balancer, among the settings of [`NODES`].
const CIDRS: &str = "cidrs";
/// Age of instances at which they are read again.
const INSTANCES_AGE: Duration = Duration::from_secs(600);

/// The load balancers of a VPC, and what they share: all that is read less often than a load balancer.
struct ElasticLoadBalancers {
    api: Api,
    inventory: Inventory<Source>,
    rules: SharedDocuments<RuleStore>,
    groups: Cached<Vec<Group>>,
    objects: Coalescer<bool, Api, Objects>,
    subnets: Cached<Vec<Subnet>>,
    uses: Cached<Uses>,
    /// IDs of load balancers whose deletion has begun: they use nothing any more.
    leaving: Mutex<BTreeSet<String>>,
    cluster: ClusterView,
    deduplicator: EventDeduplicator,
    /// Name of the cluster, from which the names of security groups are computed.
    cluster_name: OnceLock<String>,
}

/// IDs of all load balancers, each with those of its security groups.
type Uses = Vec<(String, Vec<String>)>;

/// Returns the load balancers of a VPC.
pub(crate) fn balancers(
    api: Api,
    inventory: Inventory<Source>,
    cluster: &ClusterView,
) -> LoadBalancerEngine {
    let machines = Arc::new(inventory.source().clone());
    let cloud = ElasticLoadBalancers {
        rules: SharedDocuments::new(RuleStore(api.clone())),
        inventory: inventory.max_age(INSTANCES_AGE),
        groups: Cached::default(),
        objects: Coalescer::new(|with_targets, mut callers: Vec<Api>| async move {
            match callers.pop() {
                Some(api) => Objects::read(&api, with_targets).await,
                None => Ok(Objects::default()),
            }
        }),
        subnets: Cached::default(),
        uses: Cached::default(),
        leaving: Mutex::default(),
        deduplicator: EventDeduplicator::new(cluster.events().clone()),
        cluster: cluster.clone(),
        cluster_name: OnceLock::new(),
        api,
    };
    let target_identity = TargetIdentity::ProviderIdOrName;
    LoadBalancerEngine::of(
        cloud,
        machines,
        Options {
            target_identity,
            price: &["Scheme"],
            ..Options::default()
        },
    )
}

/// Returns the client for load balancers of a kind.
fn client<'a>(api: &'a Api, kind: &str) -> &'a Client {
    if kind == NETWORK {
        &api.aws.elbv2
    } else {
        &api.aws.elb
    }
}

impl ElasticLoadBalancers {
    async fn subnets(&self) -> Result<Arc<Vec<Subnet>>> {
        Ok(self
            .subnets
            .get(AGE, async || subnets::read(&self.api).await)
            .await?
            .0)
    }

    /// Returns the targets, and the security groups of them that admit the load balancer; `None` if nobody knows any.
    async fn targets(
        &self,
        spec: &Spec,
        nodes: &[Arc<Node>],
        events: &mut PendingEvents,
    ) -> Result<Option<[Targets; 2]>> {
        let nodes = spec.selector.select(nodes);
        let mut instances = Vec::new();
        for (node, found) in nodes.iter().zip(
            self.inventory
                .find_all(&nodes, false, Priority::Ordinary)
                .await,
        ) {
            match found {
                Ok(Found::Present(instance))
                    if instance.exists() && instance.instance_id.starts_with("i-") =>
                {
                    instances.push((node, instance));
                }
                Ok(_) => {}
                Err(error) if error.is_invalid() => {
                    tracing::warn!(node = &*node.name, %error, "this node is no target");
                }
                Err(error) => return Err(error),
            }
        }
        let mut admitting = BTreeSet::new();
        if self.api.config.has_node_rules && !instances.is_empty() {
            let cluster = self.api.identity().await?;
            let all = self
                .groups
                .get(AGE, async || read_all(&self.api).await)
                .await?
                .0;
            for (node, instance) in &instances {
                let ids: Vec<_> = instance
                    .group_set
                    .iter()
                    .map(|group| &*group.group_id)
                    .collect();
                let (group, doubt) = chosen(&instance.instance_id, &ids, &all, cluster);
                admitting.extend(group);
                doubt
                    .into_iter()
                    .for_each(|text| events.warn_node(node, "AmbiguousSecurityGroup", text));
            }
        }
        let is_known = nodes.is_empty() || !instances.is_empty();
        let ids = instances
            .iter()
            .map(|(_, machine_ref)| &*machine_ref.instance_id)
            .collect();
        Ok(is_known.then(|| [ids, admitting.into_iter().collect()]))
    }

    /// Returns the security groups of a load balancer, and whether the first one is created for it; `None` leaves them as they are.
    fn security_groups(&self, spec: &Spec, managed: &str) -> (Option<Vec<String>>, bool) {
        let config = &self.api.config;
        let shared = config
            .elb_security_group
            .clone()
            .filter(|_| spec.kind == BalancerKind::Classic);
        let mut groups = if spec.groups.is_empty() {
            shared.into_iter().collect()
        } else {
            spec.groups.clone()
        };
        let is_managed = groups.is_empty();
        if is_managed {
            groups.push(managed.to_owned());
        }
        groups.extend(spec.extra_groups.iter().cloned());
        match spec.kind {
            BalancerKind::Network if !config.has_nlb_groups => (None, false),
            _ => (Some(groups), is_managed),
        }
    }
}

/// Checks that the load balancer has the scheme that the Service asks for: AWS does not change it.
///
/// # Errors
/// *Invalid*, naming the annotation and both schemes.
fn check_scheme(desired: &ResourceGraph, seen: &ResourceGraph, place: &str) -> Result<()> {
    let scheme = |graph: &ResourceGraph| {
        graph
            .balancer_attributes()?
            .text("Scheme")
            .map(str::to_owned)
    };
    match (scheme(desired), scheme(seen)) {
        // An answer without a scheme says nothing about it.
        (Some(wanted), Some(observed)) if wanted != observed && !observed.is_empty() => {
            Err(Error::invalid(format!(
                "annotation {}: the Service asks for scheme {wanted}, but {place} has scheme {observed}, which AWS cannot change; \
             correct the annotation, or delete the Service and create it again",
                crate::annotations::INTERNAL_SCHEME.key()
            )))
        }
        _ => Ok(()),
    }
}

#[async_trait]
impl LoadBalancerCloud for ElasticLoadBalancers {
    type Spec = Spec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        self.cluster_name.get_or_init(|| cluster.name.clone());
        let legacy_owner = Some(default_load_balancer_name(service));
        Naming {
            legacy_owner,
            kind: spec::kind(service),
            ..Naming::of(service)
        }
    }

    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        if observed.kind == NETWORK {
            self.health(observed).await.map(Some)
        } else {
            Ok(None)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.api.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let spec = input.spec;
        let request = input.request;
        let kind = input.spec.kind();
        if spec.kind == BalancerKind::Elsewhere {
            return Err(Error::implemented_elsewhere());
        }
        let mut events = PendingEvents::default();
        let targets = self.targets(spec, request.nodes, &mut events).await?;
        spec.warnings
            .iter()
            .for_each(|text| events.warn("QuestionableAnnotation", text));
        self.deduplicator
            .record_new(request.service, "load balancer", &events);
        let [targets, admitting] = targets.map_or([None, None], |targets| targets.map(Some));
        let name = default_load_balancer_name(request.service);
        let mut graph = ResourceGraph::default();
        for (name, group) in &spec.pools {
            let pool = match kind {
                NETWORK => spec
                    .group_attributes
                    .0
                    .iter()
                    .fold(Attributes::desired(group)?, |all, (key, value)| {
                        all.set(key.clone(), value)
                    }),
                _ => Attributes::desired(&HealthCheck::from(group))?,
            };
            graph = graph.pool(name, pool, targets.clone());
        }
        let managed = security_group(kind, &request.cluster.name, request.service, &name);
        let (groups, is_managed) = self.security_groups(spec, &managed);
        let primary = groups.as_ref().and_then(|groups| groups.first());
        let admit = |graph: ResourceGraph, subnets: &[&Subnet]| {
            let ranges: Vec<_> = subnets
                .iter()
                .flat_map(|subnet| subnet.ranges())
                .filter_map(|range| range.parse().ok())
                .collect();
            let rules = primary.map_or_else(
                || node_rules(&name, spec, &ranges),
                |group| vec![reference(group)],
            );
            let attributes = Attributes::default().set(RULES, texts(&rules));
            if self.api.config.has_node_rules {
                graph.pool(NODES, attributes, admitting)
            } else {
                graph
            }
        };
        if input.scope == Scope::Targets {
            return Ok(admit(graph, &[]));
        }
        let cluster = self.api.identity().await?;
        let all = self.subnets().await?;
        let wanted = Wanted {
            stated: &spec.subnets,
            is_internal: spec.is_internal,
            has_ipv6: spec.has_ipv6,
        };
        let subnets = choose(&all, &wanted, cluster)?;
        let ids: Vec<_> = subnets
            .iter()
            .map(|subnet| subnet.subnet_id.clone())
            .collect();
        spec.check_addresses(&ids)?;
        let (ids, addresses) = spec.by_subnet(&ids);
        graph = admit(graph, &subnets);
        if is_managed {
            let rules = Attributes::default().set(RULES, texts(&balancer_rules(spec)));
            graph = graph.resource(
                group_resource(&managed),
                rules.tagged(&tags(cluster, None, &spec.tags)),
            );
        }
        let mut settings = spec.settings.clone();
        addresses
            .into_iter()
            .for_each(|(field, addresses)| settings.0[field] = addresses);
        (settings.0["Subnets"], settings.0["SecurityGroups"]) = (json!(ids), json!(groups));
        graph = graph.balancer(Attributes::desired(&settings)?.tagged(&tags(
            cluster,
            Some(request.service),
            &spec.tags,
        )));
        for port in &spec.ports {
            graph = graph.listener(
                port.number,
                port.transport,
                &port.pool,
                port.listener.clone(),
            );
        }
        Ok(graph)
    }

    /// Leaves what nobody has asked for as it is, and what cannot be had later.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        _: &Identity<'_>,
        spec: &Spec,
    ) -> Result<ResourceGraph> {
        let Some((seen, balancer)) = observed
            .graph
            .as_ref()
            .and_then(|graph| Some((graph, graph.balancer_attributes()?)))
        else {
            return Ok(desired);
        };
        let list = |attributes: Option<&Attributes>, key: &str| -> Vec<String> {
            attributes
                .and_then(|settings| serde_json::from_value(settings.get(key)?.clone()).ok())
                .unwrap_or_default()
        };
        if observed.kind == spec.kind() {
            check_scheme(&desired, seen, &observed.place())?;
        }
        let nodes = ResourceKey::Pool(NODES.to_owned());
        let attached = list(Some(balancer), "SecurityGroups");
        if observed.kind == NETWORK && spec.kind() == NETWORK {
            if spec.subnets.is_empty() {
                desired.keep(seen, &ResourceKey::Balancer, &["Subnets"]);
            }
            let has_groups = self.api.config.has_nlb_groups && !attached.is_empty();
            if !has_groups {
                desired.keep(seen, &ResourceKey::Balancer, &["SecurityGroups"]);
                let is_group = |resource: &ResourceKey| resource.is_of_kind(GROUP);
                desired.resources.retain(|resource, _| !is_group(resource));
                let observed_subnets = seen
                    .resources
                    .iter()
                    .filter(|(resource, _)| is_group(resource) && !attached.is_empty());
                desired.resources.extend(
                    observed_subnets
                        .map(|(resource, settings)| (resource.clone(), settings.clone())),
                );
            }
            let observed_node_rules = seen.resources.get(&nodes);
            // A load balancer that was just created, and not read since, has the subnets that were chosen for it.
            let is_read = observed_node_rules.is_some_and(|settings| settings.get(CIDRS).is_some());
            let ranges: Vec<_> = list(observed_node_rules, CIDRS)
                .iter()
                .filter_map(|text| text.parse().ok())
                .collect();
            let single = texts(&node_rules(&observed.name, spec, &ranges));
            // The Go program admits clients one by one also where the load balancer has a security group.
            let is_single = !has_groups || list(observed_node_rules, RULES) == single;
            if desired.resources.get(&nodes).is_some()
                && is_single
                && (is_read || self.api.config.has_nlb_groups)
            {
                desired
                    .resources
                    .insert(nodes.clone(), Attributes::default().set(RULES, single));
            }
            for (resource, settings) in seen
                .resources
                .iter()
                .filter(|(resource, _)| matches!(resource, ResourceKey::Pool(_)))
            {
                let is_ours = settings.get(IS_OURS).is_some();
                let stays = |name: &&str| {
                    settings.get(name).is_none() || !spec.group_attributes.1 && !is_ours
                };
                desired.keep(
                    seen,
                    resource,
                    &FIRST_OF_GROUP
                        .map(|first_of_group| first_of_group.0)
                        .into_iter()
                        .filter(stays)
                        .collect::<Vec<_>>(),
                );
            }
        }
        USER_TAGS.remove_others(&mut desired, seen);
        let wanted = desired.targets.get(NODES).cloned();
        let observed_targets = seen.targets_of(NODES);
        if desired.resources.get(&nodes).is_some()
            && wanted.as_ref().is_none_or(Targets::is_empty)
            && observed_targets.is_empty()
        {
            desired
                .resources
                .insert(nodes.clone(), Attributes::default());
        }
        // Rules of others for the same source stay, so they are no difference.
        let seen_rules = list(seen.resources.get(&nodes), RULES);
        let wanted_rules = list(desired.resources.get(&nodes), RULES);
        if !wanted_rules.is_empty() && wanted_rules.iter().all(|rule| seen_rules.contains(rule)) {
            desired.keep(seen, &nodes, &[RULES]);
        }
        // Others may use a security group that is not created for one load balancer.
        let is_shared = attached
            .first()
            .is_some_and(|group| seen.resources.get(&group_resource(group)).is_none());
        if let Some(wanted) = wanted.filter(|_| is_shared) {
            desired
                .targets
                .insert(NODES.to_owned(), wanted.with(&observed_targets));
        }
        Ok(desired)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(_) => self.all().await,
            Query::Owner(identity) => self.of_service(identity).await.map(ListResult::of),
            Query::Ids(ids, _) => self
                .by_ids(&ids.iter().map(|id| &**id).collect::<Vec<_>>())
                .await
                .map(ListResult::of),
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    /// Replaces only a load balancer whose address was never published.
    fn recovery(&self, _: &ObservedLoadBalancer, service: &Service) -> Recovery {
        if shown(service).is_empty() {
            Recovery::Replace
        } else {
            Recovery::Never
        }
    }

    fn owner_name(&self, observed: &ObservedLoadBalancer) -> Option<(String, String)> {
        let settings = observed.graph.as_ref()?.balancer_attributes()?;
        let (namespace, name) = settings.tag(SERVICE_TAG)?.split_once('/')?;
        Some((namespace.to_owned(), name.to_owned()))
    }
}
