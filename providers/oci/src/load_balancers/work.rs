//! Work requests: changes of load balancers that the cloud carries out in the background.

use std::collections::HashMap;

use cloud_provider::{Error, Result};
use parking_lot::Mutex;
use provider_kit::transport::{Answer, Call};
use serde_json::Value;
use tokio::time::Instant;

use super::objects::Form;
use crate::api::Api;

/// The state of the last work request of a load balancer.
pub(super) enum Work {
    Done,
    Running,
    /// The cloud could not carry the request out; with its message.
    Failed(String),
}

/// A work request, the change that it is, and its beginning. One without an OCID stands for that of another program, which
/// refused a change.
#[derive(Clone)]
struct WorkRequest {
    id: String,
    change: &'static str,
    begun: Instant,
}

/// Work requests by the OCID of their load balancer.
#[derive(Default)]
pub(super) struct WorkRequests(Mutex<HashMap<String, WorkRequest>>);

/// Returns the OCID of the work request that an answer names.
pub(super) fn named(answer: &Answer) -> String {
    answer
        .headers
        .get("opc-work-request-id")
        .and_then(|header| header.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// Returns the error for a load balancer that a work request of another program is changing.
pub(super) fn busy(id: &str) -> Error {
    Error::conflict(format!(
        "load balancer {id} is being changed by another work request"
    ))
}

impl WorkRequests {
    /// Notes a work request. `change` is its name in metrics: `PROVISION`, `UPDATE` or `DELETE`.
    pub(super) fn begin(&self, balancer: &str, id: String, change: &'static str) {
        let request = WorkRequest {
            id,
            change,
            begun: Instant::now(),
        };
        self.0.lock().insert(balancer.to_owned(), request);
    }

    pub(super) fn is_known(&self, balancer: &str) -> bool {
        self.0.lock().contains_key(balancer)
    }

    /// Returns `true` if the work request creates the load balancer.
    pub(super) fn creates(&self, balancer: &str) -> bool {
        self.0
            .lock()
            .get(balancer)
            .is_some_and(|work_request| work_request.change == "PROVISION")
    }

    /// Notes that the load balancer's work request has succeeded.
    pub(super) fn succeeded(&self, api: &Api, form: &Form, balancer: &str) {
        self.finish(api, form, balancer, true);
    }

    fn finish(&self, api: &Api, form: &Form, balancer: &str, is_success: bool) {
        let ended = self
            .0
            .lock()
            .remove(balancer)
            .filter(|work_request| !work_request.id.is_empty());
        if let Some(WorkRequest { change, begun, .. }) = ended {
            let metric = format!("{}_{change}", form.name.to_uppercase());
            api.monitoring
                .push(&metric, begun.elapsed(), balancer, is_success);
        }
    }

    /// Reads the state of a load balancer's work request.
    pub(super) async fn state(&self, api: &Api, form: &Form, balancer: &str) -> Result<Work> {
        let Some(WorkRequest { id: request, .. }) = self.0.lock().get(balancer).cloned() else {
            return Ok(Work::Done);
        };
        let is_open = |object: &Value| {
            ["ACCEPTED", "IN_PROGRESS", "CANCELING"]
                .iter()
                .any(|open| object[form.state] == *open)
        };
        let work = if !request.is_empty() {
            let found: Value = form
                .http(api)
                .find(Call::get(form.work, &[&request]))
                .await?
                .unwrap_or_default();
            match &found[form.state] {
                _ if is_open(&found) => Work::Running,
                state if state == "FAILED" => {
                    Work::Failed(self.message(api, form, &request, &found).await)
                }
                _ => Work::Done,
            }
        } else if form.is_network() {
            // The state of a network load balancer shows it.
            Work::Done
        } else {
            let call = Call::get("/20170115/loadBalancers/{id}/workRequests", &[balancer]);
            let all = api.all(call, |api: &Value| api["id"].to_string()).await;
            let all = all.or_else(|error| {
                if error.is_not_found() {
                    Ok(Vec::new())
                } else {
                    Err(error)
                }
            })?;
            if all.iter().any(is_open) {
                Work::Running
            } else {
                Work::Done
            }
        };
        if !matches!(work, Work::Running) {
            self.finish(api, form, balancer, matches!(work, Work::Done));
        }
        Ok(work)
    }

    async fn message(&self, api: &Api, form: &Form, request: &str, found: &Value) -> String {
        let of_load_balancer = || {
            found
                .pointer("/errorDetails/0/message")
                .or(found.get("message"))
                .cloned()
        };
        let message = if form.is_network() {
            let compartment = found["compartmentId"].as_str().unwrap_or_default();
            let call = Call::get("/20200501/workRequests/{id}/errors", &[request])
                .query("compartmentId", compartment);
            let errors: Result<Value> = api.network.read(call).await;
            errors
                .ok()
                .and_then(|errors| errors.pointer("/items/0/message").cloned())
        } else {
            of_load_balancer()
        };
        let text = message
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or("the cloud gives no reason");
        format!("work request {request} failed: {text}")
    }
}
