//! Circuit breaker for APIs that punish requests after a refusal.

use std::time::Duration;

use cloud_provider::{Error, Result};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::transport::Credential;

/// A circuit breaker that sends no request for a while after a refusal: for APIs that limit requests per hour, or that
/// block the IP address of a client after repeated wrong passwords. Requests are sent one at a time, so that no other
/// request is in flight when one is refused.
///
/// ```
/// use std::time::Duration;
/// use provider_kit::breaker::{Breaker, Pauses};
/// use provider_kit::transport::{Call, Credential, Transport};
///
/// # async fn example(cloud: Transport, credential: Credential) -> cloud_provider::Result<()> {
/// let pauses = Pauses { limited: Duration::from_secs(300), unauthorized: Duration::from_secs(900) };
/// let breaker = Breaker::new("the Acme API", pauses, credential);
/// let machines: Vec<u32> = breaker.send(cloud.read(Call::get("/machines", &[]))).await?;
/// # Ok(()) }
/// ```
pub struct Breaker {
    api: &'static str,
    pauses: Pauses,
    credential: Credential,
    open: Mutex<Option<Open>>,
    turn: tokio::sync::Mutex<()>,
}

/// The pauses after refusals.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Pause after a *rate limited* or *quota* error, and after a 403; zero means no pause.
    pub limited: Duration,
    /// Pause after the credential was rejected (401), unless the credential changes before.
    pub unauthorized: Duration,
}

/// HTTP status of a credential that is unknown. A 403 means that a known one is not permitted to do something.
const UNAUTHORIZED: u16 = 401;

struct Open {
    until: Instant,
    /// Generation of the credential that was rejected.
    generation: Option<u64>,
}

impl Breaker {
    /// Returns a closed breaker, which sends requests. `api` names the API in messages.
    #[must_use]
    pub fn new(api: &'static str, pauses: Pauses, credential: Credential) -> Self {
        Self {
            api,
            pauses,
            credential,
            open: Mutex::new(None),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// Sends a request once all earlier ones have ended. During a pause, the request is not sent.
    ///
    /// # Errors
    /// The error of the request; *rate limited* or *unauthorized* during a pause.
    pub async fn send<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let _turn = self.turn.lock().await;
        self.check()?;
        let answer = request.await;
        if let Err(err) = &answer {
            self.note(err);
        }
        answer
    }

    /// Checks if a request would be sent now, for a caller that has to wait for something else first.
    ///
    /// # Errors
    /// *Rate limited* or *unauthorized* during a pause.
    pub fn check(&self) -> Result<()> {
        let mut open = self.open.lock();
        let Some(Open { until, generation }) = &*open else {
            return Ok(());
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero()
            || generation.is_some_and(|generation| generation != self.credential.generation())
        {
            *open = None;
            return Ok(());
        }
        let api = self.api;
        Err(match generation {
            None => Error::rate_limited(
                format!("{api} limits requests; the next one is sent in {left:.0?}"),
                left,
            ),
            Some(_) => Error::unauthorized(format!(
                "{api} rejected the credential; no request is sent until the credential changes, or for {left:.0?}, because \
                 the API may block a client that goes on"
            )),
        })
    }

    fn note(&self, err: &Error) {
        let (pause, generation) = if err.is_unauthorized() && err.status() == Some(UNAUTHORIZED) {
            (self.pauses.unauthorized, Some(self.credential.generation()))
        } else if err.is_unauthorized() || err.is_quota() || err.is_rate_limited() {
            (self.pauses.limited, None)
        } else {
            return;
        };
        if !pause.is_zero() {
            tracing::warn!(%err, ?pause, "no requests to {} for a while", self.api);
            let open = Open {
                until: Instant::now() + pause,
                generation,
            };
            *self.open.lock() = Some(open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSES: Pauses = Pauses {
        limited: Duration::from_secs(300),
        unauthorized: Duration::from_secs(900),
    };

    async fn refuse(breaker: &Breaker, err: Error) -> Error {
        breaker.send(async { Err::<(), _>(err) }).await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn breaker_pauses_after_a_refusal_according_to_its_kind() {
        for (err, pause) in [
            (Error::quota("limit").with_status(403), 300),
            (
                Error::unauthorized("GET /401 answered 401 at times").with_status(403),
                300,
            ),
            (Error::unauthorized("who?").with_status(401), 900),
        ] {
            let breaker = Breaker::new("it", PAUSES, Credential::basic("user", "password"));
            assert_eq!(
                refuse(&breaker, err.clone()).await.to_string(),
                err.to_string()
            );
            tokio::time::sleep(Duration::from_secs(pause - 1)).await;
            let held = breaker
                .send(std::future::pending::<Result<()>>())
                .await
                .unwrap_err();
            assert!(
                held.to_string().starts_with("it ")
                    && (held.is_rate_limited() || held.is_unauthorized())
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
            breaker.send(async { Ok(()) }).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_failures_open_no_breaker_and_requests_are_serialized() {
        let breaker = Breaker::new("it", PAUSES, Credential::none());
        refuse(&breaker, Error::not_found("answered 404")).await;
        refuse(&breaker, Error::other("answered 503")).await;
        let began = Instant::now();
        let slow = || {
            breaker.send(async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(())
            })
        };
        let (one, two) = tokio::join!(slow(), slow());
        assert!(one.is_ok() && two.is_ok() && began.elapsed() == Duration::from_secs(2));
    }
}
