//! Handlers of TokenReviews, access reviews and token requests, which are answered and not stored.

use axum::body::Body;
use http::{Response, header};
use serde_json::{Value, json};

use super::Call;
use super::decoding::{body_value, decode_object};
use crate::negotiate::{respond, to_bytes};
use crate::request::Request;
use crate::server::{Inner, User};
use crate::status::{ApiError, StatusCause};
use crate::store::with_kind;

/// Audience of the issued tokens.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// Returns the user who sent the request.
pub(crate) fn authenticate(inner: &Inner, request: &Request) -> Result<User, ApiError> {
    let token = request
        .header(header::AUTHORIZATION)
        .strip_prefix("Bearer ");
    match token.and_then(|token| inner.options.tokens.get(token)) {
        Some(user) => Ok(user.clone()),
        None if token.is_some_and(|token| inner.issued_tokens().contains_key(token)) => {
            Ok(User::admin())
        }
        None if inner.options.require_token
            && !matches!(
                request.path.as_str(),
                "/healthz" | "/livez" | "/readyz" | "/version"
            ) =>
        {
            Err(ApiError::unauthorized())
        }
        None => Ok(User::admin()),
    }
}

pub(super) fn review(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let resource = call.resource();
    let mut object = decode_object(call, body_value(call)?)?.object;
    object["status"] = match resource.plural {
        "tokenreviews" => token_status(call, &object)?,
        "selfsubjectreviews" => json!({"userInfo": user_info(call.user)}),
        "selfsubjectrulesreviews" => rules(call, &object)?,
        "selfsubjectaccessreviews" => {
            check_attributes(call, &object, false)?;
            json!({"allowed": call.user.is_admin()})
        }
        _ => {
            check_attributes(call, &object, true)?;
            let groups = object["spec"]["groups"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let known = call
                .inner
                .options
                .tokens
                .values()
                .any(|user| user.is_admin() && object["spec"]["user"] == user.name);
            json!({"allowed": known || groups.iter().any(|group| group == "system:masters")})
        }
    };
    if resource.plural == "selfsubjectreviews" {
        object["metadata"]["creationTimestamp"] = json!(call.inner.now_text());
    }
    if resource.plural == "selfsubjectrulesreviews" {
        object["spec"] = json!({});
    }
    let body = with_kind(&to_bytes(&object), resource.kind, &resource.api_version());
    Ok(respond(call.form, 201, body))
}

fn user_info(user: &User) -> Value {
    json!({"username": user.name, "groups": user.groups})
}

fn token_status(call: &Call<'_>, object: &Value) -> Result<Value, ApiError> {
    let token = object["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    if let Some(user) = call.inner.issued_tokens().get(token) {
        return Ok(json!({"authenticated": true, "user": user, "audiences": [AUDIENCE]}));
    }
    Ok(match call.inner.options.tokens.get(token) {
        Some(user) => {
            json!({"authenticated": true, "user": user_info(user), "audiences": [AUDIENCE]})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    })
}

fn check_attributes(call: &Call<'_>, object: &Value, with_subject: bool) -> Result<(), ApiError> {
    let spec = &object["spec"];
    let mut causes = Vec::new();
    let resource = !spec["resourceAttributes"].is_null();
    let path = !spec["nonResourceAttributes"].is_null();
    if resource == path {
        let detail = if resource {
            "cannot be specified in combination with resourceAttributes"
        } else {
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        };
        let field = if resource {
            "spec.nonResourceAttributes"
        } else {
            "spec"
        };
        causes.push(StatusCause::invalid(field, &Value::Null, detail));
    }
    if with_subject && spec["user"].is_null() && spec["groups"].is_null() {
        causes.push(StatusCause::invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        ));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_kind(
            call.resource().group,
            "",
            "",
            &causes,
        ))
    }
}

fn rules(call: &Call<'_>, object: &Value) -> Result<Value, ApiError> {
    if object["spec"]["namespace"].is_null() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let all_paths = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let own_rules = json!([
        {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ]);
    let mut resource_rules = own_rules.as_array().cloned().unwrap_or_default();
    let mut path_rules = vec![
        json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}),
        json!({"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"]}),
    ];
    if call.user.is_admin() {
        resource_rules.insert(0, everything);
        path_rules.push(all_paths);
    }
    Ok(
        json!({"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": false}),
    )
}

/// Handles `POST serviceaccounts/NAME/token`: issues a token that TokenReviews accept from then on.
pub(super) fn token_request(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let account = call.existing()?;
    let uid = account.value()["metadata"]["uid"].clone();
    let namespace = call.target.namespace.as_deref().unwrap_or_default();
    let name = call.target.name();
    let request: Value = serde_json::from_slice(call.body).unwrap_or_else(|_| json!({}));
    let seconds = request["spec"]["expirationSeconds"]
        .as_i64()
        .unwrap_or(3600);
    let expires =
        jiff::Timestamp::from_second(call.inner.now().as_second().saturating_add(seconds));
    let expires = expires
        .unwrap_or(call.inner.now())
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let token = format!("embedded-{}", uuid::Uuid::new_v4());
    let info = json!({
        "username": format!("system:serviceaccount:{namespace}:{name}"), "uid": uid,
        "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
    });
    call.inner.issued_tokens().insert(token.clone(), info);
    let answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": call.inner.now_text()},
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": seconds, "boundObjectRef": null},
        "status": {"token": token, "expirationTimestamp": expires},
    });
    Ok(respond(call.form, 201, to_bytes(&answer)))
}
