//! Barbican: whether there is a secret or container.

use fake_cloud::Reply;
use serde_json::Value;

use crate::model::{Kind, Model};
use crate::requests::{Answer, Asked};

fn get(model: &Model, asked: &Asked, kind: Kind) -> Answer {
    let found = model.one(kind, &asked.project, asked.id())?;
    Ok(Reply::new(200, Value::Object(found.clone())))
}

pub(crate) fn secret(model: &mut Model, asked: &Asked) -> Answer {
    get(model, asked, Kind::Secret)
}

pub(crate) fn container(model: &mut Model, asked: &Asked) -> Answer {
    get(model, asked, Kind::Container)
}
