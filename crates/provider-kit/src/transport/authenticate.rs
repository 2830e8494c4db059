//! The layer that identifies the caller.

use std::sync::Arc;

use http::StatusCode;
use tower::service_fn;

use super::attempt::{Attempt, Sends};
use super::credential::{Secret, Trial};
use super::{Call, Credential};

/// Adds the credential. What was read newly is first tried with `validate`, by one caller; the others go on with what there
/// was. What is refused as unknown (401) is given up for what the files hold now.
pub(super) fn authenticate(inner: impl Sends, credential: Credential, validate: Option<Call>) -> impl Sends {
    let validate = validate.map(Arc::new);
    service_fn(move |mut attempt: Attempt| {
        let (inner, credential, validate) = (inner.clone(), credential.clone(), validate.clone());
        async move {
            let (mut secret, trial) = credential.current(validate.is_some());
            if let (Some(trial), Some(call)) = (trial, validate)
                && let Some(accepted) = try_out(&inner, Attempt { call, ..attempt.clone() }, trial).await
            {
                secret = Some(accepted);
            }
            attempt.secret = secret;
            match inner.once(attempt.clone()).await {
                Err(failure) if failure.status == Some(StatusCode::UNAUTHORIZED) => {
                    match credential.instead_of(attempt.secret.as_ref()) {
                        Some(other) => inner.once(Attempt { secret: Some(other), ..attempt }).await,
                        None => Err(failure),
                    }
                }
                outcome => outcome,
            }
        }
    })
}

async fn try_out(inner: &impl Sends, mut attempt: Attempt, trial: Trial) -> Option<Arc<Secret>> {
    attempt.secret = Some(Arc::clone(&trial.secret));
    match inner.once(attempt).await {
        Ok(_) => Some(trial.accepted()),
        Err(failure) => {
            trial.not_accepted(&failure.error);
            None
        }
    }
}
