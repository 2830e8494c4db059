//! Series about callers and webhooks (MET-25, APP-143).

use super::Presence::{Start, Use};
use super::{CALLS, CONVENTIONAL, Series, table};

const MILLISECONDS_DOUBLING: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];

/// Bucket bounds for the remaining lifetime of certificates in seconds, from 0 (expired) to one year.
const REMAINING: &[f64] = &[
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

table!(ACCESS {
    AUTHENTICATION_ATTEMPTS = Series::counter("authentication_attempts").by(&["result"]).from(Use)
        .help("Requests to authenticate, by result.");
    AUTHENTICATION_DURATION = Series::histogram("authentication_duration_seconds", MILLISECONDS_DOUBLING).by(&["result"])
        .from(Use)
        .help("Time to authenticate a request, in seconds.");
    AUTHENTICATED_USERS = Series::counter("authenticated_user_requests").by(&["username"]).from(Use)
        .help("Authenticated requests, by kind of user name.");
    TOKEN_CACHE_REQUESTS = Series::counter("authentication_token_cache_request_total").by(&["status"]).from(Use)
        .help("Look-ups of bearer tokens in the cache.");
    TOKEN_CACHE_DURATION = Series::histogram("authentication_token_cache_request_duration_seconds", CONVENTIONAL)
        .by(&["status"]).from(Use)
        .help("Time to authenticate a bearer token, by cache hit or miss, in seconds.");
    TOKEN_CACHE_FETCHES = Series::counter("authentication_token_cache_fetch_total").by(&["status"]).from(Use)
        .help("Token reviews because of a cache miss.");
    TOKEN_CACHE_ACTIVE = Series::gauge("authentication_token_cache_active_fetch_count").by(&["status"]).from(Use)
        .help("Token reviews in flight, and requests that wait for the token review of another request.");
    AUTHORIZATION_ATTEMPTS = Series::counter("authorization_attempts_total").by(&["result"]).from(Use)
        .help("Requests to authorize, by result.");
    AUTHORIZATION_DURATION = Series::histogram("authorization_duration_seconds", MILLISECONDS_DOUBLING).by(&["result"])
        .from(Use)
        .help("Time to authorize a request, in seconds.");
    DELEGATED_AUTHENTICATION = Series::counter("apiserver_delegated_authn_request_total").by(&["code"]).from(Use)
        .help("Token reviews sent to the API server, by HTTP status.");
    DELEGATED_AUTHENTICATION_DURATION =
        Series::histogram("apiserver_delegated_authn_request_duration_seconds", CALLS).by(&["code"]).from(Use)
        .help("Duration of a token review, in seconds.");
    DELEGATED_AUTHORIZATION = Series::counter("apiserver_delegated_authz_request_total").by(&["code"]).from(Use)
        .help("Subject access reviews sent to the API server, by HTTP status.");
    DELEGATED_AUTHORIZATION_DURATION =
        Series::histogram("apiserver_delegated_authz_request_duration_seconds", CALLS).by(&["code"]).from(Use)
        .help("Duration of a subject access review, in seconds.");
    CLIENT_CERTIFICATES = Series::histogram("apiserver_client_certificate_expiration_seconds", REMAINING).from(Start)
        .help("Remaining lifetime of a client certificate when it was accepted, in seconds.");
    WEBHOOK_REQUESTS = Series::counter("cloud_provider_webhook_request_total").by(&["code", "webhook"]).from(Use)
        .help("Answered admission requests, by HTTP status.");
    WEBHOOK_DURATION = Series::histogram("cloud_provider_webhook_request_duration_seconds", CALLS)
        .by(&["code", "webhook"]).from(Use)
        .help("Time to answer an admission request, in seconds.");
});
