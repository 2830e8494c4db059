//! Error answers.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

/// `{"error": {"code", "message", "details"}}` with the status that belongs to the code.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: String,
    message: String,
    details: Value,
}

/// What a handler gives.
pub(crate) type Answer = Result<Response, Refusal>;

impl Refusal {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), details: Value::Null }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new("not_found", format!("{what} not found"))
    }

    /// `invalid_input` about one field.
    pub(crate) fn field(name: &str, message: &str) -> Self {
        let mut refusal = Self::new("invalid_input", format!("invalid input in field '{name}'"));
        refusal.details = json!({"fields": [{"name": name, "messages": [message]}]});
        refusal
    }
}

/// The status of an answer with this code.
pub(crate) fn status_of(code: &str) -> StatusCode {
    match code {
        "unauthorized" => StatusCode::UNAUTHORIZED,
        "forbidden" | "token_readonly" | "protected" | "resource_limit_exceeded" => StatusCode::FORBIDDEN,
        "not_found" => StatusCode::NOT_FOUND,
        "conflict" | "uniqueness_error" => StatusCode::CONFLICT,
        "locked" => StatusCode::LOCKED,
        "rate_limit_exceeded" => StatusCode::TOO_MANY_REQUESTS,
        "json_error" => StatusCode::BAD_REQUEST,
        "server_error" => StatusCode::INTERNAL_SERVER_ERROR,
        "bad_gateway" => StatusCode::BAD_GATEWAY,
        "maintenance" | "service_error" | "resource_unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code, "message": self.message, "details": self.details}});
        (status_of(&self.code), Json(body)).into_response()
    }
}
