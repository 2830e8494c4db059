//! Clients of the metadata service of the machine that the program runs on.

use std::time::Duration;

use http::HeaderMap;

use super::{Answer, Builder, Refusal, RetryPolicy};

impl Builder {
    /// Prepares a client of the metadata service: refusals in plain text, and no bodies in the log, because they may be
    /// credentials. A 404 is the service's own: *not found*. There are three attempts of five seconds: a service that has
    /// just started may take seconds, and where there is none, its address may swallow requests without an answer.
    #[must_use]
    pub fn metadata_service(self) -> Self {
        let seconds = Duration::from_secs;
        let retry_policy = RetryPolicy {
            timeout: seconds(5),
            total_timeout: seconds(15),
            max_attempts: 3,
            ..RetryPolicy::default()
        };
        let plain = |_: &HeaderMap, body: &[u8]| {
            let code = Refusal::UNSPECIFIED.to_owned();
            let message = String::from_utf8_lossy(body).into_owned();
            Some(Refusal {
                code,
                message,
                details: Vec::new(),
            })
        };
        self.retry_policy(retry_policy)
            .refusals(plain)
            .log_bodies(false)
    }
}

impl Answer {
    /// Returns the body as text, without blanks around it.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }
}
