//! Security groups: those of load balancers, and the rules by which those of Nodes admit load balancers.

use std::collections::BTreeSet;

use aws_protocol::Query;
use cloud_provider::{Error, Result, async_trait};
use ipnet::IpNet;
use provider_kit::firewall::{Direction, Family, Peer, Ports, Protocol, Rule, normalized};
use provider_kit::inventory::SharedPriority;
use provider_kit::shared_document::{DocumentStore, Versioned};
use provider_kit::source_ranges::allows_all;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::spec::Spec;
use crate::api::{Api, Identity, PAGE, Tag};

/// Descriptions of rules in the security groups of Nodes; the name of the load balancer follows the first two.
const CLIENT: &str = "kubernetes.io/rule/nlb/client=";
const HEALTH: &str = "kubernetes.io/rule/nlb/health=";
const MTU: &str = "kubernetes.io/rule/nlb/mtu";

/// A security group, as EC2 returns it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Group {
    pub(super) group_id: String,
    pub(super) group_name: String,
    pub(super) group_description: String,
    pub(super) tag_set: Vec<Tag>,
    ip_permissions: Vec<Permission>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Permission {
    ip_protocol: String,
    from_port: Option<i32>,
    to_port: Option<i32>,
    groups: Vec<Source>,
    ip_ranges: Vec<Source>,
    ipv6_ranges: Vec<Source>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    #[serde(alias = "groupId", alias = "cidrIp", alias = "cidrIpv6")]
    id: String,
    description: Option<String>,
}

impl Group {
    /// Returns the rules, one for each source; prefix lists are left out.
    pub(super) fn rules(&self) -> BTreeSet<Rule> {
        self.ip_permissions.iter().flat_map(Permission::rules).collect()
    }
}

impl Permission {
    fn rules(&self) -> impl Iterator<Item = Rule> {
        let small = |port: Option<i32>| port.and_then(|it| u8::try_from(it).ok());
        let port = |port: Option<i32>, all: u16| port.and_then(|it| u16::try_from(it).ok()).unwrap_or(all);
        let (protocol, ports) = match Protocol::named(&self.ip_protocol) {
            Protocol::Icmp(_) => {
                (Protocol::Icmp(small(self.from_port).map(|it| (it, small(self.to_port)))), Ports::ALL)
            }
            Protocol::Any => (Protocol::Any, Ports::ALL),
            other => (other, Ports { first: port(self.from_port, 0), last: port(self.to_port, u16::MAX) }),
        };
        let rule = move |source: &Source| {
            let rule = match source.id.parse::<IpNet>() {
                Ok(network) => Rule::network(Direction::Ingress, protocol.clone(), ports, network),
                Err(_) => Rule::group(Direction::Ingress, protocol.clone(), ports, Family::Ipv4, &source.id),
            };
            Rule { owner: source.description.clone().filter(|text| !text.is_empty()), ..rule }
        };
        self.groups.iter().chain(&self.ip_ranges).chain(&self.ipv6_ranges).map(rule)
    }
}

/// Returns a rule in the form of EC2's requests.
fn permission(rule: &Rule) -> Value {
    let is_v6 = rule.family == Family::Ipv6;
    let (protocol, from, to) = match &rule.protocol {
        Protocol::Any => ("-1".to_owned(), None, None),
        Protocol::Icmp(kind) => {
            let (kind, code) = kind.map_or((-1, -1), |(kind, code)| (i32::from(kind), code.map_or(-1, i32::from)));
            (if is_v6 { "icmpv6" } else { "icmp" }.to_owned(), Some(kind), Some(code))
        }
        other => (other.to_string(), Some(i32::from(rule.ports.first)), Some(i32::from(rule.ports.last))),
    };
    let (list, field, source) = match &rule.peer {
        Peer::Group(id) => ("Groups", "GroupId", id.clone()),
        Peer::Network(network) if is_v6 => ("Ipv6Ranges", "CidrIpv6", network.to_string()),
        Peer::Network(network) => ("IpRanges", "CidrIp", network.to_string()),
    };
    json!({"IpProtocol": protocol, "FromPort": from, "ToPort": to, list: [{field: source, "Description": rule.owner}]})
}

/// The rules of a security group, as they were read and as they are to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ingress {
    before: BTreeSet<Rule>,
    rules: BTreeSet<Rule>,
}

fn is_same(rule: &Rule, other: &Rule) -> bool {
    Rule { owner: None, ..rule.clone() } == Rule { owner: None, ..other.clone() }
}

impl Ingress {
    /// Replaces all rules of the group.
    pub(super) fn set(&mut self, wanted: &[Rule]) {
        self.replace(wanted, |_| true);
    }

    /// Replaces the rules that admit a load balancer. `references`: its security groups, whose rules are of this load balancer.
    pub(super) fn admit(&mut self, balancer: &str, references: &[String], wanted: &[Rule]) {
        let clients = self.clients();
        self.replace(wanted, |rule| is_of(rule, balancer, references));
        let now = self.clients();
        if clients != now {
            self.rules.retain(|rule| rule.owner.as_deref() != Some(MTU));
            let missing: Vec<_> = now.into_iter().map(|from| too_big(from).owned_by(MTU)).collect();
            self.replace(&missing, |_| false);
        }
    }

    fn replace(&mut self, wanted: &[Rule], is_own: impl Fn(&Rule) -> bool) {
        self.rules.retain(|rule| !is_own(rule) || wanted.iter().any(|it| is_same(it, rule)));
        let is_new = |rule: &&Rule| !self.rules.iter().any(|it| is_same(it, rule));
        let new: Vec<Rule> = wanted.iter().filter(is_new).cloned().collect();
        self.rules.extend(new);
    }

    /// Returns the clients of all network load balancers.
    fn clients(&self) -> BTreeSet<IpNet> {
        let is_client = |rule: &&Rule| rule.owner.as_deref().is_some_and(|owner| owner.starts_with(CLIENT));
        let network = |rule: &Rule| if let Peer::Network(from) = rule.peer { Some(from) } else { None };
        self.rules.iter().filter(is_client).filter_map(network).collect()
    }
}

/// Returns the rule for the messages by which routers announce the size of packets.
pub(super) fn too_big(from: IpNet) -> Rule {
    let kind = if from.addr().is_ipv4() { (3, Some(4)) } else { (2, Some(0)) };
    Rule::network(Direction::Ingress, Protocol::Icmp(Some(kind)), Ports::ALL, from)
}

/// Returns the rule that admits everything from a security group.
pub(super) fn reference(group: &str) -> Rule {
    Rule::group(Direction::Ingress, Protocol::Any, Ports::ALL, Family::Ipv4, group)
}

/// Returns `true` if a rule in the security group of a Node is there for this load balancer.
pub(super) fn is_of(rule: &Rule, balancer: &str, references: &[String]) -> bool {
    let owner = rule.owner.as_deref().unwrap_or_default();
    let named = owner.strip_prefix(CLIENT).or_else(|| owner.strip_prefix(HEALTH));
    named == Some(balancer) || references.iter().any(|group| is_same(rule, &reference(group)))
}

/// Returns the rules that admit clients and health checks of a network load balancer without a security group of its own.
pub(super) fn node_rules(balancer: &str, spec: &Spec, subnets: &[IpNet]) -> Vec<Rule> {
    let ingress = |protocol: &Protocol, port, from: &IpNet| {
        Rule::network(Direction::Ingress, protocol.clone(), Ports::one(port), *from)
    };
    let mut rules: Vec<Rule> = Vec::new();
    let add = |rules: &mut Vec<Rule>, rule: Rule, owner: &str| {
        if !rules.iter().any(|it| is_same(it, &rule)) {
            rules.push(rule.owned_by(&format!("{owner}{balancer}")));
        }
    };
    for pool in spec.pools.values() {
        let protocols: &[Protocol] = match &*pool.protocol {
            "UDP" => &[Protocol::Udp],
            "TCP_UDP" => &[Protocol::Tcp, Protocol::Udp],
            _ => &[Protocol::Tcp],
        };
        let clients = protocols.iter().flat_map(|protocol| spec.ranges.iter().map(move |from| (protocol, from)));
        clients.for_each(|(protocol, from)| add(&mut rules, ingress(protocol, pool.port, from), CLIENT));
        let checked = pool.health.port.parse().unwrap_or(pool.port);
        if !(allows_all(&spec.ranges) && protocols.contains(&Protocol::Tcp) && checked == pool.port) {
            subnets.iter().for_each(|from| add(&mut rules, ingress(&Protocol::Tcp, checked, from), HEALTH));
        }
    }
    rules
}

/// Returns the rules of the security group of a load balancer.
pub(super) fn balancer_rules(spec: &Spec) -> Vec<Rule> {
    let mut rules: BTreeSet<Rule> = spec.ranges.iter().map(|from| too_big(*from)).collect();
    for port in &spec.ports {
        let protocols = port.transport.split('_').map(Protocol::named);
        let rule = |protocol: Protocol, from: &IpNet| {
            Rule::network(Direction::Ingress, protocol, Ports::one(port.number), *from)
        };
        rules.extend(protocols.flat_map(|protocol| spec.ranges.iter().map(move |from| rule(protocol.clone(), from))));
    }
    rules.into_iter().collect()
}

/// Returns rules as texts that can be compared: adjacent ports are one range.
pub(super) fn texts<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<String> {
    let rules: Vec<Rule> = rules.into_iter().cloned().collect();
    let text = |rule: &Rule| rule.owner.as_ref().map_or_else(|| rule.to_string(), |owner| format!("{rule} by {owner}"));
    let texts: BTreeSet<String> = normalized(&rules).iter().map(text).collect();
    texts.into_iter().collect()
}

/// Returns the rules of such texts.
pub(super) fn read_texts(texts: Option<&Value>) -> Vec<Rule> {
    let texts = texts.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let read = |text: &str| match text.split_once(" by ") {
        Some((rule, owner)) => rule.parse().ok().map(|rule: Rule| rule.owned_by(owner)),
        None => text.parse().ok(),
    };
    texts.filter_map(read).collect()
}

/// Chooses the security group of an instance in which rules are written; `None` if it has no group.
///
/// # Errors
/// *Invalid*, naming the groups, if the choice is not clear.
pub(super) fn chosen(instance: &str, ids: &[Box<str>], all: &[Group], cluster: &Identity) -> Result<Option<String>> {
    let is_tagged = |id: &&str| all.iter().any(|it| it.group_id == **id && cluster.has(&it.tag_set));
    let tagged: Vec<&str> = ids.iter().map(|id| &**id).filter(is_tagged).collect();
    match (&tagged[..], ids) {
        ([one], _) => Ok(Some((*one).to_owned())),
        ([], [one]) => Ok(Some(one.to_string())),
        ([], []) => Ok(None),
        _ => {
            let ids = ids.iter().map(|it| &**it).collect::<Vec<_>>().join(", ");
            let key = cluster.tag_key().unwrap_or_default();
            Err(Error::invalid(format!(
                "instance {instance}: exactly one of its security groups ({ids}) must have the tag {key}"
            )))
        }
    }
}

/// Reads all security groups of the VPC.
///
/// # Errors
/// The answer of EC2; also if the list is not complete.
pub(super) async fn read_all(api: &Api) -> Result<Vec<Group>> {
    let query = Query::new("DescribeSecurityGroups").filter("vpc-id", [&api.identity().await?.vpc]).page(PAGE);
    let (shared_priority, id) = (SharedPriority::default(), |it: &Group| it.group_id.clone());
    let groups = api.aws.ec2.list(query, "securityGroupInfo", &shared_priority, |it: Group| it, id).await?;
    Ok(groups.complete()?.into_items())
}

/// The rules of security groups, which many Services change.
pub(super) struct RuleStore(pub(super) Api);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Groups {
    security_group_info: Vec<Group>,
}

#[async_trait]
impl DocumentStore for RuleStore {
    type Key = String;
    type Document = Ingress;

    /// Reads the rules; those of a group that does not exist are none.
    async fn read(&self, key: &String) -> Result<Versioned<Ingress>> {
        let query = Query::new("DescribeSecurityGroups").set("GroupId", [key]);
        let found: Option<Groups> = self.0.aws.ec2.find(query).await?;
        let rules: BTreeSet<_> = found.iter().flat_map(|it| &it.security_group_info).flat_map(Group::rules).collect();
        Ok(Versioned { document: Ingress { before: rules.clone(), rules }, version: None })
    }

    /// Admits before it revokes; in a group that is full, the other way round.
    async fn write(&self, key: &String, document: Ingress, _: Option<&str>) -> Result<()> {
        let new: Vec<&Rule> = document.rules.difference(&document.before).collect();
        let old: Vec<&Rule> = document.before.difference(&document.rules).collect();
        match self.authorize(key, &new).await {
            Err(error) if error.is_quota() && !old.is_empty() => {
                self.revoke(key, &old).await?;
                self.authorize(key, &new).await
            }
            Err(error) => Err(error),
            Ok(()) => self.revoke(key, &old).await,
        }
    }
}

impl RuleStore {
    async fn authorize(&self, group: &str, rules: &[&Rule]) -> Result<()> {
        match self.change("AuthorizeSecurityGroupIngress", group, rules).await {
            Err(error) if error.code() == "InvalidPermission.Duplicate" && rules.len() > 1 => {
                for rule in rules {
                    Box::pin(self.authorize(group, &[*rule])).await?;
                }
                Ok(())
            }
            Err(error) if error.code() == "InvalidPermission.Duplicate" => Ok(()),
            answer => answer,
        }
    }

    async fn revoke(&self, group: &str, rules: &[&Rule]) -> Result<()> {
        match self.change("RevokeSecurityGroupIngress", group, rules).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        }
    }

    async fn change(&self, action: &'static str, group: &str, rules: &[&Rule]) -> Result<()> {
        if rules.is_empty() {
            return Ok(());
        }
        let permissions: Vec<_> = rules.iter().map(|rule| permission(rule)).collect();
        let query = Query::new(action).set("GroupId", group).set("IpPermissions", permissions).repeatable();
        self.0.aws.ec2.change::<IgnoredAny>(query).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancers::model::Pool;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        read_texts(Some(&json!(texts)))
    }

    #[test]
    fn rules_of_others_and_of_other_load_balancers_stay() {
        let mine = "ingress IPv4 tcp 30080 10.0.0.0/8 by kubernetes.io/rule/nlb/client=a1";
        let theirs = "ingress IPv4 tcp 30081 10.1.0.0/16 by kubernetes.io/rule/nlb/client=a2";
        let reference = "ingress IPv4 any any group sg-1";
        let hand = "ingress IPv4 tcp 22 0.0.0.0/0";
        let before: BTreeSet<_> = rules(&[mine, theirs, hand, reference]).into_iter().collect();
        let mut ingress = Ingress { before: before.clone(), rules: before };
        ingress.admit("a1", &[], &[]);
        let mtu = "ingress IPv4 icmp/3/4 any 10.1.0.0/16 by kubernetes.io/rule/nlb/mtu";
        assert_eq!(texts(&ingress.rules), texts(&rules(&[theirs, hand, mtu, reference])));
        ingress.admit("a2", &["sg-1".to_owned()], &[]);
        assert_eq!(texts(&ingress.rules), [hand]);
    }

    #[test]
    fn rule_that_somebody_else_has_written_is_not_written_again() {
        let before: BTreeSet<_> = rules(&["ingress IPv4 any any group sg-1 by terraform"]).into_iter().collect();
        let mut ingress = Ingress { before: before.clone(), rules: before.clone() };
        ingress.admit("a1", &["sg-1".to_owned()], &[reference("sg-1")]);
        assert_eq!(ingress.rules, before);
    }

    #[test]
    fn permissions_are_read_as_they_are_written() {
        for text in ["tcp 80-90 10.0.0.0/8", "any any group sg-1", "icmp/3/4 any 0.0.0.0/0", "udp 53 10.0.0.0/8"] {
            let rule: Rule = format!("ingress IPv4 {text}").parse().unwrap();
            let written = permission(&rule.clone().owned_by("x"));
            let list = |key: &str, field: &str| -> Vec<Source> {
                let items = written[key].as_array().into_iter().flatten();
                let source =
                    |it: &Value| Source { id: it[field].as_str().unwrap().to_owned(), description: Some("x".into()) };
                items.map(source).collect()
            };
            let number = |key: &str| written[key].as_i64().and_then(|it| i32::try_from(it).ok());
            let read = Permission {
                ip_protocol: written["IpProtocol"].as_str().unwrap().to_owned(),
                from_port: number("FromPort"),
                to_port: number("ToPort"),
                groups: list("Groups", "GroupId"),
                ip_ranges: list("IpRanges", "CidrIp"),
                ipv6_ranges: Vec::new(),
            };
            assert_eq!(read.rules().collect::<Vec<_>>(), [rule.owned_by("x")]);
        }
    }

    #[test]
    fn nodes_admit_clients_and_health_checks() {
        let spec = |ranges: &[&str], health: &str, protocol: &str| Spec {
            ranges: ranges.iter().map(|it| it.parse().unwrap()).collect(),
            pools: [(
                String::new(),
                Pool {
                    port: 30080,
                    protocol: protocol.to_owned(),
                    health: crate::load_balancers::model::Health { port: health.to_owned(), ..Default::default() },
                    ..Pool::default()
                },
            )]
            .into(),
            ..Spec::default()
        };
        let subnets = ["10.9.0.0/24".parse().unwrap()];
        let client = |protocol: &str, from: &str| format!("ingress IPv4 {protocol} 30080 {from} by {CLIENT}a1");
        let check = |port: &str| format!("ingress IPv4 tcp {port} 10.9.0.0/24 by {HEALTH}a1");
        let table: [(&[&str], &str, &str, Vec<String>); 4] = [
            (&["0.0.0.0/0"], "traffic-port", "TCP", vec![client("tcp", "0.0.0.0/0")]),
            (&["0.0.0.0/0"], "traffic-port", "UDP", vec![check("30080"), client("udp", "0.0.0.0/0")]),
            (&["10.0.0.0/8"], "traffic-port", "TCP", vec![client("tcp", "10.0.0.0/8"), check("30080")]),
            (&["0.0.0.0/0"], "10256", "TCP", vec![client("tcp", "0.0.0.0/0"), check("10256")]),
        ];
        for (ranges, health, protocol, mut expected) in table {
            expected.sort();
            assert_eq!(
                texts(&node_rules("a1", &spec(ranges, health, protocol), &subnets)),
                expected,
                "{protocol} {health}"
            );
        }
    }
}
