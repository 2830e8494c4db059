//! Admission of requests: tokens, roles, versions.

use crate::model::Model;
use crate::refusal::{Refusal, Service};
use crate::requests::ApiRequest;

/// Admits a request, and sets the project of its token.
pub(crate) fn admit(model: &Model, request: &mut ApiRequest) -> Result<(), Refusal> {
    if request.service == Service::Versions || request.route == "POST /auth/tokens" {
        return Ok(());
    }
    let token = request.header("x-auth-token").unwrap_or_default();
    request.project = model
        .identity
        .project_of(token, request.now)
        .ok_or_else(Refusal::unauthorized)?;
    match request.service {
        _ if request.route.starts_with("GET ") || model.identity.may_change() => {}
        Service::Balancer => {
            return Err(Refusal::new(
                403,
                "",
                "Policy does not allow this request to be performed.",
            ));
        }
        _ => {
            return Err(Refusal::new(
                403,
                "PolicyNotAuthorized",
                "(rule:change) is disallowed by policy",
            ));
        }
    }
    if request.is_broken() {
        return Err(Refusal::bad("Request body is not valid JSON"));
    }
    let version = request
        .header("openstack-api-version")
        .and_then(|header| header.trim().strip_prefix("compute 2."));
    match version.map(|version| version.parse::<u32>().unwrap_or(u32::MAX)) {
        Some(minor)
            if request.service == Service::Compute && minor > model.options.microversion =>
        {
            let most = model.options.microversion;
            let message = format!(
                "Version 2.{minor} is not supported by the API. Minimum is 2.1 and maximum is 2.{most}."
            );
            Err(Refusal::new(406, "computeFault", message))
        }
        _ => Ok(()),
    }
}
