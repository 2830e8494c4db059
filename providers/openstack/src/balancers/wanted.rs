//! What a Service wants, as a tree: a pure function of what it asks for and what was found out (§3.3, §3.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{About, Error, LoadBalancerRequest, Node, Result, Service};
use provider_kit::events::Notes;
use provider_kit::firewall::Rule;
use provider_kit::load_balancers::{Attributes, Scope, ServicePort, Targets, Tree, in_order};
use provider_kit::transport::Call;
use serde::de::IgnoredAny;
use serde_json::json;

use super::asked::{Asked, Selector, Vip};
use super::octavia::{ADDITIONAL_VIPS, ALLOWED_CIDRS, BALANCER_SETTINGS};
use super::places::member_ports;
use super::project::Project;
use super::shown::is_made;
use super::tags::full_name;
use super::{floating_ip, second_vip, security_group};
use crate::annotations::{self as key, asked_by, text};
use crate::config::Balancers;
use crate::features::Features;

/// The provider of load balancers that keeps the senders' addresses.
const OVN: &str = "ovn";

/// So many Nodes are told by their names.
const FEW: usize = 3;

/// What had to be found out.
pub(super) struct Facts {
    pub(super) features: Features,
    pub(super) vip: Vip,
    /// Where the second VIP is, if it has one when it is made.
    pub(super) second_subnet: Option<String>,
    pub(super) member_subnet: Option<String>,
    /// `<node name> <address>`.
    pub(super) targets: Targets,
    /// If security groups are managed.
    pub(super) group: Option<Group>,
    /// Whether there is a network for a floating IP.
    pub(super) has_floating_network: bool,
}

/// The security group of a Service.
pub(super) struct Group {
    pub(super) name: String,
    /// `None`: it cannot be told from where they are reached, and those that are there stay.
    pub(super) rules: Option<Vec<Rule>>,
    /// Ids of the members' ports.
    pub(super) ports: Targets,
}

/// What a Service wants.
pub(super) fn wanted(asked: &Asked, config: &Balancers, facts: Facts) -> Tree {
    let mut tree = Tree::default().balancer(balancer(asked, config, &facts));
    for port in &asked.ports {
        let name = pool_name(port, asked.pool_protocol(port));
        // A port for which the Service allocates no node port has no members.
        let targets = if port.node_port == 0 { Targets::default() } else { facts.targets.clone() };
        tree = tree.pool(&name, pool(asked, &facts, port), Some(targets));
        tree = tree.listener(port.number, port.protocol, &name, listener(asked, &facts, port));
    }
    if let Some(Group { name, rules, ports }) = facts.group {
        let settings = rules.map(|rules| security_group::with_rules(Attributes::default(), &rules));
        tree = tree.part(security_group::part(&name), settings.unwrap_or_default());
        tree = tree.pool(&security_group::pool_name(&name), Attributes::default(), Some(ports));
    }
    if facts.has_floating_network && !asked.internal && !asked.is_ipv6() {
        tree = tree.part(floating_ip::part(), Attributes::default());
    }
    tree
}

/// The name of a pool: all that cannot be changed on it.
pub(super) fn pool_name(port: &ServicePort, protocol: &str) -> String {
    format!("{}/{} {protocol}", port.number, port.protocol)
}

fn balancer(asked: &Asked, config: &Balancers, facts: &Facts) -> Attributes {
    let Facts { features, vip, .. } = facts;
    // Else the floating IP is meant.
    let address = asked.address.as_ref().filter(|_| asked.internal || asked.is_ipv6());
    let second = facts.second_subnet.as_ref().map(|subnet| json!([{"subnet_id": subnet}]));
    let settings = Attributes::default()
        .set("provider", &config.provider)
        .set("vip_subnet_id", &vip.subnet)
        .set("vip_network_id", &vip.network)
        .set("vip_port_id", &vip.port)
        .set("vip_address", address)
        .set("flavor_id", asked.flavor.as_ref().filter(|_| features.flavors))
        .set("availability_zone", asked.availability_zone.as_ref().filter(|_| features.availability_zones))
        .set(ADDITIONAL_VIPS, second);
    settings.to_make().fixed(&BALANCER_SETTINGS)
}

fn listener(asked: &Asked, facts: &Facts, port: &ServicePort) -> Attributes {
    let Facts { features, second_subnet, .. } = facts;
    let is_tcp = port.protocol == "TCP";
    let timed = if features.timeouts { asked.timeouts.clone() } else { Attributes::default() };
    let mut settings = timed
        .set("protocol", asked.listener_protocol(port))
        .fixed(&["protocol"])
        .set("connection_limit", asked.connection_limit)
        .set("insert_headers.X-Forwarded-For", (asked.x_forwarded_for && is_tcp).then_some("true"))
        .set("default_tls_container_ref", asked.tls_container.as_ref().filter(|_| is_tcp));
    if features.allowed_cidrs {
        settings = settings.set(ALLOWED_CIDRS, in_order(json!(asked.allowed(second_subnet.is_some()))));
    }
    if features.tags { settings.set("tagged", true) } else { settings }
}

fn pool(asked: &Asked, facts: &Facts, port: &ServicePort) -> Attributes {
    // Only where a member can be asked by HTTP for its Pods.
    let features = &facts.features;
    let by_http = if port.protocol == "UDP" { features.udp_http_monitors } else { features.http_monitors };
    let health_check = asked.health_check_port.filter(|_| by_http);
    let kind = match port.protocol {
        _ if health_check.is_some() => "HTTP",
        "UDP" => "UDP-CONNECT",
        other => other,
    };
    let mut settings = asked.monitor.clone().unwrap_or_default();
    settings = settings
        .set("healthmonitor.type", asked.monitor.is_some().then_some(kind))
        .set("lb_algorithm", &asked.lb_method)
        .set("session_persistence.type", asked.is_sticky.then_some("SOURCE_IP"))
        .set("members.protocol_port", port.node_port)
        .set("members.monitor_port", health_check);
    if health_check.is_some() {
        settings = settings
            .set("healthmonitor.url_path", "/healthz")
            .set("healthmonitor.http_method", "GET")
            .set("healthmonitor.expected_codes", "200");
    }
    match &facts.member_subnet {
        Some(subnet) => settings.set("members.subnet_id", subnet),
        None => settings,
    }
}

/// What a Service wants, with all that must be found out for it.
///
/// # Errors
/// *Invalid*, naming the annotation or key, for what the user must change; else what the cloud answered.
pub(super) async fn wanted_tree(
    project: &Project,
    request: &LoadBalancerRequest<'_>,
    asked: &Asked,
    scope: Scope,
) -> Result<Tree> {
    let LoadBalancerRequest { service, nodes, .. } = *request;
    let mut notes = Notes::default();
    if nodes.is_empty() && !is_made(service) {
        return Err(Error::other("there are no Nodes to send traffic to; the load balancer is made when there are"));
    }
    let is_whole = scope == Scope::Everything;
    if is_whole {
        check_tls(project, asked).await?;
    }
    let features = project.services.octavia().await?;
    let has_floating_network = is_whole && has_floating_network(project, asked, &mut notes).await?;
    if has_floating_network {
        floating_ip::check_named(project, request, asked).await?;
    }
    let (mut vip, mut member_subnet) = (asked.vip.clone(), asked.member_subnet.clone());
    if vip.subnet.is_none() && vip.network.is_none() && (vip.port.is_none() || member_subnet.is_none()) {
        let found = project.places.of_nodes(&project.ports, asked, nodes).await?;
        member_subnet = member_subnet.or_else(|| found.clone());
        vip.subnet = found.filter(|_| vip.port.is_none());
    }
    let second_subnet = match scope {
        Scope::Everything => second_vip::second_subnet(project, asked, &features, &vip, service, &mut notes).await?,
        Scope::Targets => None,
    };
    let mut members = nodes.to_vec();
    members.retain(|node| asked.selector.matches(&node.labels));
    let group = group(project, asked, service, &members, &vip, member_subnet.as_deref()).await?;
    let targets = targets(project, asked, service, &members);
    if is_whole {
        note(project, asked, &features, &mut notes);
        project.notices.tell(service, "", &notes);
    }
    let facts = Facts { features, vip, second_subnet, member_subnet, targets, group, has_floating_network };
    Ok(wanted(asked, &project.config, facts))
}

/// Whether the members of a Service depend on labels of Nodes.
pub(super) fn follows_labels(project: &Project, service: &Service) -> bool {
    let selector = text(&mut asked_by(service), &key::NODE_SELECTOR, Some(&project.config.node_selector));
    selector.is_some_and(|selector| !Selector::read(&selector).selects_all())
}

/// Who is a member, and where. Those who have no address for it are told of, once as long as they are the same.
fn targets(project: &Project, asked: &Asked, service: &Service, members: &[Arc<Node>]) -> Targets {
    let (placed, without): (Vec<_>, Vec<_>) =
        members.iter().map(|node| (&*node.name, asked.member_address(node))).partition(|(_, at)| at.is_some());
    // A pool has an address once: of two Nodes of one address, as where a server took the place of one that is gone, the
    // first by name is the member.
    let mut by_address = BTreeMap::new();
    for (node, at) in placed.iter().filter_map(|(node, at)| Some((*node, (*at)?))) {
        by_address.entry(at).and_modify(|it: &mut &str| *it = node.min(it)).or_insert(node);
    }
    let targets = by_address.iter().map(|(at, node)| format!("{node} {at}")).collect();
    let mut without: Vec<&str> = without.into_iter().map(|(node, _)| node).collect();
    without.sort_unstable();
    let (about, who) = (About::Service(service), without.join(", "));
    if !without.is_empty() && project.notices.is_first(about, "no address as a member", &who) {
        let (namespace, service) = full_name(service);
        tracing::warn!(namespace, service, "{}", left_out(&without));
    }
    targets
}

/// Whether there is a network to take a floating IP from, if one is wanted.
async fn has_floating_network(project: &Project, asked: &Asked, notes: &mut Notes) -> Result<bool> {
    if asked.internal {
        return Ok(false);
    }
    if asked.is_ipv6() {
        let text = "the load balancer is reached by IPv6: it gets no floating IP, and is published by its VIP";
        notes.warn("LoadBalancerFloatingIPSkipped", text);
        return Ok(false);
    }
    let network = match &asked.floating.network {
        Some(network) => Some(network.clone()),
        None => project.places.external_network().await?,
    };
    match network {
        Some(network) => project.places.check_floating(&network, &asked.floating.subnet).await.map(|()| true),
        None => {
            let text = "no external network with IPv4 was found; set floating-network-id";
            notes.warn("LoadBalancerExternalNetworkSearchFailed", text);
            let text =
                "there is no network for a floating IP: a new load balancer is internal, and published by its VIP";
            notes.warn("LoadBalancerForcedInternal", text);
            Ok(false)
        }
    }
}

/// The security group, if such are managed.
async fn group(
    project: &Project,
    asked: &Asked,
    service: &Service,
    members: &[Arc<Node>],
    vip: &Vip,
    member_subnet: Option<&str>,
) -> Result<Option<Group>> {
    if !project.config.manage_security_groups {
        return Ok(None);
    }
    let mut subnets = match (member_subnet, &vip.network) {
        (Some(id), _) => vec![project.places.subnet(id, "member-subnet-id or subnet-id").await?],
        (None, Some(network)) => project.places.subnets_of(network).await?,
        // Nothing is known without Nodes.
        (None, None) => Vec::new(),
    };
    if member_subnet.is_none() {
        subnets.retain(|subnet| asked.family.has(subnet.cidr.addr()));
    }
    let subnets: Vec<_> = subnets.iter().map(|subnet| subnet.cidr).collect();
    let keeps_senders = project.config.provider == OVN;
    let rules = (!subnets.is_empty()).then(|| security_group::rules(asked, service, &subnets, keeps_senders));
    let ports = member_ports(&project.ports, asked, members, member_subnet).await?;
    Ok(Some(Group { name: security_group::name(service), rules, ports }))
}

/// Whether the container or secret that the Service refers to exists.
async fn check_tls(project: &Project, asked: &Asked) -> Result<()> {
    let Some(reference) = asked.tls_container.as_ref().filter(|_| project.config.barbican) else { return Ok(()) };
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
    let found: Option<IgnoredAny> = project.services.keys.find(call).await.map_err(|err| match err.is_invalid() {
        true => Error::invalid(format!("{key}: {reference:?}: {err}; container-store = external asks no Barbican")),
        false => err,
    })?;
    found.map(|_| ()).ok_or_else(|| Error::invalid(format!("{key}: Barbican has no {reference:?}")))
}

/// What is asked for, and does not happen.
fn note(project: &Project, asked: &Asked, features: &Features, notes: &mut Notes) {
    let by_group = project.config.manage_security_groups && project.config.provider == OVN;
    if asked.is_restricted && !features.allowed_cidrs && !by_group {
        let text = "source ranges have no effect: Octavia, or its provider, has none, and everybody can reach the load balancer";
        notes.warn("LoadBalancerSourceRangesIgnored", text);
    }
    if asked.availability_zone.is_some() && !features.availability_zones {
        let text =
            "the availability zone has no effect: Octavia has them from version 2.14 on, and not with provider ovn";
        notes.warn("LoadBalancerAvailabilityZonesIgnored", text);
    }
    if let Some(method) = &asked.unknown_method {
        let (key, used) = (key::LB_METHOD.key(), &asked.lb_method);
        let text = format!("annotation {key}: {method:?} is no algorithm of Octavia's; {used} is used");
        notes.warn("LoadBalancerLbMethodUnknown", text);
    }
    asked.warnings.iter().for_each(|text| notes.warn("QuestionableAnnotation", text));
}

/// Who is no member, in a line that does not grow with them.
fn left_out(nodes: &[&str]) -> String {
    let few = nodes[..nodes.len().min(FEW)].join(", ");
    let more = if nodes.len() > FEW { ", …" } else { "" };
    format!("{} Nodes are no members of its load balancer, having no address of its family: {few}{more}", nodes.len())
}

#[cfg(test)]
pub(super) mod tests;
