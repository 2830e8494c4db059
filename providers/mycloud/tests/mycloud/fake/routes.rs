//! Routes of one table.

use fake_cloud::Refused;
use serde_json::Value;

use super::{ACCOUNT, Answer, Asked, Kind, Mycloud, TABLE, invalid, not_found, page};

fn check_table(asked: &Asked) -> Result<(), Refused> {
    if asked.id() == TABLE && asked.project == ACCOUNT { Ok(()) } else { Err(not_found()) }
}

pub(super) fn list(cloud: &mut Mycloud, asked: &Asked) -> Answer {
    check_table(asked)?;
    let shown = |it: &Value| {
        let mut shown = it.clone();
        let is_there = cloud.has_instance(it["account"].as_str().unwrap_or_default(), &it["next_hop_id"]);
        shown["status"] = if is_there { "ACTIVE" } else { "BLACKHOLE" }.into();
        shown
    };
    page(asked, cloud.routes.iter().map(shown))
}

pub(super) fn create(cloud: &mut Mycloud, asked: &Asked) -> Answer {
    check_table(asked)?;
    if cloud.routes.iter().any(|it| it["destination"] == asked.body["destination"]) {
        return Err(Refused::new(409, "AlreadyExists", "the destination has a route"));
    }
    if !cloud.has_instance(&asked.project, &asked.body["next_hop_id"]) {
        return Err(invalid("next_hop_id: there is no such instance"));
    }
    let mut created = asked.body.clone();
    created["id"] = format!("r-{}", cloud.number()).into();
    created["account"] = (*asked.project).into();
    if asked.effects.error().is_none() {
        cloud.routes.push(created.clone());
    }
    cloud.begin(asked, Kind::Change, "", &created)
}

pub(super) fn delete(cloud: &mut Mycloud, asked: &Asked) -> Answer {
    check_table(asked)?;
    let found = cloud.routes.iter().find(|it| it["id"] == asked.nth_id(1)).cloned().ok_or_else(not_found)?;
    if asked.effects.error().is_none() {
        cloud.routes.retain(|it| it["id"] != found["id"]);
    }
    cloud.begin(asked, Kind::Change, "", &found)
}
