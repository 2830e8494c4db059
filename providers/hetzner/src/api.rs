//! The cloud's HTTP API (§5.1): how lists are paged, what its error words mean, and how actions are awaited.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud_provider::{Error, Result, SyncObserver, excerpt};
use provider_kit::inventory::Urgency;
use provider_kit::operation::{OperationState, Operations};
use provider_kit::paging::{Page, Reading, Rules, read_pages};
use provider_kit::streamed::collect;
use provider_kit::transport::{Call, Priority, Refusal, Transport};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// As many as the API allows.
pub(crate) const PAGE_SIZE: usize = 50;
/// Actions are asked for so often, and so many at once.
const POLL: Duration = Duration::from_millis(500);
const IDS_PER_POLL: usize = 25;
/// After that time, what somebody else was at is hopefully over.
const LOCKED: Duration = Duration::from_secs(1);

/// The cloud's API with one token.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) http: Transport,
    actions: Operations,
    /// Whether an action was refused because another one ran.
    is_locking: Arc<AtomicBool>,
}

/// Something that the cloud does in the background.
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

#[derive(Deserialize)]
struct Meta {
    pagination: Pagination,
}

#[derive(Deserialize)]
struct Pagination {
    next_page: Option<u32>,
    total_entries: Option<usize>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct ListPage<T> {
    #[serde(alias = "servers", alias = "load_balancers", alias = "load_balancer_types", alias = "certificates")]
    #[serde(alias = "networks", alias = "locations", deserialize_with = "collect::<_, T, _>")]
    items: Vec<T>,
    meta: Meta,
}

impl Api {
    /// The API behind `http`, whose base is the endpoint.
    pub(crate) fn new(http: Transport) -> Self {
        let http = http.meaning(meaning);
        let asked = http.clone();
        let actions = Operations::new(POLL, IDS_PER_POLL, move |ids| ask(asked.clone(), ids));
        Self { http, actions, is_locking: Arc::default() }
    }

    /// Reads a list to its end; `call`: without page and page size. What is read becomes what is kept, page by page.
    pub(crate) async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        what: &'static str,
        call: Call,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<Reading<T>> {
        let urgency = Urgency::of(call.urgency());
        self.list_for_all(what, call, &urgency, keep, key).await
    }

    /// The same, for a list that several wait for.
    pub(crate) async fn list_for_all<W: DeserializeOwned, T, K: Hash>(
        &self,
        what: &'static str,
        call: Call,
        urgency: &Urgency,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<Reading<T>> {
        read_pages(Rules { what, totals: false }, 1, key, async |number: u32| {
            let call = || call.clone().list().query("page", number).query("per_page", PAGE_SIZE);
            let page: ListPage<W> = urgency.carry(|priority| self.http.read(call().priority(priority))).await?;
            let Pagination { next_page, total_entries } = page.meta.pagination;
            let next = next_page.filter(|next| *next != 0);
            Ok(Page { items: page.items.into_iter().map(&keep).collect(), next, total: total_entries })
        })
        .await
    }

    /// Sends a request that starts an action, and waits for its end.
    pub(crate) async fn act(&self, call: Call) -> Result<()> {
        let started = self.http.read(call.inside("action")).await?;
        self.finish(&[started], &()).await
    }

    /// Sends a request that starts an action, beside those that run already, unless the API has shown that one has to end
    /// before the next can begin. What is refused because something else is going on is sent once more a little later.
    pub(crate) async fn start(&self, call: Call, running: &mut Vec<Action>, observer: &dyn SyncObserver) -> Result<()> {
        if self.is_locking.load(Ordering::Relaxed) {
            self.finish(&std::mem::take(running), observer).await?;
        }
        let call = call.inside("action");
        let mut started: Result<Action> = self.http.read(call.clone()).await;
        if started.as_ref().is_err_and(Error::is_conflict) {
            let is_alone = running.is_empty();
            if is_alone {
                tokio::time::sleep(LOCKED).await;
            } else {
                self.finish(&std::mem::take(running), observer).await?;
            }
            started = self.http.read(call).await;
            // A conflict that does not go by waiting is none with the others.
            if started.is_ok() && !is_alone {
                self.is_locking.store(true, Ordering::Relaxed);
            }
        }
        running.push(started?);
        Ok(())
    }

    /// Waits until all of these have ended well; those that have already cost nothing. `observer` hears that this is only
    /// waiting, so that somebody else may work meanwhile (INV-6).
    pub(crate) async fn finish(&self, actions: &[Action], observer: &dyn SyncObserver) -> Result<()> {
        let mut running = Vec::new();
        for action in actions {
            match action.outcome() {
                None => running.push(action.id),
                Some(outcome) => outcome?,
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        observer.waits();
        let outcome = self.actions.wait(&running).await;
        observer.goes_on().await;
        outcome
    }

    /// §1: the start-up check.
    pub(crate) async fn check(&self) -> Result<()> {
        let _: Value = self.http.read(Call::get("/locations", &[]).priority(Priority::Urgent)).await?;
        Ok(())
    }
}

impl Action {
    fn outcome(&self) -> Option<Result<()>> {
        match (&self.status, &self.error) {
            (ActionStatus::Running, _) => None,
            (ActionStatus::Success, _) => Some(Ok(())),
            (ActionStatus::Error, None) => Some(Err(Error::other(format!("action {} failed", self.id)))),
            (ActionStatus::Error, Some(ActionError { code, message })) => {
                let error = meaning_of(code).unwrap_or(Error::other);
                let said = excerpt(format!("{message} ({code})"));
                Some(Err(error(format!("action {} failed: {said}", self.id))))
            }
        }
    }
}

/// One request for the state of many actions.
async fn ask(http: Transport, ids: Vec<u64>) -> Result<Vec<OperationState>> {
    let call = ids.iter().fold(Call::get("/actions", &[]), |call, id| call.query("id", id)).inside("actions");
    let actions: Vec<Action> = http.read(call.query("sort", "status").query("sort", "id")).await?;
    let state = |action: &Action| OperationState { id: action.id, outcome: action.outcome() };
    Ok(actions.iter().map(state).collect())
}

pub(crate) fn meaning(refusal: &Refusal) -> Option<fn(String) -> Error> {
    meaning_of(&refusal.code)
}

/// §5.1: what the API's words mean beyond the status of the answer.
fn meaning_of(code: &str) -> Option<fn(String) -> Error> {
    Some(match code {
        "conflict" | "locked" | "uniqueness_error" => Error::conflict,
        // What is there already is read, and planned against.
        "target_already_defined" | "load_balancer_already_attached" | "source_port_already_used" => Error::conflict,
        "server_not_attached_to_network"
        | "ip_not_owned"
        | "cloud_resource_ip_not_allowed"
        | "missing_ipv4"
        | "targets_without_use_private_ip"
        | "no_subnet_available"
        | "ip_not_available" => Error::invalid,
        "resource_limit_exceeded" => Error::quota,
        "protected" => Error::protected,
        // Passing, whatever the status says.
        "resource_unavailable" | "service_error" | "server_error" | "maintenance" | "bad_gateway" | "timeout" => {
            Error::other
        }
        "unauthorized" | "forbidden" | "token_readonly" => Error::unauthorized,
        _ => return None,
    })
}
