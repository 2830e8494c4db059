use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::any;
use cloud_provider::Error;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;

use super::*;

mod credentials;
mod dump;
mod limits;
mod refusals;
mod sessions;
mod signatures;
mod sizes;

/// Returns a service that answers with the result of `script` for each request, counted from 1.
fn scripted<R: IntoResponse>(
    script: impl Fn(usize, &HeaderMap) -> R + Clone + Send + Sync + 'static,
) -> (Router, Sent) {
    let sent = Sent::default();
    let counter = Arc::clone(&sent);
    let answer = move |headers: HeaderMap| async move {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        script(number, &headers).into_response()
    };
    (Router::new().fallback(any(answer)), sent)
}

type Sent = Arc<AtomicUsize>;

fn client(router: Router) -> Builder {
    Transport::builder("http://cloud").service(router)
}

const SLOW_DOWN: StatusCode = StatusCode::TOO_MANY_REQUESTS;
const GET: fn() -> Call = || Call::get("/things/{id}", &["7"]);
const POST: fn() -> Call = || Call::post("/things", &[]);

#[tokio::test(start_paused = true)]
async fn pause_of_a_429_holds_for_every_clone() {
    let (router, sent) = scripted(|n, _| {
        if n == 1 {
            (SLOW_DOWN, [("retry-after", "3")]).into_response()
        } else {
            "".into_response()
        }
    });
    let client = client(router).build().unwrap();
    let began = Instant::now();
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.send(POST()).await.map(|_| began.elapsed())
    };
    let (first, second) = tokio::join!(client.send(POST()), other);
    first.unwrap();
    assert!(
        second.unwrap() >= Duration::from_secs(3),
        "the second call was deferred"
    );
    assert!(began.elapsed() < Duration::from_secs(4));
    assert_eq!(sent.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn long_pause_is_returned_to_the_caller_and_nothing_is_sent() {
    let (router, sent) = scripted(|_, _| (SLOW_DOWN, [("ratelimit-reset", "120")]));
    let client = client(router).build().unwrap();
    for _ in 0..3 {
        let err = client.send(GET()).await.unwrap_err();
        assert!(err.is_rate_limited());
        assert!(
            err.retry_after().unwrap() > Duration::from_secs(119),
            "{err:?}"
        );
    }
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_request_of_a_window_is_followed_by_a_pause() {
    let (router, _) = scripted(|_, _| [("ratelimit-remaining", "0"), ("ratelimit-reset", "5")]);
    let client = client(router).build().unwrap();
    let began = Instant::now();
    client.send(GET()).await.unwrap();
    assert!(began.elapsed().is_zero());
    client.send(GET()).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn only_repeatable_calls_are_retried_a_limited_number_of_times() {
    let table = [
        (GET(), 4),
        (POST(), 1),
        (POST().repeatable(), 4),
        (Call::delete("/things/{id}", &["7"]), 4),
    ];
    for (call, tries) in table {
        let (router, sent) = scripted(|_, _| StatusCode::BAD_GATEWAY);
        let err = client(router)
            .build()
            .unwrap()
            .send(call.clone())
            .await
            .unwrap_err();
        assert_eq!(sent.load(Ordering::SeqCst), tries, "{call:?}");
        assert!(err.to_string().ends_with("answered 502"), "{err}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_in_bounded_time() {
    let stuck = Router::new().fallback(any(std::future::pending::<()>));
    let began = Instant::now();
    let err = client(stuck)
        .build()
        .unwrap()
        .send(GET())
        .await
        .unwrap_err();
    assert_eq!(
        err.to_string(),
        "GET /things/7 was not answered: no answer within 30s"
    );
    assert!(
        began.elapsed() <= Duration::from_secs(90),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn each_refusal_becomes_an_error_of_its_kind() {
    let own = r#"{"error":{"code":"x","message":"because"}}"#;
    type Says = fn(&Error) -> bool;
    let table: [(u16, &'static str, Says); 11] = [
        (401, own, Error::is_unauthorized),
        (403, own, Error::is_unauthorized),
        (404, own, Error::is_not_found),
        (409, own, Error::is_conflict),
        (423, own, Error::is_conflict),
        (422, own, Error::is_invalid),
        (400, own, Error::is_invalid),
        (
            404,
            r#"{"errors":[{"reason":"Not found"}]}"#,
            Error::is_not_found,
        ),
        (404, r#"{"message":"no Route matched"}"#, |err| {
            !err.is_not_found()
        }),
        (404, "<html>no such page</html>", |err| !err.is_not_found()),
        (410, "", |err| !err.is_not_found()),
    ];
    for (status, body, expected) in table {
        let (router, _) = scripted(move |_, _| (StatusCode::from_u16(status).unwrap(), body));
        let err = client(router)
            .build()
            .unwrap()
            .send(GET())
            .await
            .unwrap_err();
        assert!(expected(&err), "{err:?}");
        assert!(
            err.to_string()
                .starts_with(&format!("GET /things/7 answered {status}")),
            "{err}"
        );
        assert!(
            body != own || err.to_string().ends_with(": because"),
            "{err}"
        );
    }
}

#[test]
fn the_usual_shapes_of_a_refusal_are_read() {
    let table = [
        (
            r#"{"error":{"code":"not_found","message":"no"}}"#,
            "not_found",
            "no",
        ),
        (r#"{"id":"not_found","message":"no"}"#, "not_found", "no"),
        (
            r#"{"errors":[{"reason":"Not found"}]}"#,
            Refusal::UNSPECIFIED,
            "Not found",
        ),
        (
            r#"{"errors":[{"field":"label","reason":"is too long"},{"reason":"no"}]}"#,
            Refusal::UNSPECIFIED,
            "label: is too long; no",
        ),
        (r#"{"error":"no","status":404}"#, Refusal::UNSPECIFIED, "no"),
        (
            r#"{"message":"no Route matched with those values"}"#,
            "",
            "no Route matched with those values",
        ),
    ];
    for (body, code, message) in table {
        let expected = Refusal {
            code: code.into(),
            message: message.into(),
            details: Vec::new(),
        };
        assert_eq!(
            Refusal::read(&HeaderMap::new(), body.as_bytes()),
            Some(expected),
            "{body}"
        );
    }
    assert_eq!(Refusal::read(&HeaderMap::new(), b"[1]"), None);
}

#[tokio::test]
async fn a_token_that_the_cloud_repeats_reaches_no_error() {
    let echo = |_: usize, headers: &HeaderMap| {
        (
            StatusCode::FORBIDDEN,
            headers["authorization"].to_str().unwrap().to_owned(),
        )
    };
    let (router, _) = scripted(echo);
    let client = client(router)
        .credential(Credential::token("s3cret"))
        .build()
        .unwrap();
    let err = client.send(GET()).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        "GET /things/7 answered 403: Bearer [redacted]"
    );
    assert!(!format!("{client:?} {err:?}").contains("s3cret"));
}

#[tokio::test]
async fn half_of_a_token_reaches_no_error_where_a_text_is_cut() {
    let echo = |_: usize, headers: &HeaderMap| {
        let token = headers["authorization"].to_str().unwrap();
        (
            StatusCode::BAD_REQUEST,
            format!("<html>{}  {token}</html>", "x".repeat(150)),
        )
    };
    let (router, _) = scripted(echo);
    let cloud = client(router)
        .credential(Credential::token("s3cret".repeat(30)))
        .build()
        .unwrap();
    let err = cloud.send(GET()).await.unwrap_err().to_string();
    assert!(err.ends_with("x Bearer [redacted]</html>"), "{err}");
    let (long, _) = scripted(|_, _| (StatusCode::BAD_REQUEST, "é".repeat(70_000)));
    let err = client(long)
        .build()
        .unwrap()
        .send(GET())
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(err.chars().filter(|c| *c == 'é').count(), 200);
}

#[tokio::test]
async fn refused_token_is_read_again_even_from_an_unchanged_file() {
    let file = std::env::temp_dir().join(format!("provider-kit-reload-{}", std::process::id()));
    std::fs::write(&file, "old").unwrap();
    let time = std::fs::metadata(&file).unwrap().modified().unwrap();
    let valid = |_: usize, headers: &HeaderMap| {
        if headers["authorization"] == "Bearer new" {
            StatusCode::OK
        } else {
            StatusCode::UNAUTHORIZED
        }
    };
    let (router, sent) = scripted(valid);
    let client = client(router)
        .credential(Credential::file(&file).unwrap())
        .build()
        .unwrap();
    assert!(client.send(POST()).await.unwrap_err().is_unauthorized());
    assert_eq!(
        sent.load(Ordering::SeqCst),
        1,
        "the same token is not tried twice"
    );
    std::fs::write(&file, "new").unwrap();
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(time)
        .unwrap();
    client.send(POST()).await.unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), 3);
    std::fs::remove_file(&file).unwrap();
}

#[derive(Default)]
struct Seen(Mutex<Vec<(String, Option<u16>)>>);

impl CloudMetrics for Seen {
    fn finished(&self, route: &str, status: Option<u16>, _took: Duration) {
        self.0.lock().push((route.to_owned(), status));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_every_attempt_by_route_template() {
    let (router, _) = scripted(|n, _| {
        if n == 1 {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::OK
        }
    });
    let seen = Arc::new(Seen::default());
    client(router)
        .metrics(Arc::clone(&seen) as Arc<dyn CloudMetrics>)
        .build()
        .unwrap()
        .send(GET())
        .await
        .unwrap();
    let route = || "GET /things/{id}".to_owned();
    assert_eq!(*seen.0.lock(), [(route(), Some(503)), (route(), Some(200))]);
}

#[tokio::test(start_paused = true)]
async fn metrics_report_the_remaining_requests_of_every_answer() {
    #[derive(Default)]
    struct Left(Mutex<Vec<u64>>);
    impl CloudMetrics for Left {
        fn remaining(&self, requests: u64) {
            self.0.lock().push(requests);
        }
    }
    let (router, _) = scripted(|n, _| match n {
        1 => (
            StatusCode::SERVICE_UNAVAILABLE,
            [("ratelimit-remaining", "42")],
        ),
        _ => (StatusCode::OK, [("x-ratelimit-remaining", "41")]),
    });
    let left = Arc::new(Left::default());
    client(router)
        .metrics(Arc::clone(&left) as Arc<dyn CloudMetrics>)
        .build()
        .unwrap()
        .send(GET())
        .await
        .unwrap();
    assert_eq!(*left.0.lock(), [42, 41]);
}

#[tokio::test(start_paused = true)]
async fn inv_4_a_closed_fence_stops_changes_and_their_retries() {
    let (router, sent) = scripted(|_, _| StatusCode::SERVICE_UNAVAILABLE);
    let counter = Arc::clone(&sent);
    // The fence closes as soon as one request has been sent.
    let fence = Fence::new(move || counter.load(Ordering::SeqCst) == 0);
    let client = client(router).fence(fence).build().unwrap();
    let delete = || Call::delete("/things/{id}", &["7"]);
    let err = client.send(delete()).await.unwrap_err();
    assert_eq!(
        sent.load(Ordering::SeqCst),
        1,
        "the second attempt was not sent"
    );
    assert!(err.to_string().contains("does not hold the lease"), "{err}");
    client.send(POST()).await.unwrap_err();
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    client.send(GET()).await.unwrap_err();
    assert!(sent.load(Ordering::SeqCst) > 1, "reading is allowed");
}

#[tokio::test]
async fn plain_http_needs_no_tls_provider() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let (router, _) = scripted(|_, _| "[7]");
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let client = Transport::builder(base).build().unwrap();
    assert_eq!(client.read::<Vec<u8>>(GET()).await.unwrap(), [7]);
    assert!(
        client
            .read::<String>(GET())
            .await
            .unwrap_err()
            .to_string()
            .contains("unexpected body")
    );
    server.abort();
    let err = Transport::builder("https://cloud.example")
        .build()
        .unwrap_err();
    assert!(err.to_string().contains("no TLS crypto provider"), "{err}");
}

#[test]
fn an_endpoint_that_is_no_url_is_refused_without_showing_it() {
    for base in [
        "",
        "cloud.example",
        "ftp://cloud",
        "http://",
        "user:s3cret@cloud",
    ] {
        let err = Transport::builder(base).build().unwrap_err();
        assert!(
            err.is_invalid() && !err.to_string().contains("s3cret"),
            "{err}"
        );
    }
}

#[test]
fn base_url_is_shown_without_user_and_password() {
    for base in ["http://cloud/v1", "http://user:s3@cret@cloud/v1"] {
        let (router, _) = scripted(|_, _| StatusCode::OK);
        let client = Transport::builder(base).service(router).build();
        assert_eq!(
            client.map_or_else(|err| err.to_string(), |client| client.base()),
            "http://cloud/v1",
            "{base}"
        );
    }
}

/// Returns a fence, and the flag that opens and closes it.
fn fence(open: bool) -> (Fence, Arc<AtomicBool>) {
    let leads = Arc::new(AtomicBool::new(open));
    let asked = Arc::clone(&leads);
    (Fence::new(move || asked.load(Ordering::SeqCst)), leads)
}

#[tokio::test(start_paused = true)]
async fn closed_fence_allows_reads_only() {
    let (router, sent) = scripted(|_, _| StatusCode::OK);
    let (closed, _) = fence(false);
    let seen = Arc::new(Seen::default());
    let metrics = Arc::clone(&seen) as Arc<dyn CloudMetrics>;
    let client = client(router)
        .fence(closed)
        .metrics(metrics)
        .build()
        .unwrap();
    for call in [
        POST(),
        Call::put("/things", &[]),
        Call::delete("/things", &[]),
        POST().repeatable(),
    ] {
        let err = client.send(call).await.unwrap_err().to_string();
        assert!(
            err.contains("/things: ") && err.contains("does not hold the lease"),
            "{err}"
        );
    }
    assert!(sent.load(Ordering::SeqCst) == 0 && seen.0.lock().is_empty());
    client.send(GET()).await.unwrap();
    client.send(POST().reading()).await.unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_closes_before_the_next_try_or_during_a_pause_stops_it() {
    let table = [(StatusCode::SERVICE_UNAVAILABLE, ""), (SLOW_DOWN, "3")];
    for (status, pause) in table {
        let (open, leads) = fence(true);
        let lost = move |_: usize, _: &HeaderMap| {
            leads.store(false, Ordering::SeqCst);
            (status, [("retry-after", pause)])
        };
        let (router, sent) = scripted(lost);
        let err = client(router)
            .fence(open)
            .build()
            .unwrap()
            .send(POST().repeatable())
            .await
            .unwrap_err();
        assert!(err.to_string().contains("does not hold the lease"), "{err}");
        assert_eq!(sent.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn fence_that_closes_during_a_connect_stops_the_request() {
    let sent = Sent::default();
    let counter = Arc::clone(&sent);
    let slow = tower::service_fn(move |_: Request<http_body_util::Full<Bytes>>| {
        let counter = Arc::clone(&counter);
        async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            counter.fetch_add(1, Ordering::SeqCst);
            Ok::<_, std::convert::Infallible>(Response::new(
                http_body_util::Full::<Bytes>::default(),
            ))
        }
    });
    let (open, leads) = fence(true);
    let client = Transport::builder("http://cloud")
        .service(slow)
        .fence(open)
        .build()
        .unwrap();
    let closing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        leads.store(false, Ordering::SeqCst);
    };
    let (written, read, ()) = tokio::join!(client.send(POST()), client.send(GET()), closing);
    assert!(
        written.is_err() && read.is_ok() && sent.load(Ordering::SeqCst) == 1,
        "only the read got through"
    );
}
