//! Actions: background operations of the cloud, each of which locks its object against other changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud_provider::{Error, Result, SyncCallbacks, excerpt};
use futures::future::join_all;
use provider_kit::operation::{OperationState, Operations};
use provider_kit::transport::{Answer, Call, Transport};
use serde::Deserialize;

use crate::api::meaning_of;

/// Interval between two polls of running actions, and the number of actions in one poll.
const POLL: Duration = Duration::from_millis(500);
const IDS_PER_POLL: usize = 25;
/// Attempts at a request that the API refuses because the object is locked, the first one included.
const ATTEMPTS: u32 = 6;
/// Pause before the second attempt; doubled for each further one.
const LOCKED: Duration = Duration::from_secs(1);
/// Delay of the *retry after* error after the last attempt.
const COME_BACK: Duration = Duration::from_secs(30);

/// A background operation of the cloud.
#[derive(Debug, Deserialize)]
pub(crate) struct Action {
    id: u64,
    status: ActionStatus,
    error: Option<ActionError>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActionStatus {
    Running,
    Success,
    Error,
}

#[derive(Debug, Deserialize)]
struct ActionError {
    code: String,
    message: String,
}

impl Action {
    async fn wait(&self, operations: &Operations) -> Result<()> {
        match self.outcome() {
            Some(outcome) => outcome,
            None => operations.wait(&[self.id]).await,
        }
    }

    fn outcome(&self) -> Option<Result<()>> {
        match (&self.status, &self.error) {
            (ActionStatus::Running, _) => None,
            (ActionStatus::Success, _) => Some(Ok(())),
            (ActionStatus::Error, None) => {
                Some(Err(Error::other(format!("action {} failed", self.id))))
            }
            (ActionStatus::Error, Some(ActionError { code, message })) => {
                let error = meaning_of(code).unwrap_or(Error::other);
                let text = excerpt(format!("{message} ({code})"));
                Some(Err(
                    error(format!("action {} failed: {text}", self.id)).with_code(&**code)
                ))
            }
        }
    }
}

/// Sends requests that start actions, and waits for these. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Actions {
    http: Transport,
    operations: Operations,
    /// Set once an action was refused because another one of the same sync was running.
    is_locking: Arc<AtomicBool>,
}

impl Actions {
    pub(crate) fn new(http: Transport) -> Self {
        let polled = http.clone();
        let operations = Operations::new(POLL, IDS_PER_POLL, move |ids| poll(polled.clone(), ids));
        Self {
            http,
            operations,
            is_locking: Arc::default(),
        }
    }

    /// Sends a request. While the API refuses it because the object is locked, pauses and sends it again. The worker
    /// permit is released during a pause (INV-6).
    ///
    /// # Errors
    /// Every other refusal; *retry after* if the object stays locked.
    pub(crate) async fn send(&self, call: Call, callbacks: &dyn SyncCallbacks) -> Result<Answer> {
        let mut attempts = Attempts::default();
        loop {
            match self.http.send(call.clone()).await {
                Err(err) if is_locked(&err) => attempts.pause(&err, callbacks).await?,
                answer => return answer,
            }
        }
    }

    /// Sends a request that starts an action, and waits until the action has ended.
    ///
    /// # Errors
    /// *Conflict* if the object stays locked; the caller decides when to retry.
    pub(crate) async fn run(&self, call: Call, callbacks: &dyn SyncCallbacks) -> Result<()> {
        let mut batch = self.batch(callbacks);
        let started = batch.start(call, None).await;
        started.map_err(|err| {
            if is_lock(&err) {
                Error::conflict(err.to_string())
            } else {
                err
            }
        })?;
        batch.finish().await
    }

    /// Waits until an action that was started elsewhere has ended.
    pub(crate) async fn finish(
        &self,
        action: Option<Action>,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        let running = action.into_iter().map(|action| (action, None)).collect();
        Batch {
            running,
            ..self.batch(callbacks)
        }
        .finish()
        .await
    }

    /// Returns an empty batch, which starts actions of one object concurrently.
    pub(crate) fn batch<'a>(&'a self, callbacks: &'a dyn SyncCallbacks) -> Batch<'a> {
        Batch {
            actions: self,
            callbacks,
            running: Vec::new(),
            refused: Vec::new(),
        }
    }
}

/// Concurrent actions of one object, each with the target that it adds, if any.
pub(crate) struct Batch<'a> {
    actions: &'a Actions,
    callbacks: &'a dyn SyncCallbacks,
    running: Vec<(Action, Option<String>)>,
    /// Targets that the API refused, in its response or as the outcome of an action. They do not prevent other changes.
    pub(crate) refused: Vec<(String, Error)>,
}

impl Batch<'_> {
    /// Starts an action next to those that run already, unless the API has shown that it allows one at a time.
    pub(crate) async fn start(&mut self, call: Call, adds: Option<String>) -> Result<()> {
        if self.actions.is_locking.load(Ordering::Relaxed) {
            self.finish().await?;
        }
        let call = call.inside("action");
        let mut attempts = Attempts::default();
        let mut was_own = false;
        loop {
            match self.actions.http.read::<Action>(call.clone()).await {
                Err(err) if is_locked(&err) && !self.running.is_empty() => {
                    attempts.count(&err)?;
                    self.finish().await?;
                    was_own = true;
                }
                Err(err) if is_locked(&err) => attempts.pause(&err, self.callbacks).await?,
                Err(err) => return self.note(adds, Err(err)),
                Ok(action) => {
                    // The actions of this batch have ended, so another client holds the lock.
                    if was_own && attempts.0 == 1 {
                        self.actions.is_locking.store(true, Ordering::Relaxed);
                    }
                    self.running.push((action, adds));
                    return Ok(());
                }
            }
        }
    }

    /// Waits until all have ended, and releases the worker permit meanwhile (INV-6).
    ///
    /// # Errors
    /// The first one that is not about a single target.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        let running = std::mem::take(&mut self.running);
        let is_waiting = running.iter().any(|(action, _)| action.outcome().is_none());
        if is_waiting {
            self.callbacks.release_permit();
        }
        let operations = &self.actions.operations;
        let outcomes = join_all(running.iter().map(|(action, _)| action.wait(operations))).await;
        if is_waiting {
            self.callbacks.reacquire_permit().await;
        }
        let noted = running
            .into_iter()
            .zip(outcomes)
            .map(|((_, adds), outcome)| self.note(adds, outcome));
        noted.collect::<Vec<_>>().into_iter().collect()
    }

    fn note(&mut self, adds: Option<String>, outcome: Result<()>) -> Result<()> {
        match (outcome, adds) {
            (Err(err), Some(target))
                if err.is_quota() || err.is_invalid() || err.is_not_found() =>
            {
                self.refused.push((target, err));
                Ok(())
            }
            (outcome, _) => outcome,
        }
    }
}

/// The number of attempts that were refused because the object is locked.
#[derive(Default)]
struct Attempts(u32);

impl Attempts {
    fn count(&mut self, err: &Error) -> Result<()> {
        self.0 += 1;
        if self.0 < ATTEMPTS {
            return Ok(());
        }
        let text = format!(
            "{err}; refused {ATTEMPTS} times, next attempt in {}s",
            COME_BACK.as_secs()
        );
        Err(Error::retry_in(text, COME_BACK).with_code(err.code()))
    }

    async fn pause(&mut self, err: &Error, callbacks: &dyn SyncCallbacks) -> Result<()> {
        self.count(err)?;
        let pause = LOCKED * 2_u32.pow(self.0 - 1);
        callbacks.release_permit();
        // The jitter keeps requests that were refused together from being retried together.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        callbacks.reacquire_permit().await;
        Ok(())
    }
}

/// Returns `true` if the request was refused because the object is locked.
fn is_locked(err: &Error) -> bool {
    err.is_conflict() && is_lock(err)
}

fn is_lock(err: &Error) -> bool {
    matches!(err.code(), "conflict" | "locked")
}

/// Reads the state of many actions with one request.
async fn poll(http: Transport, ids: Vec<u64>) -> Result<Vec<OperationState>> {
    let call = ids
        .iter()
        .fold(Call::get("/actions", &[]), |call, id| call.query("id", id))
        .inside("actions");
    let actions: Vec<Action> = http
        .read(call.query("sort", "status").query("sort", "id"))
        .await?;
    let state = |action: &Action| OperationState {
        id: action.id,
        outcome: action.outcome(),
    };
    Ok(actions.iter().map(state).collect())
}
