//! Callers of several priorities, and a cloud that enforces its limits.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::*;

/// A bucket of 3,600 that fills in an hour, and the answers to each path, in order.
#[derive(Clone)]
struct Cloud(Arc<Mutex<Bucket>>);

struct Bucket {
    left: f64,
    at: Instant,
    answered: Vec<(String, bool)>,
}

impl Cloud {
    fn with(left: f64) -> Self {
        Self(Arc::new(Mutex::new(Bucket {
            left,
            at: Instant::now(),
            answered: Vec::new(),
        })))
    }

    fn answer(&self, path: &str) -> axum::response::Response {
        let mut bucket = self.0.lock();
        let now = Instant::now();
        bucket.left = (bucket.left + (now - bucket.at).as_secs_f64()).min(3600.0);
        bucket.at = now;
        let allowed = bucket.left >= 1.0;
        if allowed {
            bucket.left -= 1.0;
        }
        bucket.answered.push((path.to_owned(), allowed));
        let restored = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs() as f64;
        let restored = restored + 3600.0 - bucket.left;
        let headers = [
            ("ratelimit-limit", "3600".to_owned()),
            ("ratelimit-remaining", (bucket.left as u64).to_string()),
            ("ratelimit-reset", (restored as u64).to_string()),
        ];
        (if allowed { StatusCode::OK } else { SLOW_DOWN }, headers).into_response()
    }

    fn transport(&self, budget: Budget, longest_pause: Duration) -> Transport {
        let cloud = self.clone();
        let answer = move |uri: http::Uri| async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cloud.answer(uri.path())
        };
        let retry_policy = RetryPolicy {
            timeout: Duration::from_secs(15),
            max_attempts: 6,
            total_timeout: longest_pause * 2,
            backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            jitter: Jitter::Full,
            longest_pause,
        };
        client(Router::new().fallback(any(answer)))
            .budget(budget)
            .retry_policy(retry_policy)
            .build()
            .unwrap()
    }

    fn answered(&self) -> Vec<(String, bool)> {
        self.0.lock().answered.clone()
    }
}

const EVENLY: Budget = Budget {
    share_left_to_others: 0.1,
    refill: Refill::Evenly(Duration::from_secs(3600)),
};

/// Retries like a controller: at the time that the error names.
async fn until_done(client: &Transport, call: Call) {
    while let Err(err) = client.send(call.clone()).await {
        assert!(err.is_rate_limited(), "{err:?}");
        tokio::time::sleep(err.retry_after().unwrap()).await;
    }
}

async fn creations_and_joining_nodes(client: &Transport) {
    let create = |n: usize| until_done(client, Call::post("/balancers/{n}", &[&n.to_string()]));
    let look_up = |n: usize| {
        until_done(
            client,
            Call::get("/nodes/{n}", &[&n.to_string()]).with_priority(Priority::Urgent),
        )
    };
    tokio::join!(
        join_all((0..200).map(create)),
        join_all((0..100).map(look_up))
    );
}

/// Returns the paths that were answered 429 twice in a row.
fn twice_in_a_row(answered: &[(String, bool)]) -> Vec<&str> {
    let mut last = BTreeMap::new();
    let mut again = |answer: &(String, bool)| {
        last.insert(answer.0.clone(), answer.1) == Some(false) && !answer.1
    };
    answered
        .iter()
        .filter(|answer| again(answer))
        .map(|(path, _)| &**path)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nodes_come_first_when_the_bucket_is_nearly_empty() {
    for (longest_pause, overtaken) in [(600, 1), (10, 25)] {
        let cloud = Cloud::with(5.0);
        let client = cloud.transport(EVENLY, Duration::from_secs(longest_pause));
        let began = Instant::now();
        creations_and_joining_nodes(&client).await;
        let answered = cloud.answered();
        let refused = answered.iter().filter(|(_, allowed)| !allowed).count();
        let last_node = answered
            .iter()
            .rposition(|(path, _)| path.starts_with("/nodes"))
            .unwrap();
        let before = answered[..last_node]
            .iter()
            .filter(|(path, _)| path.starts_with("/balancers"))
            .count();
        let took = began.elapsed().as_secs();
        println!(
            "pauses up to {longest_pause} s: {took} s, {refused} refused, {before} creations before the last node"
        );
        assert!(twice_in_a_row(&answered).is_empty(), "{answered:?}");
        assert_eq!(answered.iter().filter(|(_, allowed)| *allowed).count(), 300);
        assert!(
            before <= overtaken,
            "{before} creations came before the last node"
        );
        assert_eq!(refused, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_bucket_is_used_at_once() {
    let cloud = Cloud::with(3600.0);
    let client = cloud.transport(EVENLY, Duration::from_secs(10));
    let began = Instant::now();
    creations_and_joining_nodes(&client).await;
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn some_calls_succeed_while_others_use_up_the_limit() {
    let cloud = Cloud::with(100.0);
    let client = cloud.transport(EVENLY, Duration::from_secs(10));
    let others = async {
        loop {
            cloud.answer("/others");
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
    };
    tokio::select! {
        () = creations_and_joining_nodes(&client) => {}
        () = others => {}
    }
    let answered = cloud
        .answered()
        .into_iter()
        .filter(|(path, _)| path != "/others")
        .collect::<Vec<_>>();
    assert!(twice_in_a_row(&answered).is_empty(), "{answered:?}");
}

#[tokio::test(start_paused = true)]
async fn long_deferred_call_fails_with_a_retry_time_and_sends_nothing() {
    let cloud = Cloud::with(2.0);
    let budget = Budget {
        refill: Refill::AtReset,
        ..EVENLY
    };
    let client = cloud.transport(budget, Duration::from_secs(10));
    client.send(GET()).await.unwrap();
    let err = client.send(POST()).await.unwrap_err();
    // The window ends in an hour, but no pause is longer than five minutes: the report may be wrong.
    assert!(
        err.is_rate_limited()
            && err
                .retry_after()
                .is_some_and(|duration| (299..=300).contains(&duration.as_secs())),
        "{err:?}"
    );
    assert!(
        err.to_string().starts_with(
            "POST /things was deferred: about 1 of 3600 requests are left, 522 are reserved for other users or more urgent \
             calls; it can be sent in 300s"
        ),
        "{err}"
    );
    assert_eq!(cloud.answered().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_waiting_call_does_not_delay_others() {
    let cloud = Cloud::with(5.0);
    let client = cloud.transport(EVENLY, Duration::from_secs(60));
    client.send(GET()).await.unwrap();
    let urgent = || GET().with_priority(Priority::Urgent);
    let impatient = tokio::time::timeout(Duration::from_millis(100), client.send(urgent()));
    let (impatient, patient) = tokio::join!(impatient, client.send(GET()));
    assert!(impatient.is_err() && patient.is_ok());
}

#[tokio::test(start_paused = true)]
async fn thousands_of_waiting_calls_cost_little() {
    let cloud = Cloud::with(3600.0);
    let client = cloud.transport(EVENLY, Duration::from_secs(3600));
    let began = std::time::Instant::now();
    join_all((0..5000).map(|_| client.send(POST())))
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()
        .unwrap();
    println!(
        "5,000 calls, 2,000 of which waited for their turn: {:?}",
        began.elapsed()
    );
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_a_day_lasts_five_minutes_and_then_one_request_finds_out() {
    for status in [SLOW_DOWN, StatusCode::SERVICE_UNAVAILABLE] {
        let (router, sent) = scripted(move |n, _| match n {
            1 | 2 => (status, [("retry-after", "86400")]).into_response(),
            _ => "".into_response(),
        });
        let client = client(router).build().unwrap();
        for expected in 1..=2 {
            for _ in 0..3 {
                let err = client.send(GET()).await.unwrap_err();
                assert!(
                    err.retry_after()
                        .is_some_and(|duration| duration <= Duration::from_secs(300)),
                    "{err:?}"
                );
            }
            assert_eq!(sent.load(Ordering::SeqCst), expected, "{status}");
            tokio::time::sleep(Duration::from_secs(300)).await;
        }
        client.send(GET()).await.unwrap();
    }
}

/// A window of 40 requests a minute, which the cloud reports in a header of its own.
#[tokio::test(start_paused = true)]
async fn nearly_used_up_limit_in_a_header_of_the_cloud_slows_calls_before_a_refusal() {
    const WINDOW: Duration = Duration::from_secs(60);
    let budget = Budget {
        share_left_to_others: 0.0,
        refill: Refill::per_second(10, 100),
    };
    let mut refused_without = 0;
    for is_declared in [false, true] {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let refused = Sent::default();
        let counter = Arc::clone(&refused);
        let (router, _) = scripted(move |_, _| {
            let mut sent = sent.lock();
            let now = Instant::now();
            sent.retain(|then| *then + WINDOW > now);
            if sent.len() == 40 {
                counter.fetch_add(1, Ordering::SeqCst);
                return (SLOW_DOWN, [("retry-after", "60")]).into_response();
            }
            sent.push(now);
            [("x-calls-left", (40 - sent.len()).to_string())].into_response()
        });
        let builder = client(router).budget(budget);
        let client = if is_declared {
            builder.rate_limits(calls_left)
        } else {
            builder
        }
        .build()
        .unwrap();
        join_all((0..80).map(|_| until_done(&client, POST()))).await;
        match is_declared {
            false => refused_without = refused.load(Ordering::SeqCst),
            true => assert_eq!(refused.load(Ordering::SeqCst), 0),
        }
    }
    assert!(refused_without > 0);
}

fn calls_left(headers: &HeaderMap) -> RateLimitReport {
    let remaining = headers
        .get("x-calls-left")
        .and_then(|header| header.to_str().ok()?.parse().ok());
    RateLimitReport {
        remaining,
        reset: Some(Duration::from_secs(60)),
        ..RateLimitReport::default()
    }
}
