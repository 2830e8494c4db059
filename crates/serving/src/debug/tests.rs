//! Rules: APP-102, APP-103, APP-108.

use super::*;
use crate::test_requests::{call, get, send};
use axum::body::Body;
use http::Request;
use std::sync::atomic::{AtomicI32, Ordering};

fn served() -> (Router, Arc<AtomicI32>) {
    let verbosity = Arc::new(AtomicI32::new(0));
    let set = Arc::clone(&verbosity);
    let routes = routes(Arc::new(move |v| match v {
        0..=10 => {
            set.store(v, Ordering::Relaxed);
            Ok(())
        }
        _ => Err("out of range".to_owned()),
    }));
    (routes, verbosity)
}

async fn put(routes: &Router, body: &'static str) -> (u16, String) {
    let answer = send(
        routes,
        Request::put("/debug/flags/v")
            .body(Body::from(body))
            .unwrap(),
    )
    .await;
    (answer.status.as_u16(), answer.body)
}

#[tokio::test]
async fn the_verbosity_is_put() {
    let (routes, verbosity) = served();
    assert_eq!(
        put(&routes, "4").await,
        (200, "successfully set klog.logging.verbosity to 4".into())
    );
    assert_eq!(verbosity.load(Ordering::Relaxed), 4);
    for (body, text) in [
        ("many", "\"many\" is no integer"),
        ("", "\"\" is no integer"),
        ("99", "out of range"),
    ] {
        assert_eq!(
            put(&routes, body).await,
            (
                400,
                format!("failed to set klog.logging.verbosity: {text}\n")
            )
        );
    }
    assert_eq!(verbosity.load(Ordering::Relaxed), 4);
    for method in ["GET", "POST", "DELETE"] {
        assert_eq!(
            call(&routes, method, "/debug/flags/v").await,
            (406, "unsupported http method\n".into())
        );
    }
    assert_eq!(get(&routes, "/debug/flags").await.0, 200);
}

#[tokio::test]
async fn profiles_of_go_programs_are_404_with_a_hint_and_the_command_line_without() {
    let (routes, _) = served();
    assert_eq!(
        get(&routes, "/debug/pprof/cmdline").await,
        (404, "Unknown profile\n".into())
    );
    for name in ["heap", "goroutine", "symbol", "trace"] {
        let (status, body) = get(&routes, &format!("/debug/pprof/{name}")).await;
        assert!(
            status == 404 && body.contains("/debug/pprof/profile"),
            "{name}: {body}"
        );
    }
    assert!(get(&routes, "/debug/pprof/").await.1.contains("profile"));
    let redirect = send(
        &routes,
        Request::get("/debug/pprof").body(Body::empty()).unwrap(),
    )
    .await;
    assert_eq!(
        (
            redirect.status.as_u16(),
            &redirect.headers[header::LOCATION]
        ),
        (302, &"/debug/pprof/".parse().unwrap())
    );
}

#[test]
fn the_length_of_a_profile_is_asked_for_in_seconds() {
    assert_eq!(
        (
            seconds(""),
            seconds("debug=1&seconds=5"),
            seconds("seconds=0")
        ),
        (Ok(30), Ok(5), Ok(30))
    );
    for wrong in ["seconds=x", "seconds=-1", "seconds=601"] {
        assert!(seconds(wrong).is_err(), "{wrong}");
    }
}
