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
        self.0
            .sign_at(request, at(self.1.fetch_add(1, Ordering::SeqCst)))
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
    let credentials = AwsCredentials {
        access_key: "AKIDEXAMPLE".into(),
        secret_key: SECRET.into(),
        session_token: None,
    };
    SigV4 {
        credentials,
        region: "us-east-1".into(),
        service: "service".into(),
    }
}

/// Signs a received request as the cloud does to compare the signatures.
async fn expected(answered: Request<axum::body::Body>, second: i64) -> (String, String) {
    let (mut parts, body) = answered.into_parts();
    let received = parts
        .headers
        .remove(http::header::AUTHORIZATION)
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let host = parts.headers["host"].to_str().unwrap().to_owned();
    let body = body.collect().await.unwrap().to_bytes();
    let mut request = Request::builder()
        .method(parts.method)
        .uri(format!("http://{host}{}", parts.uri.path()));
    for (name, value) in parts
        .headers
        .iter()
        .filter(|(name, _)| *name != "host" && *name != "x-amz-date")
    {
        request = request.header(name, value);
    }
    let mut request = request.body(body).unwrap();
    signer().sign_at(&mut request, at(second)).unwrap();
    (
        received,
        request.headers()[http::header::AUTHORIZATION]
            .to_str()
            .unwrap()
            .to_owned(),
    )
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
            if attempt < 2 {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::OK
            }
        }
    });
    let transport = client(router)
        .signer(Arc::new(Ticking(signer(), AtomicI64::new(0))))
        .build()
        .unwrap();
    let call = Call::post("/things", &[])
        .json(&json!({"name": "web"}))
        .repeatable();
    transport.send(call).await.unwrap();
    let received = received.lock().await;
    assert_eq!(received.len(), 3);
    for (received, expected) in received.iter() {
        assert_eq!(received, expected);
    }
    assert!(
        received.windows(2).all(|pair| pair[0].0 != pair[1].0),
        "each attempt has a date of its own"
    );
}

#[tokio::test(start_paused = true)]
async fn a_signing_secret_that_the_cloud_repeats_is_shown_in_no_error() {
    let (router, _) = scripted(|_, _| {
        let body = json!({"error": {"code": "SignatureDoesNotMatch", "message": format!("the key is {SECRET}")}});
        Response::builder()
            .status(403)
            .body(axum::body::Body::from(body.to_string()))
            .unwrap()
    });
    let transport = client(router).signer(Arc::new(signer())).build().unwrap();
    let err = transport
        .send(Call::get("/things", &[]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        err.contains("the key is [redacted]") && !err.contains(SECRET),
        "{err}"
    );
}

/// A signer whose first signature is refused by the cloud, and that then has another one.
struct Renewed(AtomicI64);

#[async_trait]
impl Signer for Renewed {
    async fn sign(&self, request: &mut Request<Bytes>, _now: Timestamp) -> Result<()> {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        request
            .headers_mut()
            .insert("x-signature", HeaderValue::from(number));
        Ok(())
    }

    async fn refused(
        &self,
        request: &HeaderMap,
        refusal: &Refusal,
        answer: &HeaderMap,
    ) -> Result<bool> {
        assert!(answer.contains_key("date") && refusal.code == "ExpiredToken");
        Ok(request["x-signature"] == "0")
    }

    fn redact(&self, text: String) -> String {
        text
    }
}

#[tokio::test(start_paused = true)]
async fn refused_request_is_signed_again_once_if_the_signer_has_another_signature() {
    for (accepted, expected) in [("1", 2), ("never", 2)] {
        let (router, sent) = scripted(move |_, headers| {
            let status = if headers["x-signature"] == accepted {
                200
            } else {
                403
            };
            let body = json!({"error": {"code": "ExpiredToken", "message": "no"}}).to_string();
            Response::builder()
                .status(status)
                .header("date", "now")
                .body(axum::body::Body::from(body))
                .unwrap()
        });
        let transport = client(router)
            .signer(Arc::new(Renewed(AtomicI64::new(0))))
            .build()
            .unwrap();
        let answer = transport.send(Call::post("/things", &[])).await;
        assert_eq!(
            (answer.is_ok(), sent.load(Ordering::SeqCst)),
            (accepted == "1", expected)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn form_is_sent_in_the_body_to_the_place_that_the_session_says() {
    let router = axum::Router::new().fallback(|request: Request<axum::body::Body>| async move {
        let uri = request.uri().to_string();
        let kind = request.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        let identified = request.headers().contains_key("authorization");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        axum::Json(json!([
            uri,
            kind,
            identified,
            String::from_utf8(body.to_vec()).unwrap()
        ]))
    });
    let call = Call::post("/", &[])
        .form()
        .query("Action", "Describe")
        .query("Filter.1", "a b&c");
    let transport = Transport::of_session(Arc::new(Elsewhere))
        .service(router)
        .build()
        .unwrap();
    let seen: serde_json::Value = transport.read(call).await.unwrap();
    let kind = "application/x-www-form-urlencoded; charset=utf-8";
    assert_eq!(
        seen,
        json!([
            "http://elsewhere/",
            kind,
            false,
            "Action=Describe&Filter.1=a+b%26c"
        ])
    );
}

struct Elsewhere;

#[async_trait]
impl Session for Elsewhere {
    async fn access(&self) -> Result<Arc<Access>> {
        Access::signed("http://elsewhere/").map(Arc::new)
    }

    async fn renewed(&self, _refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        Ok(None)
    }
}
