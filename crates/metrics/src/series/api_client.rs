//! Series about requests to the API server (MET-21).

use super::Presence::Use;
use super::{Series, table};

const LATENCIES: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
const SIZES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

table!(API_CLIENT {
    REQUESTS = Series::counter("rest_client_requests_total").by(&["code", "method", "host"]).from(Use)
        .help("Requests to the API server, by HTTP status; <error> if there was no answer.");
    REQUEST_DURATION = Series::histogram("rest_client_request_duration_seconds", LATENCIES).by(&["verb", "host"]).from(Use)
        .help("Latency of requests to the API server, without watches, in seconds.");
    LIMITER_DURATION = Series::histogram("rest_client_rate_limiter_duration_seconds", LATENCIES).by(&["verb", "host"])
        .from(Use)
        .help("Time that the client-side rate limiter delayed a request, in seconds; watches are not limited.");
    REQUEST_SIZE = Series::histogram("rest_client_request_size_bytes", SIZES).by(&["verb", "host"]).from(Use)
        .help("Size of a request's body, in bytes.");
    RESPONSE_SIZE = Series::histogram("rest_client_response_size_bytes", SIZES).by(&["verb", "host"]).from(Use)
        .help("Size of a response's body, without watches, in bytes.");
    REQUEST_RETRIES = Series::counter("rest_client_request_retries_total").by(&["code", "verb", "host"]).from(Use)
        .help("Requests that were retried because of the response (429, 503 or 504).");
});
