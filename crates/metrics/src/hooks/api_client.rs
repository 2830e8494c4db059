//! Metrics of requests to the API server (MET-21).

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use prometheus::{IntCounter, IntCounterVec};
use runtime::client::{RequestInfo, RequestMetrics};

use crate::histogram::{Histogram, HistogramVec};
use crate::hooks::{Credential, Reloads, code, number};
use crate::registry::Registry;
use crate::resolved::Resolved;
use crate::series::{
    LIMITER_DURATION, REQUEST_DURATION, REQUEST_RETRIES, REQUEST_SIZE, REQUESTS, RESPONSE_SIZE,
};

pub(crate) struct ApiClient {
    requests: IntCounterVec,
    duration: HistogramVec,
    limiter: HistogramVec,
    sent: HistogramVec,
    received: HistogramVec,
    retries: IntCounterVec,
    reloads: Reloads,
    calls: Resolved<(Method, Arc<str>), Calls>,
    answers: Resolved<(Option<u16>, Method, Arc<str>), IntCounter>,
}

/// The metrics of one HTTP method at one host.
struct Calls {
    duration: Histogram,
    limiter: Histogram,
    sent: Histogram,
    received: Histogram,
}

impl ApiClient {
    pub(crate) fn new(registry: &Registry, reloads: Reloads) -> Self {
        Self {
            reloads,
            requests: registry.counters(REQUESTS),
            duration: registry.histograms(REQUEST_DURATION),
            limiter: registry.histograms(LIMITER_DURATION),
            sent: registry.histograms(REQUEST_SIZE),
            received: registry.histograms(RESPONSE_SIZE),
            retries: registry.counters(REQUEST_RETRIES),
            calls: Resolved::default(),
            answers: Resolved::default(),
        }
    }

    fn update(&self, request: &RequestInfo, update: impl FnOnce(&Calls)) {
        let method = &request.method;
        let host = &request.host;
        let calls = self.calls.get(
            |known| (&known.0, &known.1) == (method, host),
            || {
                let labels = [method.as_str(), host];
                let calls = Calls {
                    duration: self.duration.with_label_values(&labels),
                    limiter: self.limiter.with_label_values(&labels),
                    sent: self.sent.with_label_values(&labels),
                    received: self.received.with_label_values(&labels),
                };
                ((method.clone(), Arc::clone(host)), calls)
            },
        );
        if let Some(calls) = calls {
            update(&calls);
        }
    }
}

impl RequestMetrics for ApiClient {
    fn answered(&self, request: &RequestInfo, status: Option<u16>, time: Duration) {
        let method = &request.method;
        let host = &request.host;
        let count = self.answers.get(
            |known| (known.0, &known.1, &known.2) == (status, method, host),
            || {
                let count =
                    self.requests
                        .with_label_values(&[&*code(status), method.as_str(), host]);
                ((status, method.clone(), Arc::clone(host)), count)
            },
        );
        if let Some(count) = count {
            count.inc();
        }
        if !request.is_watch() {
            self.update(request, |calls| calls.duration.observe(time.as_secs_f64()));
        }
    }

    fn limited(&self, request: &RequestInfo, time: Duration) {
        self.update(request, |calls| calls.limiter.observe(time.as_secs_f64()));
    }

    fn retried(&self, request: &RequestInfo, status: u16) {
        let labels = [
            &*status.to_string(),
            request.method.as_str(),
            &*request.host,
        ];
        self.retries.with_label_values(&labels).inc();
    }

    fn transferred(&self, request: &RequestInfo, sent: usize, received: usize) {
        self.update(request, |calls| {
            calls.sent.observe(number(sent));
            calls.received.observe(number(received));
        });
    }

    fn kubeconfig_changed(&self, is_in_use: bool) {
        self.reloads.count(Credential::Kubeconfig, is_in_use);
    }
}
