//! `DO_API_RATE_LIMIT_QPS`: a connector that sends requests one after the other, at this rate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use provider_kit::transport::{BodyLimit, Connector, NoAnswer};
use tokio::time::{Instant, sleep_until};

use crate::variables::Rate;

/// A connection on which requests leave at a limited rate.
pub(crate) struct Limited {
    inner: Arc<dyn Connector>,
    interval: Duration,
    next: Mutex<Option<Instant>>,
}

impl Limited {
    pub(crate) fn new(inner: Arc<dyn Connector>, Rate(rate): Rate) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::from_secs(3600));
        Self {
            inner,
            interval,
            next: Mutex::default(),
        }
    }

    /// Returns the time at which the next request leaves.
    fn slot(&self) -> Instant {
        let mut next = self.next.lock();
        let at = next.map_or_else(Instant::now, |next| next.max(Instant::now()));
        *next = Some(at + self.interval);
        at
    }
}

impl Connector for Limited {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let at = self.slot();
        let inner = Arc::clone(&self.inner);
        async move {
            sleep_until(at).await;
            inner.carry(request, limit).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use provider_kit::transport::in_process;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_leave_at_the_configured_rate() {
        let limited = Limited::new(in_process(axum::Router::new()), Rate(4.0));
        let start = Instant::now();
        let slots: Vec<_> = (0..3).map(|_| limited.slot() - start).collect();
        assert_eq!(
            slots,
            [0, 250, 500].map(Duration::from_millis),
            "the first leaves at once"
        );
    }
}
