//! Locks by key: callers that change the same object take turns.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// The number of keys from which unused ones are removed.
const MANY: usize = 256;

/// A lock for each key, which protects a state of the type `S`: each holder finds the state that the previous one left.
///
/// ```
/// use provider_kit::keyed_lock::KeyedLock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ports = KeyedLock::<&str>::default();
/// let held = ports.lock("port-1").await;
/// assert!(ports.try_lock("port-1").is_none() && ports.try_lock("port-2").is_some());
/// drop(held);
/// assert!(ports.try_lock("port-1").is_some());
/// # }
/// ```
pub struct KeyedLock<K, S = ()> {
    locks: Mutex<HashMap<K, Arc<tokio::sync::Mutex<S>>>>,
    keeps: fn(&S) -> bool,
}

impl<K: Eq + Hash, S: Default> Default for KeyedLock<K, S> {
    fn default() -> Self {
        Self::keeping(|_| false)
    }
}

impl<K: Eq + Hash, S: Default> KeyedLock<K, S> {
    /// Returns locks that keep the state of an unused key for as long as `keeps` returns `true` for it. Otherwise, the
    /// state may be dropped, and starts again from its default.
    #[must_use]
    pub fn keeping(keeps: fn(&S) -> bool) -> Self {
        Self {
            locks: Mutex::default(),
            keeps,
        }
    }

    /// Locks a key, once all earlier callers have dropped their guards.
    pub async fn lock(&self, key: K) -> OwnedMutexGuard<S> {
        self.of(key).lock_owned().await
    }

    /// Locks a key, unless another caller holds it.
    pub fn try_lock(&self, key: K) -> Option<OwnedMutexGuard<S>> {
        self.of(key).try_lock_owned().ok()
    }

    fn of(&self, key: K) -> Arc<tokio::sync::Mutex<S>> {
        let mut locks = self.locks.lock();
        if locks.len() >= MANY {
            let is_used = |lock: &Arc<_>| Arc::strong_count(lock) > 1;
            locks.retain(|_, lock| {
                is_used(lock) || lock.try_lock().is_ok_and(|state| (self.keeps)(&state))
            });
        }
        Arc::clone(locks.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unused_keys_are_removed_and_used_or_kept_ones_stay() {
        let locks = KeyedLock::<usize, bool>::keeping(|is_kept| *is_kept);
        let held = locks.lock(1000).await;
        let waits = locks.lock(1000);
        tokio::pin!(waits);
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        for key in 0..MANY - 1 {
            *locks.lock(key).await = key == 7;
        }
        drop(locks.lock(2000).await);
        assert_eq!(
            locks.locks.lock().len(),
            3,
            "one is held, one kept, one new"
        );
        assert!(*locks.lock(7).await && !*locks.lock(8).await);
        drop(held);
        assert!(!*waits.await);
    }
}
