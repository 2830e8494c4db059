//! The token of one account: requested, cached, renewed and discarded.

use std::sync::Arc;

use http::HeaderValue;
use parking_lot::{Mutex, MutexGuard};
use runtime::clock::Clock;
use tokio::time::{Instant, sleep};

use super::account::Account;
use super::error::{Doing, ServiceAccountError};
use super::token::{Lifetime, Need, PAUSES};

/// The source of an account's token. All clients of one name share it.
pub(super) struct TokenSource {
    account: Account,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Lock held while a token is requested, so that concurrent callers wait for the same token.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    /// Number of attempts that have ended, and the error of the last one if it failed.
    ended: u64,
    failure: Option<ServiceAccountError>,
}

/// A token in the form of a header.
#[derive(Clone)]
pub(super) struct Token {
    /// Value `Bearer …`, marked as sensitive so that it is never printed.
    header: HeaderValue,
    lifetime: Lifetime,
    /// Number of the attempt that returned the token.
    number: u64,
}

impl Token {
    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        self.lifetime
    }
}

impl TokenSource {
    pub(super) fn new(account: Account, clock: Arc<dyn Clock>) -> Self {
        Self {
            account,
            clock,
            state: Mutex::default(),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the token, requested or renewed if necessary.
    ///
    /// # Errors
    /// If no token could be requested, after four attempts of this caller or of the caller that it waited for.
    pub(super) async fn token(&self) -> Result<Token, ServiceAccountError> {
        let ended = match self.good_token() {
            Ok(token) => return Ok(token),
            Err(ended) => ended,
        };
        let _turn = self.turn.lock().await;
        if let Ok(token) = self.good_token() {
            return Ok(token);
        }
        if let Some(failure) = self.failure_since(ended) {
            return Err(failure);
        }
        let fetched = self.fetch().await;
        self.keep(fetched)
    }

    /// Discards a token that the server refused, unless a newer token exists.
    pub(super) fn discard(&self, refused: &Token) {
        let mut state = self.state();
        if state
            .token
            .as_ref()
            .is_some_and(|token| token.number == refused.number)
        {
            state.token = None;
        }
    }

    /// Returns the token if it need not be renewed, else the number of attempts that have ended.
    fn good_token(&self) -> Result<Token, u64> {
        let state = self.state();
        let good = state
            .token
            .as_ref()
            .filter(|token| token.lifetime.need(Instant::now()) == Need::None);
        good.cloned().ok_or(state.ended)
    }

    fn failure_since(&self, ended: u64) -> Option<ServiceAccountError> {
        let state = self.state();
        if state.ended == ended {
            None
        } else {
            state.failure.clone()
        }
    }

    async fn fetch(&self) -> Result<(HeaderValue, Lifetime), ServiceAccountError> {
        let mut pauses = PAUSES.iter();
        loop {
            match (self.fetch_once().await, pauses.next()) {
                (Err(error), Some(pause)) => {
                    tracing::debug!(account = self.account.name(), %error, ?pause, "no token, trying again");
                    sleep(*pause).await;
                }
                (result, _) => return result.map_err(ServiceAccountError::while_getting_a_token),
            }
        }
    }

    async fn fetch_once(&self) -> Result<(HeaderValue, Lifetime), ServiceAccountError> {
        // The account may have been deleted since.
        self.account.ensure().await?;
        let answer = self.account.request_token().await?;
        let unusable = || {
            self.account.unusable(
                Doing::RequestToken,
                "the API server's answer has no usable token",
            )
        };
        let status = answer
            .status
            .filter(|status| !status.token.is_empty())
            .ok_or_else(unusable)?;
        let mut header =
            HeaderValue::try_from(format!("Bearer {}", status.token)).map_err(|_| unusable())?;
        header.set_sensitive(true);
        Ok((
            header,
            Lifetime::new(
                status.expiration_timestamp.0,
                self.clock.now(),
                Instant::now(),
            ),
        ))
    }

    fn keep(
        &self,
        fetched: Result<(HeaderValue, Lifetime), ServiceAccountError>,
    ) -> Result<Token, ServiceAccountError> {
        let mut state = self.state();
        let now = Instant::now();
        state.ended += 1;
        let number = state.ended;
        match fetched {
            Ok((header, lifetime)) => {
                let token = Token {
                    header,
                    lifetime,
                    number,
                };
                state.token = Some(token.clone());
                state.failure = None;
                Ok(token)
            }
            Err(error) => {
                let old = state
                    .token
                    .as_mut()
                    .filter(|token| token.lifetime.need(now) == Need::Renew);
                if let Some(old) = old {
                    tracing::warn!(%error, "cannot renew the service account's token; the current one stays in use \
                                            until it expires");
                    old.lifetime = old.lifetime.postponed(now);
                    return Ok(old.clone());
                }
                state.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
