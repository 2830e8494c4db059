//! The metadata service, and credentials.

use serde_json::{Value, json};

use crate::{Answer, KEY_ID, REGION, SECRET, World, refuse};

/// The metadata service is that of the first instance.
pub(crate) fn answer(world: &mut World, path: &str) -> Answer {
    match path {
        "/latest/api/token" => Ok("fake-metadata-token".into()),
        "/latest/meta-data/instance-id" => {
            Ok(world.all("instance").first().map(|it| it["instanceId"].clone()).unwrap_or_default())
        }
        "/latest/meta-data/placement/region" => Ok(REGION.into()),
        _ => Err(fake_cloud::Refused::new(404, "", "there is no such path")),
    }
}

pub(crate) fn credentials(world: &mut World, action: &str, body: &Value) -> Answer {
    let account = world.account;
    match action {
        "GetCallerIdentity" => {
            Ok(json!({"Account": account, "UserId": "AIDAFAKE", "Arn": format!("arn:aws:iam::{account}:user/ccm")}))
        }
        "AssumeRole" => Ok(json!({
            "Credentials": {"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": "fake-session", "Expiration": "2100-01-01T00:00:00Z"},
            "AssumedRoleUser": {"AssumedRoleId": "AROAFAKE:ccm", "Arn": body["RoleArn"]},
        })),
        _ => refuse("InvalidAction", action),
    }
}
