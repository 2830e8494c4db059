//! Security groups, and cluster route tables.

use serde_json::{Value, json};

use crate::world::{array, fits, only, text};
use crate::{Answer, World, check, refuse};

const NO_GROUP: &str = "ResourceNotFound";

pub(crate) fn groups(world: &mut World, action: &str, body: &Value) -> Answer {
    let id = &body["SecurityGroupId"];
    match action {
        "DescribeSecurityGroups" => {
            let found = world.matching("group", |group| {
                fits(body, |name| {
                    let tag = name.strip_prefix("tag:").unwrap_or_default();
                    let tags = array(&group["TagSet"]).filter(|tag_set| tag_set["Key"] == tag);
                    tags.map(|tags| text(&tags["Value"]).to_owned()).collect()
                })
            });
            world.page(found, body, "SecurityGroupSet")
        }
        "DescribeSecurityGroupPolicies" => {
            let other_world = world.find("group", "SecurityGroupId", id, NO_GROUP)?;
            Ok(json!({"SecurityGroupPolicySet": other_world["_policies"]}))
        }
        "CreateSecurityGroup" => {
            let number = world.number();
            let current = json!({"SecurityGroupId": format!("sg-t{number:07}"), "SecurityGroupName": body["GroupName"],
                "SecurityGroupDesc": body["GroupDescription"], "ProjectId": "0", "IsDefault": false, "TagSet": body["Tags"],
                "CreatedTime": "2026-01-02 03:04:05", "UpdateTime": "2026-01-02 03:04:05",
                "_policies": {"Version": "0", "Ingress": [], "Egress": []}});
            world.add("group", current.clone());
            Ok(json!({"SecurityGroup": current}))
        }
        "ReplaceSecurityGroupPolicies" => {
            let entry = world.find("group", "SecurityGroupId", id, NO_GROUP)?;
            entry["_policies"]["Ingress"] = body["SecurityGroupPolicySet"]["Ingress"].clone();
            Ok(json!({}))
        }
        "DeleteSecurityGroup" => {
            world.find("group", "SecurityGroupId", id, NO_GROUP)?;
            let is_used = world
                .all("balancer")
                .iter()
                .any(|object| array(&object["SecureGroups"]).any(|group| group == id));
            check(!is_used, "ResourceInUse", "The security group is in use.")?;
            world.remove("group", |group| group["SecurityGroupId"] == *id);
            Ok(json!({}))
        }
        _ => refuse("InvalidAction", action),
    }
}

pub(crate) fn routes(world: &mut World, action: &str, body: &Value) -> Answer {
    let is_of_table = |object: &Value| object["RouteTableName"] == body["RouteTableName"];
    let is_same = |object: &Value, key: &str| object[key] == body[key];
    if action != "DescribeClusterRouteTables" && action != "CreateClusterRouteTable" {
        world.find(
            "table",
            "RouteTableName",
            &body["RouteTableName"],
            "ResourceNotFound.RouteTableNotFound",
        )?;
    }
    match action {
        "DescribeClusterRouteTables" => {
            let all = world.matching("table", |_| true);
            Ok(json!({"TotalCount": all.len(), "RouteTableSet": all}))
        }
        "CreateClusterRouteTable" => {
            let is_new = world.matching("table", is_of_table).is_empty();
            check(
                is_new,
                "ResourceInUse.ResourceExistAlready",
                "The table exists.",
            )?;
            world.add(
                "table",
                only(body, "RouteTableName RouteTableCidrBlock VpcId"),
            );
            Ok(json!({}))
        }
        "DescribeClusterRoutes" => {
            let all = world.matching("route", is_of_table);
            let total = all.len();
            let mut answer = world.page(all, &json!({"Limit": usize::MAX}), "RouteSet")?;
            answer["TotalCount"] = total.into();
            Ok(answer)
        }
        "CreateClusterRoute" => {
            let is_range =
                |object: &Value| is_of_table(object) && is_same(object, "DestinationCidrBlock");
            let is_free = world.matching("route", is_range).is_empty();
            check(
                is_free,
                "InvalidParameter.CidrConflictWithOtherRoute",
                "The range has a route.",
            )?;
            world.add(
                "route",
                only(body, "RouteTableName DestinationCidrBlock GatewayIp"),
            );
            Ok(json!({}))
        }
        "DeleteClusterRoute" => {
            let is_this_object = |object: &Value| {
                is_of_table(object)
                    && is_same(object, "DestinationCidrBlock")
                    && is_same(object, "GatewayIp")
            };
            check(
                world.remove("route", is_this_object) > 0,
                "ResourceNotFound",
                "There is no such route.",
            )?;
            Ok(json!({}))
        }
        _ => refuse("InvalidAction", action),
    }
}
