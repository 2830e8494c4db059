use super::*;

fn refusal(
    status: u16,
    code: &str,
) -> impl Fn(usize, &HeaderMap) -> (StatusCode, String) + Clone + use<> {
    let body = format!(r#"{{"error":{{"code":"{code}","message":"m"}}}}"#);
    move |_, _| (StatusCode::from_u16(status).unwrap(), body.clone())
}

#[tokio::test(start_paused = true)]
async fn only_refusals_that_were_not_applied_are_retried() {
    let table = [
        (409, "conflict", 4),
        (423, "locked", 4),
        (409, "uniqueness_error", 1),
        (422, "conflict", 4),
        (503, "unavailable", 1),
        (422, "invalid_input", 1),
    ];
    for (status, code, tries) in table {
        let (router, sent) = scripted(refusal(status, code));
        let client = client(router)
            .retry_refusals(|refusal| ["conflict", "locked"].contains(&&*refusal.code));
        client.build().unwrap().send(POST()).await.unwrap_err();
        assert_eq!(sent.load(Ordering::SeqCst), tries, "{status} {code}");
    }
}

#[tokio::test]
async fn call_without_a_connection_is_retried_in_any_case() {
    // The port is held by a socket that does not listen, so that no other process listens there.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base = format!("http://{}", held.local_addr().unwrap());
    let seen = Arc::new(Seen::default());
    let retry_policy = RetryPolicy {
        max_attempts: 3,
        backoff: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let client = Transport::builder(base)
        .retry_policy(retry_policy)
        .metrics(Arc::clone(&seen) as Arc<dyn CloudMetrics>);
    client.build().unwrap().send(POST()).await.unwrap_err();
    assert_eq!(seen.0.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_an_overloaded_server_is_reported() {
    let answer = |n: usize, _: &HeaderMap| match n {
        1 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "7")]).into_response(),
        _ => StatusCode::OK.into_response(),
    };
    let (router, _) = scripted(answer);
    let client = client(router).build().unwrap();
    let began = Instant::now();
    client.send(GET()).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn overloaded_server_delays_calls_and_gets_no_unsafe_retry() {
    let answer = |n: usize, _: &HeaderMap| match n {
        1 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "40")]).into_response(),
        _ => StatusCode::OK.into_response(),
    };
    let (router, sent) = scripted(answer);
    let cloud = client(router).build().unwrap();
    let began = Instant::now();
    let err = cloud
        .send(POST())
        .await
        .unwrap_err()
        .context("it was not made");
    assert_eq!(
        (err.retry_after(), began.elapsed().as_secs()),
        (Some(Duration::from_secs(40)), 0)
    );
    assert!(!err.chain().any(Error::is_rate_limited), "{err:?}");
    // Other calls are deferred, and fail with the time to retry after, until then.
    let held = cloud.send(GET()).await.unwrap_err();
    assert!(
        held.retry_after() > Some(Duration::from_secs(39)),
        "{held:?}"
    );
    tokio::time::sleep(Duration::from_secs(31)).await;
    cloud.send(GET()).await.unwrap();
    assert_eq!(
        (sent.load(Ordering::SeqCst), began.elapsed().as_secs()),
        (2, 40)
    );
    // Without a time, no call is deferred.
    let (router, _) = scripted(|_, _| (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "soon")]));
    assert_eq!(
        client(router)
            .build()
            .unwrap()
            .send(POST())
            .await
            .unwrap_err()
            .retry_after(),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn retries_take_no_longer_than_the_policy_allows() {
    let (router, sent) = scripted(|_, _| StatusCode::BAD_GATEWAY);
    let retry_policy = RetryPolicy {
        timeout: Duration::from_secs(15),
        max_attempts: 6,
        total_timeout: Duration::from_secs(120),
        backoff: Duration::from_secs(1),
        longest_backoff: Duration::from_secs(60),
        jitter: Jitter::Full,
        ..RetryPolicy::default()
    };
    let began = Instant::now();
    client(router)
        .retry_policy(retry_policy)
        .build()
        .unwrap()
        .send(GET())
        .await
        .unwrap_err();
    assert_eq!(sent.load(Ordering::SeqCst), 6);
    assert!(began.elapsed() <= Duration::from_secs(1 + 2 + 4 + 8 + 16));
}

#[tokio::test]
async fn error_names_invalid_fields_and_the_correlation_id() {
    let body = r#"{"error":{"code":"invalid_input","message":"invalid input","details":{"fields":[
        {"name":"http.timeout_idle","messages":["must be at least 30","must be a number"]},{"name":"x","messages":null}]}}}"#;
    let (router, _) = scripted(move |_, _| {
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            [("x-correlation-id", "7f3a")],
            body,
        )
    });
    let err = client(router)
        .correlation("x-correlation-id")
        .build()
        .unwrap()
        .send(POST())
        .await
        .unwrap_err();
    assert!(err.is_invalid());
    assert_eq!(
        err.to_string(),
        "POST /things answered 422: invalid input (http.timeout_idle: must be at least 30, must be a number; x) \
         (x-correlation-id 7f3a)"
    );
}

#[tokio::test(start_paused = true)]
async fn rate_limit_with_its_own_code_pauses_the_client() {
    let (router, sent) = scripted(refusal(403, "RATE_LIMIT_EXCEEDED"));
    let client = client(router).build().unwrap().error_mapping(|refusal| {
        (refusal.code == "RATE_LIMIT_EXCEEDED")
            .then_some(|text| Error::rate_limited(text, Duration::from_secs(300)))
    });
    for _ in 0..3 {
        let err = client.send(GET()).await.unwrap_err();
        assert!(
            err.is_rate_limited() && err.retry_after() > Some(Duration::from_secs(290)),
            "{err:?}"
        );
    }
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_secs(301)).await;
    client.send(GET()).await.unwrap_err();
    assert_eq!(sent.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn metadata_service_answers_plain_text_and_its_404_is_its_own() {
    let (router, sent) = scripted(|at, _| match at {
        1 => (StatusCode::OK, " worker-role\n"),
        2 => (StatusCode::NOT_FOUND, "no such path"),
        _ => (StatusCode::BAD_GATEWAY, "down"),
    });
    let client = client(router).metadata_service().build().unwrap();
    assert_eq!(client.send(GET()).await.unwrap().text(), "worker-role");
    let missing = client.send(GET()).await.unwrap_err();
    assert!(
        missing.is_not_found() && missing.to_string().contains("no such path"),
        "{missing}"
    );
    client.send(GET()).await.unwrap_err();
    assert_eq!(sent.load(Ordering::SeqCst), 2 + 3, "three attempts");
}

#[tokio::test(start_paused = true)]
async fn metrics_report_started_and_abandoned_requests() {
    #[derive(Default)]
    struct Running(Mutex<Vec<&'static str>>);
    impl CloudMetrics for Running {
        fn started(&self, _: &str) {
            self.0.lock().push("started");
        }
        fn abandoned(&self, _: &str) {
            self.0.lock().push("abandoned");
        }
        fn finished(&self, _: &str, _: Option<u16>, _: Duration) {
            self.0.lock().push("finished");
        }
    }
    let (router, _) = scripted(|_, _| StatusCode::OK);
    let router = router.route("/things/7", any(std::future::pending::<()>));
    let seen = Arc::new(Running::default());
    let client = client(router)
        .metrics(Arc::clone(&seen) as Arc<dyn CloudMetrics>)
        .build()
        .unwrap();
    client.send(POST()).await.unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(1), client.send(GET())).await;
    assert_eq!(
        *seen.0.lock(),
        ["started", "finished", "started", "abandoned"]
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_may_be_a_date_and_the_status_413() {
    let date = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(5);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&date)
        .unwrap();
    let (router, sent) = scripted(move |n, _| match n {
        1 => (
            StatusCode::PAYLOAD_TOO_LARGE,
            [("retry-after", date.clone())],
        )
            .into_response(),
        2 => (StatusCode::PAYLOAD_TOO_LARGE, "too large").into_response(),
        _ => StatusCode::OK.into_response(),
    });
    let client = client(router).build().unwrap();
    let began = Instant::now();
    let error = client.send(POST()).await.unwrap_err();
    assert!(
        !error.is_rate_limited() && error.to_string().contains("413: too large"),
        "{error:?}"
    );
    assert!(
        (4..=5).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(sent.load(Ordering::SeqCst), 2);
}
