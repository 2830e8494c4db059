//! The layer that identifies the caller.

use std::sync::Arc;

use cloud_provider::{CloudMetrics, Error};
use http::StatusCode;
use tower::service_fn;

use super::attempt::{Attempt, Sends};
use super::credential::Trial;
use super::failure::Failure;
use super::{Access, Answer, Call, Credential, Session};

/// The way in which the caller is identified.
pub(super) enum Identity {
    /// By a credential; a newly read one is first tried with the call.
    Credential(Credential, Option<Arc<Call>>),
    /// By the access of a session.
    Session(Arc<dyn Session>),
}

/// Adds the header that identifies the caller. A credential that is refused with 401 is replaced, once, by a newer one.
pub(super) fn authenticate(
    inner: impl Sends,
    identity: Identity,
    metrics: Arc<dyn CloudMetrics>,
) -> impl Sends {
    let identity = Arc::new((identity, metrics));
    service_fn(move |attempt: Attempt| {
        let inner = inner.clone();
        let identity = Arc::clone(&identity);
        async move {
            let (identity, metrics) = &*identity;
            let inner = tower::service_fn(move |attempt| signed(inner.clone(), attempt));
            match identity {
                Identity::Credential(credential, validate) => {
                    let outcome =
                        with_credential(&inner, attempt, credential, validate.as_ref(), &**metrics)
                            .await;
                    (0..credential.taken_over()).for_each(|_| metrics.credential_changed(true));
                    outcome
                }
                Identity::Session(session) => with_session(&inner, attempt, &**session).await,
            }
        }
    })
}

/// Sends an attempt with a credential. A new credential is tried by one caller; the others continue with the current
/// one.
async fn with_credential(
    inner: &impl Sends,
    mut attempt: Attempt,
    credential: &Credential,
    validate: Option<&Arc<Call>>,
    metrics: &dyn CloudMetrics,
) -> Result<Answer, Failure> {
    let (mut access, trial) = credential.current(validate.is_some());
    if let (Some(trial), Some(call)) = (trial, validate) {
        match try_out(
            inner,
            Attempt {
                call: Arc::clone(call),
                ..attempt.clone()
            },
            trial,
        )
        .await
        {
            Some(accepted) => access = Some(accepted),
            None => metrics.credential_changed(false),
        }
    }
    attempt.access = access;
    let outcome = inner.once(attempt.clone()).await;
    match refused(&outcome)
        .then(|| credential.instead_of(attempt.access.as_ref()))
        .flatten()
    {
        Some(other) => {
            inner
                .once(Attempt {
                    access: Some(other),
                    ..attempt
                })
                .await
        }
        None => outcome,
    }
}

/// Sends a request, and once more if another signature may be accepted.
async fn signed(inner: impl Sends, attempt: Attempt) -> Result<Answer, Failure> {
    match inner.once(attempt.clone()).await {
        Err(failure) if failure.sign_again => inner.once(attempt).await,
        outcome => outcome,
    }
}

async fn with_session(
    inner: &impl Sends,
    attempt: Attempt,
    session: &dyn Session,
) -> Result<Answer, Failure> {
    let access = session.access().await.map_err(no_access)?;
    let outcome = inner
        .once(Attempt {
            access: Some(Arc::clone(&access)),
            ..attempt.clone()
        })
        .await;
    if !refused(&outcome) {
        return outcome;
    }
    match session.renewed(&access).await.map_err(no_access)? {
        Some(other) => {
            inner
                .once(Attempt {
                    access: Some(other),
                    ..attempt
                })
                .await
        }
        None => outcome,
    }
}

/// Returns the failure of a call without access. What the session did not find is not the object of the call, which must
/// not seem to be absent.
fn no_access(error: Error) -> Failure {
    Failure::not_sent(if error.is_not_found() {
        error.context("no access to the cloud's API")
    } else {
        error
    })
}

fn refused(outcome: &Result<Answer, Failure>) -> bool {
    outcome
        .as_ref()
        .is_err_and(|failure| failure.status == Some(StatusCode::UNAUTHORIZED))
}

async fn try_out(inner: &impl Sends, mut attempt: Attempt, trial: Trial) -> Option<Arc<Access>> {
    attempt.access = Some(Arc::clone(&trial.secret));
    match inner.once(attempt).await {
        Ok(_) => Some(trial.accepted()),
        Err(failure) => {
            trial.not_accepted(&failure.error);
            None
        }
    }
}
