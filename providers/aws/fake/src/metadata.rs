//! The metadata service (IMDSv2), and credentials.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::{Answer, ApiRequest, KEY_ID, REGION, SECRET, World, refuse};

/// The token of the metadata service, which is no secret.
const TOKEN: &str = "fake-metadata-token";
/// The role of the first instance.
const ROLE: &str = "control-plane";

/// Admits requests for a token with a lifetime, and reads with that token.
pub(crate) fn admit(request: &ApiRequest) -> Result<(), Refused> {
    if request.path == "/latest/api/token" {
        let lifetime = request
            .header("x-aws-ec2-metadata-token-ttl-seconds")
            .and_then(|header| header.parse::<u32>().ok());
        let is_valid = request.route.starts_with("PUT")
            && lifetime.is_some_and(|lifetime| (1..=21_600).contains(&lifetime));
        return if is_valid {
            Ok(())
        } else {
            Err(Refused::new(400, "", "the token has no lifetime"))
        };
    }
    let is_known = request.header("x-aws-ec2-metadata-token") == Some(TOKEN);
    if is_known {
        Ok(())
    } else {
        Err(Refused::new(401, "", "no token"))
    }
}

/// The metadata service is that of the first instance.
pub(crate) fn answer(world: &mut World, path: &str) -> Answer {
    match path {
        "/latest/api/token" => Ok(TOKEN.into()),
        "/latest/meta-data/instance-id" => {
            Ok(world.all("instance").first().map(|object| object["instanceId"].clone()).unwrap_or_default())
        }
        "/latest/meta-data/placement/region" => Ok(REGION.into()),
        "/latest/meta-data/iam/security-credentials/" => Ok(ROLE.into()),
        "/latest/meta-data/iam/security-credentials/control-plane" => Ok(json!({"Code": "Success", "Type": "AWS-HMAC",
            "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Token": "fake-session", "Expiration": "2100-01-01T00:00:00Z"})
        .to_string()
        .into()),
        _ => Err(fake_cloud::Refused::new(404, "", "there is no such path")),
    }
}

pub(crate) fn credentials(world: &mut World, action: &str, body: &Value) -> Answer {
    let account = world.account;
    match action {
        "GetCallerIdentity" => Ok(
            json!({"Account": account, "UserId": "AIDAFAKE", "Arn": format!("arn:aws:iam::{account}:user/ccm")}),
        ),
        "AssumeRole" => Ok(json!({
            "Credentials": {"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": "fake-session", "Expiration": "2100-01-01T00:00:00Z"},
            "AssumedRoleUser": {"AssumedRoleId": "AROAFAKE:ccm", "Arn": body["RoleArn"]},
        })),
        _ => refuse("InvalidAction", action),
    }
}
