//! Instances, network interfaces, Lingjun nodes, STS and the metadata service.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::security_groups;
use crate::world::{array, has_tags, text};
use crate::{Answer, ApiRequest, KEY_ID, REGION, SECRET, VPC, World, check, refuse};

/// The token of the metadata service, which is no secret.
const METADATA_TOKEN: &str = "fake-metadata-token";

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    // Instances may be in other regions.
    let is_known = body["RegionId"] == REGION || action == "DescribeInstances";
    check(
        is_known,
        "InvalidRegionId.NotFound",
        "The specified region does not exist.",
    )?;
    match action {
        "DescribeInstances" => {
            let of = |object: &Value, key: &str, path: &[&str]| {
                let shown = path.iter().fold(object, |path, key| &path[*key]);
                body[key].is_null()
                    || array(&body[key]).any(|wanted| {
                        wanted == shown || array(shown).any(|object| object == wanted)
                    })
            };
            let is_equal = |object: &Value, key: &str, shown: &Value| {
                body[key].is_null() || body[key] == *shown && !object.is_null()
            };
            let found = world.matching("instance", |instance| {
                body["RegionId"] == instance["RegionId"]
                    && of(instance, "InstanceIds", &["InstanceId"])
                    && of(
                        instance,
                        "PrivateIpAddresses",
                        &["VpcAttributes", "PrivateIpAddress", "IpAddress"],
                    )
                    && is_equal(instance, "VpcId", &instance["VpcAttributes"]["VpcId"])
                    && is_equal(instance, "InstanceName", &instance["InstanceName"])
                    && has_tags(instance, body)
            });
            let size = if body["MaxResults"].is_null() {
                "PageSize"
            } else {
                "MaxResults"
            };
            let count = found.len();
            let mut answer = world.token_page(found, body, size, ["Instances", "Instance"])?;
            answer["TotalCount"] = json!(count);
            Ok(answer)
        }
        "DescribeNetworkInterfaces" => {
            let is_one_of = |key: &str, object: &Value| {
                body[key].is_null() || array(&body[key]).any(|wanted| wanted == object)
            };
            let found = world.matching("interface", |interface| {
                is_one_of("NetworkInterfaceId", &interface["NetworkInterfaceId"])
                    && (is_one_of("PrivateIpAddress", &interface["PrivateIpAddress"])
                        || array(&interface["PrivateIpSets"]["PrivateIpSet"])
                            .any(|set| is_one_of("PrivateIpAddress", &set["PrivateIpAddress"])))
                    && (body["Ipv6Address"].is_null()
                        || array(&interface["Ipv6Sets"]["Ipv6Set"])
                            .any(|set| is_one_of("Ipv6Address", &set["Ipv6Address"])))
                    && (body["InstanceId"].is_null()
                        || body["InstanceId"] == interface["InstanceId"])
            });
            world.token_page(
                found,
                body,
                "MaxResults",
                ["NetworkInterfaceSets", "NetworkInterfaceSet"],
            )
        }
        "ModifyNetworkInterfaceAttribute" => {
            let entry = world.find(
                "interface",
                "NetworkInterfaceId",
                &body["NetworkInterfaceId"],
                "InvalidEniId.NotFound",
            )?;
            entry["SourceDestCheck"] = json!(body["SourceDestCheck"] == "true");
            Ok(json!({}))
        }
        _ if action.contains("SecurityGroup") => security_groups::answer(world, action, body),
        _ => refuse("InvalidAction.NotFound", action),
    }
}

/// Answers about Lingjun nodes, which the kind `lingjun` has.
pub(crate) fn lingjun(world: &mut World, action: &str, body: &Value) -> Answer {
    check(action == "DescribeNode", "InvalidAction.NotFound", action)?;
    world
        .find("lingjun", "NodeId", &body["NodeId"], "RESOURCE_NOT_FOUND")
        .cloned()
}

pub(crate) fn credentials(action: &str, body: &Value) -> Answer {
    check(
        action == "AssumeRoleWithOIDC",
        "InvalidAction.NotFound",
        action,
    )?;
    check(
        !text(&body["OIDCToken"]).is_empty(),
        "MissingOIDCToken",
        "OIDCToken is missing",
    )?;
    Ok(
        json!({"Credentials": {"AccessKeyId": KEY_ID, "AccessKeySecret": SECRET, "SecurityToken": "",
        "Expiration": "2099-01-01T00:00:00Z"}}),
    )
}

/// Answers as the metadata service in its ordinary mode: a token is not required, but one that is sent must be known.
pub(crate) fn metadata(request: &ApiRequest) -> Result<Reply, Refused> {
    let is_without_lifetime = request
        .header("x-aliyun-ecs-metadata-token-ttl-seconds")
        .is_none();
    if request.path == "/latest/api/token"
        && (is_without_lifetime || !request.route.starts_with("PUT"))
    {
        return Err(Refused::new(400, "BadRequest", "the token has no lifetime"));
    }
    if request
        .header("x-aliyun-ecs-metadata-token")
        .is_some_and(|token| token != METADATA_TOKEN)
    {
        return Err(Refused::new(401, "Unauthorized", "the token is not known"));
    }
    let answer = match request.path.trim_start_matches("/latest/") {
        "api/token" => METADATA_TOKEN.to_owned(),
        "meta-data/region-id" => REGION.to_owned(),
        "meta-data/zone-id" => format!("{REGION}-a"),
        "meta-data/vpc-id" => VPC.to_owned(),
        "meta-data/vswitch-id" => "vsw-a".to_owned(),
        "meta-data/ram/security-credentials/" => "worker".to_owned(),
        "meta-data/ram/security-credentials/worker" => {
            json!({"Code": "Success", "AccessKeyId": KEY_ID,
            "AccessKeySecret": SECRET, "SecurityToken": "", "Expiration": "2099-01-01T00:00:00Z"})
            .to_string()
        }
        _ => return Err(Refused::new(404, "NotFound", "no such path")),
    };
    Ok(Reply::text(200, "text/plain", answer))
}
