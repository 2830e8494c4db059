//! What the cloud does in the background.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Fake;
use crate::faults::Effects;
use crate::gate::Project;
use crate::model::{CREATED, of, one, reference};
use crate::pages::{Query, page};
use crate::refusal::{Answer, Refusal};

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its id.
    pub id: u64,
    /// What is done: `add_target`.
    pub command: String,
    /// Kind and id of what it is done to.
    pub resource: (&'static str, u64),
    /// When it is over.
    pub ends: Instant,
    /// The code with which it fails; `None`: it does not.
    pub error: Option<String>,
}

impl Action {
    pub(crate) fn json(&self) -> Value {
        let is_over = Instant::now() >= self.ends;
        let status = match &self.error {
            _ if !is_over => "running",
            None => "success",
            Some(_) => "error",
        };
        let error = self.error.as_ref().filter(|_| is_over);
        json!({
            "id": self.id, "command": self.command, "status": status, "progress": if is_over { 100 } else { 0 },
            "started": CREATED, "finished": is_over.then_some(CREATED), "resources": reference(self.resource),
            "error": error.map(|code| json!({"code": code, "message": "on purpose"})),
        })
    }

    /// The answer that tells of it.
    pub(crate) fn answer(&self) -> Answer {
        Ok((http::StatusCode::CREATED, Json(json!({"action": self.json()}))).into_response())
    }
}

pub(crate) async fn list(
    State(fake): State<Fake>,
    Extension(Project(project)): Extension<Project>,
    Extension(effects): Extension<Effects>,
    axum::extract::Query(query): axum::extract::Query<Query>,
) -> Answer {
    let ids: Vec<u64> = query.all("id").filter_map(|id| id.parse().ok()).collect();
    if ids.is_empty() {
        return Err(Refusal::field("id", "is required"));
    }
    let model = fake.model();
    let actions = of(&model.actions, &project).filter(|it| ids.contains(&it.id));
    Ok(Json(page("actions", actions, Action::json, &query, &effects)?).into_response())
}

pub(crate) async fn get(
    State(fake): State<Fake>,
    Extension(Project(project)): Extension<Project>,
    Path(id): Path<u64>,
) -> Answer {
    let model = fake.model();
    let action = one(&model.actions, &project, id).ok_or_else(|| Refusal::not_found("action"))?;
    Ok(Json(json!({"action": action.json()})).into_response())
}
