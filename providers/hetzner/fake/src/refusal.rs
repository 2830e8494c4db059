//! Error answers, as each API writes them.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::routes::Service;

/// Error response to a refused request.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// `None`: the one that belongs to the code.
    status: Option<u16>,
    code: String,
    message: String,
    details: Value,
}

/// Result of a handler.
pub(crate) type Answer = Result<Reply, Refusal>;

impl Refusal {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            status: None,
            code: code.to_owned(),
            message: message.into(),
            details: Value::Null,
        }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new("not_found", format!("{what} not found"))
    }

    /// Creates the error `invalid_input` about one field.
    pub(crate) fn field(name: &str, message: &str) -> Self {
        let mut refusal = Self::new("invalid_input", format!("invalid input in field '{name}'"));
        refusal.details = json!({"fields": [{"name": name, "messages": [message]}]});
        refusal
    }

    /// Creates an error of the Robot API, whose message is its code.
    pub(crate) fn robot(code: &str) -> Self {
        Self::new(code, code.to_lowercase())
    }

    /// Returns the response `{"error": {"code", "message", "details"}}`; Robot's has the status instead of details.
    pub(crate) fn reply(&self, service: Service) -> Reply {
        let Self {
            status,
            code,
            message,
            details,
        } = self;
        match service {
            Service::Robot => {
                let status = status.unwrap_or_else(|| robot_status_of(code));
                Reply::new(
                    status,
                    json!({"error": {"status": status, "code": code, "message": message}}),
                )
            }
            Service::Cloud | Service::Metadata => {
                let body = json!({"error": {"code": code, "message": message, "details": details}});
                Reply::new(status.unwrap_or_else(|| status_of(code)), body)
            }
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let code = if refused.code.is_empty() {
            "rate_limit_exceeded"
        } else {
            &refused.code
        };
        Self {
            status: refused.status,
            ..Self::new(code, refused.message)
        }
    }
}

/// Returns the status of an answer with this code.
fn status_of(code: &str) -> u16 {
    match code {
        "json_error" => 400,
        "unauthorized" => 401,
        "forbidden" | "token_readonly" | "protected" | "resource_limit_exceeded" => 403,
        "not_found" => 404,
        "conflict" | "uniqueness_error" => 409,
        "locked" => 423,
        "rate_limit_exceeded" => 429,
        "server_error" => 500,
        "bad_gateway" => 502,
        "maintenance" | "service_error" | "resource_unavailable" => 503,
        "timeout" => 504,
        _ => 422,
    }
}

fn robot_status_of(code: &str) -> u16 {
    match code {
        "UNAUTHORIZED" => 401,
        "RATE_LIMIT_EXCEEDED" => 403,
        "SERVER_NOT_FOUND" | "NOT_FOUND" | "RESET_NOT_AVAILABLE" => 404,
        _ => 500,
    }
}
