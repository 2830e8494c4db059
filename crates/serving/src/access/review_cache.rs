//! Cache of the API server's answers to TokenReviews and SubjectAccessReviews. Concurrent equal reviews share one
//! request.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::Shared;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Cached results of type `V` for reviews with key `K`. Clones share the cache.
pub(super) struct ReviewCache<K, V>(Arc<Mutex<CacheState<K, V>>>);

impl<K, V> Clone for ReviewCache<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct CacheState<K, V> {
    /// Answers with the times at which they expire.
    kept: LruCache<K, (V, Instant)>,
    pending: HashMap<K, Pending<V>>,
}

type Pending<V> = Shared<oneshot::Receiver<V>>;

/// Maximum number of different pending questions. Callers need no credential, and a question continues after its caller
/// has disconnected: without a limit, short-lived callers would fill the memory.
const MOST_PENDING: usize = 1024;

/// Outcome of a lookup: a cached answer or a pending question.
pub(super) enum CachedReview<V> {
    /// The answer was kept.
    Cached(V),
    /// The question was sent by this call.
    Started(Pending<V>),
    /// An identical question is already pending; its answer is shared.
    Joined(Pending<V>),
    /// The question was not sent: too many others are pending.
    Full,
}

impl<K, V> ReviewCache<K, V>
where
    K: Eq + Hash + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(capacity: NonZeroUsize) -> Self {
        Self(Arc::new(Mutex::new(CacheState {
            kept: LruCache::new(capacity),
            pending: HashMap::new(),
        })))
    }

    /// Returns the cached answer, or that of `question`, which runs in a task of its own: it is completed even if all
    /// callers disconnect, and callers with an equal question share its answer. `None` for `question` means that no
    /// request is permitted now. `ttl` returns the time for which the answer is cached.
    pub(super) fn review<F>(
        &self,
        key: K,
        question: impl FnOnce() -> Option<F>,
        ttl: impl FnOnce(&V) -> Option<Duration> + Send + 'static,
    ) -> CachedReview<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut state = self.lock();
        if let Some(answer) = fresh(&mut state.kept, &key) {
            return CachedReview::Cached(answer);
        }
        if let Some(pending) = state.pending.get(&key) {
            return CachedReview::Joined(pending.clone());
        }
        if state.pending.len() >= MOST_PENDING {
            return CachedReview::Full;
        }
        // The closure is called under the lock, but its future runs only in the spawned task, without the lock.
        let Some(question) = question() else {
            return CachedReview::Full;
        };
        let (answered, pending) = oneshot::channel();
        let pending = pending.shared();
        state.pending.insert(key.clone(), pending.clone());
        drop(state);
        // Created before the task, so that the entry is removed even if the task panics or is dropped with its runtime.
        let entry = PendingEntry {
            answers: self.clone(),
            key,
        };
        tokio::spawn(async move {
            let answer = question.await;
            entry.fill(&answer, ttl(&answer));
            _ = answered.send(answer);
        });
        CachedReview::Started(pending)
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<K, V>> {
        self.0.lock()
    }
}

/// Returns the answer to `key`, unless it has expired.
fn fresh<K: Eq + Hash, V: Clone>(kept: &mut LruCache<K, (V, Instant)>, key: &K) -> Option<V> {
    let (answer, expires) = kept.get(key)?;
    if *expires > Instant::now() {
        return Some(answer.clone());
    }
    kept.pop(key);
    None
}

/// Guard of a pending review, which removes its entry on drop.
struct PendingEntry<K: Eq + Hash + Clone + Send + 'static, V: Clone + Send + Sync + 'static> {
    answers: ReviewCache<K, V>,
    key: K,
}

impl<K, V> PendingEntry<K, V>
where
    K: Eq + Hash + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn fill(self, answer: &V, ttl: Option<Duration>) {
        if let Some(expires) = ttl
            .filter(|ttl| !ttl.is_zero())
            .and_then(|ttl| Instant::now().checked_add(ttl))
        {
            self.answers
                .lock()
                .kept
                .put(self.key.clone(), (answer.clone(), expires));
        }
    }
}

impl<K, V> Drop for PendingEntry<K, V>
where
    K: Eq + Hash + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn drop(&mut self) {
        self.answers.lock().pending.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const EIGHT: NonZeroUsize = NonZeroUsize::new(8).unwrap();

    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    async fn get(
        answers: &ReviewCache<&'static str, u32>,
        calls: &Arc<AtomicU32>,
        ttl: u64,
    ) -> (u32, &'static str) {
        let calls = Arc::clone(calls);
        let question = || {
            Some(async move {
                tokio::time::sleep(s(1)).await;
                calls.fetch_add(1, Ordering::Relaxed) + 1
            })
        };
        match answers.review("key", question, move |_| Some(s(ttl))) {
            CachedReview::Cached(answer) => (answer, "kept"),
            CachedReview::Started(pending) => (pending.await.unwrap(), "begun"),
            CachedReview::Joined(pending) => (pending.await.unwrap(), "joined"),
            CachedReview::Full => (0, "full"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn equal_reviews_share_one_request_and_its_answer_is_cached() {
        let answers = ReviewCache::new(EIGHT);
        let calls = Arc::new(AtomicU32::new(0));
        let (first, second) = tokio::join!(get(&answers, &calls, 10), get(&answers, &calls, 10));
        assert_eq!((first, second), ((1, "begun"), (1, "joined")));
        assert_eq!(get(&answers, &calls, 10).await, (1, "kept"));
        tokio::time::sleep(s(10)).await;
        assert_eq!(
            get(&answers, &calls, 10).await,
            (2, "begun"),
            "its time was over"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_answer_is_removed() {
        let mut kept = LruCache::new(EIGHT);
        kept.put("key", (1, Instant::now() + s(10)));
        assert_eq!(fresh(&mut kept, &"key"), Some(1));
        tokio::time::advance(s(10)).await;
        assert_eq!((fresh(&mut kept, &"key"), kept.len()), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_time_to_live_is_not_kept() {
        let answers = ReviewCache::new(EIGHT);
        let calls = Arc::new(AtomicU32::new(0));
        assert_eq!(get(&answers, &calls, 0).await, (1, "begun"));
        assert_eq!(get(&answers, &calls, 0).await, (2, "begun"));
    }

    #[tokio::test(start_paused = true)]
    async fn review_is_completed_after_its_caller_has_disconnected() {
        let answers = ReviewCache::new(EIGHT);
        let calls = Arc::new(AtomicU32::new(0));
        let impatient =
            tokio::time::timeout(Duration::from_millis(10), get(&answers, &calls, 10)).await;
        assert!(impatient.is_err());
        tokio::time::sleep(s(2)).await;
        assert_eq!(get(&answers, &calls, 10).await, (1, "kept"));
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_of_disconnected_callers_are_bounded() {
        let answers: ReviewCache<usize, u32> = ReviewCache::new(EIGHT);
        let review = |key| {
            answers.review(
                key,
                || Some(async { tokio::time::sleep(s(1)).await }.map(|()| 1)),
                |_| None,
            )
        };
        for key in 0..MOST_PENDING {
            assert!(matches!(review(key), CachedReview::Started(_)));
        }
        assert!(matches!(review(MOST_PENDING), CachedReview::Full));
        assert!(
            matches!(review(0), CachedReview::Joined(_)),
            "this costs nothing"
        );
        tokio::time::sleep(s(2)).await;
        assert!(
            matches!(review(MOST_PENDING), CachedReview::Started(_)),
            "there is place again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn review_that_panics_does_not_block_the_next() {
        let answers: ReviewCache<&str, u32> = ReviewCache::new(EIGHT);
        let CachedReview::Started(pending) =
            answers.review("key", || Some(async { panic!("a defect") }), |_| None)
        else {
            panic!()
        };
        assert!(pending.await.is_err());
        let calls = Arc::new(AtomicU32::new(0));
        assert_eq!(get(&answers, &calls, 10).await, (1, "begun"));
    }
}
