//! The security group of a Service, which lets its load balancer reach the Nodes (§3.8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::{Cluster, Error, Result, Service};
use futures::stream::{self, StreamExt, TryStreamExt};
use ipnet::IpNet;
use provider_kit::coalescer::Coalescer;
use provider_kit::firewall::{Direction, Family, Peer, Ports, Protocol, Rule, difference};
use provider_kit::load_balancers::{Attributes, Identity, Operation, Part, Targets, in_order};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::{Asked, health_check_node_port};
use super::tags::{cut, full_name};
use crate::ports::{Port, Ports as NetworkPorts};
use crate::services::Services;

const PREFIX: &str = "lb-sg-";
/// What the name of the pool of ports begins with.
const PORTS: &str = "ports with ";
const RULES: &str = "rules";
/// So many ports are changed at the same time.
const AT_ONCE: usize = 8;
/// Ports that were read so long ago are read again.
const PORTS_AGE: Duration = Duration::from_secs(10);

/// The parts of a security group, with the targets of its pool.
pub(super) type Parts = Vec<(Part, Attributes, Option<Targets>)>;

/// Its name.
pub(super) fn name(service: &Service) -> String {
    let (namespace, name) = full_name(service);
    cut(format!("{PREFIX}{}-{namespace}-{name}", service.metadata.uid.as_deref().unwrap_or_default()))
}

/// It stands before its load balancer does.
pub(super) fn part(name: &str) -> Part {
    Part::support(0, "security group", name)
}

/// The pool whose targets are the ports that carry it.
pub(super) fn pool_name(name: &str) -> String {
    format!("{PORTS}{name}")
}

/// Whether a part is a security group, or the pool of the ports that carry it.
pub(super) fn has_part(part: &Part) -> bool {
    matches!(part, Part::Support(_)) || matches!(part, Part::Pool(pool) if pool.starts_with(PORTS))
}

/// Whether an operation is about such a part, or those ports.
pub(super) fn is_meant_by(operation: &Operation) -> bool {
    operation.part().is_some_and(has_part) || operation.targets_of().is_some_and(|pool| pool.starts_with(PORTS))
}

/// Returns the rules of a Service: its node ports, from the members' subnets, or with `ovn`, which keeps the senders' addresses,
/// from those who may reach the load balancer.
pub(super) fn rules(asked: &Asked, service: &Service, subnets: &[IpNet], keeps_senders: bool) -> Vec<Rule> {
    let ingress = |protocol, port, from: &IpNet| Rule::network(Direction::Ingress, protocol, Ports::one(port), *from);
    let mut rules = BTreeSet::new();
    for subnet in subnets {
        let same_family = |range: &&IpNet| range.addr().is_ipv4() == subnet.addr().is_ipv4();
        let senders: Vec<&IpNet> = match keeps_senders {
            true => asked.ranges.iter().filter(same_family).collect(),
            false => vec![subnet],
        };
        rules.extend(health_check_node_port(service).map(|port| ingress(Protocol::Tcp, port, subnet)));
        for port in asked.ports.iter().filter(|port| port.node_port != 0) {
            rules.extend(senders.iter().map(|from| ingress(Protocol::named(port.protocol), port.node_port, from)));
        }
    }
    rules.into_iter().collect()
}

/// A security group, as Neutron shows it.
#[derive(Deserialize)]
struct Group {
    id: String,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    security_group_rules: Vec<GroupRule>,
}

#[derive(Deserialize)]
struct GroupRule {
    id: String,
    direction: String,
    ethertype: String,
    protocol: Option<String>,
    port_range_min: Option<u16>,
    port_range_max: Option<u16>,
    remote_ip_prefix: Option<String>,
    remote_group_id: Option<String>,
    remote_address_group_id: Option<String>,
}

impl GroupRule {
    fn rule(&self) -> Rule {
        let direction = if self.direction == "egress" { Direction::Egress } else { Direction::Ingress };
        let family = if self.ethertype == "IPv6" { Family::Ipv6 } else { Family::Ipv4 };
        let (min, max) = (self.port_range_min, self.port_range_max);
        let small = |number: u16| u8::try_from(number).ok();
        let (protocol, ports) = match (Protocol::named(self.protocol.as_deref().unwrap_or_default()), min) {
            // Neutron puts type and code where ports are.
            (Protocol::Icmp(_), kind) => {
                (Protocol::Icmp(kind.and_then(small).map(|kind| (kind, max.and_then(small)))), Ports::ALL)
            }
            (protocol, None) => (protocol, Ports::ALL),
            (protocol, Some(first)) => (protocol, Ports { first, last: max.unwrap_or(u16::MAX) }),
        };
        let group = self.remote_group_id.as_ref().or(self.remote_address_group_id.as_ref());
        match (self.remote_ip_prefix.as_deref().map(str::parse), group) {
            (Some(Ok(network)), _) => Rule::network(direction, protocol, ports, network),
            (None, None) => Rule::everybody(direction, protocol, ports, family),
            (_, group) => Rule::group(direction, protocol, ports, family, group.map_or("", String::as_str)),
        }
    }
}

impl Group {
    fn rules(&self) -> Vec<(&str, Rule)> {
        self.security_group_rules.iter().map(|it| (&*it.id, it.rule())).collect()
    }
}

/// Returns the object of a request that creates a rule; `None` for a peer that is no network, which [`rules`] never has.
fn object(group: &str, rule: &Rule) -> Option<Value> {
    let Peer::Network(from) = rule.peer else { return None };
    Some(json!({
        "security_group_id": group, "direction": "ingress", "ethertype": if from.addr().is_ipv4() { "IPv4" } else { "IPv6" },
        "protocol": rule.protocol.to_string(), "port_range_min": rule.ports.first, "port_range_max": rule.ports.last,
        "remote_ip_prefix": from,
    }))
}

/// The security groups of a project. What several Services change on one port goes together, for a port's groups are
/// replaced as a whole.
pub(super) struct Groups {
    services: Services,
    ports: NetworkPorts,
    changes: Coalescer<String, Change>,
}

#[derive(Clone, Debug)]
struct Change {
    group: String,
    /// Or it is taken off.
    is_added: bool,
}

impl Groups {
    pub(super) fn new(services: Services, ports: NetworkPorts) -> Self {
        let (network, of_ports) = (services.network.clone(), ports.clone());
        let changes = Coalescer::retrying_alone(move |port: String, changes: Vec<Change>| {
            let (network, ports) = (network.clone(), of_ports.clone());
            async move {
                // One that is gone carries nothing any more, and a Node that is gone will not be a target much longer.
                let Some(port) = ports.by_id(&port).await? else { return Ok(()) };
                let id = port.id.to_string();
                let was_tagged: Vec<_> = changes
                    .iter()
                    .filter(|it| !it.is_added && port.tags.iter().any(|tag| **tag == *it.group))
                    .collect();
                match ports.change(port, |port| changed(port, &changes)).await {
                    Err(err) if err.is_not_found() => return Ok(()),
                    other => other?,
                };
                for Change { group, .. } in was_tagged {
                    let call = Call::delete("/ports/{id}/tags/{tag}", &[&id, group]);
                    network.remove(call).await?;
                }
                Ok(())
            }
        });
        Self { services, ports, changes }
    }

    /// Those of this name: one, unless somebody else made another.
    async fn named(&self, name: &str) -> Result<Vec<Group>> {
        self.list(Call::get("/security-groups", &[]).query("name", name)).await
    }

    async fn list(&self, call: Call) -> Result<Vec<Group>> {
        self.services.all(&self.services.network, call, "security_groups", |it: &Group| it.id.clone()).await
    }

    /// The one to be changed.
    async fn the_one(&self, name: &str) -> Result<Option<Group>> {
        let mut found = self.named(name).await?;
        if found.len() > 1 {
            let ids: Vec<_> = found.iter().map(|it| &*it.id).collect();
            let ids = ids.join(", ");
            return Err(Error::invalid(format!(
                "there are several security groups {name:?} ({ids}); delete all but one"
            )));
        }
        Ok(found.pop())
    }

    async fn make(&self, name: &str, description: &str) -> Result<Group> {
        let body = json!({"security_group": {"name": name, "description": description}});
        self.services.network.read(Call::post("/security-groups", &[]).json(&body).inside("security_group")).await
    }

    /// New rules are created before old ones are deleted: wanted traffic is never kept out.
    async fn set_rules(&self, group: &Group, wanted: &[Rule]) -> Result<()> {
        let present = group.rules();
        let difference = difference(None, wanted, &present);
        let objects: Vec<_> = difference.add.iter().filter_map(|rule| object(&group.id, rule)).collect();
        if !objects.is_empty() {
            // All or none; a *conflict* if somebody else created one of them meanwhile: the group is read again then.
            let body = json!({ "security_group_rules": objects });
            self.services.network.send(Call::post("/security-group-rules", &[]).json(&body)).await?;
        }
        for rule in difference.remove {
            self.services.network.remove(Call::delete("/security-group-rules/{id}", &[rule])).await?;
        }
        Ok(())
    }

    async fn change_ports(&self, group: &str, ports: impl Iterator<Item = String>, is_added: bool) -> Result<()> {
        let change = Change { group: group.to_owned(), is_added };
        let changes: Vec<_> = ports.map(|port| self.changes.join(port, change.clone())).collect();
        stream::iter(changes).buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    async fn take_off_all(&self, group: &str) -> Result<()> {
        let carrying = self.ports.carrying(group).await?;
        self.change_ports(group, carrying.into_iter().map(|port| port.id.into()), false).await
    }
}

/// The groups of a port after these changes; `None` if they are the same.
fn changed(port: &Port, changes: &[Change]) -> Option<Value> {
    let mut groups: Vec<&str> = port.security_groups.iter().map(|it| &**it).collect();
    for Change { group, is_added } in changes {
        groups.retain(|it| it != group);
        if *is_added && port.is_secured {
            groups.push(group);
        }
    }
    let is_same = groups.len() == port.security_groups.len()
        && port.security_groups.iter().all(|group| groups.contains(&&**group));
    (!is_same).then(|| json!({ "security_groups": groups }))
}

/// What is there of the group of this name; nothing if it is not.
///
/// # Errors
/// What Neutron answered.
pub(super) async fn of_service(groups: &Groups, name: &str) -> Result<Parts> {
    let Some(group) = groups.named(name).await?.into_iter().next() else { return Ok(Vec::new()) };
    let carrying = groups.ports.carrying(&group.id).await?;
    Ok(shown(&group, carrying.iter().map(|port| &*port.id).collect()))
}

/// What is there of all groups of Services, by their names.
///
/// # Errors
/// What Neutron answered.
pub(super) async fn all(groups: &Groups) -> Result<BTreeMap<String, Parts>> {
    let mut all = groups.list(Call::get("/security-groups", &[])).await?;
    all.retain(|group| group.name.starts_with(PREFIX));
    if all.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ports = groups.ports.all(PORTS_AGE).await?;
    let shown = all.iter().map(|group| {
        let carrying = ports.iter().filter(|port| port.security_groups.iter().any(|it| **it == *group.id));
        (group.name.clone(), shown(group, carrying.map(|port| &*port.id).collect()))
    });
    Ok(shown.collect())
}

fn shown(group: &Group, ports: Targets) -> Parts {
    let rules = group.rules().into_iter().map(|(_, rule)| rule).collect::<Vec<_>>();
    let settings =
        with_rules(Attributes::default().set("id", &group.id).set("description", &group.description), &rules);
    let pool = Part::Pool(pool_name(&group.name));
    vec![(part(&group.name), settings, None), (pool, Attributes::default(), Some(ports))]
}

/// Does one operation whose part is a security group, or the pool of its ports; the attributes of the group afterwards, for
/// what makes or changes it.
///
/// # Errors
/// What Neutron answered; *conflict* if somebody else changed it meanwhile.
pub(super) async fn apply(
    groups: &Groups,
    operation: &Operation,
    identity: &Identity<'_>,
) -> Result<Option<Attributes>> {
    let name = name(identity.service);
    match operation {
        Operation::Create { part: Part::Support(_), attributes }
        | Operation::Update { part: Part::Support(_), attributes, .. } => {
            let group = match groups.the_one(&name).await? {
                Some(group) => group,
                None => groups.make(&name, &description(identity.cluster, identity.service)).await?,
            };
            if attributes.get(RULES).is_some() {
                groups.set_rules(&group, &rules_in(attributes)).await?;
            }
            return Ok(Some(attributes.clone().set("id", &group.id)));
        }
        // Not one that is only taken for the Service's.
        Operation::Delete { part: gone } if *gone == part(&name) || *gone == Part::Pool(pool_name(&name)) => {
            for group in groups.named(&name).await? {
                groups.take_off_all(&group.id).await?;
                if matches!(gone, Part::Support(_)) {
                    groups.services.network.remove(Call::delete("/security-groups/{id}", &[&group.id])).await?;
                }
            }
        }
        Operation::AddTargets { targets, .. } | Operation::RemoveTargets { targets, .. } => {
            let gone = || Error::conflict(format!("security group {name:?} does not exist any more"));
            let group = groups.the_one(&name).await?.ok_or_else(gone)?;
            let is_added = matches!(operation, Operation::AddTargets { .. });
            groups.change_ports(&group.id, targets.iter().map(str::to_owned), is_added).await?;
        }
        // The pool is there with its group.
        _ => {}
    }
    Ok(None)
}

/// Sets the rules of a group's part.
pub(super) fn with_rules(settings: Attributes, rules: &[Rule]) -> Attributes {
    settings.set(RULES, in_order(json!(rules)))
}

fn rules_in(settings: &Attributes) -> Vec<Rule> {
    let rules = settings.get(RULES).and_then(Value::as_array).into_iter().flatten();
    rules.filter_map(|rule| rule.as_str()?.parse().ok()).collect()
}

/// Returns the wanted settings of a group, with its present rules if they admit the same.
pub(super) fn fitted(wanted: &Attributes, present: &Attributes) -> Attributes {
    let rules: Vec<_> = rules_in(present).into_iter().map(|rule| ((), rule)).collect();
    let is_same = wanted.get(RULES).is_some() && difference(None, &rules_in(wanted), &rules).is_empty();
    if is_same { wanted.clone().set(RULES, present.get(RULES)) } else { wanted.clone() }
}

fn description(cluster: &Cluster, service: &Service) -> String {
    let (namespace, name) = full_name(service);
    described(&cluster.name, namespace, name)
}

/// How the security group of a Service is described.
pub(super) fn described(cluster: &str, namespace: &str, name: &str) -> String {
    cut(format!("Security Group for {namespace}/{name} Service LoadBalancer in cluster {cluster}"))
}

/// Removes the Service's own.
///
/// # Errors
/// What Neutron answered.
pub(super) async fn remove(groups: &Groups, identity: &Identity<'_>) -> Result<()> {
    let part = part(&name(identity.service));
    apply(groups, &Operation::Delete { part }, identity).await.map(drop)
}

#[cfg(test)]
mod tests;
