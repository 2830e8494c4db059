//! Routes of one table.

use fake_cloud::Refused;
use serde_json::Value;

use super::{ACCOUNT, Answer, ApiRequest, Kind, Mycloud, TABLE, invalid, not_found, page};

fn check_table(request: &ApiRequest) -> Result<(), Refused> {
    if request.id() == TABLE && request.project == ACCOUNT {
        Ok(())
    } else {
        Err(not_found())
    }
}

pub(super) fn list(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    check_table(request)?;
    let shown = |object: &Value| {
        let mut shown = object.clone();
        let is_there = cloud.has_instance(
            object["account"].as_str().unwrap_or_default(),
            &object["next_hop_id"],
        );
        shown["status"] = if is_there { "ACTIVE" } else { "BLACKHOLE" }.into();
        shown
    };
    page(request, cloud.routes.iter().map(shown))
}

pub(super) fn create(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    check_table(request)?;
    if cloud
        .routes
        .iter()
        .any(|route| route["destination"] == request.body["destination"])
    {
        return Err(Refused::new(
            409,
            "AlreadyExists",
            "the destination has a route",
        ));
    }
    if !cloud.has_instance(&request.project, &request.body["next_hop_id"]) {
        return Err(invalid("next_hop_id: there is no such instance"));
    }
    let mut created = request.body.clone();
    created["id"] = format!("r-{}", cloud.number()).into();
    created["account"] = (*request.project).into();
    if request.effects.error().is_none() {
        cloud.routes.push(created.clone());
    }
    cloud.begin(request, Kind::Change, "", &created)
}

pub(super) fn delete(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    check_table(request)?;
    let found = cloud
        .routes
        .iter()
        .find(|route| route["id"] == request.nth_id(1))
        .cloned()
        .ok_or_else(not_found)?;
    if request.effects.error().is_none() {
        cloud.routes.retain(|route| route["id"] != found["id"]);
    }
    cloud.begin(request, Kind::Change, "", &found)
}
