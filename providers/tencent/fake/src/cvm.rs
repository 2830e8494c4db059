//! Instances, STS and the metadata service.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::world::{array, fits, text};
use crate::{Answer, REGION, TEMPORARY, VPC, World, check, refuse};

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    check(action == "DescribeInstances", "InvalidAction", action)?;
    let is_exclusive = body["InstanceIds"].is_null() || body["Filters"].is_null();
    check(
        is_exclusive,
        "InvalidParameter",
        "InstanceIds and Filters exclude each other.",
    )?;
    let ids: Vec<_> = array(&body["InstanceIds"]).collect();
    check(
        ids.len() <= 100,
        "InvalidParameterValue",
        "At most 100 IDs.",
    )?;
    let is_few = array(&body["Filters"]).all(|object| array(&object["Values"]).count() <= 5);
    check(
        is_few,
        "InvalidParameterValue",
        "At most 5 values for a filter.",
    )?;
    let is_id = |object: &&&Value| text(object).starts_with("ins-");
    check(
        ids.iter().all(|id| is_id(&id)),
        "InvalidInstanceId.Malformed",
        "The ID is malformed.",
    )?;
    let found = world.matching("instance", |instance| {
        let all = |value: &Value| array(value).map(|object| text(object).to_owned()).collect();
        (ids.is_empty() || ids.contains(&&instance["InstanceId"]))
            && fits(body, |name| match name {
                "vpc-id" => vec![text(&instance["VirtualPrivateCloud"]["VpcId"]).to_owned()],
                "private-ip-address" => all(&instance["PrivateIpAddresses"]),
                "instance-name" => vec![text(&instance["InstanceName"]).to_owned()],
                "instance-id" => vec![text(&instance["InstanceId"]).to_owned()],
                _ => Vec::new(),
            })
    });
    world.page(found, body, "InstanceSet")
}

pub(crate) fn assume(action: &str, body: &Value) -> Answer {
    check(
        action == "AssumeRoleWithWebIdentity",
        "InvalidAction",
        action,
    )?;
    check(
        !text(&body["WebIdentityToken"]).is_empty(),
        "InvalidParameter",
        "WebIdentityToken is missing.",
    )?;
    let [id, key, token] = TEMPORARY;
    Ok(
        json!({"Credentials": {"TmpSecretId": id, "TmpSecretKey": key, "Token": token}, "ExpiredTime": 4_102_444_800_u64,
        "Expiration": "2100-01-01T00:00:00Z"}),
    )
}

pub(crate) fn metadata(world: &World, path: &str) -> Result<Reply, Refused> {
    let first = world.all("instance").first();
    let [id, key, token] = TEMPORARY;
    let answer = match path.trim_start_matches("/latest/meta-data/") {
        "instance-id" => {
            text(first.map_or(&Value::Null, |object| &object["InstanceId"])).to_owned()
        }
        "placement/region" => REGION.to_owned(),
        "placement/zone" => format!("{REGION}-3"),
        "mac" => "52:54:00:00:00:01".to_owned(),
        "network/interfaces/macs/52:54:00:00:00:01/vpc-id"
        | "network/interfaces/macs/52%3A54%3A00%3A00%3A00%3A01/vpc-id" => VPC.to_owned(),
        "cam/security-credentials/" => "worker".to_owned(),
        "cam/security-credentials/worker" => {
            json!({"Code": "Success", "TmpSecretId": id, "TmpSecretKey": key,
            "Token": token, "ExpiredTime": 4_102_444_800_u64, "Expiration": "2100-01-01T00:00:00Z"})
            .to_string()
        }
        _ => return refuse("NotFound", "there is no such path"),
    };
    Ok(Reply::text(200, "text/plain", answer))
}
