//! Rules: APP-140 to APP-143.

use super::*;
use crate::test_requests::{Answer, send};
use http::header;
use parking_lot::Mutex;
use serde_json::json;

/// Handler that follows the request's object.
struct Scripted;

#[async_trait]
impl Handler for Scripted {
    async fn handle(&self, request: AdmissionRequest) -> Result<Value, String> {
        match request.object::<String>()?.as_deref() {
            Some("fail") => Err("the cloud is away".to_owned()),
            Some("panic") => panic!("a defect"),
            Some("nothing") => Ok(json!({})),
            Some("hang") => std::future::pending().await,
            _ => Ok(json!({"allowed": true, "uid": "a wrong one"})),
        }
    }
}

#[derive(Default)]
struct Counted(Mutex<Vec<(String, String)>>);

impl WebhookMetrics for Counted {
    fn called(&self, webhook: &str, code: &str, _time: Duration) {
        self.0.lock().push((webhook.into(), code.into()));
    }
}

impl Counted {
    fn codes(&self) -> Vec<String> {
        let calls = self.0.lock();
        assert!(calls.iter().all(|(webhook, _)| webhook == "scripted"));
        calls.iter().map(|(_, code)| code.clone()).collect()
    }
}

fn routes(limits: WebhookLimits) -> (Router, Arc<Counted>) {
    let metrics = Arc::new(Counted::default());
    let webhook = Webhook {
        name: "scripted".into(),
        path: "/admit".into(),
        handler: Arc::new(Scripted),
    };
    (
        router(
            [webhook],
            limits,
            Arc::clone(&metrics) as Arc<dyn WebhookMetrics>,
        ),
        metrics,
    )
}

fn post(content_type: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post("/admit")
        .header(header::CONTENT_TYPE, content_type)
        .body(body.into())
        .unwrap()
}

fn review(what: &str) -> String {
    let request = json!({"uid": "17", "object": what});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
}

async fn answer(request: Request<Body>) -> Answer {
    send(&routes(WebhookLimits::default()).0, request).await
}

#[tokio::test]
async fn the_answer_is_a_review_with_the_uid_of_the_request() {
    let answer = answer(post("application/json; charset=utf-8", review("allow"))).await;
    assert_eq!(
        (
            answer.status.as_u16(),
            &answer.headers[header::CONTENT_TYPE]
        ),
        (200, &"application/json".parse().unwrap())
    );
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let response = json!({"uid": "17", "allowed": true});
    assert_eq!(
        body,
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    );
}

#[tokio::test]
async fn body_that_is_no_review_is_400_with_the_reason() {
    let other = |pointer: &str, value: Value| {
        let mut body: Value = serde_json::from_str(&review("allow")).unwrap();
        *body.pointer_mut(pointer).unwrap() = value;
        body.to_string()
    };
    let table = [
        ("text/plain", review("allow"), "expected application/json"),
        ("application/json", "{".to_owned(), "the body is no JSON"),
        (
            "application/json",
            "[]".to_owned(),
            "not an AdmissionReview",
        ),
        (
            "application/json",
            other("/apiVersion", json!("admission.k8s.io/v1beta1")),
            "not an AdmissionReview",
        ),
        (
            "application/json",
            other("/kind", json!("Pod")),
            "not an AdmissionReview",
        ),
        (
            "application/json",
            other("/request", Value::Null),
            "no request with a uid",
        ),
        (
            "application/json",
            other("/request/uid", json!("")),
            "no request with a uid",
        ),
        (
            "application/json",
            other("/request/uid", json!(17)),
            "not an AdmissionReview",
        ),
        (
            "application/json",
            other("/request/uid", json!("x".repeat(2000))),
            "a name has 2000 bytes, more than 1024",
        ),
    ];
    for (content_type, body, text) in table {
        let answer = answer(post(content_type, body.clone())).await;
        assert_eq!(answer.status.as_u16(), 400, "{content_type} {body}");
        assert!(answer.body.contains(text), "{}", answer.body);
    }
}

#[test]
fn a_request_has_its_fields_and_objects_as_they_were_sent() {
    let request: AdmissionRequest = serde_json::from_value(json!({
        "uid": "17", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "operation": "UPDATE",
        "subResource": null, "name": "web", "namespace": "default", "dryRun": true,
        "object": {"a": 1}, "oldObject": null, "userInfo": {"username": "jane"}, "unknown": {},
    }))
    .unwrap();
    let kind = GroupVersionKind {
        group: "apps".into(),
        version: "v1".into(),
        kind: "Deployment".into(),
    };
    assert_eq!(
        (
            request.uid.as_str(),
            &request.kind,
            request.operation.as_str()
        ),
        ("17", &kind, "UPDATE")
    );
    assert_eq!(
        (
            request.name.as_str(),
            request.namespace.as_str(),
            request.sub_resource.as_str()
        ),
        ("web", "default", "")
    );
    assert_eq!(
        request.object.as_ref().map(|object| object.get()),
        Some(r#"{"a":1}"#)
    );
    assert!(request.old_object.is_none() && request.dry_run == Some(true));
    assert_eq!(request.object::<Value>(), Ok(Some(json!({"a": 1}))));
    assert!(
        request
            .object::<String>()
            .unwrap_err()
            .starts_with("cannot parse the object: ")
    );
}

#[tokio::test]
async fn a_handler_without_an_answer_is_500() {
    for (what, text) in [
        ("fail", "the cloud is away"),
        ("panic", "panicked"),
        ("nothing", "gave no response"),
    ] {
        let answer = answer(post("application/json", review(what))).await;
        assert_eq!(answer.status.as_u16(), 500, "{what}");
        assert!(answer.body.contains(text), "{}", answer.body);
    }
}

#[tokio::test]
async fn webhook_accepts_only_post_and_only_on_its_path() {
    assert_eq!(
        answer(Request::get("/admit").body(Body::empty()).unwrap())
            .await
            .status
            .as_u16(),
        405
    );
    assert_eq!(
        answer(Request::post("/").body(Body::empty()).unwrap())
            .await
            .status
            .as_u16(),
        404
    );
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413_and_names_the_limit() {
    let (routes, _) = routes(WebhookLimits {
        body: 100,
        ..WebhookLimits::default()
    });
    let body = " ".repeat(80) + &review("allow");
    let answer = send(&routes, post("application/json", body)).await;
    assert_eq!(answer.status.as_u16(), 413);
    assert_eq!(
        answer.body,
        "the body is larger than 100 bytes, the most that a webhook takes\n"
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_beyond_what_all_may_take_together_are_503() {
    let hanging = review("hang");
    let (routes, _) = routes(WebhookLimits {
        in_flight: hanging.len() + 10,
        ..WebhookLimits::default()
    });
    let first = tokio::spawn({
        let routes = routes.clone();
        let request = post("application/json", hanging);
        async move { send(&routes, request).await.status.as_u16() }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = send(&routes, post("application/json", review("allow"))).await;
    assert_eq!(second.status.as_u16(), 503, "{}", second.body);
    first.abort();
    assert!(first.await.is_err());
    assert_eq!(
        send(&routes, post("application/json", review("allow")))
            .await
            .status
            .as_u16(),
        200
    );
}

#[tokio::test]
async fn paths_that_others_choose_make_nothing_panic() {
    let webhook = |name: &str, path: &str| Webhook {
        name: name.into(),
        path: path.into(),
        handler: Arc::new(Scripted),
    };
    let all = [
        webhook("a", "admit"),
        webhook("b", "/admit"),
        webhook("c", "/{"),
        webhook("d", "/*x"),
        webhook("e", ""),
    ];
    let routes = router(all, WebhookLimits::default(), Arc::new(NoWebhookMetrics));
    assert_eq!(
        send(&routes, post("application/json", review("allow")))
            .await
            .status
            .as_u16(),
        200
    );
    let root = Request::post("/")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(review("allow")));
    assert_eq!(send(&routes, root.unwrap()).await.status.as_u16(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_408() {
    let (routes, _) = routes(WebhookLimits::default());
    let body = Body::from_stream(futures::stream::pending::<
        Result<bytes::Bytes, std::io::Error>,
    >());
    let answer = send(&routes, post("application/json", body)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.body.as_str()),
        (408, "the body was not there within 20 s\n")
    );
}

#[tokio::test(start_paused = true)]
async fn all_calls_are_counted_also_those_that_succeed_and_those_that_nobody_waited_for() {
    let (routes, counted) = routes(WebhookLimits::default());
    for what in ["allow", "fail", "panic"] {
        send(&routes, post("application/json", review(what))).await;
    }
    send(&routes, post("text/plain", "")).await;
    let gone = tokio::time::timeout(
        Duration::from_secs(1),
        send(&routes, post("application/json", review("hang"))),
    );
    assert!(gone.await.is_err());
    assert_eq!(counted.codes(), ["200", "500", "500", "400", "<error>"]);
}
