//! The data that passes through the layers.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use super::access::{Access, redact};
use super::failure::{ErrorMapping, Failure};
use super::redact;
use super::{Answer, Call};
use crate::signing::Signer;

/// A call on its way down through the layers.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) call: Arc<Call>,
    pub(super) error_mapping: ErrorMapping,
    /// The time by which the call must have ended, with all its attempts.
    pub(super) give_up: Instant,
    /// The base URL and the credential of the request, once they are decided.
    pub(super) access: Option<Arc<Access>>,
    /// The signer that signs the request once it is complete.
    pub(super) signer: Option<Arc<dyn Signer>>,
}

impl Attempt {
    /// Removes secrets from a text, because a cloud may repeat what it was sent.
    pub(super) fn redact(&self, text: String) -> String {
        let text = redact::signatures(&redact(text, &self.call.hidden));
        let text = match &self.access {
            Some(access) => access.redact(text),
            None => text,
        };
        match &self.signer {
            Some(signer) => signer.redact(text),
            None => text,
        }
    }
}

/// A layer, together with every layer below it.
pub(super) trait Sends:
    Service<Attempt, Response = Answer, Error = Failure, Future: Send> + Clone + Send + Sync + 'static
{
    /// Sends one attempt through the layer.
    fn once(
        &self,
        attempt: Attempt,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send + use<Self> {
        self.clone().oneshot(attempt)
    }
}

impl<S> Sends for S where
    S: Service<Attempt, Response = Answer, Error = Failure, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The stack of all layers, with its type erased.
pub(super) trait Stack: Send + Sync {
    fn send(&self, attempt: Attempt) -> BoxFuture<'static, Result<Answer, Failure>>;
}

impl<S: Sends> Stack for S {
    fn send(&self, attempt: Attempt) -> BoxFuture<'static, Result<Answer, Failure>> {
        self.once(attempt).boxed()
    }
}
