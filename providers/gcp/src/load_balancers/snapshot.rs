//! The objects of load balancers that were read together, and the load balancer that they make.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::{LoadBalancerIngress, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, ObservedLoadBalancer, ResourceGraph, State, Targets,
};
use provider_kit::transport::Method;
use serde::de::DeserializeOwned;

use super::groups::{GroupKey, Members};
use super::names::{FIREWALL_PREFIX, IPV6, LbNames, denial, held, plain, traffic};
use super::objects::{Address, Check, Firewall, Pool, Ports, Rule};
use super::spec::{Backend, EXTERNAL, INTERNAL, TARGETS};
use super::{GceLoadBalancers, Spec, target};
use crate::api::{
    ADDRESS, BACKEND_SERVICE, CHECK, FIREWALL, HTTP_CHECK, Kind, Place, REGION_CHECK, RULE,
    TARGET_POOL, tail,
};
use crate::config::StackType;

/// The label of the kit under which namespace and name of the Service are kept.
pub(super) const SERVICE: &str = "service";

/// Objects of each kind, by name if nothing else is said.
#[derive(Default)]
pub(super) struct Snapshot {
    rules: BTreeMap<String, Rule>,
    addresses: BTreeMap<String, Address>,
    /// Target pools and backend services, and health checks of both kinds, by collection and name.
    pools: BTreeMap<String, Pool>,
    checks: BTreeMap<String, Check>,
    firewalls: BTreeMap<String, Firewall>,
    members: Members,
    /// If set, what Services share is shown even if no pool refers to it.
    shows_shared: bool,
    /// If set, instance groups exist to which no pool of the load balancer refers, and no other Service.
    has_unused_groups: bool,
}

/// Reads objects of one kind: all, or those of these names.
fn read<'a, T: DeserializeOwned + Send + 'static>(
    cloud: &'a GceLoadBalancers,
    place: &'a Place,
    kind: Kind,
    names: Option<&'a [String]>,
    name: fn(&T) -> String,
) -> BoxFuture<'a, Result<BTreeMap<String, T>>> {
    let read = async move {
        let Some(names) = names else {
            let call = place.all(Method::GET, kind, "");
            // The network may have many firewalls of others.
            let filter = (kind == FIREWALL).then_some("name eq (k8s-.*|.*-hc)");
            let call = filter
                .iter()
                .fold(call, |call, filter| call.query("filter", filter));
            return cloud.api.list(call, &SharedPriority::default(), name).await;
        };
        let mut reads = Vec::new();
        for name in names {
            reads.push(cloud.api.find::<T>(place, kind, name).boxed());
        }
        Ok(try_join_all(reads).await?.into_iter().flatten().collect())
    };
    async move {
        Ok(read
            .await?
            .into_iter()
            .map(|entry| (name(&entry), entry))
            .collect())
    }
    .boxed()
}

/// Returns objects by collection and name.
fn by_path<T>(kind: Kind, objects: BTreeMap<String, T>) -> impl Iterator<Item = (String, T)> {
    objects
        .into_iter()
        .map(move |(name, object)| (kind.path(&name), object))
}

impl Snapshot {
    /// Reads forwarding rules, addresses, pools and firewalls: all, or those of these names.
    async fn read(
        cloud: &GceLoadBalancers,
        place: &Place,
        [rules, pools, firewalls]: [Option<&[String]>; 3],
    ) -> Result<Self> {
        let (rules, addresses, targets, services, firewalls) = futures::try_join!(
            read(cloud, place, RULE, rules, |rule: &Rule| rule.name.clone()),
            read(cloud, place, ADDRESS, rules, |address: &Address| address
                .name
                .clone()),
            read(cloud, place, TARGET_POOL, pools, |target_pool: &Pool| {
                target_pool.name.clone()
            }),
            read(
                cloud,
                place,
                BACKEND_SERVICE,
                pools,
                |backend_service: &Pool| backend_service.name.clone()
            ),
            read(cloud, place, FIREWALL, firewalls, |firewall: &Firewall| {
                firewall.name.clone()
            }),
        )?;
        let pools = by_path(TARGET_POOL, targets)
            .chain(by_path(BACKEND_SERVICE, services))
            .collect();
        Ok(Self {
            rules,
            addresses,
            pools,
            firewalls,
            ..Self::default()
        })
    }

    /// Reads everything of load balancers, with one list for each kind.
    pub(super) async fn of_all(
        cloud: &GceLoadBalancers,
        place: &Place,
        cluster_id: &str,
    ) -> Result<Self> {
        let mut found = Self::read(cloud, place, [None; 3]).await?;
        for kind in [CHECK, REGION_CHECK, HTTP_CHECK] {
            let checks = read(cloud, place, kind, None, |entry: &Check| entry.name.clone()).await?;
            found.checks.extend(by_path(kind, checks));
        }
        found.with_members(cloud, cluster_id, Duration::ZERO).await
    }

    /// Reads the objects that one load balancer may have. `is_leaving`: its Service will have none.
    pub(super) async fn of_one(
        cloud: &GceLoadBalancers,
        place: &Place,
        names: &LbNames,
        is_leaving: bool,
    ) -> Result<Self> {
        let families = cloud.families();
        let rules: Vec<_> = families
            .iter()
            .map(|is_ipv6| names.rule(*is_ipv6))
            .collect();
        let mut firewalls: Vec<_> = families
            .iter()
            .map(|is_ipv6| names.firewall(*is_ipv6))
            .collect();
        let denials = families.iter().filter(|_| cloud.api.config.removes_denials);
        firewalls.extend(denials.map(|is_ipv6| names.denial(*is_ipv6)));
        let pools = std::slice::from_ref(&names.name);
        let mut found =
            Self::read(cloud, place, [Some(&rules), Some(pools), Some(&firewalls)]).await?;
        let shared = found
            .rules
            .values()
            .filter_map(|rule| rule.backend_service.as_deref());
        let shared = shared
            .filter(|url| !found.pools.contains_key(&tail(url)))
            .map(|url| crate::api::name(url).to_owned());
        let shared: Vec<_> = shared.collect();
        let more = read(
            cloud,
            place,
            BACKEND_SERVICE,
            Some(&shared),
            |pool: &Pool| pool.name.clone(),
        )
        .await?;
        found.pools.extend(by_path(BACKEND_SERVICE, more));
        found.read_checks(cloud, place, names, is_leaving).await?;
        found
            .with_members(cloud, &names.cluster_id, Duration::from_secs(5))
            .await
    }

    /// Reads the health checks to which pools refer, and their firewalls; without a pool, those that an incomplete creation or
    /// deletion has left. The firewall for traffic is deleted last, so one without a pool means an incomplete deletion.
    async fn read_checks(
        &mut self,
        cloud: &GceLoadBalancers,
        place: &Place,
        names: &LbNames,
        is_leaving: bool,
    ) -> Result<()> {
        let is_bare = self.pools.is_empty();
        if is_bare && is_leaving {
            cloud.set_released(&names.name, true);
        }
        let is_rest = is_bare && (is_leaving || self.traffic(names).is_some());
        if is_rest && !cloud.has_other_users(&names.name, Spec::has_groups) {
            self.has_unused_groups = !cloud.groups.store().named(&names.group()).await?.is_empty();
        }
        let mut firewalls = BTreeSet::new();
        for Backend {
            pool: pools,
            check: kind,
            scheme,
        } in [TARGETS, INTERNAL, EXTERNAL]
        {
            let is_own = |pool: &Pool| {
                pool.load_balancing_scheme
                    .as_deref()
                    .is_none_or(|own_scheme| own_scheme == scheme)
            };
            let own_pools = self
                .pools
                .iter()
                .filter(|(path, pool)| path.starts_with(pools.word) && is_own(pool));
            let own_pools: Vec<_> = own_pools.map(|(_, pool)| pool).collect();
            let used = own_pools
                .iter()
                .flat_map(|pool| &pool.health_checks)
                .map(|url| crate::api::name(url).to_owned());
            let mut checks: BTreeSet<String> = used.collect();
            // An interrupted change may have left a check of its own that is not used any more.
            checks.extend((is_rest || !own_pools.is_empty()).then(|| names.name.clone()));
            if is_rest && !cloud.has_other_users(&names.name, |spec| spec.shares_check(kind)) {
                checks.insert(names.shared_check());
                self.shows_shared = true;
            }
            let checks: Vec<_> = checks.into_iter().collect();
            let found = read(cloud, place, kind, Some(&checks), |entry: &Check| {
                entry.name.clone()
            })
            .await?;
            let checks = checks
                .iter()
                .filter(|check| is_bare || found.contains_key(*check));
            let families = cloud
                .families()
                .iter()
                .filter(|is_ipv6| kind != HTTP_CHECK || !**is_ipv6);
            firewalls.extend(checks.flat_map(|check| {
                families
                    .clone()
                    .map(|is_ipv6| names.check_firewall(&kind.path(check), *is_ipv6))
            }));
            self.checks.extend(by_path(kind, found));
        }
        let firewalls: Vec<_> = firewalls.into_iter().collect();
        let firewalls = read(
            cloud,
            place,
            FIREWALL,
            Some(&firewalls),
            |firewall: &Firewall| firewall.name.clone(),
        )
        .await?;
        self.firewalls.extend(firewalls);
        Ok(())
    }

    /// Returns the firewall for traffic that names the owner of an incomplete deletion.
    fn traffic(&self, names: &LbNames) -> Option<&Firewall> {
        [false, true]
            .into_iter()
            .find_map(|is_ipv6| self.firewalls.get(&names.firewall(is_ipv6)))
    }

    async fn with_members(
        mut self,
        cloud: &GceLoadBalancers,
        cluster_id: &str,
        age: Duration,
    ) -> Result<Self> {
        let group = super::names::group(cluster_id);
        let config = &cloud.api.config;
        let is_read = |name: &str| {
            name == group
                || config.skips_groups
                || config
                    .groups_prefix
                    .as_deref()
                    .is_some_and(|groups_prefix| name.starts_with(groups_prefix))
        };
        let groups = self
            .pools
            .values()
            .flat_map(|pool| &pool.backends)
            .filter_map(|backend| group_key(&backend.group));
        let groups: BTreeSet<_> = groups.filter(|(_, name)| is_read(name)).collect();
        if !groups.is_empty() {
            self.members = (*cloud.groups.store().of(&groups, age).await?).clone();
        }
        // Instances in groups of others that are no Nodes are not this program's to remove.
        if let Some(nodes) = cloud
            .balanced_nodes()
            .filter(|_| groups.iter().any(|(_, name)| *name != group))
        {
            for ((zone, _), members) in self
                .members
                .iter_mut()
                .filter(|((_, name), _)| *name != group)
            {
                members.retain(|member| nodes.contains(&format!("{zone}:{member}")));
            }
        }
        Ok(self)
    }

    /// Returns the names of load balancers: of forwarding rules that name a Service, and of what incomplete deletions have
    /// left.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let rules = self
            .rules
            .values()
            .filter(|rule| !rule.description().service.is_empty());
        let is_name = |name: &&str| {
            name.len() == 32
                && name.starts_with('a')
                && name[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let pools = self
            .pools
            .keys()
            .map(|path| crate::api::name(path))
            .filter(is_name);
        let owned = self
            .firewalls
            .values()
            .filter(|firewall| firewall.owner().uid.is_some());
        let owned = owned.filter_map(|firewall| firewall.name.strip_prefix(FIREWALL_PREFIX));
        rules
            .map(|rule| &*rule.name)
            .chain(pools)
            .chain(owned)
            .map(plain)
            .collect()
    }

    /// Builds the load balancer of this name, if any part of it exists. `None` for one of another controller.
    pub(super) fn actual(
        &self,
        names: &LbNames,
        shows_denial: bool,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let rules: Vec<_> = [false, true]
            .into_iter()
            .filter_map(|is_ipv6| Some((is_ipv6, self.rules.get(&names.rule(is_ipv6))?)))
            .collect();
        if rules.iter().any(|(_, rule)| rule.is_of_other_controller()) {
            return Ok(None);
        }
        let mut graph = ResourceGraph::default();
        if self.has_unused_groups {
            graph = graph.resource(names.group_resource(), Attributes::default());
        }
        let own_paths = [TARGET_POOL, BACKEND_SERVICE].map(|kind| kind.path(&names.name));
        let led_to = rules
            .iter()
            .filter_map(|(_, rule)| rule.backend())
            .map(tail);
        let pools: BTreeSet<String> = own_paths.into_iter().chain(led_to).collect();
        let mut checks = BTreeSet::new();
        for path in pools {
            let Some(pool) = self.pools.get(&path) else {
                continue;
            };
            let has_groups = path.starts_with(BACKEND_SERVICE.word);
            graph = graph.pool(&path, pool.observed(!has_groups)?, Some(self.targets(pool)));
            if has_groups {
                graph = graph.resource(names.group_resource(), Attributes::default());
            }
            checks.extend(pool.health_checks.iter().map(|url| tail(url)));
        }
        for kind in [HTTP_CHECK, CHECK, REGION_CHECK] {
            checks.insert(kind.path(&names.name));
            checks.extend(self.shows_shared.then(|| kind.path(&names.shared_check())));
        }
        for check in checks {
            if let Some(observed) = self.checks.get(&check) {
                graph = graph.resource(names.check_resource(&check), observed.observed()?);
            }
            for is_ipv6 in [false, true] {
                if let Some(firewall) = self.firewalls.get(&names.check_firewall(&check, is_ipv6)) {
                    graph = graph.resource(
                        names.check_firewall_resource(&check, is_ipv6),
                        firewall.observed()?,
                    );
                }
            }
        }
        for is_ipv6 in [false, true] {
            let allowing = names.firewall(is_ipv6);
            let denying = names.denial(is_ipv6);
            if let Some(firewall) = self.firewalls.get(&allowing) {
                graph = graph.resource(traffic(allowing), firewall.observed()?);
            }
            if let Some(firewall) = self.firewalls.get(&denying).filter(|_| shows_denial) {
                graph = graph.resource(denial(denying), firewall.observed()?);
            }
            if let Some(address) = self.addresses.get(&names.rule(is_ipv6)) {
                graph = graph.resource(held(names.rule(is_ipv6)), Attributes::observed(address)?);
            }
        }
        for (is_ipv6, rule) in &rules {
            let firewall = self.firewalls.get(&names.firewall(*is_ipv6));
            let allowed = firewall.and_then(|firewall| {
                firewall
                    .allowed
                    .iter()
                    .flatten()
                    .flat_map(Ports::each)
                    .min()
            });
            graph = rule.listener(
                graph,
                rule.first_port().or(allowed).unwrap_or_default(),
                *is_ipv6,
            )?;
        }
        if graph.resources.is_empty() {
            return Ok(None);
        }
        let rule = rules.first().map(|(_, rule)| *rule);
        let mut actual = load_balancer(&names.name, rule, graph);
        if let Some(firewall) = self.traffic(names).filter(|_| rule.is_none()) {
            let owner = firewall.owner();
            actual.labels.extend(
                (!owner.service.is_empty()).then(|| (SERVICE.to_owned(), owner.service.clone())),
            );
            actual.owner_tags = owner.tags();
        }
        Ok(Some(actual))
    }

    fn targets(&self, pool: &Pool) -> Targets {
        let direct = pool.instances.iter().filter_map(|url| target(url));
        let groups = pool
            .backends
            .iter()
            .filter_map(|backend| self.members.get_key_value(&group_key(&backend.group)?));
        let grouped = groups
            .flat_map(|((zone, _), all)| all.iter().map(move |name| format!("{zone}:{name}")));
        direct.chain(grouped).collect()
    }
}

impl Rule {
    /// Returns `true` if the controller of backend services created the rule: it writes no owner tags.
    pub(super) fn is_of_other_controller(&self) -> bool {
        let is_external = self.load_balancing_scheme.as_deref() == Some(EXTERNAL.scheme);
        is_external && self.backend_service.is_some() && self.owner_tags().service.is_none()
    }

    fn first_port(&self) -> Option<u16> {
        let of_range = self
            .port_range
            .as_deref()
            .and_then(|range| range.split('-').next()?.parse().ok());
        of_range.or_else(|| {
            self.ports
                .iter()
                .flatten()
                .filter_map(|port| port.parse().ok())
                .min()
        })
    }

    /// Adds the listener that the rule is.
    pub(super) fn listener(
        &self,
        graph: ResourceGraph,
        port: u16,
        is_ipv6: bool,
    ) -> Result<ResourceGraph> {
        let protocol = format!(
            "{}{}",
            self.protocol.as_deref().unwrap_or_default(),
            if is_ipv6 { IPV6 } else { "" }
        );
        let pool = self.backend().map(tail).unwrap_or_default();
        Ok(graph.listener(port, protocol, &pool, self.observed()?))
    }
}

impl GceLoadBalancers {
    /// Returns the address families that load balancers may have: `true` for IPv6.
    fn families(&self) -> &'static [bool] {
        if self.api.config.stack == StackType::Ipv4Only {
            &[false]
        } else {
            &[false, true]
        }
    }
}

/// Returns the addresses of the forwarding rules, IPv4 first. An IPv6 address has the length of its prefix in the cloud.
pub(super) fn ingress(graph: &ResourceGraph) -> Vec<LoadBalancerIngress> {
    let mut addresses: Vec<_> = graph
        .listeners()
        .filter_map(|(_, settings)| settings.text("IPAddress"))
        .collect();
    addresses.sort_by_key(|ip| ip.contains(':'));
    addresses
        .iter()
        .map(|ip| ObservedLoadBalancer::ip(ip.split('/').next().unwrap_or(ip)))
        .collect()
}

/// Returns the load balancer of this name with these resources; `rule` names its owner.
pub(super) fn load_balancer(
    name: &str,
    rule: Option<&Rule>,
    graph: ResourceGraph,
) -> ObservedLoadBalancer {
    let service = rule
        .map(|rule| rule.description().service)
        .filter(|service| !service.is_empty());
    let is_without = graph
        .listeners()
        .any(|(_, settings)| settings.text("IPAddress").is_none());
    ObservedLoadBalancer {
        id: name.to_owned(),
        name: name.to_owned(),
        owner_tags: rule.map(Rule::owner_tags).unwrap_or_default(),
        labels: service
            .map(|service| (SERVICE.to_owned(), service))
            .into_iter()
            .collect(),
        legacy_owner: Some(name.to_owned()),
        state: if is_without {
            State::Busy
        } else {
            State::Ready
        },
        ingress: ingress(&graph),
        created: rule.and_then(|rule| rule.creation_timestamp.as_deref()?.parse().ok()),
        graph: Some(graph),
        ..ObservedLoadBalancer::default()
    }
}

/// Returns zone and name in the URL of an instance group.
pub(super) fn group_key(url: &str) -> Option<GroupKey> {
    let (zone, rest) = url.split_once("/zones/")?.1.split_once('/')?;
    Some((zone.to_owned(), crate::api::name(rest).to_owned()))
}
