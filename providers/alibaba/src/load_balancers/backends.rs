//! The backends of a load balancer: Nodes by their instances, and Pods by their network interfaces.
//!
//! A backend is written `<weight> <type> <port> <ID>`. The ID is `<region>.<instance>`, an address, or
//! `<interface>/<address>`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{AddressType, Error, LoadBalancerRequest, Node, Result, Service};
use ipnet::IpNet;
use provider_kit::events::PendingEvents;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{ObservedLoadBalancer, Targets};
use serde_json::Value;

use super::AlibabaLoadBalancers;
use super::names::is_network;
use super::ports::Port;
use super::read::{list, text};
use super::spec::Spec;
use crate::api::{ECS, Query, VPC};
use crate::endpoints::Pod;
use crate::gates::Gate;
use crate::instances::{AT_ONCE, exclusion, machine_id};

/// Nodes with these labels or taints are no backends.
const NO_BACKEND: [&str; 2] = [
    "node-role.kubernetes.io/master",
    "alpha.service-controller.kubernetes.io/exclude-balancer",
];
const AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";
/// Type of a backend whose network interface is not known yet.
const UNRESOLVED: &str = "unresolved";

/// The kind of backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nodes, with or without Pods of the Service.
    #[default]
    Nodes,
    /// The Nodes that have Pods of the Service.
    Local,
    /// The Pods of the Service.
    Pods,
}

/// The Nodes and Pods that a Service's traffic goes to.
pub(super) struct Backends {
    mode: Mode,
    /// IDs or addresses of Nodes, with the number of their Pods; `None` if no Node is known.
    nodes: Option<Vec<(String, usize)>>,
    /// Pods that are backends themselves.
    pods: Vec<Pod>,
    /// Network interfaces by the addresses of Pods; `None` for an address that no interface has yet.
    interfaces: BTreeMap<String, Option<String>>,
}

/// Returns the backend without its weight.
pub(super) fn server_of(target: &str) -> &str {
    target.split_once(' ').map_or(target, |(_, server)| server)
}

/// Returns `true` if a backend cannot be sent to the cloud yet.
pub(super) fn is_unresolved(target: &str) -> bool {
    server_of(target).starts_with(UNRESOLVED)
}

/// Keeps the backends that a Pod without a known interface has, and the weights that stay.
pub(super) fn fitted(wanted: &Targets, existing: &Targets, ignores_weights: bool) -> Targets {
    let kept = |target: &str| {
        if is_unresolved(target) {
            let ip = target.rsplit(' ').next().unwrap_or_default();
            let is_this_text = |text: &&str| text.ends_with(&format!("/{ip}"));
            return existing.iter().find(is_this_text).map(str::to_owned);
        }
        let same = existing
            .iter()
            .find(|text| ignores_weights && server_of(text) == server_of(target));
        Some(same.unwrap_or(target).to_owned())
    };
    wanted.iter().filter_map(kept).collect()
}

fn is_virtual(node: &Node) -> bool {
    node.labels.get("type") == Some("virtual-kubelet")
}

impl Spec {
    fn is_backend(&self, node: &Node) -> bool {
        exclusion(node).is_none()
            && NO_BACKEND.iter().all(|key| node.labels.get(key).is_none())
            && !is_virtual(node)
            && !node.taints.iter().any(|taint| &*taint.key == AUTOSCALER)
            && !(self.removes_cordoned && node.unschedulable)
            && self.selector.matches(&node.labels)
    }

    /// Returns the ID or address of a Node as a backend.
    fn machine(&self, node: &Node, region: &str) -> Option<String> {
        let id = machine_id(node.provider_id()?);
        let id = id
            .inspect_err(
                |error| tracing::warn!(node = &*node.name, %error, "this Node is no backend"),
            )
            .ok()?;
        let mut ips = node
            .addresses
            .iter()
            .filter(|address| address.kind == AddressType::InternalIP);
        if self.has_addresses {
            ips.next().map(|ip| ip.address.to_string())
        } else {
            Some(format!("{region}.{id}"))
        }
    }
}

impl Backends {
    /// Returns the backends of a port; `None` if they are unknown.
    pub(super) fn of(&self, port: &Port, spec: &Spec) -> Option<Targets> {
        let [ecs, eni] = match (is_network(spec.kind), spec.has_addresses) {
            (false, _) => ["ecs", "eni"],
            (true, false) => ["Ecs", "Eni"],
            (true, true) => ["Ip", "Ip"],
        };
        let nodes = self.nodes.as_ref()?;
        // A range of ports leads to the same ports of the Pods.
        let number = |pod: &Pod| {
            if port.range.is_some() {
                Some(0)
            } else {
                pod.port(&port.target, &port.name)
            }
        };
        let pods: Vec<_> = self
            .pods
            .iter()
            .filter_map(|pod| Some((pod, number(pod)?)))
            .collect();
        let node_pods: usize = nodes.iter().map(|(_, count)| count).sum();
        let count = if self.mode == Mode::Local {
            node_pods
        } else {
            nodes.len()
        } + pods.len();
        let share = |part: usize| match spec.total_weight {
            Some(0) => Some(0),
            Some(total) => Some((total as usize * part / count.max(1)).max(1)),
            None => None,
        };
        let mut all = Vec::with_capacity(nodes.len() + pods.len());
        for (id, count) in nodes {
            let (part, usual) = if self.mode == Mode::Local {
                (*count, (*count).min(100))
            } else {
                (1, spec.weight as usize)
            };
            all.push(format!(
                "{} {ecs} {} {id}",
                share(part).unwrap_or(usual),
                port.node_port
            ));
        }
        for (pod, number) in pods {
            let usual = if self.mode == Mode::Local {
                1
            } else {
                spec.weight as usize
            };
            let weight = share(1).unwrap_or(usual);
            all.push(match self.interfaces.get(&pod.ip) {
                _ if spec.has_addresses => format!("{weight} {eni} {number} {}", pod.ip),
                Some(Some(id)) => format!("{weight} {eni} {number} {id}/{}", pod.ip),
                Some(None) => format!("{weight} {UNRESOLVED} {number} {}", pod.ip),
                None => continue,
            });
        }
        Some(all.into_iter().collect())
    }
}

impl AlibabaLoadBalancers {
    /// Finds the backends of a Service. Endpoints are read only where Pods decide.
    pub(super) async fn backends(
        &self,
        request: &LoadBalancerRequest<'_>,
        spec: &Spec,
    ) -> Result<Backends> {
        let region = self.api.metadata.region().await?;
        let has_virtual = request.nodes.iter().any(|node| is_virtual(node));
        let pods = match spec.mode {
            Mode::Nodes if !has_virtual => None,
            _ => {
                self.endpoints
                    .of(request.service, spec.family, spec.mode == Mode::Pods)
                    .await?
            }
        };
        // A Service without EndpointSlices, as one without a selector: the health check decides.
        let mode = if pods.is_none() && spec.mode == Mode::Local {
            Mode::Nodes
        } else {
            spec.mode
        };
        let pods = pods.unwrap_or_default();
        let of_node = |node: &Node| {
            pods.iter()
                .filter(|pod| pod.node.as_deref() == Some(&*node.name))
                .count()
        };
        let nodes = || {
            let found: Vec<_> = request
                .nodes
                .iter()
                .filter(|node| spec.is_backend(node))
                .filter_map(|node| Some((spec.machine(node, &region)?, of_node(node))))
                .filter(|(_, count)| mode == Mode::Nodes || *count > 0)
                .collect();
            let is_known = |node: &Arc<Node>| node.provider_id().is_some();
            (request.nodes.is_empty() || !found.is_empty() || request.nodes.iter().any(is_known))
                .then_some(found)
        };
        let nodes = if mode == Mode::Pods {
            Some(Vec::new())
        } else {
            nodes()
        };
        let on_virtual = |pod: &Pod| {
            let node = request
                .nodes
                .iter()
                .find(|node| pod.node.as_deref() == Some(&*node.name));
            node.is_some_and(|node| is_virtual(node))
        };
        let gated: Vec<_> = pods
            .iter()
            .filter(|pod| pod.gate.is_some())
            .cloned()
            .collect();
        let pods: Vec<_> = pods
            .iter()
            .filter(|pod| mode == Mode::Pods || on_virtual(pod))
            .cloned()
            .collect();
        let interfaces = match pods.is_empty() || spec.has_addresses {
            true => BTreeMap::new(),
            false => self.interfaces(request, &pods).await?,
        };
        self.note_gates(
            request.service,
            spec,
            &gated,
            &interfaces,
            &region,
            request.nodes,
        );
        Ok(Backends {
            mode,
            nodes,
            pods,
            interfaces,
        })
    }

    /// Notes the readiness gates that open when the load balancer has the backends, and closes those of Pods that cannot
    /// be backends yet.
    fn note_gates(
        &self,
        service: &Service,
        spec: &Spec,
        pods: &[Pod],
        interfaces: &BTreeMap<String, Option<String>>,
        region: &str,
        nodes: &[Arc<Node>],
    ) {
        let mut noted = Vec::new();
        let mut closed = Vec::new();
        for (pod, gate) in pods.iter().filter_map(|pod| Some((pod, pod.gate.clone()?))) {
            let node = nodes
                .iter()
                .find(|node| pod.node.as_deref() == Some(&*node.name));
            match interfaces.get(&pod.ip) {
                Some(None) => closed.push((gate, false)),
                Some(Some(id)) => noted.push((gate, format!("{id}/{}", pod.ip))),
                None if spec.mode == Mode::Local => {
                    noted.extend(
                        node.and_then(|node| spec.machine(node, region))
                            .map(|id| (gate, id)),
                    );
                }
                None if spec.has_addresses => noted.push((gate, pod.ip.clone())),
                None => {}
            }
        }
        self.endpoints.set_gates(service, closed);
        self.gates
            .lock()
            .insert(service.metadata.uid.clone().unwrap_or_default(), noted);
    }

    /// Opens the readiness gates of Pods that the load balancer has as backends.
    pub(super) fn open_gates(
        &self,
        observed: &ObservedLoadBalancer,
        service: &Service,
        spec: &Spec,
    ) {
        if spec.mode == Mode::Nodes {
            return self.endpoints.open_gates(service);
        }
        let graph = observed.graph.iter().flat_map(|graph| graph.targets.iter());
        let servers: BTreeSet<&str> = graph
            .flat_map(|(_, targets)| targets.iter())
            .filter_map(|target| target.rsplit(' ').next())
            .collect();
        let mut gates = self.gates.lock();
        let Some(noted) = gates.get_mut(service.metadata.uid.as_deref().unwrap_or_default()) else {
            return;
        };
        // The rest waits for operations that follow.
        let (open, rest) = std::mem::take(noted)
            .into_iter()
            .partition(|(_, server)| servers.contains(&**server));
        *noted = rest;
        let open: Vec<(Gate, String)> = open;
        self.endpoints.set_gates(
            service,
            open.into_iter().map(|(gate, _)| (gate, true)).collect(),
        );
    }

    /// Finds the network interfaces of Pods. An address outside of the VPC is left out; one inside of it that no
    /// interface has yet is read again at the next sync.
    async fn interfaces(
        &self,
        request: &LoadBalancerRequest<'_>,
        pods: &[Pod],
    ) -> Result<BTreeMap<String, Option<String>>> {
        let ips: BTreeSet<_> = pods.iter().map(|pod| pod.ip.clone()).collect();
        let vpc = self.api.metadata.vpc().await?;
        let (ipv6, ipv4): (Vec<_>, Vec<_>) = ips.iter().cloned().partition(|ip| ip.contains(':'));
        let mut found = BTreeMap::new();
        let of = |key, ips: Vec<String>| {
            ips.chunks(AT_ONCE)
                .map(|ips| (key, ips.to_vec()))
                .collect::<Vec<_>>()
        };
        for (key, ips) in [of("PrivateIpAddress", ipv4), of("Ipv6Address", ipv6)].concat() {
            let query = Query::new(ECS, "DescribeNetworkInterfaces")
                .set("VpcId", &vpc)
                .set("Status", "InUse");
            let id = |object: &Value| text(object, "NetworkInterfaceId").to_owned();
            let place = "/NetworkInterfaceSets/NetworkInterfaceSet";
            let shared = SharedPriority::default();
            let all = self
                .api
                .tokens(query.set(key, ips), ("MaxResults", 500), place, &shared, id)
                .await?;
            for entry in all.complete()?.into_items() {
                let private = list(&entry["PrivateIpSets"], "PrivateIpSet")
                    .map(|set| text(set, "PrivateIpAddress"));
                let ipv6 = list(&entry["Ipv6Sets"], "Ipv6Set").map(|set| text(set, "Ipv6Address"));
                for ip in private
                    .chain(ipv6)
                    .chain([text(&entry, "PrivateIpAddress")])
                {
                    found.insert(ip.to_owned(), Some(id(&entry)));
                }
            }
        }
        found.retain(|ip, _| ips.contains(ip));
        let missing: Vec<_> = ips
            .into_iter()
            .filter(|ip| !found.contains_key(ip))
            .collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let ranges = self.vpc_ranges(&vpc).await?;
        let is_inside = |ip: &String| {
            let ip = ip.parse::<IpAddr>();
            ip.is_ok_and(|ip| ranges.iter().any(|range| range.contains(&ip)))
        };
        let (inside, outside): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_inside);
        let mut events = PendingEvents::default();
        for (ips, reason) in [
            (&inside, "have no network interface yet"),
            (&outside, "are outside of the VPC"),
        ] {
            if !ips.is_empty() {
                events.warn(
                    "SkipSyncBackends",
                    format!("Pods with the addresses {} {reason}", ips.join(", ")),
                );
            }
        }
        self.events.record_if(true, request.service, &events);
        if !inside.is_empty() {
            self.endpoints.look_again(request.service);
        }
        found.extend(inside.into_iter().map(|ip| (ip, None)));
        Ok(found)
    }

    async fn vpc_ranges(&self, vpc: &str) -> Result<Vec<IpNet>> {
        let answer: Value = self
            .api
            .read(Query::new(VPC, "DescribeVpcs").set("VpcId", vpc))
            .await?;
        // Without its ranges, each Pod would count as outside of the VPC, and lose its backend.
        let found = list(&answer["Vpcs"], "Vpc")
            .find(|other_vpc| text(other_vpc, "VpcId") == vpc)
            .cloned();
        let found =
            found.ok_or_else(|| Error::other(format!("DescribeVpcs answered no VPC {vpc}")))?;
        let more =
            list(&found["SecondaryCidrBlocks"], "SecondaryCidrBlock").filter_map(Value::as_str);
        let all = [text(&found, "CidrBlock"), text(&found, "Ipv6CidrBlock")]
            .into_iter()
            .chain(more);
        Ok(all.filter_map(|range| range.parse().ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(all: &[&str]) -> Targets {
        all.iter().copied().collect()
    }

    #[test]
    fn weights_and_unresolved_pods_stay_as_they_are() {
        let existing = targets(&["7 ecs 30080 r.i-1", "100 eni 80 eni-1/10.0.0.5"]);
        let wanted = targets(&[
            "100 ecs 30080 r.i-1",
            "100 unresolved 80 10.0.0.5",
            "100 unresolved 80 10.0.0.6",
        ]);
        assert_eq!(fitted(&wanted, &existing, true), existing);
        let changed = targets(&["100 ecs 30080 r.i-1", "100 eni 80 eni-1/10.0.0.5"]);
        assert_eq!(fitted(&wanted, &existing, false), changed);
    }
}
