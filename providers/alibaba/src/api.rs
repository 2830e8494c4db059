//! The APIs of Alibaba Cloud: products, requests, pages and refusals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::{Error, Result, Setup, async_trait};
use http::{HeaderMap, Request};
use jiff::Timestamp;
use parking_lot::Mutex;
use provider_kit::inventory::SharedPriority;
use provider_kit::operation::{OperationState, Operations};
use provider_kit::paging::{ListProperties, ListResult, Page, read_pages};
use provider_kit::signing::{AwsCredentials as Keys, CloudClock, Signer};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Access, Budget, Builder, Call, Priority, Refill, Refusal, Session, Transport};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use crate::config::Config;
use crate::credentials::{Chain, Metadata};
use crate::signing;

/// An API: the first label of its host, its version, the variable with another endpoint, and requests in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    variable: &'static str,
    rate: u32,
}

const fn product(name: &'static str, version: &'static str, variable: &'static str, rate: u32) -> Product {
    Product { name, version, variable, rate }
}

pub(crate) const ECS: Product = product("ecs", "2014-05-26", "ECS_ENDPOINT", 30);
pub(crate) const SLB: Product = product("slb", "2014-05-15", "SLB_ENDPOINT", 30);
pub(crate) const NLB: Product = product("nlb", "2022-04-30", "NLB_ENDPOINT", 30);
pub(crate) const VPC: Product = product("vpc", "2016-04-28", "VPC_ENDPOINT", 20);
pub(crate) const STS: Product = product("sts", "2015-04-01", "STS_ENDPOINT", 10);

/// Declares structs of answers. A field that an answer lacks has its default.
macro_rules! wire {
    ($($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$of])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "PascalCase", default)]
        pub(crate) struct $name { $($(#[$doc])* pub(crate) $field: $kind),* }
    )*};
}
pub(crate) use wire;

/// An action with its parameters: a list becomes `Key.1=…`, a struct `Key.Field=…`, and null nothing.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    product: Product,
    action: &'static str,
    fields: Map<String, Value>,
    priority: Priority,
    /// The region, unless it is that of the configuration.
    region: Option<String>,
}

impl Query {
    pub(crate) fn new(product: Product, action: &'static str) -> Self {
        let is_urgent = ["Delete", "Remove"].iter().any(|verb| action.starts_with(verb));
        let priority = if is_urgent { Priority::Urgent } else { Priority::Ordinary };
        Self { product, action, fields: Map::new(), priority, region: None }
    }

    pub(crate) fn set(mut self, key: &str, value: impl serde::Serialize) -> Self {
        self.fields.insert(key.to_owned(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// Sets one parameter for each field of an object.
    pub(crate) fn fields(mut self, fields: impl serde::Serialize) -> Self {
        if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
            self.fields.extend(fields);
        }
        self
    }

    pub(crate) fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Sends the action to another region.
    pub(crate) fn of_region(self, region: &str) -> Self {
        Self { region: Some(region.to_owned()), ..self }
    }

    /// Returns `true` for creations that the API carries out once for each token.
    fn takes_token(&self) -> bool {
        self.action == "CreateLoadBalancer" || self.product.name == "nlb" && self.action.starts_with("Create")
    }

    fn is_read(&self) -> bool {
        ["Describe", "List", "Get", "AssumeRole"].iter().any(|verb| self.action.starts_with(verb))
    }

    pub(crate) fn call(&self) -> Call {
        let Product { name, version, .. } = self.product;
        let call = Call::post("/", &[]).operation(format!("{name} {}", self.action)).with_priority(self.priority);
        let call = call.header("x-acs-action", self.action).header("x-acs-version", version);
        let call = self.fields.iter().fold(call, |call, (key, value)| call.nested(key, value, ""));
        // Changes of NLB have their parameters in the body, all other requests in the query.
        match (self.is_read(), name) {
            (true, _) => call.reading().list(),
            (false, "nlb") => call.form(),
            (false, _) => call,
        }
    }
}

/// Returns tags as parameters: `[{"Key": …, "Value": …}]`.
pub(crate) fn tag_list<'a>(tags: impl IntoIterator<Item = (&'a String, &'a String)>) -> Value {
    tags.into_iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect()
}

/// A connection to one product: its endpoint, and the signature of its requests.
struct Connection {
    config: Arc<Config>,
    metadata: Arc<Metadata>,
    product: Product,
    /// The region, unless it is that of the configuration.
    region: Option<String>,
    /// The credentials; without them requests are not signed.
    tokens: Option<Arc<Tokens<Chain>>>,
    clock: CloudClock,
    access: OnceCell<Arc<Access>>,
    /// The last keys, whose secrets are hidden.
    last: Mutex<Option<Keys>>,
}

#[async_trait]
impl Session for Connection {
    async fn access(&self) -> Result<Arc<Access>> {
        let find = || async {
            let region = match &self.region {
                Some(region) => region.clone(),
                None => self.metadata.region().await?,
            };
            let url = self.config.endpoint(self.product.name, self.product.variable, &region);
            let access = Access::signed(&url);
            Ok(Arc::new(access.map_err(|error| error.context(format!("{} ({url})", self.product.variable)))?))
        };
        self.access.get_or_try_init(find).await.cloned()
    }

    async fn renewed(&self, _refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        Ok(None)
    }
}

#[async_trait]
impl Signer for Connection {
    async fn sign(&self, request: &mut Request<Bytes>, _now: Timestamp) -> Result<()> {
        if let Some(context) = &self.config.private_cloud {
            let context = context.parse().map_err(|_| Error::invalid("X-ACSPROXY-ASCM-CONTEXT is no valid header"))?;
            request.headers_mut().insert("x-acsproxy-ascm-context", context);
        }
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let keys = (*tokens.current().await?).clone();
        let signed = match self.config.is_legacy_signature {
            true => signing::sign_legacy(request, &keys, self.clock.now()),
            false => signing::sign(request, &keys, self.clock.now()),
        };
        *self.last.lock() = Some(keys);
        signed
    }

    async fn refused(&self, request: &HeaderMap, refusal: &Refusal, answer: &HeaderMap) -> Result<bool> {
        let is_late = |signed| self.clock.correct(signed, answer);
        if refusal.code.starts_with("InvalidTimeStamp") && signing::signed_at(request).is_some_and(is_late) {
            return Ok(true);
        }
        let Some(tokens) = self.tokens.as_ref().filter(|_| is_unauthenticated(&refusal.code)) else { return Ok(false) };
        let other = tokens.instead_of(|keys| signing::have_signed(keys, request)).await;
        Ok(other.is_ok_and(|keys| !signing::have_signed(&keys, request)))
    }

    fn redact(&self, text: String) -> String {
        let last = self.last.lock();
        let secrets = last.iter().flat_map(|keys| [Some(&keys.secret_key), keys.session_token.as_ref()]).flatten();
        let secrets = secrets.map(ExposeSecret::expose_secret).filter(|it| !it.is_empty());
        secrets.fold(text, |text, secret| text.replace(secret, "[redacted]"))
    }
}

/// Codes that other credentials may end.
fn is_unauthenticated(code: &str) -> bool {
    ["InvalidSecurityToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "MissingSecurityToken"]
        .iter()
        .any(|it| code.starts_with(it))
}

fn is_throttled(code: &str) -> bool {
    code.starts_with("Throttling") || code == "ServiceUnavailable" || code == "SystemBusy"
}

/// Codes of requests that were not carried out because the object is being changed.
fn is_busy(code: &str) -> bool {
    code == "Conflict.Lock"
        || code.starts_with("IncorrectStatus")
        || code.contains("ServiceIsConfiguring")
        || code == "OperationFailed.ListenerStatusNotSupport"
        || code == "InvalidOperation.Conflict"
        || code.starts_with("ResourceInConfiguring")
}

type Kind = fn(String) -> Error;

/// Returns the kind of error that a code means beyond its status.
fn meaning(refusal: &Refusal) -> Option<Kind> {
    let code = &*refusal.code;
    let quota = ["Quota", "QuotaExceeded", "QuotaInsufficient", "OverLimit", "LimitExceed"];
    Some(match code {
        _ if is_throttled(code) => |text| Error::rate_limited(text, Duration::from_secs(1)),
        _ if code.starts_with("InvalidAccessKeyId") || is_unauthenticated(code) => Error::unauthorized,
        "Forbidden.RAM" | "NoPermission" | "Forbidden" | "Forbidden.NoPermission" => Error::unauthorized,
        "InvalidAction.NotFound" | "InvalidVersion" => return None,
        _ if code.ends_with(".NotFound") || code.starts_with("ResourceNotFound") => Error::not_found,
        "InvalidLoadBalancerId.NotExist" => Error::not_found,
        _ if refusal.message.contains("LoadBalancerId does not exist") => Error::not_found,
        _ if code.contains("DeleteProtection") || code.contains("DeletionProtection") => Error::protected,
        _ if is_busy(code) || code.contains("Duplicate") || code.contains("AlreadyExist") => Error::conflict,
        "DependencyViolation" | "ResourceInUse.ServerGroup" | "VServerGroupInUse" => Error::conflict,
        _ if quota.iter().any(|it| code.contains(it)) => Error::quota,
        _ => return None,
    })
}

/// Reads a refusal: `{"Code", "Message", "RequestId"}`.
fn refusal(_: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let code = answer["Code"].as_str()?.to_owned();
    let message = answer["Message"].as_str().unwrap_or_default();
    Some(Refusal { message: format!("{code}: {message}"), code, details: Vec::new() })
}

/// Completes a transport, with the setup and what the caller adds.
pub(crate) type Furnish = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Returns a transport to a region.
type Connect = dyn Fn(&str) -> Result<Transport> + Send + Sync;

/// The APIs, and the configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) config: Arc<Config>,
    pub(crate) metadata: Arc<Metadata>,
    clients: Arc<[Transport; 4]>,
    /// Transports to ECS in other regions.
    elsewhere: Arc<Mutex<BTreeMap<String, Transport>>>,
    /// Returns a transport to ECS in another region.
    connect: Arc<Connect>,
    jobs: Operations<String>,
}

/// Returns a transport to a product.
pub(crate) fn transport(
    config: &Arc<Config>,
    metadata: &Arc<Metadata>,
    product: Product,
    tokens: Option<Arc<Tokens<Chain>>>,
    furnish: &Furnish,
) -> Result<Transport> {
    transport_in(None, config, metadata, product, tokens, furnish)
}

/// Returns a transport to a product in a region, by default in that of the configuration.
fn transport_in(
    region: Option<String>,
    config: &Arc<Config>,
    metadata: &Arc<Metadata>,
    product: Product,
    tokens: Option<Arc<Tokens<Chain>>>,
    furnish: &Furnish,
) -> Result<Transport> {
    let (clock, access, last) = Default::default();
    let (config, metadata) = (Arc::clone(config), Arc::clone(metadata));
    let connection = Arc::new(Connection { config, metadata, product, region, tokens, clock, access, last });
    let http = Transport::of_session(Arc::clone(&connection) as _).signer(connection as _);
    let budget = Budget { refill: Refill::adaptive(product.rate, product.rate * 4), ..Budget::default() };
    let http = furnish(http).budget(budget).refusals(refusal);
    let http = http.retry_refusals(|refusal| is_throttled(&refusal.code) || is_busy(&refusal.code));
    Ok(http.build()?.error_mapping(meaning))
}

impl Api {
    pub(crate) fn new(config: Config, setup: &Setup, furnish: &Furnish) -> Result<Self> {
        let config = Arc::new(config);
        let metadata = Arc::new(Metadata::new(Arc::clone(&config), furnish)?);
        let is_offline = setup.environment.is_offline();
        let chain = Chain::new(Arc::clone(&config), Arc::clone(&metadata), Arc::clone(furnish), is_offline);
        let tokens = Arc::new(Tokens::of(chain));
        let client = |product| transport(&config, &metadata, product, Some(Arc::clone(&tokens)), furnish);
        let clients = Arc::new([client(ECS)?, client(SLB)?, client(NLB)?, client(VPC)?]);
        let connect = {
            let (config, metadata, furnish) = (Arc::clone(&config), Arc::clone(&metadata), Arc::clone(furnish));
            move |region: &str| {
                let tokens = Some(Arc::clone(&tokens));
                transport_in(Some(region.to_owned()), &config, &metadata, ECS, tokens, &furnish)
            }
        };
        let nlb = clients[2].clone();
        let jobs = Operations::new(Duration::from_millis(1500), 20, move |ids: Vec<String>| {
            let call = Query::new(NLB, "ListAsynJobs").set("JobIds", &ids).call();
            let nlb = nlb.clone();
            async move {
                let answer: Value = nlb.read(call).await?;
                let state = |job: &Value| {
                    let [id, status] = [&job["Id"], &job["Status"]].map(|it| it.as_str().unwrap_or_default());
                    let outcome = match status {
                        "Succeeded" => Some(Ok(())),
                        "Failed" => {
                            let [code, message] =
                                ["ErrorCode", "ErrorMessage"].map(|key| job[key].as_str().unwrap_or_default());
                            Some(Err(Error::conflict(format!("NLB job {id} failed: {code} {message}"))))
                        }
                        _ => None,
                    };
                    OperationState { id: id.to_owned(), outcome }
                };
                Ok(answer["Jobs"].as_array().into_iter().flatten().map(state).collect())
            }
        });
        Ok(Self { config, metadata, clients, elsewhere: Arc::default(), connect: Arc::new(connect), jobs })
    }

    pub(crate) fn client(&self, product: Product) -> &Transport {
        let at = ["ecs", "slb", "nlb", "vpc"].iter().position(|it| *it == product.name);
        &self.clients[at.unwrap_or_default()]
    }

    /// Returns the connection for an action, which may be about another region.
    async fn client_of(&self, query: &Query) -> Result<Transport> {
        match &query.region {
            Some(region) if *region != self.metadata.region().await? => {
                if let Some(client) = self.elsewhere.lock().get(region) {
                    return Ok(client.clone());
                }
                let client = (self.connect)(region)?;
                Ok(self.elsewhere.lock().entry(region.clone()).or_insert(client).clone())
            }
            _ => Ok(self.client(query.product).clone()),
        }
    }

    async fn regional(&self, query: Query) -> Result<Query> {
        if let Some(region) = query.region.clone() {
            return Ok(query.set("RegionId", region));
        }
        Ok(match query.product.name == "nlb" && query.action == "ListAsynJobs" {
            true => query,
            false => query.set("RegionId", self.metadata.region().await?),
        })
    }

    /// Sends an action for the region and reads its answer.
    pub(crate) async fn read<T: DeserializeOwned>(&self, query: Query) -> Result<T> {
        let query = self.regional(query).await?;
        self.client(query.product).read(query.call()).await
    }

    /// Sends a change that can be sent again after a lost answer, and waits for its job.
    pub(crate) async fn change(&self, query: Query) -> Result<Value> {
        let query = self.regional(query).await?;
        let answer = self.client(query.product).read(query.call().repeatable()).await?;
        self.wait(answer).await
    }

    /// Sends a creation, which is not sent again after a lost answer. The job has not ended yet. A refusal such as
    /// `ServiceUnavailable` does not prove that nothing was created: repetitions have the same token.
    pub(crate) async fn create(&self, query: Query) -> Result<Value> {
        let mut query = self.regional(query).await?;
        if query.takes_token() {
            query = query.set("ClientToken", signing::nonce()?);
        }
        self.client(query.product).read(query.call()).await
    }

    /// Waits for the job of an answer, if there is one.
    pub(crate) async fn wait(&self, answer: Value) -> Result<Value> {
        if let Some(job) = answer["JobId"].as_str().filter(|it| !it.is_empty()) {
            self.jobs.wait(&[job.to_owned()]).await?;
        }
        Ok(answer)
    }

    /// Reads a list whose pages are named by `NextToken`. `size`: the parameter with the length of a page, and the
    /// length; `place`: the JSON pointer of the items.
    pub(crate) async fn tokens<T: DeserializeOwned, K: std::hash::Hash>(
        &self,
        query: Query,
        (size, length): (&str, usize),
        place: &str,
        shared: &SharedPriority,
        key: impl Fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let query = self.regional(query).await?.set(size, (length > 0).then_some(length));
        // ECS has no useful total with tokens, and VPC has none.
        let totals = ["slb", "nlb"].contains(&query.product.name);
        let properties = ListProperties { what: query.action, totals };
        read_pages(properties, String::new(), key, async |token: String| {
            let query = query.clone().set("NextToken", Some(token).filter(|it| !it.is_empty()));
            let client = self.client_of(&query).await?;
            let mut answer: Value =
                shared.send_read(|priority| client.read(query.clone().with_priority(priority).call())).await?;
            let next = answer["NextToken"].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
            let total = answer["TotalCount"].as_u64().filter(|_| totals);
            let total = total.and_then(|it| usize::try_from(it).ok());
            Ok(Page { items: items(&mut answer, place, query.action)?, next, total })
        })
        .await
    }

    /// Reads a list with numbered pages and a total.
    pub(crate) async fn pages<T: DeserializeOwned, K: std::hash::Hash>(
        &self,
        query: Query,
        size: usize,
        place: &str,
        key: impl Fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let query = self.regional(query).await?.set("PageSize", size);
        let properties = ListProperties { what: query.action, totals: true };
        let seen = Mutex::new(0);
        read_pages(properties, 1_u32, key, async |number: u32| {
            let mut answer: Value =
                self.client(query.product).read(query.clone().set("PageNumber", number).call()).await?;
            let total = answer["TotalCount"].as_u64().and_then(|it| usize::try_from(it).ok());
            let items: Vec<T> = items(&mut answer, place, query.action)?;
            let read = {
                let mut seen = seen.lock();
                *seen += items.len();
                *seen
            };
            let is_last = items.is_empty() || total.is_none_or(|total| read >= total);
            Ok(Page { items, next: (!is_last).then_some(number + 1), total })
        })
        .await
    }
}

fn items<T: DeserializeOwned>(answer: &mut Value, place: &str, action: &str) -> Result<Vec<T>> {
    let list = answer.pointer_mut(place).map(Value::take).filter(|it| !it.is_null());
    let list = list.ok_or_else(|| Error::other(format!("{action} answered no list at {place}")))?;
    serde_json::from_value(list).map_err(|err| Error::other(format!("{action} answered an unexpected list: {err}")))
}
