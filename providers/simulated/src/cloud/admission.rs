//! Admission of requests: counter, faults, token, rate limit.

use std::future::pending;

use axum::Json;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{StatusCode, header};
use serde_json::json;

use super::Cloud;
use super::rate_limit::Allowance;

/// The project that a request is for, by its token.
#[derive(Clone)]
pub(super) struct Project(pub(super) String);

/// A refusal: `{"error": {"code", "message"}}`.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    pub(super) fn not_found(what: &str, id: &str, project: &str) -> Self {
        let message = format!("no {what} {id:?} in project {project:?}");
        Self {
            status: StatusCode::NOT_FOUND,
            code: "not_found",
            message,
        }
    }
    pub(super) fn conflict(code: &'static str, message: String) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            code,
            message,
        }
    }
    pub(super) fn invalid(message: String) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            code: "invalid",
            message,
        }
    }
    pub(super) fn protected(what: &str, id: &str) -> Self {
        let message =
            format!("{what} {id:?} is protected against deletion; switch its protection off first");
        Self {
            status: StatusCode::LOCKED,
            code: "protected",
            message,
        }
    }
    pub(super) fn quota(what: &str, limit: usize, project: &str) -> Self {
        let message = format!("project {project:?} has {limit} {what}, its limit");
        Self {
            status: StatusCode::FORBIDDEN,
            code: "quota_exceeded",
            message,
        }
    }
    fn unauthorized() -> Self {
        let message = "the token is missing, unknown or revoked".to_owned();
        Self {
            status: StatusCode::UNAUTHORIZED,
            code: "unauthorized",
            message,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (
            self.status,
            Json(json!({"error": {"code": self.code, "message": self.message}})),
        )
            .into_response()
    }
}

pub(super) async fn pass(
    State(cloud): State<Cloud>,
    matched: MatchedPath,
    mut request: Request,
    next: Next,
) -> Response {
    let route = format!("{} {}", request.method(), matched.as_str());
    let (effects, admitted) = {
        let mut model = cloud.model();
        let effects = model.take_effects(&route);
        *model.requests.entry(route).or_default() += 1;
        let token = bearer(&request).unwrap_or_default();
        let project = model
            .tokens
            .get(token)
            .cloned()
            .filter(|_| !effects.credentials_are_wrong);
        let admitted = project.map(|project| (project, model.count_against_limit(token)));
        (effects, admitted)
    };
    if effects.hangs {
        pending::<()>().await;
    }
    if !effects.latency.is_zero() {
        tokio::time::sleep(effects.latency).await;
    }
    let Some((project, allowance)) = admitted else {
        return Refusal::unauthorized().into_response();
    };
    let mut answer = if allowance.is_some_and(|allowance| allowance.is_exceeded) {
        let message = "too many requests".to_owned();
        Refusal {
            status: StatusCode::TOO_MANY_REQUESTS,
            code: "rate_limit_exceeded",
            message,
        }
        .into_response()
    } else if let Some(status) = effects.status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Refusal {
            status,
            code: "fault",
            message: "switched on with /admin/faults".to_owned(),
        }
        .into_response()
    } else {
        request.extensions_mut().insert(Project(project));
        request.extensions_mut().insert(effects.list);
        next.run(request).await
    };
    if let Some(allowance) = allowance {
        Allowance::tell(allowance, answer.headers_mut());
    }
    if effects.answer_is_lost {
        cut()
    } else {
        answer
    }
}

fn bearer(request: &Request) -> Option<&str> {
    request
        .headers()
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
}

/// Returns an answer whose body breaks off before its first byte: the server closes the connection.
fn cut() -> Response {
    let broken = futures::stream::once(async {
        Err::<Bytes, _>(std::io::Error::other("the connection was cut"))
    });
    Response::new(Body::from_stream(broken))
}

/// Handlers never fail without an answer.
pub(super) type Answer = Result<Response, Refusal>;
