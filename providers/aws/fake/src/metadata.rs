//! The metadata service, and credentials.

use serde_json::json;

use crate::{Answer, ApiRequest, KEY_ID, SECRET, World};

/// The metadata service is that of the first instance.
pub(crate) fn instance_id(world: &mut World, _: &ApiRequest) -> Answer {
    Ok(world.all("instance").first().map(|it| it["instanceId"].clone()).unwrap_or_default())
}

pub(crate) fn assume_role(_: &mut World, request: &ApiRequest) -> Answer {
    let role = &request.body["RoleArn"];
    Ok(json!({
        "Credentials": {"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": "fake-session", "Expiration": "2100-01-01T00:00:00Z"},
        "AssumedRoleUser": {"AssumedRoleId": "AROAFAKE:ccm", "Arn": role},
    }))
}

pub(crate) fn identity(world: &mut World, _: &ApiRequest) -> Answer {
    Ok(
        json!({"Account": world.account, "UserId": "AIDAFAKE", "Arn": format!("arn:aws:iam::{}:user/ccm", world.account)}),
    )
}
