//! The security group that admits the source ranges of a Service to its NLB, as the Go program makes it: a rule for each
//! range, and rules that drop everything else. Without the latter, an NLB admits every address.

use std::net::IpAddr;

use cloud_provider::{CompleteListing, EventSubject, Result, Service};
use ipnet::IpNet;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{Attributes, ResourceGraph, ResourceKey};
use serde_json::{Value, json};

use super::AlibabaLoadBalancers;
use super::apply::{Made, Work};
use super::names::{CLUSTER_TAG, NAME_TAG, names};
use super::read::{created_id, text};
use super::texts;
use crate::api::{ECS, Query, tag_list};

/// The setting of an NLB with its source ranges.
pub(super) const RANGES: &str = "SourceRanges";
/// The setting of an NLB with the ID of the security group for source ranges, and the one with all that it has.
pub(super) const GROUP: &str = "SourceRangesGroup";
pub(super) const ATTACHED: &str = "AttachedGroups";
/// The setting of an NLB whose security groups may not be read: one of them may be that for source ranges.
pub(super) const UNKNOWN: &str = "UnknownGroups";
/// Rules that a request can name.
const RULES: usize = 100;
/// The ranges of all clients, whose packets are dropped unless another rule admits them.
const EVERYTHING: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Returns the key of the security group as a resource, when it is all that is left of an NLB.
pub(super) fn group_key() -> ResourceKey {
    ResourceKey::created_before(0, "security group", "source ranges")
}

/// Returns a range in the form in which it is compared: `192.0.2.1/32` for `192.0.2.1`.
fn normal(range: &str) -> String {
    let address = || range.parse::<IpAddr>().map(IpNet::from);
    range.parse().or_else(|_| address()).map_or_else(
        |_| range.to_owned(),
        |range: IpNet| range.trunc().to_string(),
    )
}

/// A rule of a security group: what happens to packets from a range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    id: String,
    accepts: bool,
    range: String,
}

impl Rule {
    fn of(object: &Value) -> Self {
        let range = ["SourceCidrIp", "Ipv6SourceCidrIp"]
            .map(|key| text(object, key))
            .into_iter()
            .find(|text| !text.is_empty());
        Self {
            id: text(object, "SecurityGroupRuleId").to_owned(),
            accepts: text(object, "Policy").eq_ignore_ascii_case("accept"),
            range: normal(range.unwrap_or_default()),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.accepts, &self.range) == (other.accepts, &other.range)
    }

    fn wanted(ranges: &[String], is_dual_stack: bool) -> Vec<Self> {
        let rule = |range: &str, accepts| Self {
            id: String::new(),
            accepts,
            range: normal(range),
        };
        let families = if is_dual_stack {
            &EVERYTHING[..]
        } else {
            &EVERYTHING[..1]
        };
        let admitted = ranges.iter().map(|range| rule(range, true));
        admitted
            .chain(families.iter().map(|range| rule(range, false)))
            .collect()
    }

    fn permission(&self, description: &str) -> Value {
        let key = if self.range.contains(':') {
            "Ipv6SourceCidrIp"
        } else {
            "SourceCidrIp"
        };
        let (policy, priority) = if self.accepts {
            ("accept", "1")
        } else {
            ("drop", "100")
        };
        json!({"IpProtocol": "ALL", "PortRange": "-1/-1", "Policy": policy, "Priority": priority, key: self.range,
            "Description": description})
    }
}

/// The security group of a Service, with the rules that this program or the Go program wrote.
pub(super) struct RangesGroup {
    pub(super) id: String,
    pub(super) object: Value,
    rules: Vec<Rule>,
}

impl RangesGroup {
    /// Returns the ranges that are admitted; `None` if other addresses are admitted, too.
    pub(super) fn ranges(&self, is_dual_stack: bool) -> Option<Vec<&str>> {
        let drops = |range: &&&str| {
            self.rules
                .iter()
                .any(|rule| !rule.accepts && rule.range == **range)
        };
        let families = if is_dual_stack {
            &EVERYTHING[..]
        } else {
            &EVERYTHING[..1]
        };
        let is_closed = families.iter().filter(drops).count() == families.len();
        is_closed.then(|| {
            self.rules
                .iter()
                .filter(|rule| rule.accepts)
                .map(|rule| &*rule.range)
                .collect()
        })
    }
}

/// Returns `true` for an NLB with IPv6 addresses.
pub(super) fn is_dual_stack(object: &Value) -> bool {
    text(object, "AddressIpVersion").eq_ignore_ascii_case("DualStack")
}

/// Returns the desired state in which an NLB loses the source ranges that the Service no longer has.
pub(super) fn without_ranges(desired: ResourceGraph, seen: &ResourceGraph) -> ResourceGraph {
    let has = |graph: &ResourceGraph| {
        graph
            .balancer_attributes()
            .is_some_and(|settings| settings.get(RANGES).is_some())
    };
    match desired.balancer_attributes().cloned() {
        Some(settings) if has(seen) && !has(&desired) => {
            desired.balancer(settings.set(RANGES, Vec::<String>::new()))
        }
        _ => desired,
    }
}

impl AlibabaLoadBalancers {
    /// Keeps the security groups of an NLB if they may not be read: one that admits source ranges must not be left.
    pub(super) fn keep_unknown_groups(
        &self,
        desired: &mut ResourceGraph,
        seen: &ResourceGraph,
        service: &Service,
    ) {
        let reason = seen
            .balancer_attributes()
            .and_then(|settings| settings.text(UNKNOWN));
        let is_wanted = desired
            .balancer_attributes()
            .is_some_and(|settings| settings.get("SecurityGroupIds").is_some());
        if let Some(reason) = reason.filter(|_| is_wanted) {
            let text = format!(
                "the security groups of the NLB stay as they are, because they cannot be read: {reason}"
            );
            self.events.warn(
                true,
                EventSubject::Service(service),
                "SecurityGroupsUnknown",
                &text,
            );
            desired.keep(seen, &ResourceKey::Balancer, &["SecurityGroupIds"]);
        }
    }

    /// Returns the security group for the source ranges of the Service with this default name.
    pub(super) async fn ranges_group(&self, name: &str) -> Result<Option<RangesGroup>> {
        let cluster = &self.api.config.cluster;
        let tags =
            json!([{"Key": NAME_TAG, "Value": name}, {"Key": CLUSTER_TAG, "Value": cluster}]);
        let query =
            Query::new(ECS, "DescribeSecurityGroups").set("VpcId", self.api.metadata.vpc().await?);
        let query = query
            .set("SecurityGroupName", group_name(name))
            .set("Tag", tags);
        let place = "/SecurityGroups/SecurityGroup";
        let Some(entry) = self
            .all_rules(query, place, "SecurityGroupId")
            .await?
            .into_iter()
            .next()
        else {
            return Ok(None);
        };
        let id = text(&entry, "SecurityGroupId").to_owned();
        let query = Query::new(ECS, "DescribeSecurityGroupAttribute").set("SecurityGroupId", &id);
        let query = query.set("Direction", "ingress");
        let all = self
            .all_rules(query, "/Permissions/Permission", "SecurityGroupRuleId")
            .await?;
        let end = format!(".{cluster}");
        let is_ours = |object: &&Value| {
            text(object, "Description").starts_with("k8s.")
                && text(object, "Description").ends_with(&end)
        };
        let rules = all.iter().filter(is_ours).map(Rule::of).collect();
        Ok(Some(RangesGroup {
            id,
            object: entry,
            rules,
        }))
    }

    async fn all_rules(&self, query: Query, place: &str, key: &'static str) -> Result<Vec<Value>> {
        let id = |object: &Value| text(object, key).to_owned();
        let found = self
            .api
            .tokens(
                query,
                ("MaxResults", 100),
                place,
                &SharedPriority::default(),
                id,
            )
            .await?;
        found.complete().map(CompleteListing::into_items)
    }
}

fn group_name(name: &str) -> String {
    format!("k8s-nlb-{name}")
}

impl Work<'_> {
    /// Lets the NLB admit its source ranges alone: the rules are written before the NLB joins the security group. Without
    /// ranges, the NLB leaves the group, which is deleted. Returns the ID of the group that the NLB has.
    pub(super) async fn set_ranges(&self, settings: &Attributes) -> Made {
        let ranges: Vec<_> = texts(settings.get(RANGES))
            .into_iter()
            .map(str::to_owned)
            .collect();
        let found = self.cloud.ranges_group(&self.name_tag()).await?;
        let attached = texts(
            self.before
                .balancer_attributes()
                .and_then(|settings| settings.get(ATTACHED)),
        );
        let is_attached = |id: &str| attached.contains(&id);
        let of_group = |action, id: &str| self.query(action).set("SecurityGroupIds", [id]);
        if ranges.is_empty() {
            let Some(group) = found else { return Ok(None) };
            if is_attached(&group.id) {
                self.send(of_group("LoadBalancerLeaveSecurityGroup", &group.id))
                    .await?;
            }
            return self.delete_ranges_group(&group.id).await;
        }
        let (id, existing_rules) = match found {
            Some(group) => (group.id, group.rules),
            None => (self.create_ranges_group().await?, Vec::new()),
        };
        let is_dual_stack = settings
            .text("AddressIpVersion")
            .is_some_and(|address_ip_version| address_ip_version.eq_ignore_ascii_case("DualStack"));
        let wanted = Rule::wanted(&ranges, is_dual_stack);
        let has = |all: &[Rule], rule: &Rule| all.iter().any(|other_rule| other_rule.is_like(rule));
        let new: Vec<_> = wanted
            .iter()
            .filter(|rule| !has(&existing_rules, rule))
            .collect();
        let old: Vec<_> = existing_rules
            .iter()
            .filter(|rule| !has(&wanted, rule))
            .map(|rule| &rule.id)
            .collect();
        match self.authorize(&id, &new).await {
            // There is no room for both the old and the new rules.
            Err(error) if error.is_quota() && !old.is_empty() => {
                self.revoke(&id, &old).await?;
                self.authorize(&id, &new).await?;
            }
            outcome => {
                outcome?;
                self.revoke(&id, &old).await?;
            }
        }
        if !is_attached(&id) {
            self.send(of_group("LoadBalancerJoinSecurityGroup", &id))
                .await?;
        }
        Ok(Some(id))
    }

    async fn create_ranges_group(&self) -> Result<String> {
        let api = &self.cloud.api;
        let name = self.name_tag();
        let query =
            Query::new(ECS, "CreateSecurityGroup").set("SecurityGroupName", group_name(&name));
        let query = query
            .set("SecurityGroupType", "enterprise")
            .set("VpcId", api.metadata.vpc().await?);
        let query = query.set(
            "Description",
            format!("Source ranges of load balancer {name}"),
        );
        let query = query
            .set("ResourceGroupId", &api.config.resource_group)
            .set("Tag", tag_list(&self.group_tags()));
        created_id(&api.create(query).await?, "SecurityGroupId")
    }

    async fn authorize(&self, id: &str, rules: &[&Rule]) -> Made {
        let [namespace, name] = names(self.change.identity.service);
        let description = ["k8s", namespace, name, &self.cloud.api.config.cluster].join(".");
        for rules in rules.chunks(RULES) {
            let permissions: Vec<_> = rules
                .iter()
                .map(|rule| rule.permission(&description))
                .collect();
            let query = Query::new(ECS, "AuthorizeSecurityGroup").set("SecurityGroupId", id);
            self.send(query.set("Permissions", permissions)).await?;
        }
        Ok(None)
    }

    async fn revoke(&self, id: &str, rules: &[&String]) -> Made {
        for rules in rules.chunks(RULES) {
            let query = Query::new(ECS, "RevokeSecurityGroup").set("SecurityGroupId", id);
            self.send(query.set("SecurityGroupRuleId", rules)).await?;
        }
        Ok(None)
    }

    async fn delete_ranges_group(&self, id: &str) -> Made {
        match self
            .send(Query::new(ECS, "DeleteSecurityGroup").set("SecurityGroupId", id))
            .await
        {
            Err(error) if error.is_not_found() => Ok(None),
            outcome => outcome,
        }
    }
}
