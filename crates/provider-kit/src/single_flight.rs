//! One request for all who want the same at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

use crate::inventory::Urgency;
use crate::transport::Priority;

type Work<T> = Shared<BoxFuture<'static, T>>;

/// A request that several may wait for. It ends with the last who waits: a call may be dropped at any await.
pub(crate) struct SingleFlight<T>(Mutex<Option<Flight<T>>>);

struct Flight<T> {
    result: WeakShared<BoxFuture<'static, T>>,
    /// Whether its first request may have been sent.
    started: Arc<AtomicBool>,
    /// Its own, and of those that it waits for.
    urgency: Urgency,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// [`join_at`](Self::join_at) for what nobody waits for with more urgency than others.
    pub(crate) fn join(&self, fresh: bool, work: impl FnOnce() -> BoxFuture<'static, T>) -> Work<T> {
        self.join_at(fresh, Priority::default(), |_| work())
    }

    /// Joins the flight that waits to take off, or one under way unless it must be `fresh`: then another is prepared, which
    /// takes off when the one before has ended. All are as urgent as the most urgent who waits.
    pub(crate) fn join_at(
        &self,
        fresh: bool,
        priority: Priority,
        work: impl FnOnce(Urgency) -> BoxFuture<'static, T>,
    ) -> Work<T> {
        let mut flight = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = flight.as_ref().and_then(Flight::upgrade);
        let urgency = match (&before, &*flight) {
            (Some(_), Some(flight)) => flight.urgency.clone(),
            _ => Urgency::of(priority),
        };
        urgency.raise(priority);
        if let Some((result, started)) = &before
            && (!fresh || !started)
        {
            return result.clone();
        }
        let before = before.and_then(|(result, _)| result.downgrade());
        let started = Arc::new(AtomicBool::new(false));
        let (work, takes_off) = (work(urgency.clone()), Arc::clone(&started));
        let result = async move {
            if let Some(before) = before.and_then(|before| before.upgrade()) {
                // Its failure is told to those who asked for it.
                let _ = before.await;
            }
            takes_off.store(true, Ordering::Release);
            work.await
        };
        let result = result.boxed().shared();
        *flight = result.downgrade().map(|result| Flight { result, started, urgency });
        result
    }

    /// Whether there is one to join.
    pub(crate) fn can_be_joined(&self, fresh: bool) -> bool {
        let flight = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flight.as_ref().and_then(Flight::upgrade).is_some_and(|(_, started)| !fresh || !started)
    }
}

impl<T> Flight<T> {
    /// The flight, if somebody still waits for it; and whether it has started.
    fn upgrade(&self) -> Option<(Work<T>, bool)>
    where
        T: Clone,
    {
        let result = self.result.upgrade().filter(|result| result.peek().is_none())?;
        Some((result, self.started.load(Ordering::Acquire)))
    }
}
