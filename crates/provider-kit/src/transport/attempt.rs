//! What passes through the layers.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use super::access::{Access, redact};
use super::failure::{Failure, Meaning};
use super::{Answer, Call};
use crate::signing::Signer;

/// A call on its way down.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) call: Arc<Call>,
    pub(super) meaning: Meaning,
    /// When the call must have ended, with all its tries.
    pub(super) give_up: Instant,
    /// Where it goes and what it is identified with, once that is decided.
    pub(super) access: Option<Arc<Access>>,
    /// Signs the request once it is complete.
    pub(super) signer: Option<Arc<dyn Signer>>,
}

impl Attempt {
    /// A cloud may repeat what it was sent.
    pub(super) fn redact(&self, text: String) -> String {
        let text = redact(text, &self.call.hidden);
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

/// A layer, with everything below it.
pub(super) trait Sends:
    Service<Attempt, Response = Answer, Error = Failure, Future: Send> + Clone + Send + Sync + 'static
{
    /// Sends one attempt.
    fn once(&self, attempt: Attempt) -> impl Future<Output = Result<Answer, Failure>> + Send + use<Self> {
        self.clone().oneshot(attempt)
    }
}

impl<S> Sends for S where
    S: Service<Attempt, Response = Answer, Error = Failure, Future: Send> + Clone + Send + Sync + 'static
{
}

/// All layers, whatever they are.
pub(super) trait Stack: Send + Sync {
    fn send(&self, attempt: Attempt) -> BoxFuture<'static, Result<Answer, Failure>>;
}

impl<S: Sends> Stack for S {
    fn send(&self, attempt: Attempt) -> BoxFuture<'static, Result<Answer, Failure>> {
        self.once(attempt).boxed()
    }
}
