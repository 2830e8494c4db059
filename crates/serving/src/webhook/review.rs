//! Handling of an AdmissionReview, from the request to the response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::request::{AdmissionRequest, Review};
use super::{Webhook, WebhookLimits};
use crate::quote::shortened;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A request that is not answered with a review.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

fn refused(status: StatusCode, text: impl Into<String>) -> Refused {
    Refused {
        status,
        text: text.into(),
    }
}

pub(super) async fn answer(
    webhook: &Webhook,
    limits: &WebhookLimits,
    memory: &Arc<Semaphore>,
    request: Request<Body>,
) -> Result<Response, Refused> {
    if request.method() != Method::POST {
        return Err(refused(
            StatusCode::METHOD_NOT_ALLOWED,
            "an admission webhook takes POST requests only",
        ));
    }
    check_content_type(request.headers())?;
    // The permit is held until the answer is there: the handler has the object all this time.
    let (body, _held) = read(request.into_body(), limits, memory).await?;
    let admission = decode(&body)?;
    let uid = admission.uid.clone();
    drop(body);
    let panicked = |_| Err("the handler panicked; its log says more".to_owned());
    let handled = AssertUnwindSafe(async { webhook.handler.handle(admission).await })
        .catch_unwind()
        .await;
    let failed = |reason: String| refused(StatusCode::INTERNAL_SERVER_ERROR, reason);
    let mut response = handled.unwrap_or_else(panicked).map_err(failed)?;
    // An empty object is what a handler without an opinion returns; the API server would take it as a refusal.
    let Some(fields) = response.as_object_mut().filter(|fields| !fields.is_empty()) else {
        return Err(failed(format!("webhook {} gave no response", webhook.name)));
    };
    fields.insert("uid".to_owned(), Value::String(uid));
    let review = json!({"apiVersion": API_VERSION, "kind": KIND, "response": response});
    Ok((
        [(header::CONTENT_TYPE, "application/json")],
        review.to_string(),
    )
        .into_response())
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refused> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    // Parameters such as a charset are ignored.
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(refused(
        StatusCode::BAD_REQUEST,
        format!(
            "the Content-Type is {:?}, expected application/json",
            shortened(given)
        ),
    ))
}

/// Reads the body, and returns it with the permit for its memory.
async fn read(
    body: Body,
    limits: &WebhookLimits,
    memory: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refused> {
    match timeout(limits.body_read, collect(body, limits, memory)).await {
        Ok(collected) => collected,
        Err(_) => {
            let text = format!(
                "the body was not there within {} s",
                limits.body_read.as_secs()
            );
            Err(refused(StatusCode::REQUEST_TIMEOUT, text))
        }
    }
}

async fn collect(
    mut body: Body,
    limits: &WebhookLimits,
    memory: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refused> {
    let mut bytes = Vec::new();
    let mut held = None::<OwnedSemaphorePermit>;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            refused(
                StatusCode::BAD_REQUEST,
                format!("the body cannot be read: {error}"),
            )
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > limits.body {
            let text = format!(
                "the body is larger than {} bytes, the most that a webhook takes",
                limits.body
            );
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        let permit = u32::try_from(data.len())
            .ok()
            .and_then(|n| Arc::clone(memory).try_acquire_many_owned(n).ok());
        match (permit, &mut held) {
            (None, _) => {
                let text = "too many reviews in progress; retry later";
                return Err(refused(StatusCode::SERVICE_UNAVAILABLE, text));
            }
            (Some(more), Some(held)) => held.merge(more),
            (more, held) => *held = more,
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, held))
}

/// Decodes the request within the review.
fn decode(body: &[u8]) -> Result<AdmissionRequest, Refused> {
    let bad = |text: String| refused(StatusCode::BAD_REQUEST, text);
    let review: Review = serde_json::from_slice(body).map_err(|error| {
        bad(match error.is_data() {
            true => format!("the body is not an {KIND} of {API_VERSION}: {error}"),
            false => format!("the body is no JSON: {error}"),
        })
    })?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(bad(format!("the body is not an {KIND} of {API_VERSION}")));
    }
    let request = review.request.filter(|request| !request.uid.is_empty());
    request.ok_or_else(|| bad(format!("the {KIND} has no request with a uid")))
}
