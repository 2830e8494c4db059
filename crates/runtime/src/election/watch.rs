//! The Lease as a watch shows it.

use std::pin::Pin;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::time::{Instant, sleep_until};

use super::api::{LeaseApi, WatchFailure};
use super::lease::Lease;

/// Minimum interval between the starts of two watches. The API server ends every watch after some minutes.
const APART: Duration = Duration::from_secs(1);
/// The pause after an error.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// Interval of new attempts where RBAC forbids the watch: the permission may be granted later.
const AFTER_FORBIDDEN: Duration = Duration::from_secs(600);

type Leases = BoxStream<'static, Result<Option<Lease>, WatchFailure>>;

/// Watches one Lease forever. The watch only makes an election faster, in addition to polling.
pub(super) struct LeaseWatch {
    api: LeaseApi,
    lock: String,
    state: LeaseWatchState,
    opened: Instant,
    is_forbidden: bool,
}

enum LeaseWatchState {
    Closed { until: Instant },
    Opening(BoxFuture<'static, Result<Leases, WatchFailure>>),
    Open(Leases),
}

impl LeaseWatch {
    pub(super) fn new(api: LeaseApi, lock: String) -> Self {
        let now = Instant::now();
        Self {
            api,
            lock,
            state: LeaseWatchState::Closed { until: now },
            opened: now,
            is_forbidden: false,
        }
    }

    /// Returns the next state of the Lease; `None`: it was deleted. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Lease> {
        loop {
            match &mut self.state {
                LeaseWatchState::Closed { until } => {
                    sleep_until(*until).await;
                    let api = self.api.clone();
                    self.opened = Instant::now();
                    self.state =
                        LeaseWatchState::Opening(Box::pin(async move { api.watch().await }));
                }
                LeaseWatchState::Opening(opening) => match Pin::new(opening).await {
                    Ok(leases) => self.state = LeaseWatchState::Open(leases),
                    Err(watch_failure) => self.close(Some(&watch_failure)),
                },
                LeaseWatchState::Open(leases) => match leases.next().await {
                    Some(Ok(lease)) => {
                        self.is_forbidden = false;
                        return lease;
                    }
                    Some(Err(watch_failure)) => self.close(Some(&watch_failure)),
                    None => self.close(None),
                },
            }
        }
    }

    fn close(&mut self, watch_failure: Option<&WatchFailure>) {
        let until = match watch_failure {
            None => self.opened + APART,
            Some(WatchFailure::Forbidden) => {
                if !std::mem::replace(&mut self.is_forbidden, true) {
                    tracing::debug!(
                        lock = self.lock,
                        "RBAC forbids to watch the lease, polling instead; allow the verb watch for a handover within \
                         a second"
                    );
                }
                Instant::now() + AFTER_FORBIDDEN
            }
            Some(WatchFailure::Other(error)) => {
                tracing::debug!(
                    lock = self.lock,
                    error,
                    "cannot watch the lease, polling it meanwhile"
                );
                Instant::now() + AFTER_ERROR
            }
        };
        self.state = LeaseWatchState::Closed { until };
    }
}
