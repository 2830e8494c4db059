//! Locks that make changes of the same object run one after the other (P-27).

use cloud_provider::SyncCallbacks;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::cache::MAX_AGE;
use crate::keyed_lock::KeyedLock;

/// The Service for which the object was last changed, and the time at which the change ended.
type Last = Option<(String, Instant)>;

pub(super) struct Locks(KeyedLock<String, Last>);

/// The right to change an object for one Service, until this guard is dropped.
pub(super) struct Held {
    last: OwnedMutexGuard<Last>,
    uid: String,
    changes: bool,
}

impl Default for Locks {
    fn default() -> Self {
        Self(KeyedLock::keeping(is_news))
    }
}

impl Locks {
    /// Waits for the right to change the object with this key.
    pub(super) async fn take(&self, key: String, uid: &str, callbacks: &dyn SyncCallbacks) -> Held {
        let last = match self.0.try_lock(key.clone()) {
            Some(last) => last,
            None => {
                callbacks.release_permit();
                let last = self.0.lock(key).await;
                callbacks.reacquire_permit().await;
                last
            }
        };
        Held {
            last,
            uid: uid.to_owned(),
            changes: false,
        }
    }
}

/// Returns `true` if a cache may still hold the state before the last change.
fn is_news(last: &Last) -> bool {
    last.as_ref().is_some_and(|(_, at)| at.elapsed() < MAX_AGE)
}

impl Held {
    /// Notes that the object is about to be changed.
    pub(super) fn note_change(&mut self) {
        self.changes = true;
    }

    /// Returns `true` if the object was changed for another Service after it was `read`.
    pub(super) fn overtook(&self, read: Option<Instant>) -> bool {
        let other = self.last.as_ref().filter(|(uid, _)| *uid != self.uid);
        other.is_some_and(|(_, changed)| read.is_none_or(|read| read <= *changed))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.changes {
            *self.last = Some((std::mem::take(&mut self.uid), Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn read_before_a_change_of_another_service_is_out_of_date() {
        let locks = Locks::default();
        let second = Duration::from_secs(1);
        let take = |uid: &'static str| locks.take("lb".into(), uid, &());
        let before = Instant::now();
        take("a").await.note_change();
        tokio::time::advance(second).await;
        assert!(
            !take("a").await.overtook(Some(before)),
            "it was changed for the same Service"
        );
        for _ in 0..2 {
            tokio::time::advance(second).await;
            let held = take("b").await;
            assert!(
                held.overtook(Some(before))
                    && held.overtook(None)
                    && !held.overtook(Some(Instant::now()))
            );
            assert!(
                held.overtook(Some(before)),
                "also the next time, if it was not changed meanwhile"
            );
        }
    }
}
