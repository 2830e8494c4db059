//! One at a time for each Service (D-9, INV-6).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::queue::Queue;

/// Who may call the cloud about which Service. Calls for one Service never overlap, whichever queue they come from;
/// nobody waits for a Service that is being worked on.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<String, Vec<Queue<String>>>>);

/// The right to call the cloud about a Service, until it is dropped.
pub(super) struct Turn {
    turns: Arc<Turns>,
    key: String,
}

impl Turns {
    /// The turn, or `None` if somebody else has it: then the key is added to `queue` again when that one ends.
    pub(super) fn take(self: &Arc<Self>, key: &str, queue: &Queue<String>) -> Option<Turn> {
        let mut busy = self.lock();
        match busy.get_mut(key) {
            Some(later) => {
                if !later.iter().any(|other| other.name() == queue.name()) {
                    later.push(queue.clone());
                }
                None
            }
            None => {
                busy.insert(key.to_owned(), Vec::new());
                Some(Turn { turns: Arc::clone(self), key: key.to_owned() })
            }
        }
    }

    /// The turn, or `None` if somebody else has it.
    pub(super) fn take_if_free(self: &Arc<Self>, key: &str) -> Option<Turn> {
        let mut busy = self.lock();
        if busy.contains_key(key) {
            return None;
        }
        busy.insert(key.to_owned(), Vec::new());
        Some(Turn { turns: Arc::clone(self), key: key.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Queue<String>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let later = self.turns.lock().remove(&self.key);
        for queue in later.into_iter().flatten() {
            queue.add(self.key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::limiter::RateLimiter;
    use runtime::queue::NoMetrics;

    #[tokio::test]
    async fn who_comes_too_late_comes_again_when_the_turn_ends() {
        let turns = Arc::new(Turns::default());
        let queue = |name| Queue::new(name, RateLimiter::standard(), Arc::new(NoMetrics));
        let (a, b) = (queue("a"), queue("b"));
        let turn = turns.take("x", &a);
        assert!(turn.is_some() && turns.take("y", &b).is_some());
        assert!(turns.take("x", &b).is_none() && turns.take("x", &b).is_none() && turns.take("x", &a).is_none());
        assert!(a.is_empty() && b.is_empty());
        drop(turn);
        assert_eq!((a.len(), b.len()), (1, 1));
        assert!(turns.take("x", &b).is_some());
    }
}
