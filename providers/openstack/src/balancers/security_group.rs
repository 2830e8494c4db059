//! The security group of a Service, which lets its load balancer reach the Nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::{Error, Result, Service};
use futures::stream::{self, StreamExt, TryStreamExt};
use ipnet::IpNet;
use provider_kit::coalescer::Coalescer;
use provider_kit::firewall::{Direction, Family, Peer, Ports, Protocol, Rule, difference};
use provider_kit::load_balancers::{
    Attributes, Identity, Operation, ResourceKey, Targets, sorted_set,
};
use provider_kit::transport::{Call, Transport};
use serde::Deserialize;
use serde_json::{Value, json};

use super::spec::{ServiceSpec, health_check_node_port};
use super::tags::{cut, full_name};
use crate::ports::{Port, Ports as NetworkPorts};

const PREFIX: &str = "lb-sg-";
/// Prefix of the name of the pool of ports.
const PORTS: &str = "ports with ";
const RULES: &str = "rules";
/// Number of ports that are changed at the same time.
const AT_ONCE: usize = 8;
/// Age at which ports are read again.
const PORTS_AGE: Duration = Duration::from_secs(10);

/// The resources of a security group, with the targets of its pool.
pub(super) type ResourceList = Vec<(ResourceKey, Attributes, Option<Targets>)>;

/// Returns the name of a Service's security group.
pub(super) fn name(service: &Service) -> String {
    let (namespace, name) = full_name(service);
    cut(format!(
        "{PREFIX}{}-{namespace}-{name}",
        service.metadata.uid.as_deref().unwrap_or_default()
    ))
}

/// Returns the resource that is the security group, which is created before its load balancer.
pub(super) fn resource(name: &str) -> ResourceKey {
    ResourceKey::created_before(0, "security group", name)
}

/// Returns the pool whose targets are the ports that carry the group.
pub(super) fn pool_name(name: &str) -> String {
    format!("{PORTS}{name}")
}

/// Returns `true` if a resource is a security group, or the pool of the ports that carry one.
pub(super) fn has_resource(resource: &ResourceKey) -> bool {
    matches!(resource, ResourceKey::CreatedBefore(_))
        || matches!(resource, ResourceKey::Pool(pool) if pool.starts_with(PORTS))
}

/// Returns `true` if an operation changes a security group, or the ports that carry one.
pub(super) fn is_meant_by(operation: &Operation) -> bool {
    operation.resource().is_some_and(has_resource)
        || operation
            .targets_of()
            .is_some_and(|pool| pool.starts_with(PORTS))
}

/// Returns the rules of a Service: they admit traffic to its node ports from the subnets of the members. With `ovn`,
/// which keeps the source addresses of clients, they admit it from the Service's source ranges.
pub(super) fn rules(
    spec: &ServiceSpec,
    service: &Service,
    subnets: &[IpNet],
    keeps_senders: bool,
) -> Vec<Rule> {
    let ingress = |protocol, port, from: &IpNet| {
        Rule::network(Direction::Ingress, protocol, Ports::one(port), *from)
    };
    let mut rules = BTreeSet::new();
    for subnet in subnets {
        let same_family = |range: &&IpNet| range.addr().is_ipv4() == subnet.addr().is_ipv4();
        let senders: Vec<&IpNet> = match keeps_senders {
            true => spec.ranges.iter().filter(same_family).collect(),
            false => vec![subnet],
        };
        rules.extend(
            health_check_node_port(service).map(|port| ingress(Protocol::Tcp, port, subnet)),
        );
        for port in spec.ports.iter().filter(|port| port.node_port != 0) {
            rules.extend(
                senders
                    .iter()
                    .map(|from| ingress(Protocol::named(port.protocol), port.node_port, from)),
            );
        }
    }
    rules.into_iter().collect()
}

/// A security group, as Neutron returns it.
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
        let direction = if self.direction == "egress" {
            Direction::Egress
        } else {
            Direction::Ingress
        };
        let family = if self.ethertype == "IPv6" {
            Family::Ipv6
        } else {
            Family::Ipv4
        };
        let min = self.port_range_min;
        let max = self.port_range_max;
        let small = |number: u16| u8::try_from(number).ok();
        let (protocol, ports) = match (
            Protocol::named(self.protocol.as_deref().unwrap_or_default()),
            min,
        ) {
            // For ICMP, Neutron stores type and code in the fields of the port range.
            (Protocol::Icmp(_), kind) => (
                Protocol::Icmp(kind.and_then(small).map(|kind| (kind, max.and_then(small)))),
                Ports::ALL,
            ),
            (protocol, None) => (protocol, Ports::ALL),
            (protocol, Some(first)) => (
                protocol,
                Ports {
                    first,
                    last: max.unwrap_or(u16::MAX),
                },
            ),
        };
        let group = self
            .remote_group_id
            .as_ref()
            .or(self.remote_address_group_id.as_ref());
        match (self.remote_ip_prefix.as_deref().map(str::parse), group) {
            (Some(Ok(network)), _) => Rule::network(direction, protocol, ports, network),
            (None, None) => Rule::anywhere(direction, protocol, ports, family),
            (_, group) => Rule::group(
                direction,
                protocol,
                ports,
                family,
                group.map_or("", String::as_str),
            ),
        }
    }
}

impl Group {
    fn rules(&self) -> Vec<(&str, Rule)> {
        self.security_group_rules
            .iter()
            .map(|group_rule| (&*group_rule.id, group_rule.rule()))
            .collect()
    }
}

/// Returns the object of a request that creates a rule; `None` for a peer that is no network, which [`rules`] never has.
fn object(group: &str, rule: &Rule) -> Option<Value> {
    let Peer::Network(from) = rule.peer else {
        return None;
    };
    Some(json!({
        "security_group_id": group, "direction": "ingress", "ethertype": if from.addr().is_ipv4() { "IPv4" } else { "IPv6" },
        "protocol": rule.protocol.to_string(), "port_range_min": rule.ports.first, "port_range_max": rule.ports.last,
        "remote_ip_prefix": from,
    }))
}

/// The security groups of a project. Changes of several Services to one port are sent in one request, because the list
/// of a port's groups is written as a whole.
pub(super) struct Groups {
    ports: NetworkPorts,
    changes: Coalescer<String, Change>,
}

#[derive(Clone, Debug)]
struct Change {
    group: String,
    /// If not set, the group is removed.
    is_added: bool,
}

impl Groups {
    pub(super) fn new(ports: NetworkPorts) -> Self {
        let of_changes = ports.clone();
        let changes = Coalescer::retrying_alone(move |port: String, changes: Vec<Change>| {
            let ports = of_changes.clone();
            async move {
                match change_groups(&ports, &port, &changes).await {
                    Err(err) if err.is_not_found() => Ok(()),
                    other => other,
                }
            }
        });
        Self { ports, changes }
    }

    fn http(&self) -> &Transport {
        &self.ports.services.network
    }

    async fn list(&self, call: Call) -> Result<Vec<Group>> {
        self.ports
            .services
            .all(self.http(), call, "security_groups", |group: &Group| {
                group.id.clone()
            })
            .await
    }

    /// Reads the groups with this name. Names are not unique: another client may have created a second one.
    async fn named(&self, name: &str) -> Result<Vec<Group>> {
        self.list(Call::get("/security-groups", &[]).query("name", name))
            .await
    }

    /// Reads the group that is to be changed.
    async fn the_one(&self, name: &str) -> Result<Option<Group>> {
        let mut found = self.named(name).await?;
        if found.len() > 1 {
            let ids = found
                .iter()
                .map(|group| &*group.id)
                .collect::<Vec<_>>()
                .join(", ");
            let text =
                format!("there are several security groups {name:?} ({ids}); delete all but one");
            return Err(Error::invalid(text));
        }
        Ok(found.pop())
    }

    /// Creates new rules before it deletes old ones, so that wanted traffic is never refused.
    async fn set_rules(&self, group: &Group, wanted: &[Rule]) -> Result<()> {
        let present = group.rules();
        let difference = difference(None, wanted, &present);
        let objects: Vec<_> = difference
            .add
            .iter()
            .filter_map(|rule| object(&group.id, rule))
            .collect();
        if !objects.is_empty() {
            // The request is atomic; it is a *conflict* if another client created one of them meanwhile: the group is
            // then read again.
            let body = json!({ "security_group_rules": objects });
            self.http()
                .send(Call::post("/security-group-rules", &[]).json(&body))
                .await?;
        }
        for rule in difference.remove {
            self.http()
                .remove(Call::delete("/security-group-rules/{id}", &[rule]))
                .await?;
        }
        Ok(())
    }

    async fn change_ports(
        &self,
        group: &str,
        ports: impl Iterator<Item = String>,
        is_added: bool,
    ) -> Result<()> {
        let change = Change {
            group: group.to_owned(),
            is_added,
        };
        let changes: Vec<_> = ports
            .map(|port| self.changes.join(port, change.clone()))
            .collect();
        stream::iter(changes)
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
    }

    /// Returns the resources of the group of this name; none if it does not exist.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(super) async fn of_service(&self, name: &str) -> Result<ResourceList> {
        let Some(group) = self.named(name).await?.into_iter().next() else {
            return Ok(Vec::new());
        };
        let carrying = self.ports.carrying(&group.id).await?;
        Ok(shown(
            &group,
            carrying.iter().map(|port| &*port.id).collect(),
        ))
    }

    /// Returns the resources of all groups of Services, by their names.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(super) async fn all(&self) -> Result<BTreeMap<String, ResourceList>> {
        let mut all = self.list(Call::get("/security-groups", &[])).await?;
        all.retain(|group| group.name.starts_with(PREFIX));
        if all.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ports = self.ports.all(PORTS_AGE).await?;
        let shown = all.iter().map(|group| {
            let carrying = ports.iter().filter(|port| {
                port.security_groups
                    .iter()
                    .any(|security_group| **security_group == *group.id)
            });
            (
                group.name.clone(),
                shown(group, carrying.map(|port| &*port.id).collect()),
            )
        });
        Ok(shown.collect())
    }

    /// Applies one operation whose resource is a security group, or the pool of its ports. Returns the attributes of
    /// the group afterwards, for operations that create or change it.
    ///
    /// # Errors
    /// Neutron's error; *conflict* if another client changed the group meanwhile.
    pub(super) async fn apply(
        &self,
        operation: &Operation,
        identity: &Identity<'_>,
    ) -> Result<Option<Attributes>> {
        let name = name(identity.service);
        match operation {
            Operation::Create {
                resource: ResourceKey::CreatedBefore(_),
                attributes,
            }
            | Operation::Update {
                resource: ResourceKey::CreatedBefore(_),
                attributes,
                ..
            } => {
                let group = match self.the_one(&name).await? {
                    Some(group) => group,
                    None => {
                        let (namespace, service) = full_name(identity.service);
                        let description = described(&identity.cluster.name, namespace, service);
                        let body =
                            json!({"security_group": {"name": name, "description": description}});
                        let call = Call::post("/security-groups", &[])
                            .json(&body)
                            .inside("security_group");
                        self.http().read(call).await?
                    }
                };
                if attributes.get(RULES).is_some() {
                    self.set_rules(&group, &rules_in(attributes)).await?;
                }
                return Ok(Some(attributes.clone().set("id", &group.id)));
            }
            // Only the group with the Service's own name is deleted.
            Operation::Delete { resource: gone }
                if *gone == resource(&name) || *gone == ResourceKey::Pool(pool_name(&name)) =>
            {
                for id in self.ids(identity).await? {
                    match gone {
                        ResourceKey::CreatedBefore(_) => self.delete(&id).await?,
                        _ => self.take_off(&id).await?,
                    }
                }
            }
            Operation::AddTargets { targets, .. } | Operation::RemoveTargets { targets, .. } => {
                let gone =
                    || Error::conflict(format!("security group {name:?} does not exist any more"));
                let group = self.the_one(&name).await?.ok_or_else(gone)?;
                let is_added = matches!(operation, Operation::AddTargets { .. });
                self.change_ports(&group.id, targets.iter().map(str::to_owned), is_added)
                    .await?;
            }
            // The pool exists with its group.
            _ => {}
        }
        Ok(None)
    }

    /// Deletes the Service's own groups.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(super) async fn remove(&self, identity: &Identity<'_>) -> Result<()> {
        for id in self.ids(identity).await? {
            self.delete(&id).await?;
        }
        Ok(())
    }

    /// Takes a group off all ports that carry it.
    async fn take_off(&self, id: &str) -> Result<()> {
        let carrying = self.ports.carrying(id).await?;
        self.change_ports(id, carrying.into_iter().map(|port| port.id.into()), false)
            .await
    }

    /// Returns the IDs of the Service's own groups.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(super) async fn ids(&self, identity: &Identity<'_>) -> Result<Vec<String>> {
        Ok(self
            .named(&name(identity.service))
            .await?
            .into_iter()
            .map(|group| group.id)
            .collect())
    }

    /// Takes a group off all ports, and deletes it.
    ///
    /// # Errors
    /// Neutron's answer; *not found* if the group does not exist.
    pub(super) async fn delete(&self, id: &str) -> Result<()> {
        self.take_off(id).await?;
        self.http()
            .send(Call::delete("/security-groups/{id}", &[id]))
            .await
            .map(drop)
    }
}

/// Changes the groups of a port, and removes the tags of groups that are taken off.
///
/// # Errors
/// *Not found* if the port no longer exists: its Node will not be a target much longer; else Neutron's answer.
async fn change_groups(ports: &NetworkPorts, id: &str, changes: &[Change]) -> Result<()> {
    let Some(port) = ports.by_id(id).await? else {
        return Ok(());
    };
    let is_tagged =
        |change: &&Change| !change.is_added && port.tags.iter().any(|tag| **tag == *change.group);
    let was_tagged: Vec<_> = changes.iter().filter(is_tagged).collect();
    ports.change(port, |port| changed(port, changes)).await?;
    for Change { group, .. } in was_tagged {
        ports
            .services
            .network
            .remove(Call::delete("/ports/{id}/tags/{tag}", &[id, group]))
            .await?;
    }
    Ok(())
}

/// Returns the groups of a port after these changes; `None` if they are the same.
fn changed(port: &Port, changes: &[Change]) -> Option<Value> {
    let mut groups: Vec<&str> = port
        .security_groups
        .iter()
        .map(|security_group| &**security_group)
        .collect();
    for Change { group, is_added } in changes {
        groups.retain(|other_group| other_group != group);
        if *is_added && port.is_secured {
            groups.push(group);
        }
    }
    let is_same = groups.len() == port.security_groups.len()
        && port
            .security_groups
            .iter()
            .all(|group| groups.contains(&&**group));
    (!is_same).then(|| json!({ "security_groups": groups }))
}

fn shown(group: &Group, ports: Targets) -> ResourceList {
    let rules: Vec<_> = group
        .security_group_rules
        .iter()
        .map(GroupRule::rule)
        .collect();
    let settings = Attributes::default()
        .set("id", &group.id)
        .set("description", &group.description);
    let pool = ResourceKey::Pool(pool_name(&group.name));
    vec![
        (resource(&group.name), with_rules(settings, &rules), None),
        (pool, Attributes::default(), Some(ports)),
    ]
}

/// Sets the rules of a group's resource.
pub(super) fn with_rules(settings: Attributes, rules: &[Rule]) -> Attributes {
    settings.set(RULES, sorted_set(json!(rules)))
}

fn rules_in(settings: &Attributes) -> Vec<Rule> {
    let rules = settings
        .get(RULES)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    rules
        .filter_map(|rule| rule.as_str()?.parse().ok())
        .collect()
}

/// Returns the wanted settings of a group, with its present rules if they admit the same traffic.
pub(super) fn fit_to_observed(wanted: &Attributes, present: &Attributes) -> Attributes {
    let rules: Vec<_> = rules_in(present)
        .into_iter()
        .map(|rule| ((), rule))
        .collect();
    let is_same =
        wanted.get(RULES).is_some() && difference(None, &rules_in(wanted), &rules).is_empty();
    if is_same {
        wanted.clone().set(RULES, present.get(RULES))
    } else {
        wanted.clone()
    }
}

/// Returns the description of the security group of a Service.
pub(super) fn described(cluster: &str, namespace: &str, name: &str) -> String {
    cut(format!(
        "Security Group for {namespace}/{name} Service LoadBalancer in cluster {cluster}"
    ))
}

#[cfg(test)]
mod tests;
