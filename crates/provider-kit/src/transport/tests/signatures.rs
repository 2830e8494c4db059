//! Signed requests: each attempt has its own signature over the same body.

use std::sync::atomic::AtomicI64;

use cloud_provider::async_trait;
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use crate::signing::{AwsCredentials, SigV4, Signer};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// A signer for which a second passes with each attempt.
struct Ticking(SigV4, AtomicI64);

#[async_trait]
impl Signer for Ticking {
    async fn sign(&self, request: &mut Request<Bytes>, _now: Timestamp) -> Result<()> {
        self.0.sign_at(request, at(self.1.fetch_add(1, Ordering::SeqCst)))
    }

    fn redact(&self, text: String) -> String {
        self.0.redact(text)
    }
}

fn at(second: i64) -> Timestamp {
    let start: Timestamp = "2015-08-30T12:36:00Z".parse().unwrap();
    start + SignedDuration::from_secs(second)
}

fn signer() -> SigV4 {
    let credentials =
        AwsCredentials { access_key: "AKIDEXAMPLE".into(), secret_key: SECRET.into(), session_token: None };
    SigV4 { credentials, region: "us-east-1".into(), service: "service".into() }
}

/// Signs a received request as the cloud does to compare the signatures.
async fn expected(answered: Request<axum::body::Body>, second: i64) -> (String, String) {
    let (mut parts, body) = answered.into_parts();
    let received = parts.headers.remove(http::header::AUTHORIZATION).unwrap().to_str().unwrap().to_owned();
    let host = parts.headers["host"].to_str().unwrap().to_owned();
    let body = body.collect().await.unwrap().to_bytes();
    let mut request = Request::builder().method(parts.method).uri(format!("http://{host}{}", parts.uri.path()));
    for (name, value) in parts.headers.iter().filter(|(name, _)| *name != "host" && *name != "x-amz-date") {
        request = request.header(name, value);
    }
    let mut request = request.body(body).unwrap();
    signer().sign_at(&mut request, at(second)).unwrap();
    (received, request.headers()[http::header::AUTHORIZATION].to_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_is_signed_again_over_the_same_body() {
    let received = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&received);
    let router = axum::Router::new().fallback(move |request: Request<axum::body::Body>| {
        let log = Arc::clone(&log);
        async move {
            let mut log = log.lock().await;
            let attempt = i64::try_from(log.len()).unwrap();
            log.push(expected(request, attempt).await);
            if attempt < 2 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
        }
    });
    let transport = client(router).signer(Arc::new(Ticking(signer(), AtomicI64::new(0)))).build().unwrap();
    let call = Call::post("/things", &[]).json(&json!({"name": "web"})).repeatable();
    transport.send(call).await.unwrap();
    let received = received.lock().await;
    assert_eq!(received.len(), 3);
    for (received, expected) in received.iter() {
        assert_eq!(received, expected);
    }
    assert!(received.windows(2).all(|pair| pair[0].0 != pair[1].0), "each attempt has a date of its own");
}

#[tokio::test(start_paused = true)]
async fn a_signing_secret_that_the_cloud_repeats_is_shown_in_no_error() {
    let (router, _) = scripted(|_, _| {
        let body = json!({"error": {"code": "SignatureDoesNotMatch", "message": format!("the key is {SECRET}")}});
        Response::builder().status(403).body(axum::body::Body::from(body.to_string())).unwrap()
    });
    let transport = client(router).signer(Arc::new(signer())).build().unwrap();
    let err = transport.send(Call::get("/things", &[])).await.unwrap_err().to_string();
    assert!(err.contains("the key is [redacted]") && !err.contains(SECRET), "{err}");
}
