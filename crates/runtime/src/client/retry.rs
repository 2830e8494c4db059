//! Retry policy of requests: which responses are retried, and after which delay.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};

/// Attempts in all, the first included.
pub(super) const ATTEMPTS: u32 = 5;
/// Longest `Retry-After` that the client waits for. A response with a longer one is returned to the caller, which
/// retries through its work queue.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Returns the pause before the next attempt; `None` if the response is returned to the caller. `attempt` is the number
/// of attempts so far, from 1.
///
/// A request that was answered with 429 was not executed, so every method is retried. After 503 and 504 the request may
/// have been executed: only reads are retried, and requests whose response has `Retry-After`.
pub(super) fn pause(
    attempt: u32,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Duration> {
    let asked = headers
        .get(header::RETRY_AFTER)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.trim().parse().ok());
    let asked = asked.map(Duration::from_secs);
    let again = match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            asked.is_some() || method.is_safe()
        }
        _ => false,
    };
    if !again || attempt >= ATTEMPTS || asked.is_some_and(|pause| pause > LONGEST_PAUSE) {
        return None;
    }
    let backoff = FIRST_PAUSE * 2_u32.pow(attempt - 1);
    // The jitter keeps clients with the same `Retry-After` from retrying together.
    Some(
        asked
            .unwrap_or(backoff)
            .max(backoff)
            .mul_f64(1.0 + 0.1 * fastrand::f64()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_that_may_succeed_is_retried() {
        let headers = |after: Option<&'static str>| {
            after
                .map(|s| (header::RETRY_AFTER, http::HeaderValue::from_static(s)))
                .into_iter()
                .collect::<HeaderMap>()
        };
        let table = [
            (1, "GET", 429, None, Some(250)),
            (2, "POST", 429, None, Some(500)),
            (4, "PATCH", 429, None, Some(2_000)),
            (5, "PATCH", 429, None, None),
            (1, "PATCH", 429, Some("1"), Some(1_000)),
            (4, "PATCH", 429, Some("1"), Some(2_000)),
            (1, "PATCH", 429, Some("3600"), None),
            (
                1,
                "GET",
                429,
                Some("Wed, 21 Oct 2015 07:28:00 GMT"),
                Some(250),
            ),
            (1, "GET", 503, None, Some(250)),
            (1, "PATCH", 503, None, None),
            (1, "PATCH", 503, Some("2"), Some(2_000)),
            (1, "DELETE", 504, None, None),
            (1, "GET", 500, Some("1"), None),
            (1, "GET", 404, None, None),
        ];
        for (attempt, method, status, after, expected) in table {
            let method = method.parse().unwrap();
            let code = StatusCode::from_u16(status).unwrap();
            let got = pause(attempt, &method, code, &headers(after)).map(|p| p.as_millis());
            let fits = match (got, expected) {
                (Some(got), Some(expected)) => got >= expected && got <= expected + expected / 10,
                (got, expected) => got.is_none() && expected.is_none(),
            };
            assert!(
                fits,
                "attempt {attempt}, {method} {status}, Retry-After {after:?}: {got:?}, not {expected:?}"
            );
        }
    }
}
