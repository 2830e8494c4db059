//! Rules: APP-95 to APP-98, APP-104, D-172.

use super::*;
use crate::test_requests::{call, get, send};
use axum::body::Body;
use http::{Request, header};
use std::sync::atomic::{AtomicBool, Ordering};

/// Creates a check that is well while the flag is set.
fn switch(is_healthy: &Arc<AtomicBool>) -> Arc<dyn Check> {
    let is_healthy = Arc::clone(is_healthy);
    Arc::new(move || {
        if is_healthy.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err("the secret reason".to_owned())
        }
    })
}

fn electing() -> (Health, Arc<AtomicBool>) {
    let health = Health::new();
    let is_healthy = Arc::new(AtomicBool::new(true));
    health.add("leaderElection", switch(&is_healthy));
    health.add("cloud-node-controller", Arc::new(AlwaysHealthy));
    (health, is_healthy)
}

#[tokio::test]
async fn a_process_without_checks_answers_ok_to_any_method() {
    let routes = Health::new().routes();
    for method in ["GET", "POST", "PUT"] {
        assert_eq!(call(&routes, method, "/healthz").await, (200, "ok".into()));
    }
    let answer = send(
        &routes,
        Request::get("/healthz").body(Body::empty()).unwrap(),
    )
    .await;
    assert_eq!(
        answer.headers[header::CONTENT_TYPE],
        "text/plain; charset=utf-8"
    );
    assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert_eq!(
        get(&routes, "/healthz?verbose").await.1,
        "[+]ping ok\nhealthz check passed\n"
    );
}

#[tokio::test]
async fn verbose_lists_the_checks_in_the_order_in_which_they_were_added() {
    let (health, _) = electing();
    health.add("leaderElection", Arc::new(AlwaysHealthy));
    let expected = "[+]leaderElection ok\n[+]cloud-node-controller ok\nhealthz check passed\n";
    assert_eq!(
        get(&health.routes(), "/healthz?verbose").await,
        (200, expected.into()),
        "replaced where it stands"
    );
    assert!(
        get(&health.routes(), "/healthz?verbose=true")
            .await
            .1
            .ends_with("passed\n")
    );
}

#[tokio::test]
async fn a_failing_check_is_500_and_its_reason_withheld() {
    let (health, is_healthy) = electing();
    is_healthy.store(false, Ordering::Relaxed);
    let expected =
        "[-]leaderElection failed: reason withheld\n[+]cloud-node-controller ok\nhealthz check failed\n".to_owned();
    assert_eq!(get(&health.routes(), "/healthz").await, (500, expected));
    let one = get(&health.routes(), "/healthz/leaderElection").await;
    assert_eq!(
        one,
        (500, "[-]leaderElection failed: reason withheld\n".into())
    );
}

#[tokio::test]
async fn an_excluded_check_is_not_asked_and_an_unknown_one_is_said() {
    let (health, is_healthy) = electing();
    is_healthy.store(false, Ordering::Relaxed);
    let routes = health.routes();
    assert_eq!(
        get(&routes, "/healthz?exclude=leaderElection").await,
        (200, "ok".into())
    );
    let text = get(
        &routes,
        "/healthz?verbose&exclude=%6CeaderElection&exclude=b&exclude=a&exclude=b",
    )
    .await
    .1;
    let expected = "[+]leaderElection excluded: ok\n[+]cloud-node-controller ok\n\
                    warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nhealthz check passed\n";
    assert_eq!(text, expected);
    assert_eq!(health.slis().len(), 1, "what was excluded is not counted");
}

#[tokio::test]
async fn one_check_has_a_path_of_its_own() {
    let (health, _) = electing();
    let routes = health.routes().fallback(crate::not_found);
    assert_eq!(
        get(&routes, "/healthz/leaderElection").await,
        (200, "ok".into())
    );
    assert_eq!(
        get(&routes, "/livez/cloud-node-controller").await,
        (200, "ok".into())
    );
    for path in ["/healthz/ping", "/healthz/", "/healthz/a/b", "/"] {
        assert_eq!(get(&routes, path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn readiness_is_health_and_more() {
    let (health, _) = electing();
    let ready = Arc::new(AtomicBool::new(false));
    health.add_readiness("provider", switch(&ready));
    let routes = health.routes();
    assert_eq!(get(&routes, "/livez").await, (200, "ok".into()));
    let expected = "[+]leaderElection ok\n[+]cloud-node-controller ok\n[-]provider failed: reason withheld\n\
                    readyz check failed\n";
    assert_eq!(get(&routes, "/readyz").await, (503, expected.into()));
    ready.store(true, Ordering::Relaxed);
    assert_eq!(get(&routes, "/readyz").await, (200, "ok".into()));
}

#[tokio::test(start_paused = true)]
async fn a_failing_check_is_logged_once_in_a_while_however_often_it_is_asked() {
    let health = Health::new();
    let due = |name, probe| health.may_log(probe, name);
    assert_eq!(
        (due("a", Probe::Healthz), due("a", Probe::Healthz)),
        (true, false)
    );
    assert!(
        due("a", Probe::Readyz) && due("b", Probe::Healthz),
        "each by itself"
    );
    tokio::time::sleep(LOG_INTERVAL).await;
    assert!(due("a", Probe::Healthz));
}

#[tokio::test]
async fn results_are_counted_by_check_and_probe_until_they_are_reset() {
    let (health, is_healthy) = electing();
    let routes = health.routes();
    get(&routes, "/healthz").await;
    is_healthy.store(false, Ordering::Relaxed);
    get(&routes, "/healthz").await;
    get(&routes, "/healthz/leaderElection").await;
    get(&routes, "/readyz").await;
    let slis = health.slis();
    let of = |name: &str, probe| {
        slis.iter()
            .find(|sli| sli.name == name && sli.probe == probe)
            .cloned()
    };
    let leader = of("leaderElection", Probe::Healthz).unwrap();
    assert_eq!(
        (leader.is_healthy, leader.successes, leader.errors),
        (false, 1, 2)
    );
    let node = of("cloud-node-controller", Probe::Healthz).unwrap();
    assert_eq!((node.is_healthy, node.successes, node.errors), (true, 2, 0));
    assert_eq!(of("leaderElection", Probe::Readyz).unwrap().errors, 1);
    health.reset_slis();
    assert!(health.slis().is_empty());
}
