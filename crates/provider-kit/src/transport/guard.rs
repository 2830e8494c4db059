//! The layer that holds back changes while the fence is closed (INV-4).

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use cloud_provider::Fence;
use tower::service_fn;

use super::attempt::{Attempt, Sends};
use super::failure::Failure;

/// Continues an exchange only while the fence is open, unless the call changes nothing. The fence is checked after
/// every wait, such as for a connection, so that a process that was frozen in between sends nothing.
pub(super) fn guard(inner: impl Sends, fence: Fence) -> impl Sends {
    service_fn(move |attempt: Attempt| {
        let inner = inner.clone();
        let fence = fence.clone();
        async move {
            if !attempt.call.changes {
                return inner.once(attempt).await;
            }
            let place = attempt.call.place();
            fence
                .check()
                .map_err(|closed| Failure::not_sent(closed.context(place.clone())))?;
            let mut exchange = pin!(inner.once(attempt));
            poll_fn(|context| match fence.check() {
                Ok(()) => exchange.as_mut().poll(context),
                Err(closed) => Poll::Ready(Err(Failure::cut_off(closed.context(place.clone())))),
            })
            .await
        }
    })
}
