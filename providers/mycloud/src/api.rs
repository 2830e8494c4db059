//! The API: headers, error codes, and the tasks that every change starts.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, SyncCallbacks, excerpt};
use provider_kit::operation::{OperationState, Operations};
use provider_kit::paging::Paging;
use provider_kit::transport::{Builder, Call, Transport};
use serde::Deserialize;
use serde_json::Value;

use crate::config::{ACTION_TIMEOUT, Config};

/// Interval between two polls of unfinished tasks, number of tasks in one poll, and delay of the *retry after* error
/// when a wait has timed out.
const POLL: Duration = Duration::from_millis(500);
const TASKS_PER_POLL: usize = 50;
const COME_BACK: Duration = Duration::from_secs(5);

/// The API and the configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) http: Transport,
    pub(crate) config: Arc<Config>,
    tasks: Operations<String>,
}

#[derive(Deserialize)]
struct Accepted {
    task: Task,
    #[serde(default)]
    resource: Value,
}

#[derive(Deserialize)]
struct Task {
    id: String,
    status: String,
    error: Option<TaskError>,
}

#[derive(Deserialize)]
struct TaskError {
    code: String,
    message: String,
}

impl Task {
    fn outcome(&self) -> Option<Result<()>> {
        match (&*self.status, &self.error) {
            ("SUCCEEDED", _) => Some(Ok(())),
            ("FAILED", None) => Some(Err(Error::other(format!("task {} failed", self.id)))),
            ("FAILED", Some(TaskError { code, message })) => {
                let error = error_mapping(code).unwrap_or(Error::other);
                let text = excerpt(format!("task {} failed: {message} ({code})", self.id));
                Some(Err(error(text).with_code(&**code)))
            }
            _ => None,
        }
    }
}

/// Returns the kind of error that a code means beyond its status.
fn error_mapping(code: &str) -> Option<fn(String) -> Error> {
    match code {
        "QuotaExceeded" | "PaymentRequired" => Some(Error::quota),
        "InvalidParameter" => Some(Error::invalid),
        "AlreadyExists" | "VersionMismatch" => Some(Error::conflict),
        "DeleteProtected" => Some(Error::protected),
        _ => None,
    }
}

impl Api {
    pub(crate) fn new(config: Config, http: Builder) -> Result<Self> {
        let paging = Paging::token("page_token", "/next_page_token").size("page_size", 100);
        let http = http.paging(paging).correlation("x-request-id");
        let http =
            http.retry_refusals(|refusal| matches!(&*refusal.code, "ResourceBusy" | "TableBusy"));
        let http = http
            .build()?
            .error_mapping(|refusal| error_mapping(&refusal.code));
        let polled = http.clone();
        let region = config.region.clone();
        let tasks = Operations::new(POLL, TASKS_PER_POLL, move |ids: Vec<String>| {
            let call = Call::get("/v1/tasks", &[])
                .header("x-region", &region)
                .query("ids", ids.join(","));
            poll(polled.clone(), call, ids)
        });
        let tasks = tasks.timeouts(
            config.settings.get(&ACTION_TIMEOUT).unwrap_or_default(),
            COME_BACK,
        );
        Ok(Self {
            http,
            config: Arc::new(config),
            tasks,
        })
    }

    /// Adds the headers that every request has.
    pub(crate) fn call(&self, call: Call) -> Call {
        call.header("x-region", &self.config.region)
            .header("x-request-id", token())
    }

    /// Sends a change, and returns the ID of its task and the resource. The idempotency key lets it be sent again after a lost
    /// answer.
    pub(crate) async fn submit(&self, call: Call, key: Option<&str>) -> Result<(String, Value)> {
        let key = key.map_or_else(token, str::to_owned);
        let call = self.call(call).header("idempotency-key", key).repeatable();
        let Accepted { task, resource } = self.http.read(call).await?;
        Ok((task.id, resource))
    }

    /// Waits until tasks have ended, and releases the worker permit meanwhile.
    pub(crate) async fn wait_for_tasks(
        &self,
        tasks: &[String],
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        callbacks.release_permit();
        let outcome = self.tasks.wait(tasks).await;
        callbacks.reacquire_permit().await;
        outcome
    }

    /// Sends a change, and waits until its task has ended.
    pub(crate) async fn submit_and_wait(
        &self,
        call: Call,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        let (task, _) = self.submit(call, None).await?;
        self.wait_for_tasks(&[task], callbacks).await
    }
}

/// Reads the state of tasks. A task that the cloud no longer knows counts as ended; its result is seen when the
/// resource is read.
async fn poll(
    http: Transport,
    call: Call,
    ids: Vec<String>,
) -> Result<Vec<OperationState<String>>> {
    let tasks: Vec<Task> = http.read(call.list().inside("items")).await?;
    let state = |id: String| {
        let task = tasks.iter().find(|task| task.id == id);
        OperationState {
            outcome: task.map_or(Some(Ok(())), Task::outcome),
            id,
        }
    };
    Ok(ids.into_iter().map(state).collect())
}

/// Returns a random text, for request IDs.
fn token() -> String {
    format!("{:032x}", fastrand::u128(..))
}
