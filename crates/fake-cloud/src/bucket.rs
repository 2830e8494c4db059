//! A rate limit of requests.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket of requests that is refilled evenly.
#[derive(Clone, Debug)]
pub struct Bucket {
    limit: u32,
    level: f64,
    per_second: f64,
    at: Instant,
}

/// The state of the bucket after a request.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Capacity of the bucket.
    pub limit: u32,
    /// Number of requests left.
    pub remaining: u32,
    /// Time until the bucket is full again, without further requests.
    pub full_in: Duration,
    /// If set, this request exceeded the limit.
    pub is_exceeded: bool,
}

impl Bucket {
    /// Returns a bucket that is filled up to `limit` within `time`, and has `remaining` requests now.
    #[must_use]
    pub fn new(limit: u32, time: Duration, remaining: u32) -> Self {
        let per_second = f64::from(limit) / time.as_secs_f64();
        Self {
            limit,
            level: f64::from(remaining),
            per_second,
            at: Instant::now(),
        }
    }

    /// Takes one request from the bucket, if there is one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and the limit
    pub fn take(&mut self) -> Allowance {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.at);
        self.at = now;
        self.level =
            (self.level + passed.as_secs_f64() * self.per_second).min(f64::from(self.limit));
        // Levels are sums of fractions: a whole request may fall short by a rounding error.
        let is_exceeded = self.level < 1.0 - 1e-6;
        if !is_exceeded {
            self.level = (self.level - 1.0).max(0.0);
        }
        let full_in =
            Duration::from_secs_f64((f64::from(self.limit) - self.level) / self.per_second);
        Allowance {
            limit: self.limit,
            remaining: self.level as u32,
            full_in,
            is_exceeded,
        }
    }
}
