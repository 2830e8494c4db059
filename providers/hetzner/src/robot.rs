//! Robot, the web service for dedicated servers. Robot allows about 200 requests per hour, and after it has refused
//! one, no request is sent for a while.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, InstanceMetadata, Node, Result, async_trait};
use parking_lot::Mutex;
use provider_kit::breaker::{Breaker, Pauses};
use provider_kit::events::EventWriter;
use provider_kit::inventory::{Inventory, MachineSource, Mode, SharedPriority, Snapshot};
use provider_kit::paging::{ListProperties, ListResult, Page, read_pages};
use provider_kit::transport::{Call, Credential, Priority, Refusal, Transport};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::config::{self, AddressFamily};
use crate::id::{MachineId, digits};
use crate::servers::dedicated::{DedicatedMetadata, DedicatedServer};

/// Pause after an unauthorized request. Robot blocks the IP address of a client that sends several of them in a row;
/// after this time, the count starts again.
const AFTER_UNAUTHORIZED: Duration = Duration::from_secs(15 * 60);

/// The number of lists that are read without a pause, and the time after which one more may be read. Robot answers about 200
/// requests an hour, which other programs need, too.
const LISTS_AT_ONCE: u32 = 10;
const LIST_EACH: Duration = Duration::from_secs(30);

/// The dedicated servers of an account. Cheap to clone; clones share the list and the breaker.
#[derive(Clone)]
pub(crate) struct Robot {
    servers: Inventory<Account>,
}

#[derive(Deserialize)]
struct One {
    server: DedicatedServer,
}

#[derive(Deserialize)]
struct Reset {
    operating_status: String,
}

impl Robot {
    /// Returns the dedicated servers of the account that `http` reads.
    #[must_use]
    pub(crate) fn new(
        http: Transport,
        config: &config::Robot,
        address_family: AddressFamily,
        events: EventWriter,
    ) -> Self {
        let dedicated_metadata = DedicatedMetadata {
            address_family,
            forward_internal_ips: config.forward_internal_ips,
            events,
        };
        let pauses = Pauses {
            limited: config.rate_limit_wait,
            unauthorized: AFTER_UNAUTHORIZED,
        };
        let credential = config.credential.clone().unwrap_or_else(Credential::none);
        let breaker = Arc::new(Breaker::new(
            "Robot (ROBOT_USER, ROBOT_PASSWORD)",
            pauses,
            credential,
        ));
        let metrics = http.metrics();
        let account = Account {
            http: http.error_mapping(error_mapping),
            dedicated_metadata,
            breaker,
            lists: Arc::default(),
        };
        let servers = Inventory::new(account)
            .mode(Mode::AlwaysList)
            .max_age(config.cache_timeout)
            .measured(metrics);
        Self { servers }
    }

    /// Returns all servers, no older than `ROBOT_CACHE_TIMEOUT`.
    ///
    /// # Errors
    /// Robot's refusal; *rate limited* or *unauthorized* while requests to Robot pause after an earlier refusal;
    /// *unauthorized* if it shows none, as another account would.
    pub(crate) async fn servers(&self) -> Result<Arc<Snapshot<DedicatedServer>>> {
        let list = self.servers.snapshot(Priority::Ordinary).await?;
        match list.partial_reason() {
            Some(reason) => Err(reason.clone()),
            None if list.machines().is_empty() => Err(Error::unauthorized(
                "ROBOT_USER shows no server at all, so no Node counts as deleted; check the credential",
            )),
            None => Ok(list),
        }
    }

    /// Returns `true` if a server is shut down. A server whose power state cannot be read counts as running.
    ///
    /// # Errors
    /// Errors of [`servers`](Self::servers); *not found* if the server does not exist.
    pub(crate) async fn is_shut_down(&self, number: u64, priority: Priority) -> Result<bool> {
        let call = Call::get("/reset/{number}", &[&number.to_string()])
            .inside("reset")
            .with_priority(priority);
        let reset: Reset = self.servers.source().read(call).await?;
        Ok(reset.operating_status == "shut off")
    }

    pub(crate) fn inventory(&self) -> &Inventory<Account> {
        &self.servers
    }
}

/// The Robot account, as the inventory reads it.
#[derive(Clone)]
pub(crate) struct Account {
    http: Transport,
    dedicated_metadata: DedicatedMetadata,
    breaker: Arc<Breaker>,
    /// The time at which [`LISTS_AT_ONCE`] lists may be read again.
    lists: Arc<Mutex<Option<Instant>>>,
}

impl Account {
    async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        self.breaker.send(self.http.read(call)).await
    }

    /// Waits until a list may be read, so that a missing server does not cause a new list at each pass of the lifecycle
    /// controller.
    async fn wait_for_list_budget(&self) -> Result<()> {
        self.breaker.check()?;
        let wait = {
            let mut lists = self.lists.lock();
            let now = Instant::now();
            let all_again = lists.map_or(now, |then| then.max(now)) + LIST_EACH;
            *lists = Some(all_again);
            (all_again - now).saturating_sub(LIST_EACH * LISTS_AT_ONCE)
        };
        if !wait.is_zero() {
            tracing::debug!(?wait, "delaying a list of Robot's servers");
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    async fn all(&self, priority: Priority) -> Result<Vec<DedicatedServer>> {
        match self
            .read::<Vec<One>>(Call::get("/server", &[]).list().with_priority(priority))
            .await
        {
            Ok(servers) => Ok(servers.into_iter().map(|server| server.server).collect()),
            // Robot answers *not found* for an empty list.
            Err(err) if err.is_not_found() => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }
}

#[async_trait]
impl MachineSource for Account {
    type Machine = DedicatedServer;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<DedicatedServer>> {
        self.wait_for_list_budget().await?;
        let rules = ListProperties {
            what: "dedicated servers",
            totals: false,
        };
        read_pages(
            rules,
            1,
            |server: &DedicatedServer| server.number,
            async |_: u32| {
                let items = shared_priority
                    .send_read(|priority| self.all(priority))
                    .await?;
                Ok(Page {
                    items,
                    next: None,
                    total: None,
                })
            },
        )
        .await
    }

    fn lists_prove_absence(&self) -> bool {
        true
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<DedicatedServer>> {
        let call = Call::get("/server/{number}", &[id])
            .inside("server")
            .with_priority(priority);
        match self.read(call).await {
            Err(err) if err.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<DedicatedServer>> {
        let mut servers = self.all(priority).await?;
        servers.retain(|server| *server.name == *name);
        Ok(servers)
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        match MachineId::read(provider_id)? {
            MachineId::Robot(_) => Ok(digits(provider_id)),
            MachineId::Cloud(_) => Err(Error::invalid(format!(
                "{provider_id:?} is no dedicated server"
            ))),
        }
    }

    fn metadata(&self, server: &DedicatedServer, node: &Node) -> InstanceMetadata {
        self.dedicated_metadata.metadata(server, node)
    }

    fn place(&self) -> String {
        "the Robot account of ROBOT_USER".to_owned()
    }
}

/// Returns the meaning of Robot's error codes beyond the HTTP status.
fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    match &*refusal.code {
        // The user configures the duration.
        "RATE_LIMIT_EXCEEDED" => Some(Error::quota),
        _ => None,
    }
}
