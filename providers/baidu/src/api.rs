//! The HTTP API: one connection for each product, paging of lists, and the meaning of refusals.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use provider_kit::cached::Cached;
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::Paging;
use provider_kit::transport::{Builder, Call, Refusal, RetryPolicy, Transport};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::{Config, Credentials};
use crate::credentials::BceSigner;

/// The products, each with a host of its own. Instances, subnets and routes are at `bcc`.
pub const PRODUCTS: [&str; 3] = ["blb", "eip", "bcc"];

const PAGING: Paging = Paging::token("marker", "/nextMarker")
    .truncated("/isTruncated")
    .size("maxKeys", 1000);

/// Returns the builder of a client for one of the [`PRODUCTS`].
#[must_use]
pub fn cloud(config: &Config, setup: &Setup, product: &str) -> Builder {
    let host = format!("{product}.{}.baidubce.com", config.region);
    let base = match (&config.endpoint, &config.credentials) {
        (Some(endpoint), _) => endpoint.clone(),
        (None, Credentials::Plugin(_)) => format!("http://{}", config.gateway),
        (None, _) => format!("https://{host}"),
    };
    let retry_policy = RetryPolicy {
        timeout: Duration::from_secs(30),
        ..RetryPolicy::default()
    };
    Transport::builder(base)
        .setup(setup)
        .user_agent(format!("cce-k8s:{}", config.cluster))
        .signer(Arc::new(BceSigner::new(Arc::new(config.clone()), host)))
        .retry_policy(retry_policy)
        .refusals(Refusal::read_with_code)
        .retry_refusals(|refusal| refusal.code == "Http400")
        .correlation("x-bce-request-id")
        .paging(PAGING)
        .log_bodies(config.debug)
}

/// The products with one credential.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) blb: Transport,
    pub(crate) eip: Transport,
    pub(crate) bcc: Transport,
    pub(crate) config: Arc<Config>,
    eips: Arc<Cached<Vec<Eip>>>,
}

/// An EIP, as the API shows it. A field that is not understood counts as absent: the EIPs of others must not fail the
/// list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Value")]
pub(crate) struct Eip {
    pub(crate) eip: String,
    pub(crate) name: Option<String>,
    pub(crate) status: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) share_group_id: Option<String>,
    pub(crate) bandwidth_in_mbps: u32,
    pub(crate) payment_timing: Option<String>,
    pub(crate) billing_method: Option<String>,
    pub(crate) tags: Option<Vec<Tag>>,
    pub(crate) delete_protect: Option<bool>,
}

/// A tag of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tag {
    tag_key: String,
    tag_value: String,
}

impl From<Value> for Eip {
    fn from(entry: Value) -> Self {
        let text = |object: &Value, key: &str| object[key].as_str().map(str::to_owned);
        let tag = |tag: &Value| {
            Some(Tag {
                tag_key: text(tag, "tagKey")?,
                tag_value: text(tag, "tagValue")?,
            })
        };
        let bandwidth = entry["bandwidthInMbps"]
            .as_u64()
            .and_then(|bandwidth_in_mbps| u32::try_from(bandwidth_in_mbps).ok());
        Self {
            eip: text(&entry, "eip").unwrap_or_default(),
            name: text(&entry, "name"),
            status: text(&entry, "status").unwrap_or_default(),
            instance_id: text(&entry, "instanceId"),
            share_group_id: text(&entry, "shareGroupId"),
            bandwidth_in_mbps: bandwidth.unwrap_or_default(),
            payment_timing: text(&entry, "paymentTiming"),
            billing_method: text(&entry, "billingMethod"),
            tags: entry["tags"]
                .as_array()
                .map(|all| all.iter().filter_map(tag).collect()),
            delete_protect: entry["deleteProtect"].as_bool(),
        }
    }
}

impl Eip {
    /// Returns the value of a tag.
    pub(crate) fn tag(&self, key: &str) -> Option<&str> {
        self.tags
            .iter()
            .flatten()
            .find(|tag| tag.tag_key == key)
            .map(|tag| &*tag.tag_value)
    }

    /// Returns the ID of the instance that the EIP is bound to.
    pub(crate) fn instance(&self) -> Option<&str> {
        self.instance_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns `true` if the EIP shares the bandwidth of a group.
    pub(crate) fn is_shared(&self) -> bool {
        self.share_group_id
            .as_ref()
            .is_some_and(|id| !id.is_empty())
    }

    /// Returns `true` while the cloud is changing the EIP. The answer to a creation has no status.
    pub(crate) fn is_busy(&self) -> bool {
        ["", "creating", "binding", "unbinding", "updating"].contains(&&*self.status)
    }
}

impl Api {
    pub(crate) fn new(config: Arc<Config>, [blb, eip, bcc]: [Transport; 3]) -> Self {
        let [blb, eip, bcc] = [blb, eip, bcc].map(|http| http.error_mapping(error_mapping));
        Self {
            blb,
            eip,
            bcc,
            config,
            eips: Arc::default(),
        }
    }

    /// Returns all EIPs, read after this call began. Concurrent callers share one list.
    pub(crate) async fn eips(&self) -> Result<Arc<Vec<Eip>>> {
        let read = async || {
            all(
                &self.eip,
                Call::get("/v1/eip", &[]),
                "eipList",
                |eip: &Eip| eip.eip.clone(),
            )
            .await
        };
        Ok(self.eips.get(Duration::ZERO, read).await?.0)
    }
}

/// Reads a list that must be complete.
pub(crate) async fn all<T: DeserializeOwned, K: Hash>(
    http: &Transport,
    call: Call,
    collection: &str,
    key: fn(&T) -> K,
) -> Result<Vec<T>> {
    let list = http
        .list(
            call,
            collection,
            &SharedPriority::default(),
            |item: T| item,
            key,
        )
        .await?;
    Ok(list.complete()?.into_items())
}

/// Returns the meaning of a code. Baidu publishes only the common codes, so the form of the others decides.
fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    match &*refusal.code {
        "SignatureDoesNotMatch"
        | "InvalidHTTPAuthHeader"
        | "InvalidAccessKeyId"
        | "RequestExpired" => Some(Error::unauthorized),
        code if code.starts_with("NoSuch") || code.ends_with("NotFound") => Some(Error::not_found),
        code if code.contains("Quota") || code.contains("ExceedLimit") => Some(Error::quota),
        _ => None,
    }
}
