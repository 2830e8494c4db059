//! No token in any log line (INV-5). Alone in its program, because what is logged is the program's.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use embedded_apiserver::{Action, ApiServer, Matcher, Options, User};
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use serving::access::{Access, NoAccessMetrics, Reviewers};
use serving::options::{AuthenticationOptions, AuthorizationOptions};
use tower::ServiceExt as _;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Notes all fields of all events and spans.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<String>>);

impl Logged {
    fn text(&self) -> String {
        self.0.lock().clone()
    }

    fn note(&self, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(String::new());
        record(&mut fields);
        let mut text = self.0.lock();
        text.push_str(&fields.0);
        text.push('\n');
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Logged {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.note(|fields| attributes.record(fields));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note(|fields| values.record(fields));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.note(|fields| event.record(fields));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

async fn call(router: &Router, token: &str) -> u16 {
    let request = Request::get("/metrics")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty());
    router
        .clone()
        .oneshot(request.expect("a request"))
        .await
        .expect("an answer")
        .status()
        .as_u16()
}

#[tokio::test]
async fn no_token_is_ever_logged() {
    let logged = Logged::default();
    tracing::subscriber::set_global_default(logged.clone()).unwrap();
    let weak = User {
        name: "weak".into(),
        groups: vec!["ops".into()],
    };
    let tokens = [
        ("good-token".to_owned(), User::admin()),
        ("weak-token".to_owned(), weak),
    ]
    .into();
    let api = ApiServer::with_options(Options {
        tokens,
        ..Options::default()
    });
    let client = Client::new(api.service(), "default");
    let reviewers = Reviewers {
        authentication: Some(client.clone()),
        authorization: Some(client),
    };
    let who = AuthenticationOptions::default();
    let what = AuthorizationOptions::default();
    let access = Access::new(who, what, reviewers, Arc::new(NoAccessMetrics)).unwrap();
    let router = access.guard(Router::new().fallback(serving::not_found));
    for (token, status) in [("good-token", 404), ("weak-token", 403), ("bad-token", 401)] {
        assert_eq!(call(&router, token).await, status, "{token}");
    }
    let reason = "Forbidden".to_owned();
    let message = "no".to_owned();
    let refused = Action::Status {
        code: 403,
        reason,
        message,
        retry_after_seconds: None,
    };
    api.faults()
        .add(Matcher::any().resource("tokenreviews"), refused);
    for token in ["other-token", "another-token"] {
        assert_eq!(call(&router, token).await, 401, "{token}");
    }
    let text = logged.text();
    assert!(text.contains("invalid bearer token"), "{text}");
    assert_eq!(
        text.matches("bind ClusterRole system:auth-delegator")
            .count(),
        1,
        "the hint comes once: {text}"
    );
    assert!(!text.contains("-token"), "{text}");
}
