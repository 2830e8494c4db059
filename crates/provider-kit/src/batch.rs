//! Many small changes of one object as few requests: who comes while a request is under way goes with the next one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::{Error, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

/// Changes that are sent together, by what they change. Nobody waits for company: the first goes at once, and all who come
/// while it is under way make up the next request.
///
/// A call that is dropped takes nothing back: its change may still be sent as long as somebody else waits for the same
/// request.
///
/// ```
/// use provider_kit::batch::Batch;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> cloud_provider::Result<()> {
/// let routes = Batch::new(|router: String, routes: Vec<&'static str>| async move {
///     // One request for all of them.
///     assert_eq!((&*router, routes), ("r-1", vec!["10.244.1.0/24"]));
///     Ok(())
/// });
/// routes.join("r-1".to_owned(), "10.244.1.0/24").await
/// # }
/// ```
pub struct Batch<K, T, R = ()> {
    send: Arc<Send<K, T, R>>,
    rounds: Mutex<HashMap<K, Round<T, R>>>,
}

type Send<K, T, R> = dyn Fn(K, Vec<T>) -> BoxFuture<'static, Result<R>> + std::marker::Send + Sync;

/// What each of a request's changes was answered, in order.
type Answers<R> = Arc<Vec<Result<R>>>;

/// Changes of one request; `None` once it is under way.
type Gathered<T> = Arc<Mutex<Option<Vec<T>>>>;

struct Round<T, R> {
    gathered: Gathered<T>,
    answers: WeakShared<BoxFuture<'static, Answers<R>>>,
}

impl<K, T, R> Batch<K, T, R>
where
    K: Clone + Eq + Hash + std::marker::Send + Sync + 'static,
    T: Clone + std::marker::Send + Sync + 'static,
    R: Clone + std::marker::Send + Sync + 'static,
{
    /// `send` sends changes of one object, in the order in which they came, with one request. Is that refused for what one
    /// of them may be to blame for (*invalid*, *conflict*, *not found*, *quota*), it is called for each of them alone.
    pub fn new<F>(send: impl Fn(K, Vec<T>) -> F + std::marker::Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<R>> + std::marker::Send + 'static,
    {
        Self { send: Arc::new(move |key, items| send(key, items).boxed()), rounds: Mutex::default() }
    }

    /// Has this change made, and waits for it.
    ///
    /// # Errors
    /// What its request was answered.
    pub async fn join(&self, key: K, item: T) -> Result<R> {
        let (answers, number) = self.gather(key, item);
        let answers = answers.await;
        answers.get(number).cloned().unwrap_or_else(|| Err(Error::other("a change was sent and not answered")))
    }

    /// The request that the change goes with, and which of its changes it is.
    fn gather(&self, key: K, item: T) -> (Shared<BoxFuture<'static, Answers<R>>>, usize) {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let before = rounds.get(&key).and_then(|round| Some((&round.gathered, round.answers.upgrade()?)));
        if let Some((gathered, answers)) = &before
            && let Some(items) = &mut *gathered.lock().unwrap_or_else(PoisonError::into_inner)
        {
            items.push(item);
            return (answers.clone(), items.len() - 1);
        }
        let before = before.and_then(|(_, answers)| answers.downgrade());
        let gathered: Gathered<T> = Arc::new(Mutex::new(Some(vec![item])));
        let (send, object, sent) = (Arc::clone(&self.send), key.clone(), Arc::clone(&gathered));
        let answers = async move {
            if let Some(before) = before.and_then(|before| before.upgrade()) {
                before.await;
            }
            let items = sent.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
            Arc::new(send_all(&*send, &object, items).await)
        };
        let answers = answers.boxed().shared();
        rounds.retain(|_, round| round.answers.upgrade().is_some());
        if let Some(weak) = answers.downgrade() {
            rounds.insert(key, Round { gathered, answers: weak });
        }
        (answers, 0)
    }
}

async fn send_all<K: Clone, T: Clone, R: Clone>(send: &Send<K, T, R>, key: &K, items: Vec<T>) -> Vec<Result<R>> {
    match send(key.clone(), items.clone()).await {
        Err(error) if items.len() > 1 && may_be_of_one(&error) => {
            let mut answers = Vec::with_capacity(items.len());
            for item in items {
                answers.push(send(key.clone(), vec![item]).await);
            }
            answers
        }
        answer => vec![answer; items.len()],
    }
}

/// Whether one change may have spoiled it for the others.
fn may_be_of_one(error: &Error) -> bool {
    error.is_invalid() || error.is_conflict() || error.is_not_found() || error.is_quota()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;

    type Sent = Arc<Mutex<Vec<(char, Vec<u32>)>>>;

    /// Requests that take a second; change 13 is never accepted.
    fn batch() -> (Batch<char, u32>, Sent) {
        let sent = Sent::default();
        let log = Arc::clone(&sent);
        let batch = Batch::new(move |key, items: Vec<u32>| {
            log.lock().unwrap().push((key, items.clone()));
            async move {
                sleep(Duration::from_secs(1)).await;
                if items.contains(&13) { Err(Error::invalid("no 13")) } else { Ok(()) }
            }
        });
        (batch, sent)
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_a_request_is_under_way_goes_with_the_next_one() {
        let ((batch, sent), began) = (batch(), Instant::now());
        let answers = join_all((101..=150).map(|item| batch.join('a', item))).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(*sent.lock().unwrap(), [('a', vec![101]), ('a', (102..=150).collect())]);
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        batch.join('a', 151).await.unwrap();
        assert_eq!(sent.lock().unwrap().len(), 3, "nothing is kept of those before");
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_different_objects_do_not_wait_for_each_other() {
        let ((batch, sent), began) = (batch(), Instant::now());
        let _ = tokio::join!(batch.join('a', 1), batch.join('b', 1));
        assert_eq!((sent.lock().unwrap().len(), began.elapsed()), (2, Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn each_gets_its_own_answer_where_one_spoils_it_for_all() {
        let (batch, sent) = batch();
        let answers = join_all([1, 2, 13, 3].map(|item| batch.join('a', item))).await;
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
        let sizes: Vec<_> = sent.lock().unwrap().iter().map(|(_, items)| items.len()).collect();
        assert_eq!(sizes, [1, 3, 1, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_keeps_nobody_waiting() {
        let (batch, sent) = batch();
        let first = batch.join('a', 1);
        let quick = tokio::time::timeout(Duration::from_millis(100), first);
        let (first, second) = tokio::join!(quick, batch.join('a', 2));
        assert!(first.is_err() && second.is_ok());
        assert_eq!(sent.lock().unwrap().len(), 2);
    }
}
