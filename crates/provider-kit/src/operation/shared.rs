//! One question for all who wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{Error, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio::sync::oneshot;

/// What a cloud says of an operation.
#[derive(Clone, Debug)]
pub struct OperationState<I = u64> {
    /// Which one.
    pub id: I,
    /// How it ended; `None` while it is under way.
    pub outcome: Option<Result<()>>,
}

/// Operations that a cloud carries out in the background, and those who wait for them. Cheap to clone.
///
/// While anybody waits, all unfinished operations are asked for at a constant interval, up to so many ids in one request. Thus
/// the requests grow with the time that a cloud takes, and hardly with the number of those who wait.
///
/// ```
/// use std::time::Duration;
/// use provider_kit::operation::{Operations, OperationState};
///
/// # async fn example(ask_the_cloud: impl AsyncFn(&[u64])) -> cloud_provider::Result<()> {
/// let operations = Operations::new(Duration::from_millis(500), 25, |ids: Vec<u64>| async move {
///     // One request for all ids; here each is done at once.
///     Ok(ids.into_iter().map(|id| OperationState { id, outcome: Some(Ok(())) }).collect())
/// });
/// operations.wait(&[13, 14]).await
/// # }
/// ```
pub struct Operations<I = u64>(Arc<Inner<I>>);

struct Inner<I> {
    interval: Duration,
    ids_per_request: usize,
    limit: Duration,
    come_back: Duration,
    ask: Ask<I>,
    waiting: Mutex<Waiting<I>>,
}

type Ask<I> = Arc<dyn Fn(Vec<I>) -> BoxFuture<'static, Result<Vec<OperationState<I>>>> + Send + Sync>;

struct Waiting<I> {
    operations: BTreeMap<I, Operation>,
    /// Whether there is a task that asks.
    asking: bool,
}

#[derive(Default)]
struct Operation {
    /// Who waits. One who has left is closed.
    heard_by: Vec<oneshot::Sender<Result<()>>>,
    /// A request for it is under way.
    asked: bool,
    /// A request for it and others was refused: it may be the one to blame, and must not spoil the next request, too.
    alone: bool,
}

impl<I: Clone + Ord + fmt::Display + Send + Sync + 'static> Operations<I> {
    /// Asks with `ask`, every `interval`, for up to `ids_per_request` at once. An operation that `ask` does not tell of counts
    /// as not found.
    pub fn new<F>(interval: Duration, ids_per_request: usize, ask: impl Fn(Vec<I>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<OperationState<I>>>> + Send + 'static,
    {
        Self(Arc::new(Inner {
            interval,
            ids_per_request: ids_per_request.max(1),
            limit: Duration::from_secs(60),
            come_back: Duration::from_secs(10),
            ask: Arc::new(move |ids| ask(ids).boxed()),
            waiting: Mutex::new(Waiting { operations: BTreeMap::new(), asking: false }),
        }))
    }

    /// How long one waits (a minute unless set), and when to come back after that (10 seconds unless set).
    #[must_use]
    pub fn limit(self, limit: Duration, come_back: Duration) -> Self {
        let Inner { interval, ids_per_request, ref ask, .. } = *self.0;
        let waiting = Mutex::new(Waiting { operations: BTreeMap::new(), asking: false });
        Self(Arc::new(Inner { interval, ids_per_request, limit, come_back, ask: Arc::clone(ask), waiting }))
    }

    /// Waits until all of these have ended. None: nothing is waited for.
    ///
    /// # Errors
    /// That of the first that failed; *other* if the cloud does not know one; *retry after* when it takes too long; what
    /// asking failed with.
    pub async fn wait(&self, ids: &[I]) -> Result<()> {
        let Inner { limit, come_back, .. } = *self.0;
        match tokio::time::timeout(limit, join_all(self.register(ids))).await {
            Ok(heard) => heard.into_iter().try_for_each(|heard| {
                // Dropped without an answer: the runtime is being stopped.
                heard.unwrap_or_else(|_| Err(Error::retry_in("an operation was no longer asked for", come_back)))
            }),
            Err(_) => {
                let ids = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let text = format!("operations not finished after {limit:?}: {ids}; looking again in {come_back:?}");
                Err(Error::retry_in(text, come_back))
            }
        }
    }

    fn register(&self, ids: &[I]) -> Vec<oneshot::Receiver<Result<()>>> {
        let mut waiting = self.0.lock();
        let heard = ids
            .iter()
            .map(|id| {
                let (tell, hear) = oneshot::channel();
                waiting.operations.entry(id.clone()).or_default().heard_by.push(tell);
                hear
            })
            .collect();
        if !ids.is_empty() && !std::mem::replace(&mut waiting.asking, true) {
            tokio::spawn(Arc::clone(&self.0).keep_asking());
        }
        heard
    }
}

impl<I: Clone + Ord + fmt::Display + Send + Sync + 'static> Inner<I> {
    /// Ends when nobody waits any more. Each request is a task of its own, so that a slow one holds up nobody else.
    async fn keep_asking(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.interval).await;
            let Some(requests) = self.next_requests() else { return };
            for ids in requests {
                tokio::spawn(Arc::clone(&self).ask_for(ids));
            }
        }
    }

    fn next_requests(&self) -> Option<Vec<Vec<I>>> {
        let mut waiting = self.lock();
        waiting.operations.retain(|_, operation| {
            operation.heard_by.retain(|tell| !tell.is_closed());
            !operation.heard_by.is_empty()
        });
        if waiting.operations.is_empty() {
            waiting.asking = false;
            return None;
        }
        let (mut requests, mut together) = (Vec::new(), Vec::new());
        for (id, operation) in waiting.operations.iter_mut().filter(|(_, operation)| !operation.asked) {
            operation.asked = true;
            if operation.alone {
                requests.push(vec![id.clone()]);
            } else {
                together.push(id.clone());
            }
        }
        requests.extend(together.chunks(self.ids_per_request).map(<[I]>::to_vec));
        Some(requests)
    }

    async fn ask_for(self: Arc<Self>, ids: Vec<I>) {
        let answer = (self.ask)(ids.clone()).await;
        let mut waiting = self.lock();
        let mut states = match answer {
            Ok(states) => states.into_iter().map(|state| (state.id, state.outcome)).collect::<BTreeMap<_, _>>(),
            Err(err) if ids.len() > 1 && (err.is_invalid() || err.is_not_found()) => {
                for id in &ids {
                    if let Some(operation) = waiting.operations.get_mut(id) {
                        (operation.asked, operation.alone) = (false, true);
                    }
                }
                return;
            }
            Err(err) => ids.iter().map(|id| (id.clone(), Some(Err(err.clone())))).collect(),
        };
        for id in &ids {
            let outcome = match states.remove(id) {
                Some(None) => {
                    waiting.operations.get_mut(id).into_iter().for_each(|operation| operation.asked = false);
                    continue;
                }
                Some(Some(outcome)) => outcome,
                None => Err(Error::other(format!("operations not found: {id}"))),
            };
            for tell in waiting.operations.remove(id).map(|operation| operation.heard_by).unwrap_or_default() {
                // Whoever has left does not want to know.
                let _ = tell.send(outcome.clone());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<I>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I> Clone for Operations<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I> fmt::Debug for Operations<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Operations").field("unfinished", &waiting.operations.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
