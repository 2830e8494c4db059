//! Security groups: those of load balancers, and the rules by which those of Nodes admit load balancers.

use std::collections::BTreeSet;

use aws_protocol::Query;
use cloud_provider::{Error, Result, async_trait};
use ipnet::IpNet;
use provider_kit::firewall::{Direction, Family, Peer, Ports, Protocol, Rule, RuleSet, of_texts};
use provider_kit::shared_document::{DocumentStore, Versioned};
use provider_kit::source_ranges::allows_all;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::NETWORK;
use super::spec::Spec;
use crate::api::{Api, Identity, PAGE, Tag, all, wire};

/// Descriptions of rules in the security groups of Nodes; the name of the load balancer follows the first two.
const CLIENT: &str = "kubernetes.io/rule/nlb/client=";
const HEALTH: &str = "kubernetes.io/rule/nlb/health=";
const MTU: &str = "kubernetes.io/rule/nlb/mtu";
/// Description of the rules that admit everything from the security group of a load balancer.
pub(super) const REFERENCE: &str = "kubernetes.io/rule/elb/source";

wire! { "camelCase";
    /// A security group, as EC2 describes it.
    Group { group_id: String, group_name: String, group_description: String, tag_set: Vec<Tag>, ip_permissions: Vec<Permission> }
    Permission {
        ip_protocol: String, from_port: Option<i32>, to_port: Option<i32>, groups: Vec<Source>, ip_ranges: Vec<Source>,
        ipv6_ranges: Vec<Source>,
    }
    Source { #[serde(alias = "groupId", alias = "cidrIp", alias = "cidrIpv6")] id: String, description: Option<String> }
    Groups { security_group_info: Vec<Group> }
}

impl Group {
    /// Returns the rules, one for each source; prefix lists are left out.
    pub(super) fn rules(&self) -> BTreeSet<Rule> {
        self.ip_permissions
            .iter()
            .flat_map(Permission::rules)
            .collect()
    }
}

impl Permission {
    fn rules(&self) -> impl Iterator<Item = Rule> {
        let small = |port: Option<i32>| port.and_then(|port| u8::try_from(port).ok());
        let port = |port: Option<i32>, all: u16| {
            port.and_then(|port| u16::try_from(port).ok())
                .unwrap_or(all)
        };
        let (protocol, ports) = match Protocol::named(&self.ip_protocol) {
            Protocol::Icmp(_) => (
                Protocol::Icmp(
                    small(self.from_port).map(|other_small| (other_small, small(self.to_port))),
                ),
                Ports::ALL,
            ),
            Protocol::Any => (Protocol::Any, Ports::ALL),
            other => (
                other,
                Ports {
                    first: port(self.from_port, 0),
                    last: port(self.to_port, u16::MAX),
                },
            ),
        };
        let rule = move |source: &Source| {
            let rule = match source.id.parse::<IpNet>() {
                Ok(network) => Rule::network(Direction::Ingress, protocol.clone(), ports, network),
                Err(_) => Rule::group(
                    Direction::Ingress,
                    protocol.clone(),
                    ports,
                    Family::Ipv4,
                    &source.id,
                ),
            };
            Rule {
                owner: source.description.clone().filter(|text| !text.is_empty()),
                ..rule
            }
        };
        self.groups
            .iter()
            .chain(&self.ip_ranges)
            .chain(&self.ipv6_ranges)
            .map(rule)
    }
}

/// Returns a rule in the form of EC2's requests.
fn permission(rule: &Rule) -> Value {
    let is_v6 = rule.family == Family::Ipv6;
    let (protocol, from, to) = match &rule.protocol {
        Protocol::Any => ("-1".to_owned(), None, None),
        Protocol::Icmp(kind) => {
            let (kind, code) = kind.map_or((-1, -1), |(kind, code)| {
                (i32::from(kind), code.map_or(-1, i32::from))
            });
            (
                if is_v6 { "icmpv6" } else { "icmp" }.to_owned(),
                Some(kind),
                Some(code),
            )
        }
        other => (
            other.to_string(),
            Some(i32::from(rule.ports.first)),
            Some(i32::from(rule.ports.last)),
        ),
    };
    let (list, field, source) = match &rule.peer {
        Peer::Group(id) => ("Groups", "GroupId", id.clone()),
        Peer::Network(network) if is_v6 => ("Ipv6Ranges", "CidrIpv6", network.to_string()),
        Peer::Network(network) => ("IpRanges", "CidrIp", network.to_string()),
    };
    json!({"IpProtocol": protocol, "FromPort": from, "ToPort": to, list: [{field: source, "Description": rule.owner}]})
}

/// Returns the load balancer that rules for clients and health checks name: only network load balancers have such rules, and a
/// classic one may have the same name.
pub(super) fn owner_of_rules<'a>(kind: &str, balancer: &'a str) -> &'a str {
    if kind == NETWORK { balancer } else { "" }
}

/// The security groups of a load balancer, as sources of rules in the security groups of Nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    /// IDs of groups that were created for the load balancer.
    pub(super) own: Vec<String>,
    /// IDs of groups of the user.
    pub(super) users: Vec<String>,
}

/// Replaces the rules that admit a load balancer in the security group `group` of Nodes. A rule for a group of the user is the
/// program's if its description says so. A rule without description for a group of the program is the Go program's if the
/// group of Nodes has the cluster's tag.
pub(super) fn admit(
    rules: &mut RuleSet,
    group: (&str, bool),
    balancer: &str,
    sources: &Sources,
    wanted: &[Rule],
) {
    let before = clients(rules);
    let own = Sources {
        users: Vec::new(),
        ..sources.clone()
    };
    let is_described = |rule: &Rule| {
        rule.owner.as_deref() == Some(REFERENCE)
            && sources
                .users
                .iter()
                .any(|id| rule.admits_same(&reference(id)))
    };
    rules.replace(wanted, |rule| {
        is_of(rule, group, balancer, &own) || is_described(rule)
    });
    let now = clients(rules);
    if before != now {
        let messages: Vec<_> = now
            .into_iter()
            .map(|from| too_big(from).owned_by(MTU))
            .collect();
        rules.replace(&messages, |rule| rule.owner.as_deref() == Some(MTU));
    }
}

/// Returns the clients of all network load balancers.
fn clients(rules: &RuleSet) -> BTreeSet<IpNet> {
    let is_client = |rule: &&Rule| {
        rule.owner
            .as_deref()
            .is_some_and(|owner| owner.starts_with(CLIENT))
    };
    let network = |rule: &Rule| {
        if let Peer::Network(from) = rule.peer {
            Some(from)
        } else {
            None
        }
    };
    rules.iter().filter(is_client).filter_map(network).collect()
}

/// Returns the rule for the messages by which routers announce the size of packets.
pub(super) fn too_big(from: IpNet) -> Rule {
    let kind = if from.addr().is_ipv4() {
        (3, Some(4))
    } else {
        (2, Some(0))
    };
    Rule::network(
        Direction::Ingress,
        Protocol::Icmp(Some(kind)),
        Ports::ALL,
        from,
    )
}

/// Returns the rule that admits everything from a security group.
pub(super) fn reference(group: &str) -> Rule {
    Rule::group(
        Direction::Ingress,
        Protocol::Any,
        Ports::ALL,
        Family::Ipv4,
        group,
    )
}

/// Returns `true` if a rule in the security group `group` of Nodes (its ID, and if it has the cluster's tag) admits this load
/// balancer. A rule that a user described, or by which a group admits itself, does not count.
pub(super) fn is_of(
    rule: &Rule,
    (group, is_tagged): (&str, bool),
    balancer: &str,
    sources: &Sources,
) -> bool {
    let owner = rule.owner.as_deref().unwrap_or_default();
    let named = owner
        .strip_prefix(CLIENT)
        .or_else(|| owner.strip_prefix(HEALTH));
    let refers = |ids: &[String]| {
        ids.iter()
            .any(|id| id != group && rule.admits_same(&reference(id)))
    };
    let is_go_made = owner.is_empty() && is_tagged;
    // The groups of the user count as a source only of a load balancer without a group of its own.
    let is_source = refers(&sources.own)
        || refers(&sources.users) && (owner == REFERENCE || sources.own.is_empty());
    named.is_some_and(|name| !name.is_empty() && name == balancer)
        || is_source && (owner == REFERENCE || is_go_made)
}

/// Returns the rules that admit clients and health checks of a network load balancer without a security group of its own.
pub(super) fn node_rules(balancer: &str, spec: &Spec, subnets: &[IpNet]) -> Vec<Rule> {
    let ingress = |protocol: &Protocol, port, from: &IpNet| {
        Rule::network(
            Direction::Ingress,
            protocol.clone(),
            Ports::one(port),
            *from,
        )
    };
    let mut rules: Vec<Rule> = Vec::new();
    let add = |rules: &mut Vec<Rule>, rule: Rule, owner: &str| {
        if !rules.iter().any(|other_rule| other_rule.admits_same(&rule)) {
            rules.push(rule.owned_by(&format!("{owner}{balancer}")));
        }
    };
    for pool in spec.pools.values() {
        let protocols: &[Protocol] = match &*pool.protocol {
            "UDP" => &[Protocol::Udp],
            "TCP_UDP" => &[Protocol::Tcp, Protocol::Udp],
            _ => &[Protocol::Tcp],
        };
        let clients = protocols
            .iter()
            .flat_map(|protocol| spec.ranges.iter().map(move |from| (protocol, from)));
        clients.for_each(|(protocol, from)| {
            add(&mut rules, ingress(protocol, pool.port, from), CLIENT);
        });
        let checked = pool.health_check_port.parse().unwrap_or(pool.port);
        if !(allows_all(&spec.ranges) && protocols.contains(&Protocol::Tcp) && checked == pool.port)
        {
            subnets
                .iter()
                .for_each(|from| add(&mut rules, ingress(&Protocol::Tcp, checked, from), HEALTH));
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
        rules.extend(protocols.flat_map(|protocol| {
            spec.ranges
                .iter()
                .map(move |from| rule(protocol.clone(), from))
        }));
    }
    rules.into_iter().collect()
}

/// Returns the rules in a setting.
pub(super) fn rules_of(setting: Option<&Value>) -> Vec<Rule> {
    of_texts(
        setting
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str),
    )
}

/// Chooses the security group of an instance in which rules are written; `None` if it has no group, or none that is the
/// cluster's. Of several with the cluster's tag, the first by ID gets the rules: a rule in one group admits to the instance. The
/// second value tells the user that the choice is not clear.
pub(super) fn chosen(
    instance: &str,
    ids: &[&str],
    all: &[Group],
    cluster: &Identity,
) -> (Option<String>, Option<String>) {
    let is_tagged = |id: &&str| {
        all.iter()
            .any(|group| group.group_id == *id && cluster.has(&group.tag_set))
    };
    let mut tagged: Vec<&str> = ids.iter().copied().filter(is_tagged).collect();
    tagged.sort_unstable();
    let groups = ids.join(", ");
    let key = cluster.tag_key().unwrap_or_default();
    let doubt = |what: String| {
        Some(format!(
            "instance {instance}: exactly one of its security groups ({groups}) must have the tag {key}; {what}"
        ))
    };
    match (&tagged[..], ids) {
        ([one], _) | ([], [one]) => (Some((*one).to_owned()), None),
        ([], []) => (None, None),
        ([], _) => (
            None,
            doubt("no rule for load balancers is written".to_owned()),
        ),
        ([first, ..], _) => (
            Some((*first).to_owned()),
            doubt(format!("rules for load balancers are written in {first}")),
        ),
    }
}

/// Reads all security groups of the VPC.
///
/// # Errors
/// The answer of EC2; also if the list is not complete.
pub(super) async fn read_all(api: &Api) -> Result<Vec<Group>> {
    let query = Query::new("DescribeSecurityGroups")
        .filter("vpc-id", [&api.identity().await?.vpc])
        .page(PAGE);
    all(&api.aws.ec2, query, "securityGroupInfo", |group: &Group| {
        group.group_id.clone()
    })
    .await
}

/// The rules of security groups, which many Services change.
pub(super) struct RuleStore(pub(super) Api);

#[async_trait]
impl DocumentStore for RuleStore {
    type Key = String;
    type Document = RuleSet;

    /// Reads the rules; those of a group that does not exist are none.
    async fn read(&self, key: &String) -> Result<Versioned<RuleSet>> {
        let query = Query::new("DescribeSecurityGroups").set("GroupId", [key]);
        let found: Option<Groups> = self.0.aws.ec2.find(query).await?;
        let rules = found
            .iter()
            .flat_map(|groups| &groups.security_group_info)
            .flat_map(Group::rules);
        Ok(Versioned {
            document: RuleSet::of(rules),
            version: None,
        })
    }

    async fn write(&self, key: &String, document: RuleSet, _: Option<&str>) -> Result<()> {
        let authorize = |rules: Vec<Rule>| async move { self.authorize(key, &rules).await };
        let revoke = |rules: Vec<Rule>| async move { self.revoke(key, &rules).await };
        document.write(authorize, revoke).await
    }
}

impl RuleStore {
    async fn authorize(&self, group: &str, rules: &[Rule]) -> Result<()> {
        let is_double = |error: &Error| error.code() == "InvalidPermission.Duplicate";
        match self
            .change("AuthorizeSecurityGroupIngress", group, rules)
            .await
        {
            Err(error) if is_double(&error) && rules.len() == 1 => Ok(()),
            Err(error) if is_double(&error) => {
                for rule in rules {
                    match self
                        .change(
                            "AuthorizeSecurityGroupIngress",
                            group,
                            std::slice::from_ref(rule),
                        )
                        .await
                    {
                        Err(error) if !is_double(&error) => return Err(error),
                        _ => {}
                    }
                }
                Ok(())
            }
            answer => answer,
        }
    }

    async fn revoke(&self, group: &str, rules: &[Rule]) -> Result<()> {
        match self
            .change("RevokeSecurityGroupIngress", group, rules)
            .await
        {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        }
    }

    async fn change(&self, action: &'static str, group: &str, rules: &[Rule]) -> Result<()> {
        if rules.is_empty() {
            return Ok(());
        }
        let permissions: Vec<_> = rules.iter().map(permission).collect();
        let query = Query::new(action)
            .set("GroupId", group)
            .set("IpPermissions", permissions)
            .repeatable();
        self.0.aws.ec2.change::<IgnoredAny>(query).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use provider_kit::firewall::texts;

    use super::*;
    use crate::load_balancers::model::TargetGroup;

    #[test]
    fn rules_of_others_and_of_other_load_balancers_stay() {
        let mine = "ingress IPv4 tcp 30080 10.0.0.0/8 by kubernetes.io/rule/nlb/client=a1";
        let theirs = "ingress IPv4 tcp 30081 10.1.0.0/16 by kubernetes.io/rule/nlb/client=a2";
        let reference = "ingress IPv4 any any group sg-1";
        let hand = "ingress IPv4 tcp 22 0.0.0.0/0";
        let mut rules = RuleSet::of(of_texts([mine, theirs, hand, reference]));
        let nodes = ("sg-nodes", true);
        admit(&mut rules, nodes, "a1", &Sources::default(), &[]);
        let mtu = "ingress IPv4 icmp/3/4 any 10.1.0.0/16 by kubernetes.io/rule/nlb/mtu";
        assert_eq!(
            texts(rules.iter()),
            texts(&of_texts([theirs, hand, mtu, reference]))
        );
        let own = Sources {
            own: vec!["sg-1".to_owned()],
            users: Vec::new(),
        };
        admit(&mut rules, ("sg-others", false), "a2", &own, &[]);
        assert_eq!(
            texts(rules.iter()),
            texts(&of_texts([hand, reference])),
            "a group without the cluster's tag"
        );
        admit(&mut rules, nodes, "a2", &own, &[]);
        assert_eq!(texts(rules.iter()), [hand]);
    }

    #[test]
    fn rules_of_users_for_a_security_group_stay() {
        let described = format!("ingress IPv4 any any group sg-user by {REFERENCE}");
        let table = [
            ("ingress IPv4 any any group sg-nodes", "sg-nodes", 1),
            ("ingress IPv4 any any group sg-user", "sg-user", 1),
            (
                "ingress IPv4 any any group sg-user by the team's",
                "sg-user",
                1,
            ),
            (&*described, "sg-user", 0),
        ];
        for (rule, source, left) in table {
            let mut rules = RuleSet::of(of_texts([rule]));
            let users = Sources {
                own: Vec::new(),
                users: vec![source.to_owned()],
            };
            admit(&mut rules, ("sg-nodes", true), "a1", &users, &[]);
            assert_eq!(rules.iter().count(), left, "{rule}");
        }
        let wanted = [reference("sg-user").owned_by(REFERENCE)];
        let mut rules = RuleSet::of(of_texts(["ingress IPv4 any any group sg-user"]));
        admit(
            &mut rules,
            ("sg-nodes", true),
            "a1",
            &Sources::default(),
            &wanted,
        );
        assert_eq!(
            rules.added().len(),
            0,
            "AWS refuses a second rule that differs in its description alone"
        );
    }

    #[test]
    fn instance_with_two_tagged_groups_gets_rules_in_the_first_and_a_warning() {
        let cluster = Identity {
            cluster: Some("us".to_owned()),
            ..Identity::default()
        };
        let tag = || Tag {
            key: "kubernetes.io/cluster/us".to_owned(),
            value: "owned".to_owned(),
        };
        let group = |id: &str, is_tagged: bool| Group {
            group_id: id.to_owned(),
            tag_set: is_tagged.then(tag).into_iter().collect(),
            ..Group::default()
        };
        let all = [
            group("sg-b", true),
            group("sg-a", true),
            group("sg-c", false),
            group("sg-d", false),
        ];
        let table: [(&[&str], Option<&str>, bool); 6] = [
            (&["sg-b", "sg-a"], Some("sg-a"), true),
            (&["sg-c", "sg-b"], Some("sg-b"), false),
            (&["sg-c", "sg-d"], None, true),
            (&["sg-c"], Some("sg-c"), false),
            (&["sg-a"], Some("sg-a"), false),
            (&[], None, false),
        ];
        for (ids, expected, is_doubtful) in table {
            let (group, doubt) = chosen("i-1", ids, &all, &cluster);
            assert_eq!(
                (group.as_deref(), doubt.is_some()),
                (expected, is_doubtful),
                "{ids:?}"
            );
        }
    }

    #[test]
    fn permissions_are_read_as_they_are_written() {
        for text in [
            "tcp 80-90 10.0.0.0/8",
            "any any group sg-1",
            "icmp/3/4 any 0.0.0.0/0",
            "udp 53 10.0.0.0/8",
        ] {
            let rule: Rule = format!("ingress IPv4 {text}").parse().unwrap();
            let written = permission(&rule.clone().owned_by("x"));
            let list = |key: &str, field: &str| -> Vec<Source> {
                let items = written[key].as_array().into_iter().flatten();
                let source = |object: &Value| Source {
                    id: object[field].as_str().unwrap().to_owned(),
                    description: Some("x".into()),
                };
                items.map(source).collect()
            };
            let number = |key: &str| {
                written[key]
                    .as_i64()
                    .and_then(|key| i32::try_from(key).ok())
            };
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
            ranges: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            pools: [(
                String::new(),
                TargetGroup {
                    port: 30080,
                    protocol: protocol.to_owned(),
                    health_check_port: health.to_owned(),
                    ..TargetGroup::default()
                },
            )]
            .into(),
            ..Spec::default()
        };
        let subnets = ["10.9.0.0/24".parse().unwrap()];
        let client = |protocol: &str, from: &str| {
            format!("ingress IPv4 {protocol} 30080 {from} by {CLIENT}a1")
        };
        let check = |port: &str| format!("ingress IPv4 tcp {port} 10.9.0.0/24 by {HEALTH}a1");
        let table: [(&[&str], &str, &str, Vec<String>); 4] = [
            (
                &["0.0.0.0/0"],
                "traffic-port",
                "TCP",
                vec![client("tcp", "0.0.0.0/0")],
            ),
            (
                &["0.0.0.0/0"],
                "traffic-port",
                "UDP",
                vec![check("30080"), client("udp", "0.0.0.0/0")],
            ),
            (
                &["10.0.0.0/8"],
                "traffic-port",
                "TCP",
                vec![client("tcp", "10.0.0.0/8"), check("30080")],
            ),
            (
                &["0.0.0.0/0"],
                "10256",
                "TCP",
                vec![client("tcp", "0.0.0.0/0"), check("10256")],
            ),
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
