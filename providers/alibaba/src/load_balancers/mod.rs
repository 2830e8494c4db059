//! Load balancers of both kinds, classic (CLB) and network (NLB): what a Service wants. The rest is the kit's.

mod apply;
mod model;
mod read;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Cluster, Error, Node, Result, Service, async_trait, default_load_balancer_name};
use provider_kit::annotations::Parsed;
use provider_kit::load_balancers::{
    Applied, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud, LoadBalancerEngine, NameUniqueness,
    Naming, ObservedLoadBalancer, Options, Published, Query as LoadBalancerQuery, Recovery, ResourceGraph, ResourceKey,
    Scope, TagRecord, Targets,
};
use provider_kit::operation::Polling;
use provider_kit::paging::ListResult;
use provider_kit::status::shown;

use self::spec::Spec;
use crate::api::Api;
use crate::instances::{Source, exclusion, machine_id};

/// The kind of CLBs.
const CLASSIC: &str = "classic";
/// The kind of NLBs.
const NETWORK: &str = "network";
/// The tag with the default name of the load balancer, and the one with the cluster.
const NAME_TAG: &str = "kubernetes.do.not.delete";
const CLUSTER_TAG: &str = "ack.aliyun.com";
/// ID of a resource in the cloud.
const ID: &str = "id";
/// Record of the tags that come from the annotation.
const SPEC_TAGS: TagRecord = TagRecord { key: "ccm-rs/additional-tags", separator: "=", longest: 128 };
/// Nodes with these labels or taints are no backends.
const MASTER: &str = "node-role.kubernetes.io/master";
const AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";
/// Settings that cannot be changed.
const IMMUTABLE: [&str; 8] = [
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
}

/// Returns the load balancers of a region.
pub(crate) fn load_balancers(api: Api, source: Source) -> LoadBalancerEngine {
    let polling = Polling {
        first: Duration::from_secs(1),
        max_interval: Duration::from_secs(3),
        timeout: Duration::from_secs(120),
        ..Polling::default()
    };
    let price = &["AddressType", "LoadBalancerSpec", "InstanceChargeType", "InternetChargeType", "Bandwidth"];
    let options = Options { polling, price, ..Options::default() };
    LoadBalancerEngine::of(AlibabaLoadBalancers { api }, Arc::new(source), options)
}

/// Returns the name of the server group or listener on a port: of a CLB by the node port, of an NLB by port and protocol.
fn part_name(kind: &str, part: &str, service: &Service, cluster: &str) -> String {
    let [namespace, name] = spec::names(service);
    let separator = if kind == CLASSIC { '/' } else { '.' };
    ["k8s", part, name, namespace, cluster].join(&separator.to_string())
}

/// Returns the port in the name of a server group or listener of the cluster; `None` for those of others.
fn part_of<'a>(kind: &str, name: &'a str, cluster: &str) -> Option<&'a str> {
    let separator = if kind == CLASSIC { '/' } else { '.' };
    let rest = name.strip_prefix("k8s")?.strip_prefix(separator)?;
    let rest = rest.strip_suffix(cluster)?.strip_suffix(separator)?;
    // Names of Services and namespaces have no separator.
    let rest = rest.rsplit_once(separator)?.0.rsplit_once(separator)?.0;
    (!rest.is_empty()).then_some(rest)
}

/// A backend: `<type> <ID> <port> <weight>`, with the address after the ID for backends of type `Ip`.
fn backend(kind: &str, id: &str, port: u16, weight: u32) -> String {
    format!("{kind} {id} {port} {weight}")
}

/// Returns the backend without its weight.
fn server_of(target: &str) -> &str {
    target.rsplit_once(' ').map_or(target, |(server, _)| server)
}

impl Spec {
    /// Returns the IDs or addresses of backends; `None` if none of the Nodes is known.
    fn machines(&self, nodes: &[Arc<Node>]) -> Option<Vec<String>> {
        let is_backend = |node: &&Arc<Node>| {
            exclusion(node).is_none()
                && node.labels.get(MASTER).is_none()
                && !node.taints.iter().any(|taint| &*taint.key == AUTOSCALER)
                && !(self.removes_cordoned && node.unschedulable)
        };
        let machine = |node: &Arc<Node>| {
            let id = machine_id(node.provider_id()?);
            let id =
                id.inspect_err(|error| tracing::warn!(node = &*node.name, %error, "this Node is no backend")).ok()?;
            let mut ips = node.addresses.iter().filter(|it| it.kind == cloud_provider::AddressType::InternalIP);
            match self.has_addresses {
                true => ips.next().map(|ip| ip.address.to_string()),
                false => Some(id.to_owned()),
            }
        };
        let selected = self.selector.select(nodes);
        let found: Vec<_> = selected.iter().filter(is_backend).filter_map(machine).collect();
        (nodes.is_empty() || !found.is_empty() || nodes.iter().any(|node| node.provider_id().is_some()))
            .then_some(found)
    }

    fn targets(&self, machines: &[String], port: u16) -> Targets {
        let kind = match (self.kind, self.has_addresses) {
            (CLASSIC, _) => "ecs",
            (_, true) => "Ip",
            (_, false) => "Ecs",
        };
        machines.iter().map(|id| backend(kind, id, port, self.weight)).collect()
    }
}

#[async_trait]
impl LoadBalancerCloud for AlibabaLoadBalancers {
    type Spec = Spec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let service = &crate::annotations::with_new_prefix(service);
        let name = default_load_balancer_name(service);
        let requested_id = crate::annotations::ID.text_on(service).map(str::to_owned);
        let kind = spec::kind(service, &self.api.config);
        Naming { legacy_owner: Some(name), writes_legacy_owner: true, requested_id, kind, ..Naming::of(service) }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.api.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let spec = input.spec;
        let machines = spec.machines(input.request.nodes);
        let mut graph = ResourceGraph::default();
        for port in &spec.ports {
            let targets = machines.as_ref().map(|machines| spec.targets(machines, port.node_port));
            graph = graph.pool(&port.pool, port.group.clone(), targets);
        }
        if input.scope == Scope::Targets {
            return Ok(graph);
        }
        graph = graph.balancer(spec.balancer.clone());
        for port in &spec.ports {
            graph = graph.listener(port.number, port.transport, &port.pool, port.listener.clone());
        }
        Ok(graph)
    }

    /// Refuses what cannot be changed, and leaves tags and weights of others as they are.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &Spec,
    ) -> Result<ResourceGraph> {
        let Some(seen) = &observed.graph else { return Ok(desired) };
        if let (Some(wanted), Some(there)) = (desired.balancer_attributes(), seen.balancer_attributes()) {
            let is_moving = observed.kind != identity.kind;
            for key in IMMUTABLE.into_iter().filter(|key| !(observed.kind == NETWORK && *key == "AddressType")) {
                if let (Some(to), Some(from), false) = (wanted.get(key), there.get(key), is_moving)
                    && to != from
                {
                    return Err(Error::invalid(format!(
                        "{key} of {} cannot be changed from {from} to {to}; restore the annotation, or create the Service again",
                        observed.place()
                    )));
                }
            }
        }
        SPEC_TAGS.remove_others(&mut desired, seen);
        if spec.ignores_weights {
            for (pool, targets) in &desired.targets.clone() {
                let there = seen.targets_of(pool);
                let kept = |target: &str| {
                    there.iter().find(|it| server_of(it) == server_of(target)).unwrap_or(target).to_owned()
                };
                desired.targets.insert(pool.clone(), targets.iter().map(kept).collect());
            }
        }
        Ok(desired)
    }

    async fn read(&self, query: LoadBalancerQuery<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            LoadBalancerQuery::All(_) => self.all().await,
            LoadBalancerQuery::Owner(identity) => self.of_service(identity).await.map(ListResult::of),
            LoadBalancerQuery::Ids(ids, detail) => self.by_ids(ids, detail == Detail::Whole).await.map(ListResult::of),
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    fn published(&self, observed: &ObservedLoadBalancer, _service: &Service, spec: &Spec) -> Published {
        let mut status = observed.status();
        if let Some(name) = spec.hostname.as_ref().filter(|_| observed.kind == CLASSIC) {
            status.ingress = Some(vec![ObservedLoadBalancer::host(name)]);
        }
        Published { status, annotations: Vec::new() }
    }

    /// Replaces only a load balancer whose address was never published.
    fn recovery(&self, _: &ObservedLoadBalancer, service: &Service) -> Recovery {
        if shown(service).is_empty() { Recovery::Replace } else { Recovery::Never }
    }
}

impl AlibabaLoadBalancers {
    /// Returns `true` for the name or description of a part that the cluster owns.
    fn is_ours(&self, kind: &str, name: &str) -> bool {
        part_of(kind, name, &self.api.config.cluster).is_some()
    }
}

/// Returns `true` if the plan deletes the load balancer.
fn is_leaving(change: &Change<'_>) -> bool {
    change.operations.iter().any(|it| it.deletes(|resource| *resource == ResourceKey::Balancer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_parts_are_those_of_the_go_program() {
        let service: Service =
            serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"}})).unwrap();
        let group = part_name(CLASSIC, "30080", &service, "c1");
        assert_eq!((&*group, part_of(CLASSIC, &group, "c1")), ("k8s/30080/web/shop/c1", Some("30080")));
        let group = part_name(NETWORK, "80.TCP", &service, "c1");
        assert_eq!((&*group, part_of(NETWORK, &group, "c1")), ("k8s.80.TCP.web.shop.c1", Some("80.TCP")));
        assert_eq!(part_of(NETWORK, "k8s.80.TCP.web.shop.c2", "c1"), None, "another cluster");
        assert_eq!(part_of(CLASSIC, "mine", "c1"), None);
    }
}
