//! Worker permits, which a worker releases while it only waits.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};

/// A worker permit of a queue. A worker that waits for another system for long [releases](Self::release) it, so that
/// another key is processed meanwhile, and [reacquires](Self::reacquire) it to continue (INV-6). Dropping this value
/// releases the permit.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::sync::Arc;
/// use runtime::worker_permit::WorkerPermit;
/// use tokio::sync::Semaphore;
///
/// let permits = Arc::new(Semaphore::new(1));
/// let permit = WorkerPermit::acquire(&permits).await;
/// assert_eq!(permits.available_permits(), 0);
/// permit.release();
/// assert_eq!(permits.available_permits(), 1);
/// permit.reacquire().await;
/// assert_eq!(permits.available_permits(), 0);
/// # }
/// ```
#[derive(Default)]
pub struct WorkerPermit(Option<Acquired>);

struct Acquired {
    permits: Arc<Semaphore>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// Lock of the reacquisition: of several waiters for one permit, the first acquires it for all.
    reacquiring: AsyncMutex<()>,
}

impl WorkerPermit {
    /// Creates a permit without a semaphore, which can be reacquired without waiting.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Acquires a permit as soon as one is free, in the order of the calls, reacquisitions included.
    pub async fn acquire(permits: &Arc<Semaphore>) -> Self {
        let permit = Self(Some(Acquired {
            permits: Arc::clone(permits),
            permit: Mutex::default(),
            reacquiring: AsyncMutex::default(),
        }));
        permit.reacquire().await;
        permit
    }

    /// Releases the permit, so that another key can be processed.
    pub fn release(&self) {
        if let Some(acquired) = &self.0 {
            acquired.put(None);
        }
    }

    /// Reacquires a permit, waiting until one is free. Returns at once if this value still holds one.
    pub async fn reacquire(&self) {
        let Some(acquired) = &self.0 else { return };
        let _reacquiring = acquired.reacquiring.lock().await;
        let is_held = acquired.permit.lock().is_some();
        if !is_held {
            // The semaphore is never closed.
            acquired.put(Arc::clone(&acquired.permits).acquire_owned().await.ok());
        }
    }
}

impl Acquired {
    fn put(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.permit.lock() = permit;
    }
}

impl fmt::Debug for WorkerPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_reacquisitions_of_one_permit_do_not_wait_for_each_other() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = WorkerPermit::acquire(&permits).await;
        permit.release();
        let another = WorkerPermit::acquire(&permits).await;
        let back = async {
            tokio::join!(permit.reacquire(), permit.reacquire(), async {
                drop(another);
            })
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), back)
            .await
            .expect("both are back");
        assert_eq!(permits.available_permits(), 0);
        drop(permit);
        assert_eq!(permits.available_permits(), 1);
    }
}
