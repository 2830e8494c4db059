//! Security groups and their rules.

use serde_json::{Value, json};

use crate::world::{array, has_tags, only, tags, text};
use crate::{Answer, World, check, refuse};

const TAG: [&str; 2] = ["TagKey", "TagValue"];
const RULE: &str = "IpProtocol PortRange Policy Priority SourceCidrIp Ipv6SourceCidrIp Description";
/// Rules of an enterprise security group.
const RULES: usize = 200;
const NO_GROUP: &str = "InvalidSecurityGroupId.NotFound";

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    let id = body["SecurityGroupId"].clone();
    match action {
        "DescribeSecurityGroups" => {
            let found = world.matching("security group", |group| {
                (body["VpcId"].is_null() || body["VpcId"] == group["VpcId"])
                    && (body["SecurityGroupName"].is_null()
                        || body["SecurityGroupName"] == group["SecurityGroupName"])
                    && has_tags(group, body)
            });
            world.token_page(
                found,
                body,
                "MaxResults",
                ["SecurityGroups", "SecurityGroup"],
            )
        }
        "DescribeSecurityGroupAttribute" => {
            let rules =
                world.find("security group", "SecurityGroupId", &id, NO_GROUP)?["_rules"].clone();
            world.token_page(
                array(&rules).cloned().collect(),
                body,
                "MaxResults",
                ["Permissions", "Permission"],
            )
        }
        "CreateSecurityGroup" => {
            let is_known = ["normal", "enterprise"].contains(&text(&body["SecurityGroupType"]));
            check(
                is_known,
                "InvalidSecurityGroupType",
                "SecurityGroupType is normal or enterprise.",
            )?;
            world.find("vpc", "VpcId", &body["VpcId"], "InvalidVpcId.NotFound")?;
            let id = format!("sg-bp1{}", world.number());
            let mut other_only = only(
                body,
                "SecurityGroupName SecurityGroupType VpcId Description ResourceGroupId",
            );
            (other_only["SecurityGroupId"], other_only["_rules"]) = (id.clone().into(), json!([]));
            other_only["Tags"] = json!({"Tag": tags(body, TAG)});
            world.add("security group", other_only);
            Ok(json!({"SecurityGroupId": id}))
        }
        "AuthorizeSecurityGroup" => {
            let new: Vec<_> = array(&body["Permissions"]).cloned().collect();
            check(
                (1..=100).contains(&new.len()),
                "InvalidParam.Permissions",
                "1 to 100 permissions in a request.",
            )?;
            for other_new in &new {
                let is_known = ["accept", "drop"].contains(&text(&other_new["Policy"]));
                check(
                    is_known,
                    "InvalidPolicy.Malformed",
                    "Policy is accept or drop.",
                )?;
                let priority = text(&other_new["Priority"])
                    .parse::<u32>()
                    .unwrap_or_default();
                check(
                    (1..=100).contains(&priority),
                    "InvalidPriority.Malformed",
                    "Priority is 1 to 100.",
                )?;
                let sources = ["SourceCidrIp", "Ipv6SourceCidrIp"]
                    .iter()
                    .filter(|key| other_new[**key].is_string())
                    .count();
                check(
                    sources == 1,
                    "InvalidParam.SourceIp",
                    "One of SourceCidrIp and Ipv6SourceCidrIp is due.",
                )?;
                let is_all = other_new["PortRange"] == "-1/-1"
                    && text(&other_new["IpProtocol"]).eq_ignore_ascii_case("all");
                check(
                    is_all,
                    "InvalidIpProtocol.Malformed",
                    "The fake knows rules for everything.",
                )?;
            }
            let numbers: Vec<_> = new.iter().map(|_| world.number()).collect();
            let current = world.find("security group", "SecurityGroupId", &id, NO_GROUP)?;
            let all = current["_rules"].as_array_mut().into_iter().next();
            let Some(all) = all else {
                return refuse("InternalError", "no list");
            };
            check(
                all.len() + new.len() <= RULES,
                "AuthorizationLimitExceed",
                "The group has too many rules.",
            )?;
            for (rule, number) in new.iter().zip(numbers) {
                let mut rule = only(rule, RULE);
                rule["Policy"] = if rule["Policy"] == "accept" {
                    "Accept".into()
                } else {
                    "Drop".into()
                };
                (rule["SecurityGroupRuleId"], rule["Direction"]) =
                    (format!("sgr-bp1{number}").into(), "ingress".into());
                all.push(rule);
            }
            Ok(json!({}))
        }
        "RevokeSecurityGroup" => {
            let gone: Vec<_> = array(&body["SecurityGroupRuleId"]).cloned().collect();
            check(
                (1..=100).contains(&gone.len()),
                "InvalidParam.SecurityGroupRuleId",
                "1 to 100 rules in a request.",
            )?;
            let entry = world.find("security group", "SecurityGroupId", &id, NO_GROUP)?;
            let all = entry["_rules"].as_array_mut();
            all.into_iter()
                .for_each(|all| all.retain(|rule| !gone.contains(&rule["SecurityGroupRuleId"])));
            Ok(json!({}))
        }
        "DeleteSecurityGroup" => {
            world.find("security group", "SecurityGroupId", &id, NO_GROUP)?;
            let is_used = world.all("network").iter().any(|object| {
                array(&object["SecurityGroupIds"]).any(|security_group_id| *security_group_id == id)
            });
            check(
                !is_used,
                "DependencyViolation",
                "The security group is used by a load balancer.",
            )?;
            world.remove("security group", |group| group["SecurityGroupId"] == id);
            Ok(json!({}))
        }
        _ => refuse("InvalidAction.NotFound", action),
    }
}
