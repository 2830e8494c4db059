//! The desired resource graph of a Service: a pure function of its spec and of facts from the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{Error, EventSubject, LoadBalancerRequest, Node, Result, Service, counted};
use provider_kit::events::PendingEvents;
use provider_kit::firewall::Rule;
use provider_kit::load_balancers::{
    Attributes, ResourceGraph, Scope, ServicePort, Targets, sorted_set,
};
use provider_kit::transport::Call;
use serde::de::IgnoredAny;
use serde_json::json;

use super::networks::member_ports;
use super::octavia::{ADDITIONAL_VIPS, ALLOWED_CIDRS, BALANCER_SETTINGS, TAGGED};
use super::project::Project;
use super::published::has_or_requests_load_balancer;
use super::spec::{ServiceSpec, VipPlacement};
use super::tags::full_name;
use super::{floating_ip, second_vip, security_group};
use crate::annotations as key;
use crate::config::Balancers;
use crate::features::Features;
use crate::keys;

/// The provider of load balancers that keeps the senders' addresses.
const OVN: &str = "ovn";

/// Most Nodes that a log line names.
const FEW: usize = 3;

/// Facts that were looked up in the cloud.
pub(super) struct Facts {
    pub(super) features: Features,
    pub(super) vip: VipPlacement,
    /// The subnet of the second VIP, if the load balancer gets one when it is created.
    pub(super) second_subnet: Option<String>,
    pub(super) member_subnet: Option<String>,
    /// `<node name> <address>`.
    pub(super) targets: Targets,
    /// The security group, if the program manages them.
    pub(super) group: Option<Group>,
    /// If set, there is a network for a floating IP.
    pub(super) has_floating_network: bool,
}

/// The security group of a Service.
pub(super) struct Group {
    pub(super) name: String,
    /// `None`: the members' subnets are unknown, and the present rules stay.
    pub(super) rules: Option<Vec<Rule>>,
    /// The IDs of the members' ports.
    pub(super) ports: Targets,
}

/// Returns the desired resource graph.
pub(super) fn wanted(spec: &ServiceSpec, config: &Balancers, facts: Facts) -> ResourceGraph {
    let mut graph = ResourceGraph::default().balancer(balancer(spec, config, &facts));
    for port in &spec.ports {
        // The name of a pool contains the settings that Octavia cannot change, so that a change of them creates a new
        // pool.
        let name = format!(
            "{}/{} {}",
            port.number,
            port.protocol,
            spec.pool_protocol(port)
        );
        // A port for which the Service allocates no node port has no members.
        let targets = if port.node_port == 0 {
            Targets::default()
        } else {
            facts.targets.clone()
        };
        graph = graph.pool(&name, pool(spec, &facts, port), Some(targets));
        graph = graph.listener(
            port.number,
            port.protocol,
            &name,
            listener(spec, &facts, port),
        );
    }
    if let Some(Group { name, rules, ports }) = facts.group {
        let settings = rules.map(|rules| security_group::with_rules(Attributes::default(), &rules));
        graph = graph.resource(
            security_group::resource(&name),
            settings.unwrap_or_default(),
        );
        graph = graph.pool(
            &security_group::pool_name(&name),
            Attributes::default(),
            Some(ports),
        );
    }
    if facts.has_floating_network && !spec.internal && !spec.is_ipv6() {
        graph = graph.resource(floating_ip::resource(), Attributes::default());
    }
    graph
}

fn balancer(spec: &ServiceSpec, config: &Balancers, facts: &Facts) -> Attributes {
    let Facts { features, vip, .. } = facts;
    // For an external load balancer, `spec.loadBalancerIP` is the address of the floating IP, not of the VIP.
    let address = spec
        .address
        .as_ref()
        .filter(|_| spec.internal || spec.is_ipv6());
    let second = facts
        .second_subnet
        .as_ref()
        .map(|subnet| json!([{"subnet_id": subnet}]));
    let settings = Attributes::default()
        .set("provider", config.provider())
        .set("vip_subnet_id", &vip.subnet)
        .set("vip_network_id", &vip.network)
        .set("vip_port_id", &vip.port)
        .set("vip_address", address)
        .set(
            "flavor_id",
            spec.flavor.as_ref().filter(|_| features.flavors),
        )
        .set(
            "availability_zone",
            spec.availability_zone
                .as_ref()
                .filter(|_| features.availability_zones),
        )
        .set(ADDITIONAL_VIPS, second);
    settings.for_creation().fixed(&BALANCER_SETTINGS)
}

fn listener(spec: &ServiceSpec, facts: &Facts, port: &ServicePort) -> Attributes {
    let Facts {
        features,
        second_subnet,
        ..
    } = facts;
    let is_tcp = port.protocol == "TCP";
    let timed = if features.timeouts {
        spec.timeouts.clone()
    } else {
        Attributes::default()
    };
    let mut settings = timed
        .set("protocol", spec.listener_protocol(port))
        .fixed(&["protocol"])
        .set("connection_limit", spec.connection_limit)
        .set(
            "insert_headers.X-Forwarded-For",
            (spec.x_forwarded_for && is_tcp).then_some("true"),
        )
        .set(
            "default_tls_container_ref",
            spec.tls_container.as_ref().filter(|_| is_tcp),
        );
    if features.allowed_cidrs {
        settings = settings.set(
            ALLOWED_CIDRS,
            sorted_set(json!(spec.allowed(second_subnet.is_some()))),
        );
    }
    if features.tags {
        settings.set(TAGGED, true)
    } else {
        settings
    }
}

fn pool(spec: &ServiceSpec, facts: &Facts, port: &ServicePort) -> Attributes {
    // Only if members support health checks by HTTP.
    let features = &facts.features;
    let by_http = if port.protocol == "UDP" {
        features.udp_http_monitors
    } else {
        features.http_monitors
    };
    let health_check = spec.health_check_port.filter(|_| by_http);
    let kind = match port.protocol {
        _ if health_check.is_some() => "HTTP",
        "UDP" => "UDP-CONNECT",
        other => other,
    };
    let mut settings = spec.monitor.clone().unwrap_or_default();
    settings = settings
        .set("healthmonitor.type", spec.monitor.is_some().then_some(kind))
        .set("lb_algorithm", &spec.lb_method)
        .set(
            "session_persistence.type",
            spec.is_sticky.then_some("SOURCE_IP"),
        )
        .set("members.protocol_port", port.node_port)
        .set("members.monitor_port", health_check);
    if health_check.is_some() {
        settings = settings
            .set("healthmonitor.url_path", "/healthz")
            .set("healthmonitor.http_method", "GET")
            .set("healthmonitor.expected_codes", "200");
    }
    facts
        .member_subnet
        .iter()
        .fold(settings, |settings, subnet| {
            settings.set("members.subnet_id", subnet)
        })
}

/// Looks up the facts, and returns the desired resource graph.
///
/// # Errors
/// *Invalid*, naming the annotation or key, for what the user must change; else the cloud's answer.
pub(super) async fn wanted_graph(
    project: &Project,
    request: &LoadBalancerRequest<'_>,
    spec: &ServiceSpec,
    scope: Scope,
) -> Result<ResourceGraph> {
    let LoadBalancerRequest { service, nodes, .. } = *request;
    let mut pending_events = PendingEvents::default();
    if nodes.is_empty() && !has_or_requests_load_balancer(service) {
        return Err(Error::other(
            "no load balancer is created before there is a Node to send traffic to",
        ));
    }
    let is_whole = scope == Scope::Everything;
    if is_whole {
        check_tls(project, spec).await?;
    }
    let features = project.services.octavia().await?;
    let has_floating_network =
        is_whole && has_floating_network(project, spec, &mut pending_events).await?;
    if has_floating_network {
        floating_ip::check_named(project, request, spec).await?;
    }
    let mut vip = spec.vip.clone();
    let mut member_subnet = spec.member_subnet.clone();
    if vip.subnet.is_none()
        && vip.network.is_none()
        && (vip.port.is_none() || member_subnet.is_none())
    {
        let found = project
            .networks
            .of_nodes(&project.ports, spec, nodes)
            .await?;
        member_subnet = member_subnet.or_else(|| found.clone());
        vip.subnet = found.filter(|_| vip.port.is_none());
    }
    let second_subnet = match scope {
        Scope::Everything => {
            second_vip::second_subnet(project, spec, &features, &vip, service, &mut pending_events)
                .await?
        }
        Scope::Targets => None,
    };
    let mut members = nodes.to_vec();
    members.retain(|node| spec.selector.matches(&node.labels));
    let group = group(
        project,
        spec,
        service,
        &members,
        &vip,
        member_subnet.as_deref(),
    )
    .await?;
    let targets = targets(project, spec, service, &members);
    if is_whole {
        note(project, spec, &features, &mut pending_events);
        project
            .deduplicator
            .record_new(service, "", &pending_events);
    }
    let facts = Facts {
        features,
        vip,
        second_subnet,
        member_subnet,
        targets,
        group,
        has_floating_network,
    };
    Ok(wanted(spec, &project.config, facts))
}

/// Returns the members, each with its address. Nodes without an address are logged, once as long as they are the same.
fn targets(
    project: &Project,
    spec: &ServiceSpec,
    service: &Service,
    members: &[Arc<Node>],
) -> Targets {
    let (placed, without): (Vec<_>, Vec<_>) = members
        .iter()
        .map(|node| (&*node.name, spec.member_address(node)))
        .partition(|(_, at)| at.is_some());
    // A pool has an address once: of two Nodes with one address, as after the replacement of a server, the first by name is the
    // member.
    let mut by_address = BTreeMap::new();
    for (node, at) in placed.iter().filter_map(|(node, at)| Some((*node, (*at)?))) {
        by_address
            .entry(at)
            .and_modify(|entry: &mut &str| *entry = node.min(entry))
            .or_insert(node);
    }
    let targets = by_address
        .iter()
        .map(|(at, node)| format!("{node} {at}"))
        .collect();
    let mut without: Vec<&str> = without.into_iter().map(|(node, _)| node).collect();
    without.sort_unstable();
    let about = EventSubject::Service(service);
    let names = without.join(", ");
    if !without.is_empty()
        && project
            .deduplicator
            .is_first(about, "no address as a member", &names)
    {
        let (namespace, service) = full_name(service);
        tracing::warn!(namespace, service, "{}", left_out(&without));
    }
    targets
}

/// Returns `true` if a floating IP is wanted, and there is a network for it.
async fn has_floating_network(
    project: &Project,
    spec: &ServiceSpec,
    pending_events: &mut PendingEvents,
) -> Result<bool> {
    if spec.internal {
        return Ok(false);
    }
    if spec.is_ipv6() {
        let text = "the load balancer is reached by IPv6: it gets no floating IP, and is published by its VIP";
        pending_events.warn("LoadBalancerFloatingIPSkipped", text);
        return Ok(false);
    }
    let network = match &spec.floating.network {
        Some(network) => Some(network.clone()),
        None => project.networks.external_network().await?,
    };
    if let Some(network) = network {
        return project
            .networks
            .check_floating(&network, &spec.floating.subnet)
            .await
            .map(|()| true);
    }
    let text = "no external network with IPv4 was found; set floating-network-id";
    pending_events.warn("LoadBalancerExternalNetworkSearchFailed", text);
    let text = "there is no network for a floating IP: a new load balancer is internal, and published by its VIP";
    pending_events.warn("LoadBalancerForcedInternal", text);
    Ok(false)
}

/// Returns the security group, if the program manages them.
async fn group(
    project: &Project,
    spec: &ServiceSpec,
    service: &Service,
    members: &[Arc<Node>],
    vip: &VipPlacement,
    member_subnet: Option<&str>,
) -> Result<Option<Group>> {
    if !project.config.flag(&keys::MANAGE_SECURITY_GROUPS) {
        return Ok(None);
    }
    let mut subnets = match (member_subnet, &vip.network) {
        (Some(id), _) => vec![
            project
                .networks
                .subnet(id, "member-subnet-id or subnet-id")
                .await?,
        ],
        (None, Some(network)) => project.networks.subnets_of(network).await?,
        // Without Nodes no subnet is known.
        (None, None) => Vec::new(),
    };
    if member_subnet.is_none() {
        subnets.retain(|subnet| spec.family.has(subnet.cidr.addr()));
    }
    let subnets: Vec<_> = subnets.iter().map(|subnet| subnet.cidr).collect();
    let keeps_senders = project.config.provider() == OVN;
    let rules = (!subnets.is_empty())
        .then(|| security_group::rules(spec, service, &subnets, keeps_senders));
    let ports = member_ports(&project.ports, spec, members, member_subnet).await?;
    Ok(Some(Group {
        name: security_group::name(service),
        rules,
        ports,
    }))
}

/// Checks that the container or secret that the Service refers to exists.
async fn check_tls(project: &Project, spec: &ServiceSpec) -> Result<()> {
    let Some(reference) = spec
        .tls_container
        .as_ref()
        .filter(|_| project.config.has_barbican())
    else {
        return Ok(());
    };
    let key = key::DEFAULT_TLS_CONTAINER_REF.key();
    let mut parts = reference.rsplit('/');
    let call = match (parts.next(), parts.next()) {
        (Some(id), Some("containers")) if !id.is_empty() => Call::get("/containers/{id}", &[id]),
        (Some(id), Some("secrets")) if !id.is_empty() => Call::get("/secrets/{id}", &[id]),
        _ => {
            return Err(Error::invalid(format!(
                "{key}: {reference:?} does not end in /containers/<id> or /secrets/<id>"
            )));
        }
    };
    let found: Option<IgnoredAny> =
        project
            .services
            .keys
            .find(call)
            .await
            .map_err(|err| match err.is_invalid() {
                true => Error::invalid(format!(
                    "{key}: {reference:?}: {err}; container-store = external skips this check"
                )),
                false => err,
            })?;
    found
        .map(|_| ())
        .ok_or_else(|| Error::invalid(format!("{key}: Barbican has no {reference:?}")))
}

/// Notes settings that have no effect.
fn note(
    project: &Project,
    spec: &ServiceSpec,
    features: &Features,
    pending_events: &mut PendingEvents,
) {
    let by_group =
        project.config.flag(&keys::MANAGE_SECURITY_GROUPS) && project.config.provider() == OVN;
    if spec.is_restricted && !features.allowed_cidrs && !by_group {
        let text = "source ranges have no effect, because Octavia lacks them: anybody can reach the load balancer";
        pending_events.warn("LoadBalancerSourceRangesIgnored", text);
    }
    if spec.availability_zone.is_some() && !features.availability_zones {
        let text = "the availability zone has no effect: Octavia has them from version 2.14 on, and not with provider ovn";
        pending_events.warn("LoadBalancerAvailabilityZonesIgnored", text);
    }
    if let Some(text) = spec.unknown_method_warning() {
        pending_events.warn("LoadBalancerLbMethodUnknown", text);
    }
    spec.warnings
        .iter()
        .for_each(|text| pending_events.warn("QuestionableAnnotation", text));
}

/// Returns the text about Nodes that are no members, whose length does not grow with their number.
fn left_out(nodes: &[&str]) -> String {
    let few = nodes[..nodes.len().min(FEW)].join(", ");
    let more = if nodes.len() > FEW { ", …" } else { "" };
    let (are, they_have) = if nodes.len() == 1 {
        ("is not a member", "it has")
    } else {
        ("are not members", "they have")
    };
    let count = counted(nodes.len(), "Node");
    format!("{count} {are}: {they_have} no address of the load balancer's family: {few}{more}")
}

#[cfg(test)]
pub(super) mod tests;
