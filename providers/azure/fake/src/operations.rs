//! Operations in the background: a change is visible at once, and undone if its operation fails.

use fake_cloud::Reply;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{Answer, ApiRequest, Azure, LOCATION, SUBSCRIPTION, not_found};

/// An operation, and how to undo the change that it belongs to.
pub(crate) struct Operation {
    id: String,
    ends: Instant,
    error: Option<String>,
    before: Option<Value>,
    is_over: bool,
}

impl Azure {
    /// Begins the operation of a change of `id`, and adds its address to the answer.
    pub(crate) fn begin(
        &mut self,
        request: &ApiRequest,
        reply: Reply,
        id: &str,
        before: Option<Value>,
    ) -> Reply {
        let name = format!("op-{}", self.number());
        let namespace = if id.contains("Microsoft.Compute") {
            "Microsoft.Compute"
        } else {
            "Microsoft.Network"
        };
        let host = request.header("host").unwrap_or("azure");
        let url = format!(
            "{}://{host}/subscriptions/{SUBSCRIPTION}/providers/{namespace}/locations/{LOCATION}/operations/{name}?api-version=2024-05-01",
            self.scheme
        );
        let operation = Operation {
            id: id.to_ascii_lowercase(),
            ends: request.now + self.delay,
            error: request.effects.error(),
            before,
            is_over: false,
        };
        self.operations.insert(name, operation);
        reply
            .header("azure-asyncoperation", url)
            .header("retry-after", self.retry_after())
    }

    /// Returns the seconds between two polls of an operation.
    fn retry_after(&self) -> String {
        self.delay.as_secs().to_string()
    }

    /// Returns the operation that changes this resource now.
    pub(crate) fn running(&self, id: &str) -> Option<&str> {
        let id = id.to_ascii_lowercase();
        self.operations
            .iter()
            .find(|(_, operation)| !operation.is_over && operation.id == id)
            .map(|(name, _)| name.as_str())
    }

    pub(crate) fn end_operations(&mut self, now: Instant) {
        let mut undone = Vec::new();
        for operation in self
            .operations
            .values_mut()
            .filter(|operation| !operation.is_over && operation.ends <= now)
        {
            operation.is_over = true;
            if operation.error.is_some() {
                undone.push((operation.id.clone(), operation.before.take()));
            }
        }
        for (id, before) in undone {
            match before {
                Some(before) => drop(self.objects.insert(id, before)),
                None => drop(self.objects.remove(&id)),
            }
        }
    }
}

pub(crate) fn operation(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let name = request.nth_id(2);
    let operation = cloud.operations.get(name).ok_or_else(|| not_found(name))?;
    let body = match (operation.is_over, &operation.error) {
        (false, _) => json!({"status": "InProgress"}),
        (true, None) => json!({"status": "Succeeded"}),
        (true, Some(code)) => {
            let code = if code.is_empty() {
                "InternalServerError"
            } else {
                code
            };
            json!({"status": "Failed", "error": {"code": code, "message": "on purpose"}})
        }
    };
    let reply = Reply::new(200, body);
    Ok(if operation.is_over {
        reply
    } else {
        reply.header("retry-after", cloud.retry_after())
    })
}
