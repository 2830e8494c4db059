//! API 3.0: products, actions, asynchronous tasks, pages and refusals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::{Error, Result, Setup, async_trait};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use provider_kit::inventory::SharedPriority;
use provider_kit::operation::{Polling, until_done};
use provider_kit::paging::{ListProperties, ListResult, Page, read_pages};
use provider_kit::signing::{AwsCredentials as Keys, CloudClock, Signer};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{
    BodyLimit, Budget, Builder, Call, Connector, NoAnswer, Priority, Refill, Refusal, Transport,
};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::config::Config;
use crate::credentials::{Chain, Metadata};
use crate::signing;

/// An API: the first label of its host, and its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    version: &'static str,
}

pub(crate) const CVM: Product = Product { name: "cvm", version: "2017-03-12" };
pub(crate) const CLB: Product = Product { name: "clb", version: "2018-03-17" };
pub(crate) const VPC: Product = Product { name: "vpc", version: "2017-03-12" };
pub(crate) const TKE: Product = Product { name: "tke", version: "2018-05-25" };
pub(crate) const TAG: Product = Product { name: "tag", version: "2018-08-13" };
pub(crate) const STS: Product = Product { name: "sts", version: "2018-08-13" };

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

/// An action with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    product: Product,
    name: &'static str,
    parameters: Map<String, Value>,
    priority: Priority,
}

impl Action {
    pub(crate) fn new(product: Product, name: &'static str) -> Self {
        let is_urgent = ["Delete", "Deregister"].iter().any(|verb| name.contains(verb));
        let priority = if is_urgent { Priority::Urgent } else { Priority::Ordinary };
        Self { product, name, parameters: Map::new(), priority }
    }

    /// Sets a parameter; null sets none.
    pub(crate) fn set(mut self, key: &str, value: impl serde::Serialize) -> Self {
        match serde_json::to_value(value).unwrap_or_default() {
            Value::Null => self.parameters.remove(key),
            value => self.parameters.insert(key.to_owned(), value),
        };
        self
    }

    /// Sets one parameter for each field of an object.
    pub(crate) fn fields(self, fields: Value) -> Self {
        let Value::Object(fields) = fields else { return self };
        fields.into_iter().fold(self, |action, (key, value)| action.set(&key, value))
    }

    pub(crate) fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Returns the request. A change that sets a state can be sent again after a lost answer.
    pub(crate) fn call(&self, region: &str) -> Call {
        let Product { name, version } = self.product;
        let call = Call::post("/", &[]).operation(format!("{name} {}", self.name)).json(&self.parameters);
        let call = call.header("x-tc-action", self.name).header("x-tc-version", version);
        let call = call.header("x-tc-region", region).inside("Response").with_priority(self.priority);
        let is_read = ["Describe", "AssumeRole"].iter().any(|verb| self.name.starts_with(verb));
        let sets_state =
            ["Delete", "Modify", "Set", "Replace", "BatchModify"].iter().any(|verb| self.name.starts_with(verb));
        match (is_read, sets_state) {
            (true, _) => call.reading().list(),
            (false, true) => call.repeatable(),
            (false, false) => call,
        }
    }
}

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

    async fn refused(&self, request: &HeaderMap, refusal: &Refusal, answer: &HeaderMap) -> Result<bool> {
        let is_late = |signed| self.clock.correct(signed, answer);
        if refusal.code == "AuthFailure.SignatureExpire" && signing::signed_at(request).is_some_and(is_late) {
            return Ok(true);
        }
        let is_refused = status(&refusal.code, &refusal.message) == StatusCode::UNAUTHORIZED;
        let Some(tokens) = self.tokens.as_ref().filter(|_| is_refused) else { return Ok(false) };
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

/// A connector that gives refusals a status: the APIs answer 200, with the code in the body.
pub(crate) struct RefusalStatus(pub(crate) Arc<dyn Connector>);

impl Connector for RefusalStatus {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let answer = self.0.carry(request, limit);
        async move {
            let mut answer = answer.await?;
            if answer.status() == StatusCode::OK
                && let Some((code, message)) = refused(answer.body())
            {
                let status = status(&code, &message);
                *answer.status_mut() = status;
                if status == StatusCode::TOO_MANY_REQUESTS {
                    answer.headers_mut().entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static("1"));
                }
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// Returns code and message of a refusal: `{"Response": {"Error": {"Code", "Message"}}}`.
fn refused(body: &[u8]) -> Option<(String, String)> {
    if !std::str::from_utf8(body).is_ok_and(|text| text.contains("\"Error\"")) {
        return None;
    }
    let answer: Value = serde_json::from_slice(body).ok()?;
    let error = &answer["Response"]["Error"];
    Some((error["Code"].as_str()?.to_owned(), error["Message"].as_str().unwrap_or_default().to_owned()))
}

fn refusal(_: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let (code, message) = refused(body)?;
    Some(Refusal { message: format!("{code}: {message}"), code, details: Vec::new() })
}

/// Beginnings of codes, with the status that they correspond to. The first one that fits counts.
const STATUSES: [(&str, u16); 26] = [
    ("AuthFailure.UnauthorizedOperation", 403),
    ("AuthFailure", 401),
    ("UnauthorizedOperation", 403),
    ("RequestLimitExceeded", 429),
    ("FailedOperation.RateLimitExceeded", 429),
    ("InvalidInstanceId.NotFound", 404),
    ("InvalidParameter.LBIdNotFound", 404),
    ("InvalidParameter.ListenerIdNotFound", 404),
    ("InternalError.RouteTableNotFound", 404),
    ("InvalidParameter.ResourceNotFound", 404),
    ("ResourceNotFound", 404),
    ("InvalidSecurityGroupID.NotFound", 404),
    ("FailedOperation.ResourceInOperating", 409),
    ("FailedOperation.InvalidLBStatus", 409),
    ("FailedOperation.ResourceInCloning", 409),
    ("ResourceInUse", 409),
    ("InvalidParameterValue.Duplicate", 409),
    ("InvalidParameter.PortCheckFailed", 409),
    ("InvalidParameter.GatewayAlreadyAssociatedCidr", 409),
    ("InternalError.GatewayAlreadyAssociatedCidr", 409),
    ("InternalError.Cidr", 400),
    ("InternalError.RouteTableNotEmpty", 400),
    ("InternalError", 500),
    ("ServiceUnavailable", 503),
    ("ResourceUnavailable", 503),
    ("FailedOperation.RequestTimeout", 500),
];

/// Returns the status that a refusal corresponds to.
fn status(code: &str, message: &str) -> StatusCode {
    let text = message.to_ascii_lowercase();
    let known = STATUSES.iter().find(|(beginning, _)| code.starts_with(beginning)).map(|(_, status)| *status);
    let number = match known {
        None if code == "LimitExceeded" && (text.contains("frequency") || text.contains("rate limit")) => 429,
        known => known.unwrap_or(400),
    };
    StatusCode::from_u16(number).unwrap_or(StatusCode::BAD_REQUEST)
}

/// Returns the meaning of a code beyond its status.
fn meaning(refusal: &Refusal) -> Option<fn(String) -> Error> {
    let quota = ["LimitExceeded", "ResourceInsufficient", "ResourcesSoldOut", "FailedOperation.InsufficientBalance"];
    let is_protected = || {
        refusal.code.starts_with("OperationDenied") || refusal.message.to_ascii_lowercase().contains("delete protect")
    };
    match () {
        () if status(&refusal.code, &refusal.message) == StatusCode::TOO_MANY_REQUESTS => None,
        () if quota.iter().any(|it| refusal.code.starts_with(it)) => Some(Error::quota),
        () if is_protected() => Some(Error::protected),
        () => None,
    }
}

/// Returns `true` for a request that was not carried out because the object is being changed.
fn is_busy(refusal: &Refusal) -> bool {
    ["FailedOperation.ResourceInOperating", "FailedOperation.InvalidLBStatus", "FailedOperation.ResourceInCloning"]
        .contains(&&*refusal.code)
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
    let signer = ProductSigner { product: product.name, tokens, clock: CloudClock::default(), last: Mutex::default() };
    let url = config.endpoint(product.name);
    let budget = Budget { share_left_to_others: 0.0, refill: Refill::adaptive(RATE, RATE) };
    let http = furnish(Transport::builder(&*url)).signer(Arc::new(signer)).budget(budget);
    let http = http.refusals(refusal).retry_refusals(is_busy).build();
    http.map(|it| it.error_mapping(meaning)).map_err(|error| error.context(format!("endpoint_domain ({url})")))
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
        let chain = Chain::new(Arc::clone(&config), Arc::clone(&metadata), Arc::clone(&furnish), is_offline);
        Ok(Self { config, metadata, tokens: Arc::new(Tokens::of(chain)), furnish, clients: Arc::default() })
    }

    fn client(&self, action: &Action) -> Result<Transport> {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(action.name) {
            return Ok(client.clone());
        }
        let client = transport(&self.config, action.product, Some(Arc::clone(&self.tokens)), &self.furnish)?;
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
                Some(1) => Err(Error::conflict(format!("task {id} failed: {}", text(&answer, "Message")))),
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
        let properties = ListProperties { what: action.name, totals: true };
        let number = |it: usize| if is_text { Value::from(it.to_string()) } else { Value::from(it) };
        let read = Mutex::new(0);
        read_pages(properties, 1_u32, key, async |page: u32| {
            let offset = (page as usize - 1) * PAGE;
            let action = action.clone().set("Offset", number(offset)).set("Limit", number(PAGE));
            let mut answer: Value =
                shared.send_read(|priority| self.send(action.clone().with_priority(priority))).await?;
            let total = answer["TotalCount"].as_u64().and_then(|it| usize::try_from(it).ok());
            let items = match answer[place].take() {
                Value::Null => Vec::new(),
                list => serde_json::from_value::<Vec<T>>(list)
                    .map_err(|err| Error::other(format!("{}: unexpected {place}: {err}", action.name)))?,
            };
            let seen = {
                let mut read = read.lock();
                *read += items.len();
                *read
            };
            let is_last = items.is_empty() || total.is_none_or(|total| seen >= total);
            Ok(Page { items, next: (!is_last).then_some(page + 1), total })
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
    list(value).filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_in_answers_with_status_200_get_the_status_of_their_code() {
        for (code, message, expected) in [
            ("AuthFailure.SignatureFailure", "", 401),
            ("UnauthorizedOperation", "", 403),
            ("RequestLimitExceeded.UinLimitExceeded", "", 429),
            ("LimitExceeded", "the request frequency is too high", 429),
            ("LimitExceeded", "the quota of load balancers is used up", 400),
            ("ResourceNotFound.RouteTableNotFound", "", 404),
            ("InvalidInstanceId.Malformed", "", 400),
            ("FailedOperation.ResourceInOperating", "", 409),
            ("InternalError.CidrOutOfRouteTable", "", 400),
            ("InternalError.Db", "", 500),
        ] {
            assert_eq!(status(code, message), expected, "{code}");
        }
        let body = br#"{"Response": {"Error": {"Code": "LimitExceeded", "Message": "quota"}, "RequestId": "1"}}"#;
        let read = refusal(&HeaderMap::new(), body).unwrap();
        assert_eq!((&*read.code, &*read.message), ("LimitExceeded", "LimitExceeded: quota"));
        assert!(meaning(&read).is_some_and(|error| error(String::new()).is_quota()));
        assert!(refused(br#"{"Response": {"Name": "Error", "RequestId": "1"}}"#).is_none());
    }
}
