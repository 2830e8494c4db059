//! How many connections there may be (P-38): a flood must not take what the process needs for its work.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::Limits;

/// The places for connections; clones share them.
#[derive(Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_address: usize,
}

/// A place of any caller, until it is known who it is.
pub(super) struct Place(OwnedSemaphorePermit);

/// The place of a connection, free again when this is dropped.
pub(super) struct Taken {
    places: Places,
    address: IpAddr,
    _place: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        let free = Arc::new(Semaphore::new(limits.connections));
        Self { free, taken: Arc::default(), per_address: limits.connections_per_address }
    }

    /// Whether the next connection has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// A free place, as soon as there is one.
    pub(super) async fn free(&self) -> Option<Place> {
        // `None` only if the semaphore were closed, which it never is.
        Arc::clone(&self.free).acquire_owned().await.ok().map(Place)
    }

    /// Gives the place to a caller, if it has not too many.
    pub(super) fn take(&self, place: Place, address: IpAddr) -> Option<Taken> {
        // One address in two spellings is one.
        let address = address.to_canonical();
        let mut taken = self.taken();
        let own = taken.entry(address).or_default();
        if *own >= self.per_address {
            return None;
        }
        *own += 1;
        Some(Taken { places: self.clone(), address, _place: place.0 })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(own) = taken.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_cannot_take_all_places_and_places_are_given_back() {
        let limits = Limits { connections: 3, connections_per_address: 2, ..Limits::standard(0) };
        let places = Places::new(&limits);
        let take = async |address: [u8; 4]| places.take(places.free().await.unwrap(), address.into());
        let (one, two) = (take([10, 0, 0, 1]).await.unwrap(), take([10, 0, 0, 1]).await.unwrap());
        assert!(take([10, 0, 0, 1]).await.is_none() && !places.is_full());
        let mapped = places.take(places.free().await.unwrap(), "::ffff:10.0.0.1".parse().unwrap());
        assert!(mapped.is_none(), "the same address as IPv6");
        let other = take([10, 0, 0, 2]).await.unwrap();
        assert!(places.is_full());
        drop((one, two));
        assert!(take([10, 0, 0, 1]).await.is_some());
        drop(other);
        assert!(places.taken().is_empty());
    }
}
