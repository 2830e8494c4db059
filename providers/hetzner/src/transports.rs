//! The clients of the three HTTP APIs: the cloud's, Robot's, and the metadata service's.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Result, Setup};
use provider_kit::transport::{
    Budget, Builder, Call, Credential, Jitter, Refill, Refusal, RetryPolicy, Transport,
};

use crate::config::{Config, Robot};
use crate::metrics::Requests;

/// Address of the metadata service.
const METADATA: &str = "http://169.254.169.254/hetzner/v1/metadata";

/// Timeouts and retries for the Cloud API and Robot.
const RETRY_POLICY: RetryPolicy = RetryPolicy {
    timeout: Duration::from_secs(15),
    max_attempts: 6,
    total_timeout: Duration::from_secs(120),
    backoff: Duration::from_secs(1),
    longest_backoff: Duration::from_secs(60),
    longest_pause: Duration::from_secs(30),
    jitter: Jitter::Full,
};

/// Returns the transport to the cloud's API. The rate limit is that of the project, which regains one request each
/// second and has other users.
#[must_use]
pub fn cloud(config: &Config, setup: &Setup) -> Builder {
    Transport::builder(config.endpoint.clone())
        .setup(setup)
        .credential(config.token.clone())
        .validate(Call::get("/locations", &[]).query("per_page", 1))
        .own_series(Requests(Arc::clone(&setup.metrics)))
        .retry_policy(RETRY_POLICY)
        .budget(Budget {
            share_left_to_others: f64::from(config.rate_limit_left_to_others) / 100.0,
            refill: Refill::Evenly(Duration::from_secs(3600)),
        })
        .correlation("x-correlation-id")
        .refusals(Refusal::read_with_code)
        .retry_refusals(|refusal: &Refusal| refusal.code == "rate_limit_exceeded")
        .log_bodies(config.debug)
}

/// Returns the transport to Robot's API, which is only read.
#[must_use]
pub fn robot(config: &Robot, credential: &Credential, setup: &Setup) -> Builder {
    Transport::builder(config.endpoint.clone())
        .setup(setup)
        .credential(credential.clone())
        .refusals(Refusal::read_with_code)
        .retry_policy(RetryPolicy {
            max_attempts: 2,
            ..RETRY_POLICY
        })
}

/// Returns the transport to the metadata service, which describes only the machine that sends the request.
pub(crate) fn metadata() -> Result<Transport> {
    let retry_policy = RetryPolicy {
        timeout: Duration::from_secs(5),
        max_attempts: 2,
        ..RETRY_POLICY
    };
    Transport::builder(METADATA)
        .retry_policy(retry_policy)
        .build()
}
