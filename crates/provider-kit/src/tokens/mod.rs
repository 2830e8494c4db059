//! Tokens that expire: one token for all callers, renewed before it expires by one request, however many callers wait.
//!
//! An [`Issuer`] knows how a cloud issues a token and what the token gives access to. The schedule is the same for all
//! clouds:
//!
//! | event | reaction |
//! |---|---|
//! | a token expires in some minutes | one caller renews the token; the others continue with it, and all of them do if the renewal fails |
//! | there is no valid token | all callers wait for one request |
//! | a service answers 401 | the call is repeated once with another token, which one request gets for all refused calls |
//! | the credential is refused | the credential is not sent for half a minute, because an account may be locked after some refusals |
//! | the credential changes (P-39) | the new credential is tried before it is used; if it is rejected, it is tried again when the old one is refused |
//! | the scope of the token changes | all calls fail for a minute, because objects that were not found in one account must not be created in another |
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

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::{Error, Result};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::transport::{Access, Session};

/// The time before expiry at which a token is renewed, unless a quarter of its lifetime is shorter.
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_secs(300);
/// The pause after a refusal of the credential, and between two attempts to renew a token that is still valid.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(30);
/// The pause after any other failure, in which concurrent callers get the same error.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
/// The timeout for the renewal of a token that is still valid.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which conclusions from another account's lists are forgotten.
const SCOPE_CHANGE_PAUSE: Duration = Duration::from_secs(60);

/// An issuer of tokens: knows the credential and the API.
#[async_trait]
pub trait Issuer: Send + Sync + 'static {
    /// The token or the access that it gives.
    type Token: Send + Sync + 'static;

    /// Requests a new token.
    ///
    /// # Errors
    /// *Unauthorized* if the credential is rejected; it stays that under [context](Error::context).
    async fn issue(&self) -> Result<Issued<Self::Token>>;
}

/// A token as it was issued.
#[derive(Clone, Debug)]
pub struct Issued<T> {
    /// The token or the access that it gives.
    pub token: T,
    /// The scope of the token, in words that distinguish accounts, projects or subscriptions: `project 17`.
    pub scope: String,
    /// Lifetime of the token, counted from the request.
    pub lifetime: Duration,
    /// If set, the token is renewed some minutes before it expires. Not set if a new token would expire at the same
    /// time. --
    pub is_renewable: bool,
}

/// The tokens of one credential.
pub struct Tokens<I: Issuer> {
    state: Mutex<State<I>>,
    /// Lock of the caller that requests a token: one at a time.
    asking: tokio::sync::Mutex<()>,
}

struct State<I: Issuer> {
    issuer: Arc<I>,
    /// Issuer with a new credential that was not accepted yet.
    newer: Option<Arc<I>>,
    held: Option<Held<I::Token>>,
    /// Scope of the last token.
    scope: Option<String>,
    failed: Pause,
    moved: Pause,
}

struct Held<T> {
    token: Arc<T>,
    renew: Instant,
    end: Instant,
}

/// Returns an issuer's error as *unauthorized*, if it or one of its causes is.
fn refused(err: Error) -> Error {
    let is_hidden = !err.is_unauthorized() && err.chain().any(Error::is_unauthorized);
    if is_hidden {
        Error::unauthorized(err.to_string())
    } else {
        err
    }
}

/// Pause of requests: the time at which it ends, and its cause.
type Pause = Option<(Instant, Error)>;

fn over(pause: &Pause) -> Result<()> {
    match pause {
        Some((until, err)) if Instant::now() < *until => Err(err.clone()),
        _ => Ok(()),
    }
}

impl<I: Issuer> Tokens<I> {
    /// Returns the tokens of this issuer, before any request.
    #[must_use]
    pub fn of(issuer: I) -> Self {
        let issuer = Arc::new(issuer);
        let asking = tokio::sync::Mutex::new(());
        let state = State {
            issuer,
            newer: None,
            held: None,
            scope: None,
            failed: None,
            moved: None,
        };
        Self {
            state: Mutex::new(state),
            asking,
        }
    }

    /// Returns the token to use now.
    ///
    /// # Errors
    /// The issuer's answer; *unauthorized* for a minute after the credential has become another account's.
    pub async fn current(&self) -> Result<Arc<I::Token>> {
        let Some((token, is_due)) = self.held() else {
            return self.ask(|_| true).await;
        };
        let Some(_asking) = is_due.then(|| self.asking.try_lock().ok()).flatten() else {
            return Ok(token);
        };
        // A caller that arrives during the renewal, or soon after it failed, does not start another one.
        self.lock()
            .held
            .iter_mut()
            .for_each(|held| held.renew = Instant::now() + AFTER_A_REFUSAL);
        let renewed = tokio::time::timeout(RENEWAL_TIMEOUT, self.issue()).await;
        let slow = |_| {
            Err(Error::other(format!(
                "no answer within {RENEWAL_TIMEOUT:?}"
            )))
        };
        match renewed.unwrap_or_else(slow) {
            Err(err) if self.held().is_some() => {
                tracing::warn!(%err, "cannot renew token; it stays in use until it expires");
                Ok(token)
            }
            outcome => outcome,
        }
    }

    /// Replaces the issuer, if the new one issues a token (P-39).
    ///
    /// # Errors
    /// The new issuer's answer, or *invalid* if its token has another scope; the current issuer stays.
    pub async fn reload(&self, issuer: I) -> Result<()> {
        self.take_over(Arc::new(issuer)).await.map(drop)
    }

    /// Returns a session for a service that is accessed with the token; `access` converts a token. It must always
    /// return the same access for the same token.
    pub fn session(
        self: &Arc<Self>,
        access: impl Fn(&I::Token) -> Result<Arc<Access>> + Send + Sync + 'static,
    ) -> Arc<dyn Session> {
        Arc::new(TokenSession {
            tokens: Arc::clone(self),
            access,
        })
    }

    /// Returns the token to use after a service has refused a token: the current one if it is another, or else a new
    /// one. `refused` returns `true` for the token that was refused.
    ///
    /// # Errors
    /// Like [`current`](Self::current).
    pub async fn instead_of(&self, refused: impl Fn(&I::Token) -> bool) -> Result<Arc<I::Token>> {
        self.ask(|token| !refused(token)).await
    }

    /// Returns the first token that `fits`: the current one, one that another caller requested meanwhile, or a new one.
    async fn ask(&self, fits: impl Fn(&I::Token) -> bool) -> Result<Arc<I::Token>> {
        let _asking = self.asking.lock().await;
        match self.held().filter(|(token, _)| fits(token)) {
            Some((token, _)) => Ok(token),
            None => self.issue().await,
        }
    }

    /// Issues a new token, which replaces the current one. The caller must hold `asking`.
    async fn issue(&self) -> Result<Arc<I::Token>> {
        let (issuer, newer) = self.lock().issuers()?;
        let requested_at = Instant::now();
        let outcome = issuer.issue().await.map_err(refused);
        if outcome.as_ref().is_err_and(Error::is_unauthorized)
            && let Some(newer) = newer
            && let Ok(token) = self.take_over(newer).await
        {
            tracing::info!("credential rejected; the new credential is in use");
            return Ok(token);
        }
        let mut state = self.lock();
        if !Arc::ptr_eq(&issuer, &state.issuer)
            && let Some(held) = &state.held
        {
            // Another issuer replaced this one meanwhile, so its answer does not count.
            return Ok(Arc::clone(&held.token));
        }
        match outcome {
            Ok(issued) => state.take(requested_at, issued),
            Err(err) => {
                let spared = if err.is_unauthorized() {
                    AFTER_A_REFUSAL
                } else {
                    AFTER_A_FAILURE
                };
                state.failed = Some((
                    Instant::now() + err.retry_after().unwrap_or(spared),
                    err.clone(),
                ));
                Err(err)
            }
        }
    }

    async fn take_over(&self, issuer: Arc<I>) -> Result<Arc<I::Token>> {
        over(&self.lock().moved)?;
        let requested_at = Instant::now();
        let outcome = issuer.issue().await.map_err(refused);
        let mut state = self.lock();
        over(&state.moved)?;
        let issued = match outcome {
            Ok(issued) => issued,
            Err(err) => {
                state.newer = Some(issuer);
                return Err(err);
            }
        };
        // In another account, every resource of this cluster would seem to be gone.
        if let Some(used) = state.scope.as_ref().filter(|used| **used != issued.scope) {
            let new = &issued.scope;
            return Err(Error::invalid(format!(
                "the new credential is for {new}, and this cluster's machines are in {used}; configure one for {used}, or restart \
                 if the cluster has moved"
            )));
        }
        (state.issuer, state.newer) = (issuer, None);
        state.take(requested_at, issued)
    }

    /// Returns the current token, unless it has expired; with `true` if it is due for renewal.
    fn held(&self) -> Option<(Arc<I::Token>, bool)> {
        let state = self.lock();
        let now = Instant::now();
        let held = state.held.as_ref().filter(|held| now < held.end)?;
        Some((Arc::clone(&held.token), now >= held.renew))
    }

    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock()
    }
}

impl<I: Issuer> State<I> {
    /// Returns the current issuer, and the one to try if the current one is rejected.
    fn issuers(&self) -> Result<(Arc<I>, Option<Arc<I>>)> {
        over(&self.moved).and_then(|()| over(&self.failed))?;
        Ok((Arc::clone(&self.issuer), self.newer.clone()))
    }

    /// Puts a token into use, unless its scope differs from that of the last one.
    fn take(&mut self, requested_at: Instant, issued: Issued<I::Token>) -> Result<Arc<I::Token>> {
        let Issued {
            token,
            scope: new,
            lifetime,
            is_renewable,
        } = issued;
        if let Some(before) = self
            .scope
            .replace(new.clone())
            .filter(|before| *before != new)
        {
            let err = Error::unauthorized(format!(
                "the credential is for {new} now, and was for {before}: all calls fail for a minute, so that reads of one do not \
                 cause changes in the other; if {new} is wrong, correct the configuration"
            ));
            tracing::warn!(%err);
            (self.held, self.moved) = (
                None,
                Some((Instant::now() + SCOPE_CHANGE_PAUSE, err.clone())),
            );
            return Err(err);
        }
        let token = Arc::new(token);
        let end = requested_at + lifetime;
        let renew = if is_renewable {
            end - RENEW_BEFORE_EXPIRY.min(lifetime / 4)
        } else {
            end
        };
        self.held = Some(Held {
            token: Arc::clone(&token),
            renew,
            end,
        });
        self.failed = None;
        Ok(token)
    }
}

/// A session for a service that is accessed with the tokens.
struct TokenSession<I: Issuer, F> {
    tokens: Arc<Tokens<I>>,
    access: F,
}

#[async_trait]
impl<I: Issuer, F: Fn(&I::Token) -> Result<Arc<Access>> + Send + Sync + 'static> Session
    for TokenSession<I, F>
{
    async fn access(&self) -> Result<Arc<Access>> {
        (self.access)(&*self.tokens.current().await?)
    }

    async fn renewed(&self, refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        let is_other =
            |token: &I::Token| !(self.access)(token).is_ok_and(|its| Arc::ptr_eq(&its, refused));
        (self.access)(&*self.tokens.ask(is_other).await?).map(Some)
    }
}
