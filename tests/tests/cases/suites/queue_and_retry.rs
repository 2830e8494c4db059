//! Rate limiters and conflict retry.

use std::cell::Cell;
use std::time::Duration;

use anyhow::Result;
use runtime::limiter::{RateLimiter, TokenBucket};
use runtime::retry::ConflictRetry;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{read, take_function, unknown_function};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exponential {
    base_ms: u64,
    cap_ms: u64,
    ops: Vec<Op>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    Fail,
    Forget,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bucket {
    interval_ms: u64,
    burst: u32,
    /// Maximum delay; zero means no cap.
    max_ms: Option<u64>,
    at_ms: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retry {
    attempts: u32,
    pause_ms: u64,
    outcomes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectDelays {
    #[serde(default)]
    delays_ms: Expected<Vec<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectRuns {
    #[serde(default)]
    runs: Expected<usize>,
    #[serde(default)]
    result: Expected<Outcome>,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    Conflict,
    Error,
}

pub(super) async fn run(mut given: Value, expect: Value) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    match take_function(&mut given)?.as_str() {
        "exponential" => {
            let expect: ExpectDelays = read("expect", &expect)?;
            compare_delays(
                &mut comparison,
                expect,
                &exponential(&read("given", &given)?),
            );
        }
        "bucket" => {
            let expect: ExpectDelays = read("expect", &expect)?;
            compare_delays(&mut comparison, expect, &bucket(&read("given", &given)?));
        }
        "retry_on_conflict" => {
            let expect: ExpectRuns = read("expect", &expect)?;
            let (runs, result) = retry(&read("given", &given)?).await;
            comparison.key("runs", &expect.runs, &runs);
            comparison.key("result", &expect.result, &result);
        }
        other => {
            return Err(unknown_function(
                other,
                "exponential, bucket, retry_on_conflict",
            ));
        }
    }
    Ok(comparison)
}

fn compare_delays(comparison: &mut Comparison, expect: ExpectDelays, delays: &[Duration]) {
    let expected = expect.delays_ms.map(|list| {
        list.into_iter()
            .map(Duration::from_millis)
            .collect::<Vec<_>>()
    });
    comparison.key("delays_ms", &expected, &delays.to_vec());
}

fn exponential(given: &Exponential) -> Vec<Duration> {
    let mut limiter = RateLimiter::exponential(
        Duration::from_millis(given.base_ms),
        Duration::from_millis(given.cap_ms),
    );
    let mut delays = Vec::new();
    for op in &given.ops {
        match op {
            Op::Fail => delays.push(limiter.delay(Instant::now(), &"key")),
            Op::Forget => limiter.forget(&"key"),
        }
    }
    delays
}

fn bucket(given: &Bucket) -> Vec<Duration> {
    let cap = given
        .max_ms
        .filter(|max| *max > 0)
        .map(Duration::from_millis);
    let bucket = TokenBucket::new(Duration::from_millis(given.interval_ms), given.burst, cap);
    let mut limiter = RateLimiter::bucket(bucket);
    let start = Instant::now();
    given
        .at_ms
        .iter()
        .map(|at| limiter.delay(start + Duration::from_millis(*at), &"key"))
        .collect()
}

/// Runs and how the last one ended. A run more than there are outcomes is one that the case does not foresee.
async fn retry(given: &Retry) -> (usize, Outcome) {
    let runs = Cell::new(0);
    let retry = ConflictRetry {
        attempts: given.attempts,
        pause: Duration::from_millis(given.pause_ms),
    };
    let result = retry
        .run(
            |outcome| *outcome == Outcome::Conflict,
            |_| {
                let outcome = match given.outcomes.get(runs.get()).map(String::as_str) {
                    Some("ok") => Ok(()),
                    Some("conflict") => Err(Outcome::Conflict),
                    _ => Err(Outcome::Error),
                };
                runs.set(runs.get() + 1);
                async move { outcome }
            },
        )
        .await;
    (
        runs.get(),
        result.map_or_else(|outcome| outcome, |()| Outcome::Ok),
    )
}
