//! Load balancers of both kinds, classic (CLB) and network (NLB): what a Service wants. The rest is the kit's.

mod account;
mod apply;
mod backends;
mod certificates;
mod creation;
mod deletion;
mod groups;
mod listeners;
mod model;
mod names;
mod of_users;
mod ports;
mod read;
mod search;
mod settings;
mod settings_shown;
mod source_ranges;
mod spec;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    Cluster, Error, EventSubject, Result, Service, Setup, async_trait, default_load_balancer_name,
};
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::load_balancers::{
    Adoption, Applied, Attributes, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    LoadBalancerEngine, NameUniqueness, Naming, ObservedLoadBalancer, Options, Published,
    Query as LoadBalancerQuery, Recovery, ResourceGraph, ResourceKey, Scope, TagRecord, sorted_set,
    tag_key,
};
use provider_kit::operation::Polling;
use provider_kit::paging::ListResult;
use provider_kit::status::shown;
use serde_json::Value;

use self::account::Account;
use self::names::{is_network, is_reused};
use self::search::Searches;
use self::source_ranges::without_ranges;
use self::spec::Spec;
use crate::api::{Api, Query, VPC};
use crate::endpoints::Endpoints;
use crate::gates::Gate;
use crate::instances::Source;

/// ID of a resource in the cloud.
const ID: &str = "id";
/// Namespace and name of the Service that a part of an existing load balancer belongs to.
const OWNER: &str = "owner";
/// Parts that users have added: backends of a server group, or listeners of a load balancer. They stay.
const OF_USERS: &str = "of users";
/// Record of the tags that come from the annotation.
const SPEC_TAGS: TagRecord = TagRecord {
    key: "ccm-rs/additional-tags",
    separator: "=",
    longest: 128,
};
/// Time for which reads of a Service wait for those of others, to share a request.
const WINDOW: Duration = Duration::from_millis(20);
/// Settings that cannot be changed.
const IMMUTABLE: [&str; 9] = [
    "NetworkType",
    "AddressType",
    "AddressIPVersion",
    "AddressIpVersion",
    "ResourceGroupId",
    "MasterZoneId",
    "SlaveZoneId",
    "Address",
    "VSwitchId",
];

/// The load balancers of a region.
struct AlibabaLoadBalancers {
    api: Api,
    account: Account,
    searches: Searches,
    endpoints: Endpoints,
    events: EventDeduplicator,
    /// EIPs by the CLBs that they are bound to, for Services that show them.
    eips: Mutex<BTreeMap<String, Vec<String>>>,
    /// Readiness gates of Pods by the UIDs of Services, with the servers that open them.
    gates: Mutex<BTreeMap<String, Vec<(Gate, String)>>>,
    ids: Ids,
}

/// IDs of load balancers by the UIDs of their Services, for labels of Services.
pub(crate) type Ids = Arc<Mutex<BTreeMap<String, String>>>;

/// Returns the load balancers of a region.
pub(crate) fn load_balancers(
    api: Api,
    source: Source,
    cluster: &ClusterView,
    setup: &Setup,
    ids: &Ids,
) -> LoadBalancerEngine {
    let polling = Polling {
        first: Duration::from_secs(1),
        max_interval: Duration::from_secs(3),
        timeout: Duration::from_secs(120),
        ..Polling::default()
    };
    let price = &[
        "AddressType",
        "LoadBalancerSpec",
        "InstanceChargeType",
        "InternetChargeType",
        "Bandwidth",
    ];
    let options = Options {
        polling,
        price,
        ..Options::default()
    };
    let events = EventDeduplicator::new(cluster.events().clone());
    let endpoints = Endpoints::new(cluster.clone(), setup.fence.clone());
    let eips = Mutex::default();
    let gates = Mutex::default();
    let ids = Arc::clone(ids);
    let account = Account::new(&api);
    let searches = Searches::new(&api);
    let cloud = AlibabaLoadBalancers {
        api,
        account,
        searches,
        endpoints,
        events,
        eips,
        gates,
        ids,
    };
    LoadBalancerEngine::of(cloud, Arc::new(source), options)
}

#[async_trait]
impl LoadBalancerCloud for AlibabaLoadBalancers {
    type Spec = Spec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let service = &crate::annotations::with_new_prefix(service);
        let legacy_owner = Some(default_load_balancer_name(service));
        let requested_id = crate::annotations::ID
            .text_on(service)
            .filter(|id| !id.is_empty())
            .map(str::to_owned);
        let kind = names::kind(
            spec::is_network(service, &self.api.config),
            requested_id.is_some(),
        );
        Naming {
            legacy_owner,
            writes_legacy_owner: true,
            requested_id,
            kind,
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.api.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let spec = input.spec;
        if spec.is_elsewhere {
            return Err(Error::implemented_elsewhere());
        }
        let backends = self.backends(input.request, spec).await?;
        let mut graph = ResourceGraph::default();
        for port in &spec.ports {
            graph = graph.pool(&port.pool, port.group.clone(), backends.of(port, spec));
        }
        if input.scope == Scope::Targets {
            return Ok(graph);
        }
        if spec.shows_eip {
            self.read_eips().await?;
        }
        let mut events = PendingEvents::default();
        spec.warnings
            .iter()
            .for_each(|text| events.warn("SettingIgnored", text));
        self.events.record_new(input.request.service, "", &events);
        graph = graph.balancer(spec.balancer.clone());
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

    /// Refuses what cannot be changed, and leaves what belongs to others as it is: parts of other Services, tags,
    /// weights, and all settings of a load balancer of the user.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &Spec,
    ) -> Result<ResourceGraph> {
        let Some(seen) = &observed.graph else {
            return Ok(desired);
        };
        if is_reused(observed.kind) {
            // Its settings are the user's: traffic of others passes the load balancer, too.
            desired = desired.balancer(Attributes::default());
            if !spec.overrides {
                desired
                    .resources
                    .retain(|resource, _| !matches!(resource, ResourceKey::Listener(_)));
            }
        } else {
            check_immutable(&desired, observed, seen, identity)?;
            desired = without_ranges(desired, seen);
            self.keep_unknown_groups(&mut desired, seen, identity.service);
            desired = with_zones_of(desired, seen);
            desired = without_new_record(desired, seen);
            SPEC_TAGS.remove_others(&mut desired, seen);
        }
        let service_name = names::names(identity.service).join("/");
        for (resource, attributes) in &seen.resources {
            let stays = attributes
                .text(OWNER)
                .is_some_and(|owner| owner != service_name)
                || is_reused(observed.kind)
                    && !spec.overrides
                    && matches!(resource, ResourceKey::Listener(_));
            if stays && !desired.resources.contains_key(resource) {
                desired
                    .resources
                    .insert(resource.clone(), Attributes::default());
            }
        }
        // A redirect has no server group and no settings of its own: only its port and its target can differ.
        for (resource, there) in &seen.resources {
            let Some(settings) = desired.resources.get(resource) else {
                continue;
            };
            let leads_to = settings.get("ForwardPort");
            if leads_to.is_some() && leads_to == there.get("ForwardPort") {
                let kept = settings
                    .clone()
                    .only(&["Protocol", "ForwardPort", "Status"]);
                desired.resources.insert(resource.clone(), kept);
            }
        }
        self.keep_backends_of_users(&mut desired, observed, seen, identity.service);
        for (pool, targets) in &desired.targets.clone() {
            let targets = backends::fitted(targets, &seen.targets_of(pool), spec.ignores_weights);
            desired.targets.insert(pool.clone(), targets);
        }
        Ok(desired)
    }

    async fn read(&self, query: LoadBalancerQuery<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            LoadBalancerQuery::All(_) => self.all().await,
            LoadBalancerQuery::Owner(identity) => {
                self.of_service(identity).await.map(ListResult::of)
            }
            LoadBalancerQuery::Ids(ids, detail) => self
                .by_ids(ids, detail == Detail::Whole)
                .await
                .map(ListResult::of),
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    /// Adopts a load balancer without tags by its name if the Service shows its address: old versions of the Go program
    /// wrote no tags.
    fn adopts(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        let is_shown = |entry: &_| shown(identity.service).contains(entry);
        if observed.ingress.iter().any(is_shown) {
            Adoption::Adopt
        } else {
            Adoption::Refuse
        }
    }

    /// Returns the ID of the load balancer of the user, which several Services may share.
    fn lock(&self, observed: &ObservedLoadBalancer) -> Option<String> {
        observed
            .cloud_name_and_id
            .as_ref()
            .map(|(_, id)| id.clone())
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        service: &Service,
        spec: &Spec,
    ) -> Published {
        let mut status = observed.status();
        let id = observed.id.split('/').next().unwrap_or_default();
        self.open_gates(observed, service, spec);
        self.ids.lock().insert(
            service.metadata.uid.clone().unwrap_or_default(),
            id.to_owned(),
        );
        if spec.shows_eip {
            match &self.eips.lock().get(id).map_or(&[][..], Vec::as_slice) {
                [ip] => status.ingress = Some(vec![ObservedLoadBalancer::ip(ip)]),
                found => {
                    let text = format!(
                        "load balancer {id} has {} EIPs, not one; the Service shows the address of the load balancer",
                        found.len()
                    );
                    self.events.warn(
                        true,
                        EventSubject::Service(service),
                        "SyncLoadBalancerFailed",
                        &text,
                    );
                }
            }
        }
        if let Some(name) = spec
            .hostname
            .as_ref()
            .filter(|_| !is_network(observed.kind))
        {
            status.ingress = Some(vec![ObservedLoadBalancer::host(name)]);
        }
        Published {
            status,
            annotations: Vec::new(),
        }
    }

    /// Replaces only a load balancer whose address was never published.
    fn recovery(&self, _: &ObservedLoadBalancer, service: &Service) -> Recovery {
        if shown(service).is_empty() {
            Recovery::Replace
        } else {
            Recovery::Never
        }
    }
}

impl AlibabaLoadBalancers {
    async fn read_eips(&self) -> Result<()> {
        let query =
            Query::new(VPC, "DescribeEipAddresses").set("AssociatedInstanceType", "SlbInstance");
        let key = |object: &Value| {
            object["AllocationId"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let found = self
            .api
            .pages(query, 100, "/EipAddresses/EipAddress", key)
            .await?
            .complete()?;
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in found.into_items() {
            if let (Some(id), Some(ip)) =
                (entry["InstanceId"].as_str(), entry["IpAddress"].as_str())
            {
                all.entry(id.to_owned()).or_default().push(ip.to_owned());
            }
        }
        *self.eips.lock() = all;
        Ok(())
    }
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Completes the zones that are wanted by the addresses that they have where none are stated.
fn with_zones_of(mut desired: ResourceGraph, seen: &ResourceGraph) -> ResourceGraph {
    const ZONES: &str = "ZoneMappings";
    let zones =
        |graph: &ResourceGraph| graph.balancer_attributes()?.get(ZONES)?.as_array().cloned();
    let (Some(wanted), Some(existing_zones)) = (zones(&desired), zones(seen)) else {
        return desired;
    };
    let complete = |zone: &Value| {
        let is_this_object = |object: &&Value| {
            ["ZoneId", "VSwitchId"]
                .iter()
                .all(|key| object[*key] == zone[*key])
        };
        let mut whole = existing_zones
            .iter()
            .find(is_this_object)
            .cloned()
            .unwrap_or_else(|| zone.clone());
        if let (Some(whole), Some(zone)) = (whole.as_object_mut(), zone.as_object()) {
            whole.extend(zone.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        whole
    };
    let zones = sorted_set(wanted.iter().map(complete).collect());
    let settings = desired.balancer_attributes().cloned().unwrap_or_default();
    desired = desired.balancer(settings.set(ZONES, zones));
    desired
}

/// Leaves out the record of tags where it would be the only change, as for what the Go program has created.
fn without_new_record(desired: ResourceGraph, seen: &ResourceGraph) -> ResourceGraph {
    let (Some(wanted), Some(existing_settings)) = (
        desired.balancer_attributes().cloned(),
        seen.balancer_attributes(),
    ) else {
        return desired;
    };
    let is_there = |(key, value): (&String, &String)| {
        key == SPEC_TAGS.key || existing_settings.tag(key) == Some(value)
    };
    match existing_settings.tag(SPEC_TAGS.key).is_none() && wanted.tags().iter().all(is_there) {
        true => desired.balancer(wanted.matching(|key| tag_key(key) != Some(SPEC_TAGS.key))),
        false => desired,
    }
}

/// Refuses a change of settings that a load balancer keeps for its life.
fn check_immutable(
    desired: &ResourceGraph,
    observed: &ObservedLoadBalancer,
    seen: &ResourceGraph,
    identity: &Identity<'_>,
) -> Result<()> {
    let (Some(wanted), Some(existing_settings)) =
        (desired.balancer_attributes(), seen.balancer_attributes())
    else {
        return Ok(());
    };
    // A load balancer of another kind is given up; the address type of an NLB can be changed.
    let is_meant = |key: &&str| {
        observed.kind == identity.kind && !(is_network(observed.kind) && *key == "AddressType")
    };
    for key in IMMUTABLE.into_iter().filter(is_meant) {
        if let (Some(to), Some(from)) = (wanted.get(key), existing_settings.get(key))
            && to != from
        {
            return Err(Error::invalid(format!(
                "{key} of {} cannot be changed from {from} to {to}; restore the annotation, or create the Service again",
                observed.place()
            )));
        }
    }
    Ok(())
}

/// Returns `true` if the plan deletes the load balancer.
fn is_leaving(change: &Change<'_>) -> bool {
    change
        .operations
        .iter()
        .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer))
}
