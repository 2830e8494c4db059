//! The limit of requests: a bucket for each project, told in headers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

/// A bucket that is refilled evenly over an hour.
#[derive(Debug)]
pub(crate) struct Bucket {
    limit: u32,
    level: f64,
    at: Instant,
}

/// What the headers say of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    limit: u32,
    remaining: u32,
    reset: u64,
    pub(crate) is_exceeded: bool,
}

impl Bucket {
    pub(crate) fn new(limit: u32, remaining: u32) -> Self {
        Self { limit, level: f64::from(remaining), at: Instant::now() }
    }

    fn per_second(&self) -> f64 {
        f64::from(self.limit) / 3600.0
    }

    /// Takes one request out of the bucket, if there is one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and the limit
    pub(crate) fn take(&mut self) -> Allowance {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.at);
        self.at = now;
        self.level = (self.level + passed.as_secs_f64() * self.per_second()).min(f64::from(self.limit));
        // Levels are sums of fractions: a whole request may lack a hair.
        let is_exceeded = self.level < 1.0 - 1e-6;
        if !is_exceeded {
            self.level = (self.level - 1.0).max(0.0);
        }
        let until_full = Duration::from_secs_f64((f64::from(self.limit) - self.level) / self.per_second());
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let reset = (clock + until_full).as_secs();
        Allowance { limit: self.limit, remaining: self.level as u32, reset, is_exceeded }
    }
}

impl Allowance {
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        headers.insert("ratelimit-limit", HeaderValue::from(self.limit));
        headers.insert("ratelimit-remaining", HeaderValue::from(self.remaining));
        headers.insert("ratelimit-reset", HeaderValue::from(self.reset));
    }
}
