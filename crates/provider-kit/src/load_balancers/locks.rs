//! Runs that change the same thing go one after the other (P-27).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::SyncObserver;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::Instant;

use super::known::MAX_AGE;

/// From so many on, those that nobody needs any more are sorted out.
const MANY: usize = 256;

/// For which Service it was last changed, and until when.
type Last = Option<(String, Instant)>;

#[derive(Default)]
pub(super) struct Locks(Mutex<HashMap<String, Arc<Turn<Last>>>>);

/// The right to change it for one Service, until this is dropped.
pub(super) struct Held {
    last: OwnedMutexGuard<Last>,
    uid: String,
    changes: bool,
}

impl Locks {
    /// The right to change what has this key, as soon as nobody else has it.
    pub(super) async fn take(&self, key: String, uid: &str, observer: &dyn SyncObserver) -> Held {
        let turn = self.turn(key);
        let last = match Arc::clone(&turn).try_lock_owned() {
            Ok(last) => last,
            Err(_) => {
                observer.waits();
                let last = turn.lock_owned().await;
                observer.goes_on().await;
                last
            }
        };
        Held { last, uid: uid.to_owned(), changes: false }
    }

    fn turn(&self, key: String) -> Arc<Turn<Last>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= MANY {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1 || turn.try_lock().is_ok_and(|last| is_news(&last)));
        }
        Arc::clone(turns.entry(key).or_default())
    }
}

/// Whether somebody may still know what was before.
fn is_news(last: &Last) -> bool {
    last.as_ref().is_some_and(|(_, at)| at.elapsed() < MAX_AGE)
}

impl Held {
    /// It is about to be changed.
    pub(super) fn note_change(&mut self) {
        self.changes = true;
    }

    /// Whether what was read at that time was changed for another Service since.
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
    async fn what_was_read_before_another_changed_it_is_out_of_date() {
        let (locks, second) = (Locks::default(), Duration::from_secs(1));
        let take = |uid: &'static str| locks.take("lb".into(), uid, &());
        let before = Instant::now();
        take("a").await.note_change();
        tokio::time::advance(second).await;
        assert!(!take("a").await.overtook(Some(before)), "it was changed for the same Service");
        for _ in 0..2 {
            tokio::time::advance(second).await;
            let held = take("b").await;
            assert!(held.overtook(Some(before)) && held.overtook(None) && !held.overtook(Some(Instant::now())));
            assert!(held.overtook(Some(before)), "also the next time, if it was not changed meanwhile");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_goes_after_the_other_and_nothing_is_kept_for_long() {
        let locks = Locks::default();
        let held = locks.take("lb".into(), "a", &()).await;
        let other = locks.take("lb".into(), "b", &());
        tokio::select! {
            biased;
            _ = other => panic!("a has it"),
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        drop(held);
        drop(locks.take("lb".into(), "b", &()).await);
        for n in 0..MANY {
            locks.take(n.to_string(), "a", &()).await.note_change();
        }
        tokio::time::advance(MAX_AGE).await;
        drop(locks.take("last".into(), "a", &()).await);
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }
}
