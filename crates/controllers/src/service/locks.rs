//! Locks that serialize the calls for each Service (D-9, INV-6).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use runtime::queue::Queue;

/// Kind of work that locks a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// A sync of the Service. It has priority, because it updates the targets as well.
    Sync,
    /// An update of the Service's targets.
    Targets,
}

/// The locks of the Services. Calls for one Service never overlap, whichever queue they come from; a worker does not
/// wait for a locked Service, but its key is added to the queue again when the lock is released.
pub(super) struct ServiceLocks {
    syncs: Queue<String>,
    targets: Queue<String>,
    services: Mutex<HashMap<String, LockState>>,
}

/// Lock state of a Service that is in work or has a pending sync.
#[derive(Default)]
struct LockState {
    is_busy: bool,
    sync_waits: bool,
    targets_wait: bool,
}

/// The lock of a Service, released on drop.
pub(super) struct ServiceLock {
    locks: Arc<ServiceLocks>,
    key: String,
}

impl ServiceLocks {
    /// Creates the locks. Keys of locked Services are added to these queues.
    pub(super) fn new(syncs: &Queue<String>, targets: &Queue<String>) -> Self {
        Self {
            syncs: syncs.clone(),
            targets: targets.clone(),
            services: Mutex::default(),
        }
    }

    /// Locks the Service. Returns `None` if it is locked or a sync has priority; the key is then added to its queue
    /// when the lock is released.
    pub(super) fn take(self: &Arc<Self>, key: &str, kind: WorkKind) -> Option<ServiceLock> {
        let mut services = self.services();
        if let Some(state) = services.get_mut(key) {
            match kind {
                WorkKind::Sync if !state.is_busy => {}
                WorkKind::Sync => state.sync_waits = true,
                WorkKind::Targets => state.targets_wait = true,
            }
            if state.is_busy || kind != WorkKind::Sync {
                return None;
            }
        }
        let state = services.entry(key.to_owned()).or_default();
        (state.is_busy, state.sync_waits) = (true, false);
        Some(ServiceLock {
            locks: Arc::clone(self),
            key: key.to_owned(),
        })
    }

    /// Locks the Service. Returns `None` if it is locked or a worker waits for it.
    pub(super) fn take_if_free(self: &Arc<Self>, key: &str) -> Option<ServiceLock> {
        if self.is_locked(key) {
            return None;
        }
        self.take(key, WorkKind::Sync)
    }

    /// Returns `true` if the Service is locked, or a sync waits for the lock.
    pub(super) fn is_locked(&self, key: &str) -> bool {
        self.services().contains_key(key)
    }

    fn services(&self) -> MutexGuard<'_, HashMap<String, LockState>> {
        self.services.lock()
    }
}

impl ServiceLock {
    /// Adds a sync to the queue when the lock is released.
    pub(super) fn then_sync(&self) {
        if let Some(state) = self.locks.services().get_mut(&self.key) {
            state.sync_waits = true;
        }
    }
}

impl Drop for ServiceLock {
    fn drop(&mut self) {
        let mut services = self.locks.services();
        let Some(state) = services.get_mut(&self.key) else {
            return;
        };
        let next = if state.sync_waits {
            // The lock stays reserved for the sync. A waiting update of targets runs after the sync and finds nothing
            // to do.
            state.is_busy = false;
            Some(&self.locks.syncs)
        } else {
            let next = state.targets_wait.then_some(&self.locks.targets);
            services.remove(&self.key);
            next
        };
        drop(services);
        if let Some(queue) = next {
            queue.add(self.key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::limiter::RateLimiter;
    use runtime::queue::NoMetrics;

    fn locks() -> (Arc<ServiceLocks>, Queue<String>, Queue<String>) {
        let queue = |name: &str| Queue::new(name, RateLimiter::standard(), Arc::new(NoMetrics));
        let syncs = queue("syncs");
        let targets = queue("targets");
        (
            Arc::new(ServiceLocks::new(&syncs, &targets)),
            syncs,
            targets,
        )
    }

    #[tokio::test]
    async fn key_of_a_locked_service_is_queued_when_the_lock_is_released() {
        let (locks, syncs, targets) = locks();
        let lock = locks.take("x", WorkKind::Sync);
        assert!(lock.is_some() && locks.take("y", WorkKind::Targets).is_some());
        assert!(
            locks.take("x", WorkKind::Targets).is_none()
                && locks.take("x", WorkKind::Targets).is_none()
        );
        assert!(locks.take_if_free("x").is_none() && locks.take_if_free("y").is_some());
        assert!(syncs.is_empty() && targets.is_empty());
        drop(lock);
        assert_eq!((syncs.len(), targets.len()), (0, 1));
        assert!(locks.take("x", WorkKind::Targets).is_some());
    }

    #[tokio::test]
    async fn sync_has_priority_over_an_update_of_targets() {
        let (locks, syncs, targets) = locks();
        let lock = locks.take("x", WorkKind::Targets).unwrap();
        assert!(locks.take("x", WorkKind::Targets).is_none());
        lock.then_sync();
        drop(lock);
        assert_eq!((syncs.len(), targets.len()), (1, 0));
        assert!(
            locks.take("x", WorkKind::Targets).is_none() && locks.take_if_free("x").is_none(),
            "it is kept for the sync"
        );
        let sync = locks.take("x", WorkKind::Sync);
        assert!(sync.is_some());
        drop(sync);
        assert_eq!((syncs.len(), targets.len()), (1, 1));
        assert!(locks.take_if_free("x").is_some());
    }
}
