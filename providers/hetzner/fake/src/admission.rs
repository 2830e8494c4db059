//! Admission of requests: tokens, passwords, rate limits.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;

use crate::model::Model;
use crate::refusal::Refusal;
use crate::routes::{ApiRequest, Service};
use crate::{ROBOT_PASSWORD, ROBOT_USER};

/// Admits a request, and sets the project of its token.
pub(crate) fn admit(model: &mut Model, request: &mut ApiRequest) -> Result<(), Refusal> {
    match request.service {
        Service::Cloud => admit_to_cloud(model, request),
        Service::Robot => admit_to_robot(model, request),
        Service::Metadata => Ok(()),
    }
}

fn admit_to_cloud(model: &mut Model, request: &mut ApiRequest) -> Result<(), Refusal> {
    let token = request
        .header("authorization")
        .and_then(|header| header.strip_prefix("Bearer "))
        .unwrap_or_default();
    let is_read_only = model.read_only.contains(token) && !request.route.starts_with("GET ");
    let project = model.tokens.get(token).cloned();
    model.answered += 1;
    request
        .on_answer
        .push(("x-correlation-id", format!("{:016x}", model.answered)));
    request.project =
        project.ok_or_else(|| Refusal::new("unauthorized", "unable to authenticate"))?;
    let allowance = model.bucket(&request.project).take();
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let reset = (clock + allowance.full_in).as_secs();
    request.on_answer.extend([
        ("ratelimit-limit", allowance.limit.to_string()),
        ("ratelimit-remaining", allowance.remaining.to_string()),
        ("ratelimit-reset", reset.to_string()),
    ]);
    match allowance.is_exceeded {
        true => Err(Refusal::new(
            "rate_limit_exceeded",
            "limit of requests per hour reached",
        )),
        false if is_read_only => Err(Refusal::new("token_readonly", "the token may only read")),
        false => Ok(()),
    }
}

fn admit_to_robot(model: &mut Model, request: &ApiRequest) -> Result<(), Refusal> {
    let wanted =
        base64::engine::general_purpose::STANDARD.encode(format!("{ROBOT_USER}:{ROBOT_PASSWORD}"));
    let given = request
        .header("authorization")
        .and_then(|header| header.strip_prefix("Basic "));
    let is_limited = model.is_robot_limited(&request.route);
    if given != Some(wanted.as_str()) {
        return Err(Refusal::robot("UNAUTHORIZED"));
    }
    if is_limited {
        Err(Refusal::robot("RATE_LIMIT_EXCEEDED"))
    } else {
        Ok(())
    }
}
