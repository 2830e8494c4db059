//! Worker permits, which a worker releases while it only waits.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Coming, OwnedSemaphorePermit, Semaphore};

/// A worker permit of a queue. A worker that waits for another system for long [releases](Self::leave) it, so that
/// another key is processed meanwhile, and [reacquires](Self::come_back) it to continue (INV-6). Dropping this value
/// releases the permit.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::sync::Arc;
/// use runtime::place::Place;
/// use tokio::sync::Semaphore;
///
/// let places = Arc::new(Semaphore::new(1));
/// let place = Place::take(&places).await;
/// assert_eq!(places.available_permits(), 0);
/// place.leave();
/// assert_eq!(places.available_permits(), 1);
/// place.come_back().await;
/// assert_eq!(places.available_permits(), 0);
/// # }
/// ```
#[derive(Default)]
pub struct Place(Option<Taken>);

struct Taken {
    places: Arc<Semaphore>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// Lock of the reacquisition: of several waiters for one permit, the first acquires it for all.
    coming: Coming<()>,
}

impl Place {
    /// Creates a permit without a semaphore, which can be reacquired without waiting.
    #[must_use]
    pub fn own() -> Self {
        Self::default()
    }

    /// Acquires a permit as soon as one is free, in the order of the calls, reacquisitions included.
    pub async fn take(places: &Arc<Semaphore>) -> Self {
        let place =
            Self(Some(Taken { places: Arc::clone(places), permit: Mutex::default(), coming: Coming::default() }));
        place.come_back().await;
        place
    }

    /// Releases the permit, so that another key can be processed.
    pub fn leave(&self) {
        if let Some(taken) = &self.0 {
            taken.put(None);
        }
    }

    /// Reacquires a permit, waiting until one is free. Returns at once if this value still holds one.
    pub async fn come_back(&self) {
        let Some(taken) = &self.0 else { return };
        let _coming = taken.coming.lock().await;
        let is_here = taken.permit.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_here {
            // The semaphore is never closed.
            taken.put(Arc::clone(&taken.places).acquire_owned().await.ok());
        }
    }
}

impl Taken {
    fn put(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_who_come_back_to_one_place_do_not_wait_for_each_other() {
        let places = Arc::new(Semaphore::new(1));
        let place = Place::take(&places).await;
        place.leave();
        let another = Place::take(&places).await;
        let back = async { tokio::join!(place.come_back(), place.come_back(), async { drop(another) }) };
        tokio::time::timeout(std::time::Duration::from_secs(60), back).await.expect("both are back");
        assert_eq!(places.available_permits(), 0);
        drop(place);
        assert_eq!(places.available_permits(), 1);
    }
}
