//! Metrics of callers and webhooks (MET-25, APP-143). Callers are few, so the child is looked up each time.

use std::time::Duration;

use prometheus::{GaugeVec, IntCounterVec};
use serving::access::{
    AccessMetrics, AuthenticationResult, AuthorizationResult, Fetch, TokenCache,
};
use serving::server::{Limit, ServerMetrics};
use serving::webhook::WebhookMetrics;

use crate::histogram::{Histogram, HistogramVec};
use crate::registry::Registry;
use crate::series::{
    AUTHENTICATED_USERS, AUTHENTICATION_ATTEMPTS, AUTHENTICATION_DURATION, AUTHORIZATION_ATTEMPTS,
    AUTHORIZATION_DURATION, CLIENT_CERTIFICATES, DELEGATED_AUTHENTICATION,
    DELEGATED_AUTHENTICATION_DURATION, DELEGATED_AUTHORIZATION, DELEGATED_AUTHORIZATION_DURATION,
    SERVER_LIMITED, Series, TOKEN_CACHE_ACTIVE, TOKEN_CACHE_DURATION, TOKEN_CACHE_FETCHES,
    TOKEN_CACHE_REQUESTS, WEBHOOK_DURATION, WEBHOOK_REQUESTS,
};

/// A counter and a histogram of durations.
struct Timed {
    count: IntCounterVec,
    duration: HistogramVec,
}

impl Timed {
    fn new(registry: &Registry, count: &Series, duration: &Series) -> Self {
        Self {
            count: registry.counters(count),
            duration: registry.histograms(duration),
        }
    }

    fn ended(&self, labels: &[&str], time: Duration) {
        self.count.with_label_values(labels).inc();
        self.duration
            .with_label_values(labels)
            .observe(time.as_secs_f64());
    }
}

pub(crate) struct Access {
    authentication: Timed,
    users: IntCounterVec,
    tokens: Timed,
    token_fetches: IntCounterVec,
    token_fetches_active: GaugeVec,
    authorization: Timed,
    token_reviews: Timed,
    access_reviews: Timed,
    client_certificates: Histogram,
    limited: IntCounterVec,
}

impl Access {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            authentication: Timed::new(registry, AUTHENTICATION_ATTEMPTS, AUTHENTICATION_DURATION),
            users: registry.counters(AUTHENTICATED_USERS),
            tokens: Timed::new(registry, TOKEN_CACHE_REQUESTS, TOKEN_CACHE_DURATION),
            token_fetches: registry.counters(TOKEN_CACHE_FETCHES),
            token_fetches_active: registry.gauges(TOKEN_CACHE_ACTIVE),
            authorization: Timed::new(registry, AUTHORIZATION_ATTEMPTS, AUTHORIZATION_DURATION),
            token_reviews: Timed::new(
                registry,
                DELEGATED_AUTHENTICATION,
                DELEGATED_AUTHENTICATION_DURATION,
            ),
            access_reviews: Timed::new(
                registry,
                DELEGATED_AUTHORIZATION,
                DELEGATED_AUTHORIZATION_DURATION,
            ),
            client_certificates: registry.histogram(CLIENT_CERTIFICATES),
            limited: registry.counters(SERVER_LIMITED),
        }
    }
}

impl AccessMetrics for Access {
    fn authenticated(&self, result: AuthenticationResult, time: Duration) {
        self.authentication.ended(&[result.as_str()], time);
    }
    fn user_request(&self, username: &'static str) {
        self.users.with_label_values(&[username]).inc();
    }
    fn token_cache(&self, status: TokenCache, time: Duration) {
        self.tokens.ended(&[status.as_str()], time);
    }
    fn token_fetched(&self, ok: bool) {
        self.token_fetches
            .with_label_values(&[if ok { "ok" } else { "error" }])
            .inc();
    }
    #[allow(clippy::cast_precision_loss, reason = "it is one, mostly")]
    fn token_fetches(&self, status: Fetch, change: i64) {
        self.token_fetches_active
            .with_label_values(&[status.as_str()])
            .add(change as f64);
    }
    fn authorized(&self, result: AuthorizationResult, time: Duration) {
        self.authorization.ended(&[result.as_str()], time);
    }
    fn token_reviewed(&self, code: &str, time: Duration) {
        self.token_reviews.ended(&[code], time);
    }
    fn access_reviewed(&self, code: &str, time: Duration) {
        self.access_reviews.ended(&[code], time);
    }
    fn client_certificate(&self, remaining: Duration) {
        self.client_certificates.observe(remaining.as_secs_f64());
    }
    fn limited(&self, limit: Limit) {
        self.limited.with_label_values(&[limit.as_str()]).inc();
    }
}

impl ServerMetrics for Access {
    fn limited(&self, limit: Limit) {
        AccessMetrics::limited(self, limit);
    }
}

pub(crate) struct Webhooks(Timed);

impl Webhooks {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self(Timed::new(registry, WEBHOOK_REQUESTS, WEBHOOK_DURATION))
    }
}

impl WebhookMetrics for Webhooks {
    fn called(&self, webhook: &str, code: &str, time: Duration) {
        self.0.ended(&[code, webhook], time);
    }
}
