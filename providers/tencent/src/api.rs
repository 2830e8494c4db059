//! API 3.0: signed requests, asynchronous tasks and pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::{Error, Result, Setup, async_trait};
use http::{HeaderMap, Request, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use provider_kit::inventory::SharedPriority;
use provider_kit::operation::{Polling, until_done};
use provider_kit::paging::{ListProperties, ListResult, Page, read_pages};
use provider_kit::signing::{AwsCredentials as Keys, CloudClock, Signer};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Budget, Builder, Refill, Refusal, Transport};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::action::{Action, CLB, CVM, Product};
use crate::config::Config;
use crate::credentials::{Chain, Metadata};
use crate::refusals::{is_busy, meaning, refusal, status};
use crate::signing;

/// Requests per second of one action; the APIs accept 20.
const RATE: u32 = 15;
/// Items of a page.
pub(crate) const PAGE: usize = 100;
/// Polling of a task.
const TASK: Polling = Polling {
    first: Duration::from_millis(500),
    growth: 1.5,
    max_interval: Duration::from_secs(5),
    timeout: Duration::from_secs(300),
    retry_after: Duration::from_secs(10),
};

/// The signer of the requests to one product.
struct ProductSigner {
    product: &'static str,
    /// The credentials; without them requests are not signed.
    tokens: Option<Arc<Tokens<Chain>>>,
    clock: CloudClock,
    /// The last keys, whose secrets are hidden.
    last: Mutex<Option<Keys>>,
}

#[async_trait]
impl Signer for ProductSigner {
    async fn sign(&self, request: &mut Request<Bytes>, _now: Timestamp) -> Result<()> {
        let keys = match &self.tokens {
            Some(tokens) => Some((*tokens.current().await?).clone()),
            None => None,
        };
        let signed = signing::sign(request, self.product, keys.as_ref(), self.clock.now());
        *self.last.lock() = keys;
        signed
    }

    async fn refused(
        &self,
        request: &HeaderMap,
        refusal: &Refusal,
        answer: &HeaderMap,
    ) -> Result<bool> {
        let is_late = |signed| self.clock.correct(signed, answer);
        if refusal.code == "AuthFailure.SignatureExpire"
            && signing::signed_at(request).is_some_and(is_late)
        {
            return Ok(true);
        }
        let is_refused = status(&refusal.code, &refusal.message) == StatusCode::UNAUTHORIZED;
        let Some(tokens) = self.tokens.as_ref().filter(|_| is_refused) else {
            return Ok(false);
        };
        let other = tokens
            .instead_of(|keys| signing::have_signed(keys, request))
            .await;
        Ok(other.is_ok_and(|keys| !signing::have_signed(&keys, request)))
    }

    fn redact(&self, text: String) -> String {
        self.last
            .lock()
            .iter()
            .fold(text, |text, keys| keys.redact(text))
    }
}

/// Completes a transport with setup and connector.
pub(crate) type Furnish = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Returns a transport to a product, with a budget of its own.
pub(crate) fn transport(
    config: &Config,
    product: Product,
    tokens: Option<Arc<Tokens<Chain>>>,
    furnish: &Furnish,
) -> Result<Transport> {
    let signer = ProductSigner {
        product: product.name,
        tokens,
        clock: CloudClock::default(),
        last: Mutex::default(),
    };
    let url = config.endpoint(product.name);
    let budget = Budget {
        share_left_to_others: 0.0,
        refill: Refill::adaptive(RATE, RATE),
    };
    let http = furnish(Transport::builder(&*url))
        .signer(Arc::new(signer))
        .budget(budget);
    let http = http.refusals(refusal).retry_refusals(is_busy).build();
    http.map(|transport| transport.error_mapping(meaning))
        .map_err(|error| error.context(format!("endpoint_domain ({url})")))
}

/// The APIs, and the configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) config: Arc<Config>,
    pub(crate) metadata: Arc<Metadata>,
    tokens: Arc<Tokens<Chain>>,
    furnish: Furnish,
    /// Transports by action, because each action has its own rate limit.
    clients: Arc<Mutex<BTreeMap<&'static str, Transport>>>,
}

impl Api {
    pub(crate) fn new(config: Config, setup: &Setup, furnish: Furnish) -> Result<Self> {
        let config = Arc::new(config);
        // Checks the endpoint.
        transport(&config, CVM, None, &furnish)?;
        let metadata = Arc::new(Metadata::new(Arc::clone(&config), &furnish)?);
        let is_offline = setup.environment.is_offline();
        let chain = Chain::new(
            Arc::clone(&config),
            Arc::clone(&metadata),
            Arc::clone(&furnish),
            is_offline,
        );
        Ok(Self {
            config,
            metadata,
            tokens: Arc::new(Tokens::of(chain)),
            furnish,
            clients: Arc::default(),
        })
    }

    fn client(&self, action: &Action) -> Result<Transport> {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(action.name) {
            return Ok(client.clone());
        }
        let client = transport(
            &self.config,
            action.product,
            Some(Arc::clone(&self.tokens)),
            &self.furnish,
        )?;
        clients.insert(action.name, client.clone());
        Ok(client)
    }

    /// Sends an action, and reads its answer.
    pub(crate) async fn send<T: DeserializeOwned>(&self, action: Action) -> Result<T> {
        let region = self.metadata.region().await?;
        self.client(&action)?.read(action.call(&region)).await
    }

    /// Waits until the task that an answer began has ended, and returns the IDs of its load balancers.
    pub(crate) async fn wait(&self, answer: &Value) -> Result<Vec<String>> {
        let id = text(answer, "RequestId");
        let action = Action::new(CLB, "DescribeTaskStatus").set("TaskId", id);
        until_done(&format!("task {id}"), TASK, async || {
            let answer: Value = self.send(action.clone()).await?;
            match answer["Status"].as_u64() {
                Some(0) => Ok(Some(texts(&answer["LoadBalancerIds"]))),
                Some(1) => Err(Error::conflict(format!(
                    "task {id} failed: {}",
                    text(&answer, "Message")
                ))),
                _ => Ok(None),
            }
        })
        .await
    }

    /// Reads a list with offsets and a total. `place`: the field of the items; `is_text`: offset and limit are texts.
    pub(crate) async fn pages<T, K>(
        &self,
        action: Action,
        (place, is_text): (&str, bool),
        shared: &SharedPriority,
        key: impl Fn(&T) -> K,
    ) -> Result<ListResult<T>>
    where
        T: DeserializeOwned,
        K: std::hash::Hash,
    {
        let properties = ListProperties {
            what: action.name,
            totals: true,
        };
        let number = |number: usize| {
            if is_text {
                Value::from(number.to_string())
            } else {
                Value::from(number)
            }
        };
        let read = Mutex::new(0);
        read_pages(properties, 1_u32, key, async |page: u32| {
            let offset = (page as usize - 1) * PAGE;
            let action = action
                .clone()
                .set("Offset", number(offset))
                .set("Limit", number(PAGE));
            let mut answer: Value = shared
                .send_read(|priority| self.send(action.clone().with_priority(priority)))
                .await?;
            let total = answer["TotalCount"]
                .as_u64()
                .and_then(|total_count| usize::try_from(total_count).ok());
            let items = match answer.get_mut(place).map(Value::take) {
                None if !answer.is_object() => {
                    return Err(Error::other(format!(
                        "{}: the answer is no object: {answer}",
                        action.name
                    )));
                }
                None | Some(Value::Null) => Vec::new(),
                Some(list) => serde_json::from_value::<Vec<T>>(list).map_err(|err| {
                    Error::other(format!("{}: unexpected {place}: {err}", action.name))
                })?,
            };
            let seen = {
                let mut read = read.lock();
                *read += items.len();
                *read
            };
            let is_last = items.is_empty() || total.is_none_or(|total| seen >= total);
            Ok(Page {
                items,
                next: (!is_last).then_some(page + 1),
                total,
            })
        })
        .await
    }
}

/// Returns the text of a field, or an empty one.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the items of a list; null is an empty one.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the texts of a list.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    list(value)
        .filter_map(|object| object.as_str().map(str::to_owned))
        .collect()
}
