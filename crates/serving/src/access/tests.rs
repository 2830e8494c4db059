//! Rules: APP-106, APP-120 to APP-127.

use super::*;
use crate::issuing::{Authority, Issued};
use crate::options::RequestHeaderOptions;
use crate::server::Peer;
use crate::test_requests::{Answer, send};
use axum::body::Body;
use axum::routing::any;
use embedded_apiserver::{Action, ApiServer, Matcher, Options, User as ApiUser};
use http::{Request, StatusCode};
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const GOOD: &str = "good-token";
const WEAK: &str = "weak-token";

/// Returns an API server that knows an administrator's token and one of a user without permissions.
fn api() -> ApiServer {
    let weak = ApiUser {
        name: "weak".into(),
        groups: vec!["ops".into()],
    };
    let tokens = [(GOOD.to_owned(), ApiUser::admin()), (WEAK.to_owned(), weak)].into();
    ApiServer::with_options(Options {
        tokens,
        ..Options::default()
    })
}

#[derive(Default)]
struct RecordedMetrics(Mutex<BTreeMap<String, i64>>);

impl RecordedMetrics {
    fn add(&self, what: String, change: i64) {
        *self.0.lock().entry(what).or_default() += change;
    }

    fn of(&self, what: &str) -> i64 {
        self.0.lock().get(what).copied().unwrap_or_default()
    }
}

impl AccessMetrics for RecordedMetrics {
    fn authenticated(&self, result: AuthenticationResult, _time: Duration) {
        self.add(format!("authenticated {}", result.as_str()), 1);
    }
    fn user_request(&self, username: &'static str) {
        self.add(format!("user {username}"), 1);
    }
    fn token_cache(&self, status: TokenCache, _time: Duration) {
        self.add(format!("cache {}", status.as_str()), 1);
    }
    fn token_fetched(&self, ok: bool) {
        self.add(format!("fetched {ok}"), 1);
    }
    fn token_fetches(&self, status: Fetch, change: i64) {
        self.add(format!("active {}", status.as_str()), change);
    }
    fn authorized(&self, result: AuthorizationResult, _time: Duration) {
        self.add(format!("authorized {}", result.as_str()), 1);
    }
    fn token_reviewed(&self, code: &str, _time: Duration) {
        self.add(format!("token review {code}"), 1);
    }
    fn access_reviewed(&self, code: &str, _time: Duration) {
        self.add(format!("access review {code}"), 1);
    }
    fn limited(&self, limit: crate::server::Limit) {
        self.add(format!("limited {}", limit.as_str()), 1);
    }
    fn client_certificate(&self, remaining: Duration) {
        assert!(remaining > Duration::from_secs(365 * 24 * 3600));
        self.add("client certificate".into(), 1);
    }
}

struct Harness {
    api: ApiServer,
    access: Access,
    router: Router,
    metrics: Arc<RecordedMetrics>,
}

impl Harness {
    fn new(authentication: AuthenticationOptions) -> Self {
        let api = api();
        let client = Client::new(api.service(), "default");
        let reviewers = Reviewers {
            authentication: Some(client.clone()),
            authorization: Some(client),
        };
        Self::with(api, authentication, reviewers)
    }

    fn with(api: ApiServer, authentication: AuthenticationOptions, reviewers: Reviewers) -> Self {
        let metrics = Arc::new(RecordedMetrics::default());
        let recorder = Arc::clone(&metrics) as Arc<dyn AccessMetrics>;
        let access = Access::new(
            authentication,
            AuthorizationOptions::default(),
            reviewers,
            recorder,
        )
        .unwrap();
        let echo = any(|request: Request<Body>| async move {
            let user = request
                .extensions()
                .get::<User>()
                .cloned()
                .unwrap_or_default();
            let headers: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
            format!(
                "{}|{}|{}",
                user.name,
                user.groups.join(","),
                headers.join(",")
            )
        });
        let routes = Router::new()
            .route("/metrics", echo.clone())
            .route("/healthz", echo);
        let router = access.guard(routes.fallback(crate::not_found));
        Self {
            api,
            access,
            router,
            metrics,
        }
    }

    async fn send(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        certificate: Option<&Issued>,
    ) -> Answer {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let certificates = certificate.map(Issued::der).into_iter().collect();
        request.extensions_mut().insert(Peer {
            address: ([127, 0, 0, 1], 1).into(),
            certificates,
        });
        send(&self.router, request).await
    }

    async fn with_token(&self, path: &str, token: &str) -> Answer {
        self.send(path, &[("authorization", &format!("Bearer {token}"))], None)
            .await
    }

    async fn with_certificate(&self, certificate: &Issued) -> Answer {
        self.send("/metrics", &[], Some(certificate)).await
    }

    fn reviews(&self) -> (u64, u64) {
        (
            self.api.requests().count("create", "tokenreviews"),
            self.api.requests().count("create", "subjectaccessreviews"),
        )
    }
}

fn config_map(data: &serde_json::Value) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": lookup::NAMESPACE, "name": lookup::NAME}, "data": data,
    })
}

#[tokio::test]
async fn anonymous_callers_see_the_always_allowed_paths_and_nothing_else() {
    let harness = Harness::new(AuthenticationOptions::default());
    let healthz = harness.send("/healthz", &[], None).await;
    assert_eq!(
        (healthz.status.as_u16(), healthz.body.as_str()),
        (200, "system:anonymous|system:unauthenticated|")
    );
    for path in ["/metrics", "/", "/nothing"] {
        let answer = harness.send(path, &[], None).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        let message = format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": "Forbidden", "details": {}, "code": 403,
        });
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&answer.body).unwrap(),
            status
        );
        assert_eq!(
            answer.headers[http::header::CONTENT_TYPE],
            "application/json"
        );
    }
    assert_eq!(harness.metrics.of("authorized no-opinion"), 3);
    assert_eq!(
        (
            harness.metrics.of("user other"),
            harness.metrics.of("authenticated success")
        ),
        (4, 4)
    );
}

#[tokio::test]
async fn a_good_token_opens_what_its_user_may_and_what_is_not_served_is_404_then() {
    let harness = Harness::new(AuthenticationOptions::default());
    let answer = harness.with_token("/metrics", GOOD).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        answer.body, "kubernetes-admin|system:masters,system:authenticated|",
        "the token is taken away"
    );
    assert_eq!(
        harness.with_token("/nothing", GOOD).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(harness.reviews(), (1, 0), "system:masters need no review");

    let weak = harness.with_token("/metrics", WEAK).await;
    assert_eq!(weak.status, StatusCode::FORBIDDEN);
    assert!(
        weak.body.contains(r#"User \"weak\" cannot get path"#),
        "{}",
        weak.body
    );
}

#[tokio::test]
async fn a_bad_token_is_401_also_on_paths_that_need_no_permission() {
    let harness = Harness::new(AuthenticationOptions::default());
    for path in ["/metrics", "/healthz"] {
        let answer = harness.with_token(path, "bad").await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (&body["reason"], &body["message"], &body["code"]),
            (&json!("Unauthorized"), &json!("Unauthorized"), &json!(401))
        );
    }
    assert_eq!(harness.reviews(), (1, 0), "that it is bad was remembered");
    assert_eq!(harness.metrics.of("authenticated failure"), 2);
}

#[tokio::test]
async fn a_token_beyond_16_kib_is_401_without_a_review() {
    let harness = Harness::new(AuthenticationOptions::default());
    let longest = "x".repeat(16 << 10);
    assert_eq!(
        harness.with_token("/metrics", &longest).await.status,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(harness.reviews(), (1, 0), "16 KiB are asked about");
    assert_eq!(
        harness
            .with_token("/metrics", &format!("{longest}x"))
            .await
            .status,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(harness.reviews(), (1, 0));
    assert_eq!(
        (
            harness.metrics.of("limited token_length"),
            harness.metrics.of("authenticated failure")
        ),
        (1, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn token_reviews_under_way_are_bounded_by_bytes() {
    let harness = Harness::new(AuthenticationOptions::default());
    harness.api.faults().add(
        Matcher::any().resource("tokenreviews"),
        Action::Latency { millis: 1000 },
    );
    let token = |n: usize| format!("{n:0>width$}", width = 16 << 10);
    let send = async |n| harness.with_token("/metrics", &token(n)).await.status;
    let answers = futures::future::join_all((0..100).map(&send)).await;
    assert!(
        answers
            .iter()
            .all(|status| *status == StatusCode::UNAUTHORIZED)
    );
    assert_eq!(
        (
            harness.reviews().0,
            harness.metrics.of("limited reviews_in_flight")
        ),
        (64, 36),
        "64 are 1 MiB"
    );
    assert_eq!(
        (send(99).await, harness.reviews().0),
        (StatusCode::UNAUTHORIZED, 65),
        "there is room again"
    );
}

#[tokio::test]
async fn a_refusal_repeats_the_beginning_of_a_path_only() {
    let harness = Harness::new(AuthenticationOptions::default());
    let answer = harness
        .send(&format!("/{}", "x".repeat(8000)), &[], None)
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(
        answer.body.len() < 500 && answer.body.contains("xxx…"),
        "{}",
        answer.body
    );
}

#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_their_time_and_no_longer() {
    let harness = Harness::new(AuthenticationOptions::default());
    for _ in 0..3 {
        harness.with_token("/metrics", WEAK).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(harness.reviews(), (1, 1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    harness.with_token("/metrics", WEAK).await;
    assert_eq!(harness.reviews(), (2, 2));
    assert_eq!(
        (
            harness.metrics.of("cache miss"),
            harness.metrics.of("cache hit")
        ),
        (2, 2)
    );
    assert_eq!(
        (
            harness.metrics.of("fetched true"),
            harness.metrics.of("token review 201")
        ),
        (2, 2)
    );
    assert_eq!(harness.metrics.of("access review 201"), 2);
}

#[tokio::test(start_paused = true)]
async fn each_request_is_reviewed_without_a_time_to_live() {
    let harness = Harness::new(AuthenticationOptions {
        token_cache_ttl: Duration::ZERO,
        ..Default::default()
    });
    harness.with_token("/healthz", WEAK).await;
    harness.with_token("/healthz", WEAK).await;
    assert_eq!(harness.reviews().0, 2);
}

#[tokio::test(start_paused = true)]
async fn identical_reviews_at_the_same_time_are_one() {
    let harness = Harness::new(AuthenticationOptions::default());
    let slow = Action::Latency { millis: 1000 };
    harness
        .api
        .faults()
        .add(Matcher::any().resource("tokenreviews"), slow);
    let all = (0..10).map(|_| harness.with_token("/metrics", WEAK));
    let asked = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(
            (
                harness.metrics.of("active in_flight"),
                harness.metrics.of("active blocked")
            ),
            (1, 9)
        );
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(all), asked);
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == StatusCode::FORBIDDEN)
    );
    assert_eq!(harness.reviews(), (1, 1));
    assert_eq!(
        (
            harness.metrics.of("active in_flight"),
            harness.metrics.of("active blocked")
        ),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_review_is_tried_five_times_and_its_failure_not_kept() {
    let harness = Harness::new(AuthenticationOptions::default());
    let away = Action::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: "later".into(),
        retry_after_seconds: None,
    };
    harness.api.faults().add(
        Matcher::any().resource("tokenreviews").times(5),
        away.clone(),
    );
    let begun = Instant::now();
    assert_eq!(
        harness.with_token("/healthz", WEAK).await.status,
        StatusCode::UNAUTHORIZED
    );
    let took = begun.elapsed().as_secs_f64();
    assert!(
        (4.0..4.95).contains(&took),
        "0.5 + 0.75 + 1.125 + 1.6875 s, and a fifth: {took}"
    );
    assert_eq!(
        (
            harness.reviews().0,
            harness.metrics.of("token review 503"),
            harness.metrics.of("authenticated error")
        ),
        (5, 1, 1)
    );
    assert_eq!(
        harness.with_token("/healthz", WEAK).await.status,
        StatusCode::OK,
        "not kept"
    );

    harness.api.faults().add(
        Matcher::any().resource("subjectaccessreviews").times(2),
        away,
    );
    assert_eq!(
        harness.with_token("/metrics", WEAK).await.status,
        StatusCode::FORBIDDEN,
        "a third try had an answer"
    );
    assert_eq!(
        (harness.metrics.of("access review 201"), harness.reviews().1),
        (1, 3)
    );
}

#[tokio::test(start_paused = true)]
async fn strangers_who_ask_for_ever_new_paths_fill_neither_memory_nor_the_queue() {
    let harness = Harness::new(AuthenticationOptions::default());
    let answers = futures::future::join_all((0..1100).map(|n| async move { n }).map(|n| async {
        let path = format!("/{}{}", "x".repeat(5000), n.await);
        harness.send(&path, &[], None).await.status
    }));
    assert!(
        answers
            .await
            .into_iter()
            .all(|status| status == StatusCode::FORBIDDEN)
    );
    let asked = harness.reviews().1;
    assert!(
        (150..=(1 << 20) / 5000).contains(&asked),
        "{asked}; 1 MiB of questions, the rest was refused at once"
    );
    assert_eq!(
        harness.metrics.of("limited reviews_in_flight"),
        1100 - i64::try_from(asked).unwrap()
    );
}

#[tokio::test]
async fn an_error_of_the_review_is_403_and_is_not_kept() {
    let harness = Harness::new(AuthenticationOptions::default());
    let refused = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    harness
        .api
        .faults()
        .add(Matcher::any().resource("subjectaccessreviews"), refused);
    for _ in 0..2 {
        assert_eq!(
            harness.with_token("/metrics", WEAK).await.status,
            StatusCode::FORBIDDEN
        );
    }
    assert_eq!(
        (harness.metrics.of("authorized error"), harness.reviews().1),
        (2, 2)
    );
}

#[tokio::test]
async fn tokens_are_ignored_and_requests_denied_without_an_identity() {
    let harness = Harness::with(
        api(),
        AuthenticationOptions::default(),
        Reviewers::default(),
    );
    let answer = harness.with_token("/metrics", GOOD).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.body.contains("system:anonymous"), "{}", answer.body);
    assert_eq!(
        harness.with_token("/healthz", GOOD).await.status,
        StatusCode::OK
    );
    assert_eq!(harness.reviews(), (0, 0));
}

#[tokio::test]
async fn a_client_certificate_of_the_right_authority_names_its_user() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let other = Authority::new("other");
    let file = directory.path().join("ca.crt");
    std::fs::write(&file, &ours.pem).unwrap();
    let harness = Harness::new(AuthenticationOptions {
        client_ca_file: Some(file),
        ..Default::default()
    });

    let admin = ours.client("jane", &["system:masters"]);
    let answer = harness.with_certificate(&admin).await;
    assert_eq!(
        (answer.status.as_u16(), answer.body.as_str()),
        (200, "jane|system:masters,system:authenticated|")
    );
    assert_eq!(harness.metrics.of("client certificate"), 1);

    for (what, certificate) in [
        (
            "another authority",
            other.client("jane", &["system:masters"]),
        ),
        ("expired", ours.expired_client("jane")),
        ("a server's certificate", ours.server(&["jane.example.com"])),
        ("no common name", ours.client("", &["system:masters"])),
    ] {
        assert_eq!(
            harness.with_certificate(&certificate).await.status,
            StatusCode::UNAUTHORIZED,
            "{what}"
        );
    }
    let token = [("authorization", "Bearer good-token")];
    let answer = harness
        .send("/metrics", &token, Some(&other.client("jane", &[])))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "the token proves it");
    let bad = [("authorization", "Bearer bad")];
    assert_eq!(
        harness.send("/metrics", &bad, Some(&admin)).await.status,
        StatusCode::OK,
        "the certificate goes first"
    );
}

#[tokio::test]
async fn a_certificate_that_nobody_can_judge_is_as_none() {
    let harness = Harness::new(AuthenticationOptions::default());
    let answer = harness
        .with_certificate(&Authority::new("any").client("jane", &[]))
        .await;
    assert!(
        answer.status == StatusCode::FORBIDDEN && answer.body.contains("system:anonymous"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_front_proxy_is_believed_if_its_name_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let proxies = Authority::new("proxies");
    let users = Authority::new("users");
    let file = directory.path().join("proxy-ca.crt");
    std::fs::write(&file, &proxies.pem).unwrap();
    let request_header = RequestHeaderOptions {
        client_ca_file: Some(file),
        allowed_names: vec!["front-proxy".into()],
        ..RequestHeaderOptions::default()
    };
    let harness = Harness::new(AuthenticationOptions {
        request_header,
        ..Default::default()
    });
    let headers = [
        ("x-remote-user", "joe"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-a", "b"),
        ("accept", "x"),
    ];
    let with =
        async |certificate: &Issued| harness.send("/metrics", &headers, Some(certificate)).await;

    let answer = with(&proxies.client("front-proxy", &[])).await;
    let expected = "joe|system:masters,system:authenticated|accept";
    assert_eq!(
        (answer.status.as_u16(), answer.body.as_str()),
        (200, expected),
        "its headers are taken away"
    );
    assert_eq!(
        with(&proxies.client("somebody", &[])).await.status,
        StatusCode::UNAUTHORIZED,
        "not in the list"
    );
    assert_eq!(
        with(&users.client("front-proxy", &[])).await.status,
        StatusCode::UNAUTHORIZED,
        "another authority"
    );
    let bare = harness.send("/metrics", &headers, None).await;
    assert!(
        bare.status == StatusCode::FORBIDDEN && bare.body.contains("system:anonymous"),
        "headers alone are nothing"
    );
    let bare = harness.send("/healthz", &headers, None).await;
    assert_eq!(
        bare.body, "system:anonymous|system:unauthenticated|accept",
        "nor does anybody behind this see them"
    );
    let silent = harness
        .with_certificate(&proxies.client("front-proxy", &[]))
        .await;
    assert!(silent.body.contains("system:anonymous"), "it named nobody");
}

#[tokio::test(start_paused = true)]
async fn the_config_map_is_read_at_the_start_and_followed() {
    let old = Authority::new("old");
    let new = Authority::new("new");
    let harness = Harness::new(AuthenticationOptions::default());
    let data = |authority: &Authority| {
        json!({
            "client-ca-file": authority.pem, "requestheader-client-ca-file": authority.pem,
            "requestheader-username-headers": r#"["X-User"]"#, "requestheader-group-headers": r#"["X-Group"]"#,
            "requestheader-allowed-names": r#"["proxy"]"#,
        })
    };
    harness.api.seed(config_map(&data(&old))).unwrap();
    let shutdown = CancellationToken::new();
    harness.access.look_up(&shutdown).await.unwrap();
    let admin = |authority: &Authority| authority.client("jane", &["system:masters"]);
    assert_eq!(
        harness.with_certificate(&admin(&old)).await.status,
        StatusCode::OK
    );
    let headers = [("x-user", "joe"), ("x-group", "system:masters")];
    let proxied = harness
        .send("/metrics", &headers, Some(&old.client("proxy", &[])))
        .await;
    assert!(proxied.body.starts_with("joe|"), "{}", proxied.body);
    assert_eq!(
        harness.with_certificate(&admin(&new)).await.status,
        StatusCode::UNAUTHORIZED
    );

    let ca_reloader = tokio::spawn(harness.access.clone().reload_cas(shutdown.clone()));
    let generation = harness.access.client_cas().generation();
    harness.api.seed(config_map(&data(&new))).unwrap();
    while harness.access.client_cas().generation() == generation {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(
        harness.with_certificate(&admin(&new)).await.status,
        StatusCode::OK
    );
    assert_eq!(
        harness.with_certificate(&admin(&old)).await.status,
        StatusCode::UNAUTHORIZED
    );

    // An invalid ConfigMap changes nothing, and neither does a deletion.
    harness
        .api
        .seed(config_map(&json!({"client-ca-file": "no PEM"})))
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    harness
        .api
        .remove("configmaps", Some(lookup::NAMESPACE), lookup::NAME);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        harness.with_certificate(&admin(&new)).await.status,
        StatusCode::OK
    );
    let asked = harness.api.requests().all();
    let watch = asked
        .iter()
        .find(|request| request.resource == "configmaps" && request.verb != "get")
        .unwrap();
    assert!(
        watch.query.contains("fieldSelector=metadata.name"),
        "{}",
        watch.query
    );
    shutdown.cancel();
    ca_reloader.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_is_missing_is_tolerated_and_one_that_is_forbidden_is_not() {
    let harness = Harness::new(AuthenticationOptions::default());
    let shutdown = CancellationToken::new();
    harness.access.look_up(&shutdown).await.unwrap();

    let refused = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    harness
        .api
        .faults()
        .add(Matcher::any().resource("configmaps"), refused);
    let begun = Instant::now();
    let error = harness
        .access
        .look_up(&shutdown)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("bind Role extension-apiserver-authentication-reader"),
        "{error}"
    );
    assert_eq!(begun.elapsed(), Duration::ZERO, "at once");

    // An unknown identity needs a credential, not a Role.
    let unknown = Action::Status {
        code: 401,
        reason: "Unauthorized".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    harness.api.faults().clear();
    harness
        .api
        .faults()
        .add(Matcher::any().resource("configmaps"), unknown);
    let error = harness
        .access
        .look_up(&shutdown)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("renew the token or certificate") && !error.contains("Role"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_waited_for_two_minutes() {
    let harness = Harness::new(AuthenticationOptions::default());
    let away = Action::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: "later".into(),
        retry_after_seconds: None,
    };
    harness
        .api
        .faults()
        .add(Matcher::any().resource("configmaps").times(4), away.clone());
    harness
        .access
        .look_up(&CancellationToken::new())
        .await
        .unwrap();
    harness
        .api
        .faults()
        .add(Matcher::any().resource("configmaps"), away);
    let begun = Instant::now();
    let error = harness
        .access
        .look_up(&CancellationToken::new())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        (105..=120).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
    assert!(error.contains("within 120 s: later"), "{error}");
    let stopped = CancellationToken::new();
    stopped.cancel();
    assert!(matches!(
        harness.access.look_up(&stopped).await,
        Err(LookupError::Stopped)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_tolerated_failure_is_made_good_in_the_background() {
    let harness = Harness::new(AuthenticationOptions {
        tolerate_lookup_failure: true,
        ..Default::default()
    });
    let refused = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    let fault = harness
        .api
        .faults()
        .add(Matcher::any().resource("configmaps"), refused);
    let shutdown = CancellationToken::new();
    harness.access.look_up(&shutdown).await.unwrap();
    let ca_reloader = tokio::spawn(harness.access.clone().reload_cas(shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let authority = Authority::new("ours");
    harness
        .api
        .seed(config_map(&json!({"client-ca-file": authority.pem})))
        .unwrap();
    let admin = authority.client("jane", &["system:masters"]);
    assert_eq!(
        harness.with_certificate(&admin).await.status,
        StatusCode::FORBIDDEN
    );
    harness.api.faults().remove(fault);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        harness.with_certificate(&admin).await.status,
        StatusCode::OK
    );
    shutdown.cancel();
    ca_reloader.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn config_map_is_not_read_if_skipped_or_given_as_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    std::fs::write(&file, Authority::new("ours").pem).unwrap();
    let both = AuthenticationOptions {
        client_ca_file: Some(file.clone()),
        request_header: RequestHeaderOptions {
            client_ca_file: Some(file),
            ..Default::default()
        },
        ..Default::default()
    };
    for options in [
        AuthenticationOptions {
            skip_lookup: true,
            ..Default::default()
        },
        both,
    ] {
        let harness = Harness::new(options);
        harness
            .access
            .look_up(&CancellationToken::new())
            .await
            .unwrap();
        let shutdown = CancellationToken::new();
        let ca_reloader = tokio::spawn(harness.access.clone().reload_cas(shutdown.clone()));
        tokio::time::sleep(Duration::from_secs(300)).await;
        shutdown.cancel();
        ca_reloader.await.unwrap();
        assert!(harness.api.requests().all().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_ca_file_counts_within_a_minute_and_a_broken_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    let old = Authority::new("old");
    let new = Authority::new("new");
    std::fs::write(&file, &old.pem).unwrap();
    let options = AuthenticationOptions {
        client_ca_file: Some(file.clone()),
        skip_lookup: true,
        ..Default::default()
    };
    let harness = Harness::new(options);
    let shutdown = CancellationToken::new();
    let ca_reloader = tokio::spawn(harness.access.clone().reload_cas(shutdown.clone()));
    let admin = new.client("jane", &["system:masters"]);
    assert_eq!(
        harness.with_certificate(&admin).await.status,
        StatusCode::UNAUTHORIZED
    );
    std::fs::write(&file, &new.pem).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(
        harness.with_certificate(&admin).await.status,
        StatusCode::OK
    );
    std::fs::write(&file, "half a file").unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(
        harness.with_certificate(&admin).await.status,
        StatusCode::OK
    );
    shutdown.cancel();
    ca_reloader.await.unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_are_said_with_their_flag() {
    let missing = AuthenticationOptions {
        client_ca_file: Some("/nowhere/ca.crt".into()),
        ..Default::default()
    };
    let authorization = AuthorizationOptions::default();
    let new = |authentication, authorization| {
        Access::new(
            authentication,
            authorization,
            Reviewers::default(),
            Arc::new(NoAccessMetrics),
        )
        .map(drop)
    };
    let error = new(missing, authorization).unwrap_err().to_string();
    assert!(
        error.starts_with("unable to load client CA provider: /nowhere/ca.crt: "),
        "{error}"
    );
    assert!(error.contains("--client-ca-file"), "{error}");
    let paths = AuthorizationOptions {
        always_allow_paths: vec!["/a*b".into()],
        ..Default::default()
    };
    let error = new(AuthenticationOptions::default(), paths)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "only trailing * allowed in \"a*b\"");
}

#[tokio::test]
async fn a_star_at_the_end_opens_all_paths_below() {
    let options = AuthorizationOptions {
        always_allow_paths: vec!["/met*".into()],
        ..Default::default()
    };
    let access = Access::new(
        AuthenticationOptions::default(),
        options,
        Reviewers::default(),
        Arc::new(NoAccessMetrics),
    )
    .unwrap();
    let router = access.guard(
        Router::new()
            .route("/metrics", any(async || "all"))
            .fallback(crate::not_found),
    );
    assert_eq!(crate::test_requests::get(&router, "/metrics").await.0, 200);
    assert_eq!(
        crate::test_requests::get(&router, "/healthz").await.0,
        403,
        "the default is replaced"
    );
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_said_with_its_flag() {
    let authentication = AuthenticationOptions {
        kubeconfig: Some("/nowhere/config".into()),
        ..Default::default()
    };
    let metrics = Arc::new(runtime::client::NoRequestMetrics);
    let connected = Reviewers::connect(
        &authentication,
        &AuthorizationOptions::default(),
        &Default::default(),
        metrics,
    )
    .await;
    let error = connected
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        error.starts_with("failed to get delegated authentication kubeconfig: /nowhere/config: "),
        "{error}"
    );
    assert!(error.contains("--authentication-kubeconfig"), "{error}");
}
