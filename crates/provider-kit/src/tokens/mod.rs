//! Tokens that end: one for all who need it, renewed before its end by one request however many wait.
//!
//! How a token is asked for and what it is good for is a cloud's own, an [`Issuer`]; when to ask is the same everywhere:
//!
//! | when | what |
//! |---|---|
//! | some minutes before its end | one of its users renews it; the others go on with it, all of them if that fails |
//! | after its end, and at first | all wait for one request |
//! | a service answers 401 | once for each call another one is used, made by one request for all who were refused |
//! | the credential is refused | it is not shown again for half a minute: an account may be locked after some refusals |
//! | another credential is set (P-39) | it is tried, then used; if it is not accepted yet, it is tried again when the one before is refused |
//! | a token is for something else than the one before | nothing is done for a minute: who did not see something there would make it here |
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use cloud_provider::{Result, async_trait};
//! use http::header::AUTHORIZATION;
//! use provider_kit::tokens::{Issued, Issuer, Tokens};
//! use provider_kit::transport::{Access, Call, Transport};
//!
//! struct Acme {
//!     login: Transport,
//! }
//!
//! #[async_trait]
//! impl Issuer for Acme {
//!     type Token = Arc<Access>;
//!
//!     async fn issue(&self) -> Result<Issued<Arc<Access>>> {
//!         let token: String = self.login.read(Call::post("/login", &[]).reading()).await?;
//!         let access = Access::new("https://api.acme.example", AUTHORIZATION, &format!("Bearer {token}").into())?;
//!         let (scope, lifetime) = ("account 17".to_owned(), Duration::from_secs(3600));
//!         Ok(Issued { token: Arc::new(access), scope, lifetime, is_renewable: true })
//!     }
//! }
//!
//! # fn example(login: Transport) -> Result<()> {
//! let tokens = Arc::new(Tokens::of(Acme { login }));
//! let cloud = Transport::of_session(tokens.session(|access| Ok(Arc::clone(access)))).build()?;
//! # Ok(()) }
//! ```

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::{Error, Result};
use tokio::time::Instant;

use crate::transport::{Access, Session};

/// A token is renewed so long before its end, or when a quarter of its time is left.
const BEFORE_ITS_END: Duration = Duration::from_secs(300);
/// After a refusal of the credential, and between two tries to renew a token that is still good.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(30);
/// After any other failure, those who wanted a token at the same time are told of it.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
/// So long the one who renews a token that is still good waits for another one.
const WHILE_IT_IS_GOOD: Duration = Duration::from_secs(10);
/// What was concluded from another account's lists is forgotten after so long.
const AFTER_A_MOVE: Duration = Duration::from_secs(60);

/// Asks for tokens: with which credential, and where.
#[async_trait]
pub trait Issuer: Send + Sync + 'static {
    /// What a token is good for.
    type Token: Send + Sync + 'static;

    /// Asks for one.
    ///
    /// # Errors
    /// *Unauthorized* if the credential is not accepted.
    async fn issue(&self) -> Result<Issued<Self::Token>>;
}

/// A token, as it was made.
#[derive(Clone, Debug)]
pub struct Issued<T> {
    /// What it is good for.
    pub token: T,
    /// What it is for, in words that tell one account, project or subscription from another: `project 17`.
    pub scope: String,
    /// From when it was asked for.
    pub lifetime: Duration,
    /// Whether another one would live longer.
    pub is_renewable: bool,
}

/// The token in use.
pub struct Tokens<I: Issuer> {
    state: Mutex<State<I>>,
    /// Held by who asks for one: one at a time.
    asking: tokio::sync::Mutex<()>,
}

struct State<I: Issuer> {
    issuer: Arc<I>,
    /// One that is to take its place, and was not accepted yet.
    newer: Option<Arc<I>>,
    held: Option<Held<I::Token>>,
    /// What the last token was for.
    scope: Option<String>,
    failed: Pause,
    moved: Pause,
}

struct Held<T> {
    token: Arc<T>,
    renew: Instant,
    end: Instant,
}

/// Until then nobody asks, because of this.
type Pause = Option<(Instant, Error)>;

fn over(pause: &Pause) -> Result<()> {
    match pause {
        Some((until, err)) if Instant::now() < *until => Err(err.clone()),
        _ => Ok(()),
    }
}

impl<I: Issuer> Tokens<I> {
    /// Those of this issuer. It is not asked yet.
    #[must_use]
    pub fn of(issuer: I) -> Self {
        let (issuer, asking) = (Arc::new(issuer), tokio::sync::Mutex::new(()));
        let state = State { issuer, newer: None, held: None, scope: None, failed: None, moved: None };
        Self { state: Mutex::new(state), asking }
    }

    /// The token to use now.
    ///
    /// # Errors
    /// What the issuer answered; *unauthorized* for a minute after the credential has become another account's.
    pub async fn current(&self) -> Result<Arc<I::Token>> {
        let Some((token, is_due)) = self.held() else { return self.ask(|_| true).await };
        let Some(_asking) = is_due.then(|| self.asking.try_lock().ok()).flatten() else { return Ok(token) };
        // Whoever comes while this is under way, or soon after it failed, does not begin another one.
        self.lock().held.iter_mut().for_each(|held| held.renew = Instant::now() + AFTER_A_REFUSAL);
        let renewed = tokio::time::timeout(WHILE_IT_IS_GOOD, self.issue()).await;
        let slow = |_| Err(Error::other(format!("no answer within {WHILE_IT_IS_GOOD:?}")));
        match renewed.unwrap_or_else(slow) {
            Err(err) if self.held().is_some() => {
                tracing::warn!(%err, "the token could not be renewed; it stays in use until it ends");
                Ok(token)
            }
            outcome => outcome,
        }
    }

    /// Another issuer takes the place of the one in use, if it gives a token (P-39).
    ///
    /// # Errors
    /// What it answered, or *invalid* if its token is for something else; the one in use stays.
    pub async fn reload(&self, issuer: I) -> Result<()> {
        self.take_over(Arc::new(issuer)).await.map(drop)
    }

    /// A service that is reached with the token in use; `access` says how. Of one token it must always be the same.
    pub fn session(
        self: &Arc<Self>,
        access: impl Fn(&I::Token) -> Result<Arc<Access>> + Send + Sync + 'static,
    ) -> Arc<dyn Session> {
        Arc::new(Reached { tokens: Arc::clone(self), access })
    }

    /// The token to use after `refused` was not accepted: the one that took its place, or a new one.
    ///
    /// # Errors
    /// Like [`current`](Self::current).
    pub async fn instead_of(&self, refused: impl Fn(&I::Token) -> bool) -> Result<Arc<I::Token>> {
        self.ask(|token| !refused(token)).await
    }

    /// The first token that `fits`: the one in use, one that somebody else had made while this waited, or a new one.
    async fn ask(&self, fits: impl Fn(&I::Token) -> bool) -> Result<Arc<I::Token>> {
        let _asking = self.asking.lock().await;
        match self.held().filter(|(token, _)| fits(token)) {
            Some((token, _)) => Ok(token),
            None => self.issue().await,
        }
    }

    /// A new token, which takes the place of the one in use. For who holds `asking`.
    async fn issue(&self) -> Result<Arc<I::Token>> {
        let (issuer, newer) = self.lock().issuers()?;
        let asked = Instant::now();
        let outcome = issuer.issue().await;
        if outcome.as_ref().is_err_and(Error::is_unauthorized)
            && let Some(newer) = newer
            && let Ok(token) = self.take_over(newer).await
        {
            tracing::info!("the credential is not accepted any more; the new one is, and is in use");
            return Ok(token);
        }
        let mut state = self.lock();
        if !Arc::ptr_eq(&issuer, &state.issuer)
            && let Some(held) = &state.held
        {
            // Another one took its place meanwhile: whatever was answered to this one counts no more.
            return Ok(Arc::clone(&held.token));
        }
        match outcome {
            Ok(issued) => state.take(asked, issued),
            Err(err) => {
                let spared = if err.is_unauthorized() { AFTER_A_REFUSAL } else { AFTER_A_FAILURE };
                state.failed = Some((Instant::now() + err.retry_after().unwrap_or(spared), err.clone()));
                Err(err)
            }
        }
    }

    async fn take_over(&self, issuer: Arc<I>) -> Result<Arc<I::Token>> {
        over(&self.lock().moved)?;
        let asked = Instant::now();
        let outcome = issuer.issue().await;
        let mut state = self.lock();
        over(&state.moved)?;
        let issued = match outcome {
            Ok(issued) => issued,
            Err(err) => {
                state.newer = Some(issuer);
                return Err(err);
            }
        };
        // There, everything of this cluster would seem to be gone.
        if let Some(used) = state.scope.as_ref().filter(|used| **used != issued.scope) {
            let new = &issued.scope;
            return Err(Error::invalid(format!(
                "the new credential is for {new}, and this cluster's machines are in {used}; configure one for {used}, or restart \
                 if the cluster has moved"
            )));
        }
        (state.issuer, state.newer) = (issuer, None);
        state.take(asked, issued)
    }

    /// The one in use, unless it has ended; and whether to renew it.
    fn held(&self) -> Option<(Arc<I::Token>, bool)> {
        let (state, now) = (self.lock(), Instant::now());
        let held = state.held.as_ref().filter(|held| now < held.end)?;
        Some((Arc::clone(&held.token), now >= held.renew))
    }

    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I: Issuer> State<I> {
    /// Whom to ask now, and who may be accepted if that one is not any more.
    fn issuers(&self) -> Result<(Arc<I>, Option<Arc<I>>)> {
        over(&self.moved).and_then(|()| over(&self.failed))?;
        Ok((Arc::clone(&self.issuer), self.newer.clone()))
    }

    /// The token is in use from now on, unless it is for something else than the one before.
    fn take(&mut self, asked: Instant, issued: Issued<I::Token>) -> Result<Arc<I::Token>> {
        let Issued { token, scope: new, lifetime, is_renewable } = issued;
        if let Some(before) = self.scope.replace(new.clone()).filter(|before| *before != new) {
            let err = Error::unauthorized(format!(
                "the credential is for {new} now, and was for {before}: nothing is done for a minute, so that nothing follows here \
                 from what was read there; if {new} is wrong, correct the configuration"
            ));
            tracing::warn!(%err);
            (self.held, self.moved) = (None, Some((Instant::now() + AFTER_A_MOVE, err.clone())));
            return Err(err);
        }
        let (token, end) = (Arc::new(token), asked + lifetime);
        let renew = if is_renewable { end - BEFORE_ITS_END.min(lifetime / 4) } else { end };
        self.held = Some(Held { token: Arc::clone(&token), renew, end });
        self.failed = None;
        Ok(token)
    }
}

/// One service.
struct Reached<I: Issuer, F> {
    tokens: Arc<Tokens<I>>,
    access: F,
}

#[async_trait]
impl<I: Issuer, F: Fn(&I::Token) -> Result<Arc<Access>> + Send + Sync + 'static> Session for Reached<I, F> {
    async fn access(&self) -> Result<Arc<Access>> {
        (self.access)(&*self.tokens.current().await?)
    }

    async fn renewed(&self, refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        let is_other = |token: &I::Token| !(self.access)(token).is_ok_and(|its| Arc::ptr_eq(&its, refused));
        (self.access)(&*self.tokens.ask(is_other).await?).map(Some)
    }
}
