//! Callers cannot fill the log. Alone in its program, because what is logged is the program's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use embedded_apiserver::{ApiServer, Options};
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use serving::access::{Access, NoAccessMetrics, Reviewers};
use serving::options::{AuthenticationOptions, AuthorizationOptions};
use tower::ServiceExt as _;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts the lines that are logged at -v=0, and the number that they report as suppressed.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>, Arc<Mutex<Vec<u64>>>);

struct Suppressed<'a>(&'a Lines);

impl Visit for Suppressed<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "suppressed" {
            self.0.1.lock().push(value);
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("serving")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        event.record(&mut Suppressed(self));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn bad_tokens_make_one_log_line_a_second_and_the_rest_is_counted() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    let client = Client::new(
        ApiServer::with_options(Options::default()).service(),
        "default",
    );
    let reviewers = Reviewers {
        authentication: Some(client.clone()),
        authorization: Some(client),
    };
    let who = AuthenticationOptions::default();
    let what = AuthorizationOptions::default();
    let access = Access::new(who, what, reviewers, Arc::new(NoAccessMetrics)).unwrap();
    let router = access.guard(Router::new());
    let send = async || {
        let request = Request::get("/metrics")
            .header("authorization", "Bearer bad")
            .body(Body::empty())
            .unwrap();
        assert_eq!(router.clone().oneshot(request).await.unwrap().status(), 401);
    };
    for _ in 0..1000 {
        send().await;
    }
    assert_eq!(lines.0.load(Ordering::Relaxed), 10);
    tokio::time::advance(Duration::from_secs(10)).await;
    send().await;
    assert_eq!(lines.0.load(Ordering::Relaxed), 11);
    let suppressed = lines.1.lock();
    assert_eq!(suppressed.last(), Some(&990));
}
