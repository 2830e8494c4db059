//! Requests that concurrent callers share: one for all who want the same answer, or one for many small changes of one
//! object.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use cloud_provider::{Error, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

use crate::inventory::SharedPriority;
use crate::transport::Priority;

/// Merges the items that concurrent callers submit for a key into few requests. The first item is sent at once, without
/// waiting for others; all items that are submitted while that request is in flight form the next one.
///
/// A request ends when the last of its callers is dropped. The item of a caller that is dropped earlier may still be sent.
///
/// ```
/// use provider_kit::coalescer::Coalescer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> cloud_provider::Result<()> {
/// let routes = Coalescer::new(|router: String, routes: Vec<&'static str>| async move {
///     // One request for all routes.
///     assert_eq!((&*router, routes), ("r-1", vec!["10.244.1.0/24"]));
///     Ok(())
/// });
/// routes.join("r-1".to_owned(), "10.244.1.0/24").await
/// # }
/// ```
pub struct Coalescer<K, T, R = ()> {
    send: Arc<Send<K, T, R>>,
    most: usize,
    requests: Mutex<HashMap<K, Request<T, R>>>,
}

type Send<K, T, R> =
    dyn Fn(K, Vec<T>, SharedPriority) -> BoxFuture<'static, Answers<R>> + std::marker::Send + Sync;

/// The answers to the items in order, or a single answer to all.
type Answers<R> = Vec<Result<R>>;

/// A request that callers wait for, and the index of an item in it.
type Joined<R> = (Shared<BoxFuture<'static, Arc<Answers<R>>>>, usize);

/// The last request for a key. It exists as long as a caller waits for it.
struct Request<T, R> {
    /// The submitted items; `None` once they were sent.
    items: Weak<Mutex<Option<Vec<T>>>>,
    answers: WeakShared<BoxFuture<'static, Arc<Answers<R>>>>,
    /// The time at which the items are sent, if the callers gave one.
    due: Option<Instant>,
    /// The priority of this request and of the requests that it waits for.
    shared_priority: SharedPriority,
}

/// The time at which a request starts, and whether a caller may join a request that has started.
#[derive(Clone, Copy)]
enum Start<'a> {
    /// After the previous request.
    Next,
    /// After the previous request; the answer to a request in flight is accepted, too.
    NextUnlessUnderWay,
    /// At this time, computed from the time of the previous request, even if that is still in flight.
    At(&'a dyn Fn(Option<Instant>) -> Instant),
}

impl<K, T, R> Coalescer<K, T, R>
where
    K: Clone + Eq + Hash + std::marker::Send + Sync + 'static,
    T: std::marker::Send + 'static,
    R: Clone + std::marker::Send + Sync + 'static,
{
    /// Returns a coalescer that sends all items of one request with `send`, in the order in which they were submitted.
    /// All callers get its answer.
    pub fn new<F>(send: impl Fn(K, Vec<T>) -> F + std::marker::Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<R>> + std::marker::Send + 'static,
    {
        Self::with_shared_priority(move |key, items, _| send(key, items))
    }

    /// Returns a coalescer that sends items with `send`, and each item again alone if the request is refused with an
    /// error that one of its items may have caused (*invalid*, *conflict*, *not found*, *quota*).
    pub fn retrying_alone<F>(
        send: impl Fn(K, Vec<T>) -> F + std::marker::Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<R>> + std::marker::Send + 'static,
        T: Clone,
    {
        let send = Arc::new(send);
        Self::answering_each(move |key: K, items: Vec<T>| {
            let send = Arc::clone(&send);
            async move {
                match send(key.clone(), items.clone()).await {
                    Err(error) if items.len() > 1 && blames_an_item(&error) => {
                        let mut answers = Vec::with_capacity(items.len());
                        for item in items {
                            answers.push(send(key.clone(), vec![item]).await);
                        }
                        answers
                    }
                    answer => vec![answer],
                }
            }
        })
    }

    /// Returns a coalescer whose `send` answers each item in order, or all items with a single answer.
    pub fn answering_each<F>(
        send: impl Fn(K, Vec<T>) -> F + std::marker::Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<Result<R>>> + std::marker::Send + 'static,
    {
        let send = Arc::new(move |key, items, _| send(key, items).boxed());
        Self {
            send,
            most: usize::MAX,
            requests: Mutex::default(),
        }
    }

    /// Returns a coalescer whose `send` also gets the priority of the most urgent caller; the priority rises while
    /// callers join.
    pub(crate) fn with_shared_priority<F>(
        send: impl Fn(K, Vec<T>, SharedPriority) -> F + std::marker::Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<R>> + std::marker::Send + 'static,
    {
        let send = Arc::new(move |key, items, shared_priority| {
            send(key, items, shared_priority)
                .map(|answer| vec![answer])
                .boxed()
        });
        Self {
            send,
            most: usize::MAX,
            requests: Mutex::default(),
        }
    }

    /// Limits the number of items in one request.
    #[must_use]
    pub(crate) fn at_most(self, items: usize) -> Self {
        Self {
            most: items.max(1),
            ..self
        }
    }

    /// Submits an item, and waits for the answer to a request that was sent after this call.
    ///
    /// # Errors
    /// The answer to the request, or to the item.
    pub async fn join(&self, key: K, item: T) -> Result<R> {
        let joined = self.enter(key, item, Start::Next, Priority::default());
        answer(joined).await
    }

    /// Submits an item to a request that is sent at `due`, unless an unsent request takes it. `due` receives the time
    /// of the previous request. The request does not wait for requests in flight.
    ///
    /// # Errors
    /// The error of the request, or of the item.
    pub async fn join_at(
        &self,
        key: K,
        item: T,
        due: impl Fn(Option<Instant>) -> Instant,
    ) -> Result<R> {
        let joined = self.enter(key, item, Start::At(&due), Priority::default());
        answer(joined).await
    }

    /// Waits for the answer to a request; a request in flight is enough unless the answer must be `fresh`. All callers
    /// of a request, and of the requests that it waits for, have the priority of the most urgent one.
    pub(crate) async fn share(
        &self,
        key: K,
        item: T,
        fresh: bool,
        priority: Priority,
    ) -> Result<R> {
        let joined = self.enter(
            key,
            item,
            if fresh {
                Start::Next
            } else {
                Start::NextUnlessUnderWay
            },
            priority,
        );
        answer(joined).await
    }

    /// Returns `true` if [`share`](Self::share) would not have to send another request.
    pub(crate) fn can_share(&self, key: &K, fresh: bool) -> bool {
        let requests = lock(&self.requests);
        let last = requests.get(key).filter(|last| last.pending().is_some());
        last.is_some_and(|last| {
            !fresh
                || last
                    .items
                    .upgrade()
                    .is_some_and(|items| lock(&items).is_some())
        })
    }

    /// Adds the item to a request, or creates one.
    fn enter(&self, key: K, item: T, start: Start<'_>, priority: Priority) -> Joined<R> {
        let mut requests = lock(&self.requests);
        let last = requests.get(&key);
        let pending = last.and_then(|last| Some((last, last.pending()?)));
        let shared_priority = pending.as_ref().map_or_else(
            || SharedPriority::of(priority),
            |(last, _)| last.shared_priority.clone(),
        );
        shared_priority.raise(priority);
        if let Some((last, answers)) = &pending {
            let items = last.items.upgrade();
            match items.as_deref().map(lock).as_deref_mut() {
                Some(Some(items)) if items.len() < self.most => {
                    items.push(item);
                    return (answers.clone(), items.len() - 1);
                }
                Some(None) if matches!(start, Start::NextUnlessUnderWay) => {
                    return (answers.clone(), 0);
                }
                _ => {}
            }
        }
        let (before, due) = match start {
            Start::At(due) => (None, Some(due(last.and_then(|last| last.due)))),
            _ => (pending.and_then(|(_, answers)| answers.downgrade()), None),
        };
        let submitted = Arc::new(Mutex::new(Some(vec![item])));
        let items = Arc::downgrade(&submitted);
        let send = Arc::clone(&self.send);
        let object = key.clone();
        let carried = shared_priority.clone();
        let answers = async move {
            if let Some(due) = due {
                sleep_until(due).await;
            } else if let Some(before) = before.and_then(|before| before.upgrade()) {
                // A failure is the answer to that request's own callers.
                before.await;
            }
            let items = lock(&submitted).take().unwrap_or_default();
            Arc::new(send(object, items, carried).await)
        };
        let answers = answers.boxed().shared();
        requests.retain(|_, request| request.pending().is_some());
        if let Some(weak) = answers.downgrade() {
            requests.insert(
                key,
                Request {
                    items,
                    answers: weak,
                    due,
                    shared_priority,
                },
            );
        }
        (answers, 0)
    }
}

impl<T, R> Request<T, R> {
    /// Returns the answers, if they have not arrived yet and a caller waits for them.
    fn pending(&self) -> Option<Shared<BoxFuture<'static, Arc<Answers<R>>>>> {
        self.answers
            .upgrade()
            .filter(|answers| answers.peek().is_none())
    }
}

async fn answer<R: Clone>((answers, number): Joined<R>) -> Result<R> {
    let answers = answers.await;
    let answer = answers.get(number).or(answers.last());
    answer
        .cloned()
        .unwrap_or_else(|| Err(Error::other("a request did not answer each of its items")))
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock()
}

fn blames_an_item(error: &Error) -> bool {
    error.is_invalid() || error.is_conflict() || error.is_not_found() || error.is_quota()
}

#[cfg(test)]
mod tests;
