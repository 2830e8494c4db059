//! The metadata service, and credentials.

use serde_json::json;

use crate::{Answer, Asked, KEY_ID, SECRET, World};

/// The metadata service is that of the first instance.
pub(crate) fn instance_id(world: &mut World, _: &Asked) -> Answer {
    Ok(world.all("instance").first().map(|it| it["instanceId"].clone()).unwrap_or_default())
}

pub(crate) fn assume_role(_: &mut World, asked: &Asked) -> Answer {
    let role = &asked.body["RoleArn"];
    Ok(json!({
        "Credentials": {"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": "fake-session", "Expiration": "2100-01-01T00:00:00Z"},
        "AssumedRoleUser": {"AssumedRoleId": "AROAFAKE:ccm", "Arn": role},
    }))
}

pub(crate) fn identity(world: &mut World, _: &Asked) -> Answer {
    Ok(
        json!({"Account": world.account, "UserId": "AIDAFAKE", "Arn": format!("arn:aws:iam::{}:user/ccm", world.account)}),
    )
}
