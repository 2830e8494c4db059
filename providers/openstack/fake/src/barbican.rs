//! Barbican: whether there is a secret or container.

use fake_cloud::Reply;
use serde_json::Value;

use crate::model::{Kind, Model};
use crate::requests::{Answer, ApiRequest};

fn get(model: &Model, request: &ApiRequest, kind: Kind) -> Answer {
    let found = model.one(kind, &request.project, request.id())?;
    Ok(Reply::new(200, Value::Object(found.clone())))
}

pub(crate) fn secret(model: &mut Model, request: &ApiRequest) -> Answer {
    get(model, request, Kind::Secret)
}

pub(crate) fn container(model: &mut Model, request: &ApiRequest) -> Answer {
    get(model, request, Kind::Container)
}
