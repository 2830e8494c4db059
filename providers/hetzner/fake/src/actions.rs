//! Actions: the asynchronous operations of the cloud.

use fake_cloud::{Operation, Reply};
use serde_json::{Value, json};

use crate::lists::page;
use crate::model::{CREATED, Model, asked_for, of, reference};
use crate::refusal::{Answer, Refusal};
use crate::routes::{ApiRequest, ok};

/// An action of the API.
#[derive(Clone, Debug)]
pub struct Action {
    /// ID of the action.
    pub id: u64,
    /// Command of the action, such as `add_target`.
    pub command: String,
    /// Kind and ID of the object that the action changes.
    pub resource: (&'static str, u64),
    /// The operation, with its end and its outcome.
    pub operation: Operation,
}

impl Action {
    pub(crate) fn json(&self) -> Value {
        let is_over = self.operation.is_over();
        let status = match &self.operation.error {
            _ if !is_over => "running",
            None => "success",
            Some(_) => "error",
        };
        let error = self.operation.error.as_ref().filter(|_| is_over);
        json!({
            "id": self.id, "command": self.command, "status": status, "progress": if is_over { 100 } else { 0 },
            "started": CREATED, "finished": is_over.then_some(CREATED), "resources": reference(self.resource),
            "error": error.map(|code| json!({"code": code, "message": "on purpose"})),
        })
    }

    /// Returns the response with the action.
    pub(crate) fn answer(&self) -> Answer {
        Ok(Reply::new(201, json!({"action": self.json()})))
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    let ids: Vec<u64> = request.all("id").filter_map(|id| id.parse().ok()).collect();
    if ids.is_empty() {
        return Err(Refusal::field("id", "is required"));
    }
    page(
        request,
        "actions",
        of(&model.actions, request).filter(|action| ids.contains(&action.id)),
        Action::json,
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(json!({"action": asked_for(&model.actions, request, "action")?.json()}))
}
