//! The HTTP APIs: connections, paging of lists, and meaning of refusals.

use std::hash::Hash;
use std::sync::Arc;

use cloud_provider::{Error, Result, Setup, async_trait};
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Access, Call, Connector, Refusal, RetryPolicy, Session, Transport};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use crate::config::Config;
use crate::credentials::{Account, KeySigner, KeySource};
use crate::metrics::Requests;
use crate::monitoring::Monitoring;
use crate::region::Region;

/// Page size of lists.
const PAGE: usize = 500;
const PAGING: Paging = Paging::token_header("page", "opc-next-page").size("limit", PAGE);

/// The APIs with one credential.
#[derive(Clone)]
pub(crate) struct Api {
    /// Compute, networks and load balancers.
    pub(crate) iaas: Transport,
    /// The API of network load balancers.
    pub(crate) network: Transport,
    /// The API of the identity service.
    pub(crate) identity: Transport,
    pub(crate) monitoring: Monitoring,
    pub(crate) region: Arc<Region>,
    pub(crate) config: Arc<Config>,
}

/// The base URL of one service, found when it is first needed.
struct Service {
    region: Arc<Region>,
    name: &'static str,
    is_new: bool,
    access: OnceCell<Arc<Access>>,
}

#[async_trait]
impl Session for Service {
    async fn access(&self) -> Result<Arc<Access>> {
        let find = || async {
            Access::signed(&self.region.url(self.name, self.is_new).await?).map(Arc::new)
        };
        self.access.get_or_try_init(find).await.cloned()
    }

    async fn renewed(&self, _refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        Ok(None)
    }
}

impl Api {
    /// Returns the APIs, with the credential of the program or of a Service's ServiceAccount.
    pub(crate) fn new(
        config: &Arc<Config>,
        setup: &Setup,
        connector: &Arc<dyn Connector>,
        account: Option<Account>,
    ) -> Result<Self> {
        let region = Region::new(Arc::clone(config), Arc::clone(connector));
        let source = KeySource {
            config: Arc::clone(config),
            region: Arc::clone(&region),
            connector: Arc::clone(connector),
            account,
        };
        let signer = KeySigner::new(Arc::new(Tokens::of(source)), config);
        let retry_policy = RetryPolicy {
            max_attempts: 3,
            ..RetryPolicy::default()
        };
        let transport = |name, is_new| {
            let service = Service {
                region: Arc::clone(&region),
                name,
                is_new,
                access: OnceCell::new(),
            };
            let http = Transport::of_session(Arc::new(service))
                .signer(Arc::clone(&signer) as _)
                .setup(setup);
            let http = http
                .connector(Arc::clone(connector))
                .retry_policy(retry_policy)
                .paging(PAGING);
            let http = http
                .refusals(Refusal::read_with_code)
                .correlation("opc-request-id");
            Ok::<_, Error>(
                http.own_series(Requests(Arc::clone(&setup.metrics)))
                    .build()?
                    .error_mapping(error_mapping),
            )
        };
        Ok(Self {
            iaas: transport("iaas", false)?,
            network: transport("network-load-balancer-api", true)?,
            identity: transport("identity", true)?,
            monitoring: Monitoring {
                http: transport("telemetry-ingestion", false)?,
                place: config.metrics.clone(),
            },
            region,
            config: Arc::clone(config),
        })
    }

    /// Reads a list to its end, from bare lists or from `items`.
    pub(crate) async fn list<W: DeserializeOwned, K: Hash>(
        &self,
        call: Call,
        shared_priority: &SharedPriority,
        key: fn(&W) -> K,
    ) -> Result<ListResult<W>> {
        self.iaas
            .list(call, "", shared_priority, |item| item, key)
            .await
    }

    /// Reads a list that must be complete.
    pub(crate) async fn all<W: DeserializeOwned, K: Hash>(
        &self,
        call: Call,
        key: fn(&W) -> K,
    ) -> Result<Vec<W>> {
        Ok(self
            .list(call, &SharedPriority::default(), key)
            .await?
            .complete()?
            .into_items())
    }
}

/// Sends a creation with a token, by which the cloud knows a repetition. A token whose object was deleted is refused for a
/// day: another one follows.
pub(crate) async fn created<T, F: Future<Output = Result<T>>>(
    token: &str,
    send: impl Fn(String) -> F,
) -> Result<T> {
    match send(token.to_owned()).await {
        Err(error) if error.code() == "InvalidatedRetryToken" => {
            send(format!(
                "{token}-{}",
                jiff::Timestamp::now().as_millisecond()
            ))
            .await
        }
        answer => answer,
    }
}

fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    match &*refusal.code {
        "LimitExceeded" | "QuotaExceeded" | "OutOfHostCapacity" => Some(Error::quota),
        "InvalidatedRetryToken" | "NoEtagMatch" | "IncorrectState" | "Conflict" => {
            Some(Error::conflict)
        }
        _ => None,
    }
}
