//! Security groups: rules one by one, and who uses a group.

use std::time::Duration;

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::ec2::new_tags;
use crate::world::{array, push, text};
use crate::{Answer, Kind, VPC, World, check, refuse};

/// Characters of names and descriptions beside letters and digits.
const OTHER: &str = " ._-:/()#,@[]+=&;{}!$*";

fn check_text(what: &str, object: &Value) -> Result<(), Refused> {
    let is_right = text(object).len() <= 255
        && text(object)
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || OTHER.contains(character));
    check(
        is_right,
        "InvalidParameterValue",
        format!("Value ({}) for parameter {what} is invalid", text(object)),
    )
}

pub(crate) fn create(world: &mut World, body: &Value) -> Answer {
    let account = world.account;
    let name = text(&body["GroupName"]);
    let is_there = |object: &Value| object["_account"] == account;
    for what in ["GroupName", "GroupDescription"] {
        check_text(what, &body[what])?;
        check(!text(&body[what]).is_empty(), "MissingParameter", what)?;
    }
    let has_vpc = body["VpcId"] == VPC && world.all("subnet").iter().any(is_there);
    check(
        has_vpc,
        "InvalidVpcID.NotFound",
        format!("The vpc ID '{}' does not exist", text(&body["VpcId"])),
    )?;
    let is_taken = world
        .all("group")
        .iter()
        .any(|object| is_there(object) && object["groupName"] == name);
    check(
        !is_taken,
        "InvalidGroup.Duplicate",
        format!("The security group '{name}' already exists"),
    )?;
    let id = format!("sg-{:08x}", world.number());
    let tags = new_tags(body, "security-group");
    world.add(
        Kind::Group,
        json!({"groupId": id, "groupName": name, "groupDescription": body["GroupDescription"], "vpcId": VPC,
        "ownerId": account, "tagSet": tags, "ipPermissions": [], "_rules": [], "_hidden": !world.lag.is_zero()}),
    );
    world.later(world.lag, Kind::Group, &id, json!({"_hidden": false}));
    Ok(json!({"groupId": id, "tagSet": tags}))
}

/// Groups that another one refers to, or a load balancer or an instance has, cannot be deleted.
pub(crate) fn delete(world: &mut World, body: &Value) -> Answer {
    let group = world.find(Kind::Group, &body["GroupId"])?;
    let id = group["groupId"].clone();
    let is_held = group["_held"] == true;
    let refers = |object: &Value| {
        object["groupId"] != id && array(&object["_rules"]).any(|rule| rule["groupId"] == id)
    };
    let has = |object: &Value| {
        array(&object["SecurityGroups"]).any(|security_group| *security_group == id)
            || array(&object["groupSet"]).any(|group_set| group_set["groupId"] == id)
    };
    let mut users = ["classic", "network", "instance"]
        .iter()
        .flat_map(|kind| world.all(kind));
    let is_free = !is_held && !world.all("group").iter().any(refers) && !users.any(has);
    check(
        is_free,
        "DependencyViolation",
        format!("resource {} has a dependent object", text(&id)),
    )?;
    world.remove(Kind::Group, "groupId", &id);
    Ok(json!({"return": true, "groupId": id}))
}

/// Frees the groups of a deleted load balancer, which is detached from them after a while.
pub(crate) fn release(world: &mut World, balancer: &Value) {
    for id in array(&balancer["SecurityGroups"]) {
        world.later(
            Duration::ZERO,
            Kind::Group,
            text(id),
            json!({"_held": !world.detaching.is_zero()}),
        );
        world.later(
            world.detaching,
            Kind::Group,
            text(id),
            json!({"_held": false}),
        );
    }
}

/// Sources in requests and in answers: the list, its field, the list as it is shown, the field as it is shown.
const SOURCES: [[&str; 4]; 4] = [
    ["IpRanges", "CidrIp", "ipRanges", "cidrIp"],
    ["Ipv6Ranges", "CidrIpv6", "ipv6Ranges", "cidrIpv6"],
    ["Groups", "GroupId", "groups", "groupId"],
    [
        "PrefixListIds",
        "PrefixListId",
        "prefixListIds",
        "prefixListId",
    ],
];
/// Fields that permissions have in common with their rules.
const PORTS: [&str; 3] = ["ipProtocol", "fromPort", "toPort"];

/// Returns what the permissions of a request allow, one source after the other.
fn rules(body: &Value) -> Result<Vec<Value>, Refused> {
    let mut rules = Vec::new();
    for permission in array(&body["IpPermissions"]) {
        let protocol = text(&permission["IpProtocol"]);
        let port = |key| text(&permission[key]).parse::<i32>().ok();
        let is_known = ["tcp", "udp", "icmp", "icmpv6", "-1"].contains(&protocol);
        check(
            is_known,
            "InvalidParameterValue",
            format!("Invalid value '{protocol}' for IP protocol. Unknown protocol."),
        )?;
        let ports = if protocol == "-1" {
            [None, None]
        } else {
            [port("FromPort"), port("ToPort")]
        };
        let is_range = protocol == "-1"
            || matches!(ports, [Some(from), Some(to)] if from <= to || to == -1 || protocol.starts_with("icmp"));
        check(
            is_range,
            "InvalidParameterValue",
            "Invalid TCP/UDP port range",
        )?;
        for [list, key, _, field] in SOURCES {
            for source in array(&permission[list]) {
                let is_right = !text(&source[key]).is_empty()
                    && (!field.starts_with("cidr") || text(&source[key]).contains('/'));
                check(
                    is_right,
                    "InvalidParameterValue",
                    format!("CIDR block {} is malformed", source[key]),
                )?;
                check_text("Description", &source["Description"])?;
                rules
                    .push(json!({"ipProtocol": protocol, "fromPort": ports[0], "toPort": ports[1], field: source[key],
                    "description": source["Description"]}));
            }
        }
    }
    check(
        !rules.is_empty(),
        "MissingParameter",
        "Source group or CIDR missing.",
    )?;
    Ok(rules)
}

/// Sets the rules of a group, which are shown together where protocol and ports are the same.
fn set(group: &mut Value, rules: Vec<Value>) {
    let mut shown: Vec<Value> = Vec::new();
    for rule in &rules {
        let at = shown
            .iter()
            .position(|object| PORTS.iter().all(|key| object[*key] == rule[*key]))
            .unwrap_or(shown.len());
        if at == shown.len() {
            shown
                .push(json!({"groups": [], "ipRanges": [], "ipv6Ranges": [], "prefixListIds": []}));
            PORTS
                .iter()
                .for_each(|key| shown[at][*key] = rule[*key].clone());
        }
        for [_, _, list, field] in SOURCES.iter().filter(|source| !rule[source[3]].is_null()) {
            let user = if *list == "groups" {
                group["_account"].clone()
            } else {
                Value::Null
            };
            push(
                &mut shown[at][*list],
                json!({*field: rule[*field], "description": rule["description"], "userId": user}),
            );
        }
    }
    (group["ipPermissions"], group["_rules"]) = (shown.into(), rules.into());
}

/// Returns `true` if both rules allow the same, whatever their descriptions.
fn is_same(one: &Value, other: &Value) -> bool {
    PORTS
        .iter()
        .chain(SOURCES.iter().map(|source| &source[3]))
        .all(|key| one[*key] == other[*key])
}

/// Adds all rules or none.
pub(crate) fn authorize(world: &mut World, body: &Value) -> Result<(), Refused> {
    let new = rules(body)?;
    let most = world.rules;
    for rule in new.iter().filter(|rule| rule["groupId"].is_string()) {
        world.find(Kind::Group, &rule["groupId"])?;
    }
    let group = world.find(Kind::Group, &body["GroupId"])?;
    let mut all: Vec<_> = array(&group["_rules"]).cloned().collect();
    for rule in new {
        let is_there = all.iter().any(|has| is_same(has, &rule));
        check(
            !is_there,
            "InvalidPermission.Duplicate",
            format!("the specified rule {rule} already exists"),
        )?;
        all.push(rule);
    }
    let full = "The maximum number of rules per security group has been reached.";
    check(
        all.len() <= most,
        "RulesPerSecurityGroupLimitExceeded",
        full,
    )?;
    set(group, all);
    Ok(())
}

/// Removes all rules or none.
pub(crate) fn revoke(world: &mut World, body: &Value) -> Result<(), Refused> {
    let group = world.find(Kind::Group, &body["GroupId"])?;
    let mut all: Vec<_> = array(&group["_rules"]).cloned().collect();
    for rule in rules(body)? {
        let Some(at) = all.iter().position(|has| is_same(has, &rule)) else {
            return refuse(
                "InvalidPermission.NotFound",
                format!("The specified rule {rule} does not exist in this security group."),
            );
        };
        all.remove(at);
    }
    set(group, all);
    Ok(())
}

impl World {
    /// Adds a rule by hand to a group of this ID: its fields as they are shown.
    pub fn add_rule(&mut self, group: &str, rule: &Value) {
        for entry in self
            .each(Kind::Group)
            .iter_mut()
            .filter(|object| object["groupId"] == group)
        {
            let rules = array(&entry["_rules"]).chain([rule]).cloned().collect();
            set(entry, rules);
        }
    }
}
