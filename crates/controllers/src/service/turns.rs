//! Locks that serialize the calls for each Service (D-9, INV-6).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::queue::Queue;

/// Kind of work that locks a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// A sync of the Service. It has priority, because it updates the targets as well.
    Sync,
    /// An update of the Service's targets.
    Targets,
}

/// The locks of the Services. Calls for one Service never overlap, whichever queue they come from; a worker does not
/// wait for a locked Service, but its key is added to the queue again when the lock is released.
pub(super) struct Turns {
    syncs: Queue<String>,
    targets: Queue<String>,
    services: Mutex<HashMap<String, State>>,
}

/// Lock state of a Service that is in work or has a pending sync.
#[derive(Default)]
struct State {
    is_busy: bool,
    sync_waits: bool,
    targets_wait: bool,
}

/// The lock of a Service, released on drop.
pub(super) struct Turn {
    turns: Arc<Turns>,
    key: String,
}

impl Turns {
    /// Creates the locks. Keys of locked Services are added to these queues.
    pub(super) fn new(syncs: &Queue<String>, targets: &Queue<String>) -> Self {
        Self { syncs: syncs.clone(), targets: targets.clone(), services: Mutex::default() }
    }

    /// Locks the Service. Returns `None` if it is locked or a sync has priority; the key is then added to its queue
    /// when the lock is released.
    pub(super) fn take(self: &Arc<Self>, key: &str, lane: Lane) -> Option<Turn> {
        let mut services = self.services();
        if let Some(state) = services.get_mut(key) {
            match lane {
                Lane::Sync if !state.is_busy => {}
                Lane::Sync => state.sync_waits = true,
                Lane::Targets => state.targets_wait = true,
            }
            if state.is_busy || lane != Lane::Sync {
                return None;
            }
        }
        let state = services.entry(key.to_owned()).or_default();
        (state.is_busy, state.sync_waits) = (true, false);
        Some(Turn { turns: Arc::clone(self), key: key.to_owned() })
    }

    /// Locks the Service. Returns `None` if it is locked or a worker waits for it.
    pub(super) fn take_if_free(self: &Arc<Self>, key: &str) -> Option<Turn> {
        if self.is_taken(key) {
            return None;
        }
        self.take(key, Lane::Sync)
    }

    /// Returns `true` if the Service is locked, or a sync waits for the lock.
    pub(super) fn is_taken(&self, key: &str) -> bool {
        self.services().contains_key(key)
    }

    fn services(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Adds a sync to the queue when the lock is released.
    pub(super) fn then_sync(&self) {
        if let Some(state) = self.turns.services().get_mut(&self.key) {
            state.sync_waits = true;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut services = self.turns.services();
        let Some(state) = services.get_mut(&self.key) else { return };
        let next = if state.sync_waits {
            // The lock stays reserved for the sync. A waiting update of targets runs after the sync and finds nothing
            // to do.
            state.is_busy = false;
            Some(&self.turns.syncs)
        } else {
            let next = state.targets_wait.then_some(&self.turns.targets);
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

    fn turns() -> (Arc<Turns>, Queue<String>, Queue<String>) {
        let queue = |name: &str| Queue::new(name, RateLimiter::standard(), Arc::new(NoMetrics));
        let (syncs, targets) = (queue("syncs"), queue("targets"));
        (Arc::new(Turns::new(&syncs, &targets)), syncs, targets)
    }

    #[tokio::test]
    async fn who_comes_too_late_comes_again_when_the_turn_ends() {
        let (turns, syncs, targets) = turns();
        let turn = turns.take("x", Lane::Sync);
        assert!(turn.is_some() && turns.take("y", Lane::Targets).is_some());
        assert!(turns.take("x", Lane::Targets).is_none() && turns.take("x", Lane::Targets).is_none());
        assert!(turns.take_if_free("x").is_none() && turns.take_if_free("y").is_some());
        assert!(syncs.is_empty() && targets.is_empty());
        drop(turn);
        assert_eq!((syncs.len(), targets.len()), (0, 1));
        assert!(turns.take("x", Lane::Targets).is_some());
    }

    #[tokio::test]
    async fn a_sync_goes_before_a_move_of_targets() {
        let (turns, syncs, targets) = turns();
        let turn = turns.take("x", Lane::Targets).unwrap();
        assert!(turns.take("x", Lane::Targets).is_none());
        turn.then_sync();
        drop(turn);
        assert_eq!((syncs.len(), targets.len()), (1, 0));
        assert!(
            turns.take("x", Lane::Targets).is_none() && turns.take_if_free("x").is_none(),
            "it is kept for the sync"
        );
        let sync = turns.take("x", Lane::Sync);
        assert!(sync.is_some());
        drop(sync);
        assert_eq!((syncs.len(), targets.len()), (1, 1));
        assert!(turns.take_if_free("x").is_some());
    }
}
