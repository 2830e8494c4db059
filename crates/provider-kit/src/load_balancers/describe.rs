//! Descriptions of a Service's load balancers, for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{
    LoadBalancerDescription, LoadBalancerRequest, Node, Ownership, Result, TargetDescription,
    TargetHealth,
};

use super::balancers::LoadBalancerEngine;
use super::cache::Found;
use super::cloud::Scope;
use super::model::{ObservedLoadBalancer, OwnerTags, ResourceGraph, ResourceKey, Shared, State};
use super::ownership::{Identity, Others, ownership};
use super::surplus::stays;

impl LoadBalancerEngine {
    /// Reads every load balancer that carries the Service's owner tags or name, and tells who owns it.
    pub(super) async fn descriptions(
        &self,
        request: &LoadBalancerRequest<'_>,
    ) -> Result<Vec<LoadBalancerDescription>> {
        let identity = self.identity(request)?;
        let found = self.cache.find(&identity).await?;
        let cloud = self.cloud();
        let others = Others {
            caches: self.caches(),
            naming: &|service| cloud.naming(identity.cluster, service),
            is_shared: &|actual| cloud.lock(actual).is_some(),
            adopts: &|actual| cloud.adopts(actual, &identity),
        };
        let actuals = found.actuals.clone();
        let twins = self
            .twins(
                Found {
                    actuals,
                    is_certain: found.is_certain,
                },
                request,
                &identity,
            )
            .await;
        let mut descriptions = Vec::new();
        for actual in found.actuals.iter().filter(|actual| !actual.id.is_empty()) {
            let ownership = match twins.iter().find(|(twin, _)| twin.id == actual.id) {
                Some((_, text)) => Ownership::Twin(text.clone()),
                None => ownership(actual, &identity, &others),
            };
            let health = match ownership {
                Ownership::Foreign(_) => Ok(None),
                _ => cloud.target_health(actual).await,
            };
            let error = health.as_ref().err().map(ToString::to_string);
            let targets = targets(actual, request.nodes, health.ok().flatten().as_ref());
            descriptions.push(description(actual, ownership, targets, error));
        }
        Ok(descriptions)
    }

    /// Returns the load balancers that carry the Service's owner tags and stay, with the sentence that says so.
    async fn twins(
        &self,
        found: Found,
        request: &LoadBalancerRequest<'_>,
        identity: &Identity<'_>,
    ) -> Vec<(Shared, String)> {
        let mut result = self.decide_ownership(found, identity);
        if result.ours.len() < 2 {
            return Vec::new();
        }
        // A Service with a mistake has twins, too.
        let desired = self
            .cloud()
            .desired(request, identity, Scope::Everything)
            .await
            .ok();
        if let Some(desired) = &desired
            && result.replace(self.cloud(), desired, identity).is_err()
        {
            return Vec::new();
        }
        let Ok(Some(kept)) = result.for_changes().map(Option::<&Shared>::cloned) else {
            return Vec::new();
        };
        let is_moving_now = result.is_moving_now();
        let (_, twins) =
            result.sorted_surplus(self.cloud(), desired.as_ref(), identity, is_moving_now);
        twins
            .into_iter()
            .map(|twin| (Arc::clone(&twin), stays(&twin, &kept)))
            .collect()
    }
}

fn description(
    actual: &ObservedLoadBalancer,
    ownership: Ownership,
    targets: Vec<TargetDescription>,
    health_error: Option<String>,
) -> LoadBalancerDescription {
    let (name, id) = actual
        .cloud_name_and_id
        .clone()
        .unwrap_or_else(|| (actual.name.clone(), actual.id.clone()));
    let OwnerTags { cluster, service } = &actual.owner_tags;
    let tags = [
        (OwnerTags::CLUSTER, cluster),
        (OwnerTags::SERVICE, service),
        ("legacy owner", &actual.legacy_owner),
    ];
    let address = |load_balancer_ingress: &cloud_provider::LoadBalancerIngress| {
        load_balancer_ingress
            .ip
            .clone()
            .or_else(|| load_balancer_ingress.hostname.clone())
    };
    LoadBalancerDescription {
        id,
        name,
        ownership,
        state: match &actual.state {
            State::Ready => "ready".to_owned(),
            State::Busy => "busy".to_owned(),
            State::Failed(why) => format!("failed: {why}"),
        },
        owner_tags: tags
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)))
            .collect(),
        addresses: actual.ingress.iter().filter_map(address).collect(),
        listeners: actual
            .graph
            .iter()
            .flat_map(ResourceGraph::listeners)
            .map(|(port, _)| port.to_string())
            .collect(),
        targets,
        health_error,
    }
}

fn targets(
    actual: &ObservedLoadBalancer,
    nodes: &[Arc<Node>],
    health: Option<&BTreeMap<String, TargetHealth>>,
) -> Vec<TargetDescription> {
    // A security group is a pool of ports to which no listener leads.
    let is_used = |graph: &ResourceGraph, pool: &str| {
        !graph.is_unused_pool(&ResourceKey::Pool(pool.to_owned()))
    };
    let pools = actual.graph.iter().flat_map(|graph| {
        graph
            .targets
            .iter()
            .filter(move |(pool, _)| is_used(graph, pool))
    });
    let mut all: Vec<&str> = pools.flat_map(|(_, targets)| targets.iter()).collect();
    all.sort_unstable();
    all.dedup();
    let describe = |target: &str| TargetDescription {
        target: target.to_owned(),
        node: node_behind(target, nodes),
        health: health.and_then(|health| health.get(target).cloned()),
    };
    all.into_iter().map(describe).collect()
}

/// Returns the name of the only Node whose machine or address this target names.
fn node_behind(target: &str, nodes: &[Arc<Node>]) -> Option<String> {
    let mut fitting = nodes.iter().filter(|node| names_node(target, node));
    match (fitting.next(), fitting.next()) {
        (Some(node), None) => Some(node.name.to_string()),
        _ => None,
    }
}

/// Returns `true` if a target is the ID of the Node's machine (a whole path in any case of letters), or one of the Node's
/// addresses, with or without name, kind and port:
/// `4711`, `server:4711:private`, `10.0.0.5:31177`, `[fd00::5]:31177`, `ip:192.0.2.7`, `worker-1 10.0.0.5`.
fn names_node(target: &str, node: &Node) -> bool {
    let is_whole = |id: &str| {
        id.split_once("://")
            .is_some_and(|(_, id)| id.eq_ignore_ascii_case(target))
    };
    let machine = node
        .provider_id()
        .and_then(|id| id.rsplit(['/', ':']).next())
        .filter(|id| !id.is_empty());
    let words = || target.split([':', '[', ']', '=', '*', ' ']);
    let is_address = |address: &str| {
        let last = target.rsplit(' ').next().unwrap_or_default();
        let without_kind = last.strip_prefix("ip:").unwrap_or(last);
        without_kind == address
            || without_kind
                .rsplit_once(':')
                .is_some_and(|(host, _)| host.trim_matches(['[', ']']) == address)
    };
    node.provider_id().is_some_and(is_whole)
        || machine.is_some_and(|id| words().any(|word| word == id))
        || node
            .addresses
            .iter()
            .any(|address| is_address(&address.address))
}

#[cfg(test)]
mod tests {
    use cloud_provider::{AddressType, NodeAddress};

    use super::*;

    fn node(name: &str, provider_id: &str, address: &str) -> Arc<Node> {
        let addresses = [NodeAddress::new(AddressType::InternalIP, address)].into();
        Arc::new(Node {
            name: name.into(),
            provider_id: provider_id.into(),
            addresses,
            ..Node::default()
        })
    }

    #[test]
    fn target_is_named_after_the_only_node_that_fits() {
        let nodes = [
            node("a", "acme://4711", "10.0.0.5"),
            node("b", "openstack:///0b0a-1c", "fd00::5"),
            node("c", "", "10.0.0.55"),
            node("twin", "other://zone/9", "192.0.2.7"),
            node("twin-2", "other://zone/9", "192.0.2.8"),
            node("path", "other:///Sets/pool/machines/3", "192.0.2.9"),
        ];
        for (target, name) in [
            ("4711", Some("a")),
            ("server:4711:private", Some("a")),
            ("10.0.0.5:31177", Some("a")),
            ("10.0.0.55:31177", Some("c")),
            ("0b0a-1c", Some("b")),
            ("[fd00::5]:31177", Some("b")),
            ("fd00::5", Some("b")),
            ("ip:192.0.2.7", Some("twin")),
            ("web-1 10.0.0.5", Some("a")),
            ("4711=10.0.9.9:31333*100", Some("a")),
            ("/sets/pool/machines/3", Some("path")),
            ("9", None),
            ("471", None),
            ("", None),
        ] {
            assert_eq!(node_behind(target, &nodes).as_deref(), name, "{target}");
        }
    }
}
