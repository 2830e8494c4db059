//! Rate limit of requests for each token, reported in headers.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::model::Model;

/// Rate limit of each token: requests in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Requests in one window.
    pub requests: u32,
    /// Length of a window.
    pub seconds: u32,
}

/// The window that a token is in.
pub(super) struct Window {
    ends: Instant,
    used: u32,
}

/// Values of the rate limit headers for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    limit: u32,
    remaining: u32,
    reset: u64,
    /// If set, the request exceeds the limit.
    pub(super) is_exceeded: bool,
}

impl Model {
    /// Counts a request; `None` if there is no limit.
    pub(super) fn count_against_limit(&mut self, token: &str) -> Option<Allowance> {
        let RateLimit {
            requests: limit,
            seconds,
        } = self.options.rate_limit?;
        let now = Instant::now();
        let fresh = || Window {
            ends: now + Duration::from_secs(seconds.into()),
            used: 0,
        };
        let window = self.windows.entry(token.to_owned()).or_insert_with(fresh);
        if window.ends <= now {
            *window = fresh();
        }
        let is_exceeded = window.used >= limit;
        window.used = window.used.saturating_add(1).min(limit);
        let reset = (window.ends - now).as_millis().div_ceil(1000);
        let reset = u64::try_from(reset).unwrap_or(u64::MAX);
        Some(Allowance {
            limit,
            remaining: limit - window.used,
            reset,
            is_exceeded,
        })
    }
}

impl Allowance {
    pub(super) fn tell(self, headers: &mut HeaderMap) {
        headers.insert("ratelimit-limit", HeaderValue::from(self.limit));
        headers.insert("ratelimit-remaining", HeaderValue::from(self.remaining));
        headers.insert("ratelimit-reset", HeaderValue::from(self.reset));
        if self.is_exceeded {
            headers.insert("retry-after", HeaderValue::from(self.reset));
        }
    }
}
