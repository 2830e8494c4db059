//! The layer that tries again.

use tokio::time::Instant;
use tower::service_fn;

use super::Patience;
use super::attempt::{Attempt, Sends};

pub(super) fn retry(inner: impl Sends, patience: Patience) -> impl Sends {
    service_fn(move |attempt: Attempt| {
        let inner = inner.clone();
        async move {
            let mut number = 1;
            loop {
                let failure = match inner.once(attempt.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                };
                let asked = failure.pause.or(failure.delay);
                let delay = asked.unwrap_or_else(|| patience.backoff(number, fastrand::f64()));
                if number >= patience.tries
                    || !failure.may_repeat(&attempt.call)
                    || asked.is_some_and(|asked| asked > patience.longest_pause)
                    || Instant::now() + delay >= attempt.give_up
                {
                    return Err(failure);
                }
                // A pause is sat out, by everybody, before the next try.
                if failure.pause.is_none() {
                    tokio::time::sleep(delay).await;
                }
                number += 1;
            }
        }
    })
}
