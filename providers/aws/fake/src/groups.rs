//! Security groups: rules one by one, and who uses a group.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::ec2::{done, new_tags};
use crate::world::{array, push, text};
use crate::{Answer, ApiRequest, Kind, VPC, World, refuse};

/// Characters of names and descriptions beside letters and digits.
const OTHER: &str = " ._-:/()#,@[]+=&;{}!$*";

fn check_text(what: &str, it: &Value) -> Result<(), Refused> {
    let is_wrong =
        text(it).len() > 255 || text(it).chars().any(|it| !it.is_ascii_alphanumeric() && !OTHER.contains(it));
    if is_wrong {
        refuse("InvalidParameterValue", format!("Value ({}) for parameter {what} is invalid", text(it)))
    } else {
        Ok(())
    }
}

pub(crate) fn create(world: &mut World, request: &ApiRequest) -> Answer {
    let (body, is_there) = (&request.body, |it: &Value| it["_account"] == *request.project);
    for what in ["GroupName", "GroupDescription"] {
        check_text(what, &body[what])?;
        if text(&body[what]).is_empty() {
            return refuse("MissingParameter", what);
        }
    }
    if body["VpcId"] != VPC || !world.all("subnet").iter().any(is_there) {
        return refuse("InvalidVpcID.NotFound", format!("The vpc ID '{}' does not exist", text(&body["VpcId"])));
    }
    if world.all("group").iter().any(|it| is_there(it) && it["groupName"] == body["GroupName"]) {
        return refuse(
            "InvalidGroup.Duplicate",
            format!("The security group '{}' already exists", text(&body["GroupName"])),
        );
    }
    let (id, tags) = (format!("sg-{:08x}", world.number()), new_tags(request, "security-group"));
    world.add(Kind::Group, json!({"groupId": id, "groupName": body["GroupName"], "groupDescription": body["GroupDescription"], "vpcId": VPC,
        "ownerId": request.project, "tagSet": tags, "ipPermissions": [], "_rules": [], "_account": request.project, "_hidden": !world.lag.is_zero()}));
    world.later(world.lag, Kind::Group, &id, json!({"_hidden": false}));
    Ok(json!({"groupId": id, "tagSet": tags}))
}

/// Groups that another one refers to, or a load balancer or an instance has, cannot be deleted.
pub(crate) fn delete(world: &mut World, request: &ApiRequest) -> Answer {
    let group = world.find(request, Kind::Group, &request.body["GroupId"])?;
    let (id, is_held) = (group["groupId"].clone(), group["_held"] == true);
    let refers = |it: &Value| it["groupId"] != id && array(&it["_rules"]).any(|rule| rule["groupId"] == id);
    let has = |it: &Value| {
        array(&it["SecurityGroups"]).any(|it| *it == id) || array(&it["groupSet"]).any(|it| it["groupId"] == id)
    };
    let is_used = world.all("group").iter().any(refers)
        || ["classic", "network", "instance"].iter().any(|kind| world.all(kind).iter().any(has));
    if is_held || is_used {
        return refuse("DependencyViolation", format!("resource {} has a dependent object", text(&id)));
    }
    world.each(Kind::Group).retain(|it| it["groupId"] != id);
    Ok(json!({"return": true, "groupId": id}))
}

/// Returns the groups of a deleted load balancer, which is detached from them after a while.
pub(crate) fn release(world: &mut World, balancer: &Value) {
    for id in array(&balancer["SecurityGroups"]) {
        world.later(std::time::Duration::ZERO, Kind::Group, text(id), json!({"_held": !world.detaching.is_zero()}));
        world.later(world.detaching, Kind::Group, text(id), json!({"_held": false}));
    }
}

/// Sources in requests and in answers: the list, its field, the list as it is shown, the field as it is shown.
const SOURCES: [[&str; 4]; 4] = [
    ["IpRanges", "CidrIp", "ipRanges", "cidrIp"],
    ["Ipv6Ranges", "CidrIpv6", "ipv6Ranges", "cidrIpv6"],
    ["Groups", "GroupId", "groups", "groupId"],
    ["PrefixListIds", "PrefixListId", "prefixListIds", "prefixListId"],
];

/// Returns what the permissions of a request allow, one source after the other, without and with its description.
fn rules(request: &ApiRequest) -> Result<Vec<(Value, Value)>, Refused> {
    let mut rules = Vec::new();
    for permission in array(&request.body["IpPermissions"]) {
        let (protocol, port) =
            (text(&permission["IpProtocol"]), |key: &str| text(&permission[key]).parse::<i32>().ok());
        if !["tcp", "udp", "icmp", "icmpv6", "-1"].contains(&protocol) {
            return refuse(
                "InvalidParameterValue",
                format!("Invalid value '{protocol}' for IP protocol. Unknown protocol."),
            );
        }
        let is_range = protocol == "-1"
            || matches!((port("FromPort"), port("ToPort")), (Some(from), Some(to)) if from <= to || to == -1);
        if !is_range {
            return refuse("InvalidParameterValue", "Invalid TCP/UDP port range");
        }
        let ports = if protocol == "-1" { [None, None] } else { [port("FromPort"), port("ToPort")] };
        for [list, key, _, field] in SOURCES {
            for source in array(&permission[list]) {
                let is_right = !field.starts_with("cidr") || text(&source[key]).contains('/');
                if text(&source[key]).is_empty() || !is_right {
                    return refuse("InvalidParameterValue", format!("CIDR block {} is malformed", source[key]));
                }
                check_text("Description", &source["Description"])?;
                rules.push((
                    json!({"ipProtocol": protocol, "fromPort": ports[0], "toPort": ports[1], field: source[key]}),
                    source["Description"].clone(),
                ));
            }
        }
    }
    if rules.is_empty() { refuse("MissingParameter", "Source group or CIDR missing.") } else { Ok(rules) }
}

/// Returns the permissions as they are shown: together where protocol and ports are the same.
fn shown(rules: &[(Value, Value)], owner: &str) -> Value {
    let mut shown: Vec<Value> = Vec::new();
    for (rule, description) in rules {
        let keys = ["ipProtocol", "fromPort", "toPort"];
        let at = shown.iter().position(|it| keys.iter().all(|key| it[*key] == rule[*key])).unwrap_or(shown.len());
        if at == shown.len() {
            shown.push(json!({"groups": [], "ipRanges": [], "ipv6Ranges": [], "prefixListIds": []}));
            keys.iter().for_each(|key| shown[at][*key] = rule[*key].clone());
        }
        for [_, _, list, field] in SOURCES.iter().filter(|it| !rule[it[3]].is_null()) {
            let user = if *list == "groups" { owner.into() } else { Value::Null };
            push(&mut shown[at][*list], json!({*field: rule[*field], "description": description, "userId": user}));
        }
    }
    shown.into()
}

fn set(group: &mut Value, rules: Vec<(Value, Value)>) {
    group["ipPermissions"] = shown(&rules, text(&group["_account"]));
    let one = |(mut rule, description): (Value, Value)| {
        rule["description"] = description;
        rule
    };
    group["_rules"] = rules.into_iter().map(one).collect();
}

fn present(group: &Value) -> Vec<(Value, Value)> {
    let split = |it: &Value| {
        let mut rule = it.clone();
        let description = rule["description"].take();
        rule.as_object_mut().into_iter().for_each(|it| _ = it.remove("description"));
        (rule, description)
    };
    array(&group["_rules"]).map(split).collect()
}

/// Adds all rules or none.
pub(crate) fn authorize(world: &mut World, request: &ApiRequest) -> Answer {
    let (new, most) = (rules(request)?, world.rules);
    for (rule, _) in new.iter().filter(|(rule, _)| rule["groupId"].is_string()) {
        world.find(request, Kind::Group, &rule["groupId"])?;
    }
    let group = world.find(request, Kind::Group, &request.body["GroupId"])?;
    let mut all = present(group);
    for (rule, description) in new {
        if all.iter().any(|(has, _)| *has == rule) {
            return refuse("InvalidPermission.Duplicate", format!("the specified rule {rule} already exists"));
        }
        all.push((rule, description));
    }
    if all.len() > most {
        return refuse(
            "RulesPerSecurityGroupLimitExceeded",
            "The maximum number of rules per security group has been reached.",
        );
    }
    set(group, all);
    done()
}

/// Removes all rules or none.
pub(crate) fn revoke(world: &mut World, request: &ApiRequest) -> Answer {
    let group = world.find(request, Kind::Group, &request.body["GroupId"])?;
    let mut all = present(group);
    for (rule, _) in rules(request)? {
        let Some(at) = all.iter().position(|(has, _)| *has == rule) else {
            return refuse(
                "InvalidPermission.NotFound",
                format!("The specified rule {rule} does not exist in this security group."),
            );
        };
        all.remove(at);
    }
    set(group, all);
    done()
}

impl World {
    /// Adds a rule by hand to a group of this ID: its fields as they are shown.
    pub fn add_rule(&mut self, group: &str, rule: &Value) {
        for it in self.each(Kind::Group).iter_mut().filter(|it| it["groupId"] == group) {
            let mut all = present(it);
            all.push((rule.clone(), Value::Null));
            set(it, all);
        }
    }
}
