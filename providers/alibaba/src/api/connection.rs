//! Connections to the products: endpoints, signatures, and what refusals mean.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::{Error, Result, async_trait};
use http::{HeaderMap, Request};
use jiff::Timestamp;
use parking_lot::Mutex;
use provider_kit::signing::{AwsCredentials as Keys, CloudClock, Signer};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Access, Budget, Refill, Refusal, Session, Transport};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::{Furnish, Product};
use crate::config::Config;
use crate::credentials::{Chain, Metadata};
use crate::signing;

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
            let url = self
                .config
                .endpoint(self.product.name, self.product.variable, &region);
            let access = Access::signed(&url);
            Ok(Arc::new(access.map_err(|error| {
                error.context(format!("{} ({url})", self.product.variable))
            })?))
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
            let context = context
                .parse()
                .map_err(|_| Error::invalid("X-ACSPROXY-ASCM-CONTEXT is no valid header"))?;
            request
                .headers_mut()
                .insert("x-acsproxy-ascm-context", context);
        }
        let Some(tokens) = &self.tokens else {
            return Ok(());
        };
        let keys = (*tokens.current().await?).clone();
        let signed = match self.config.is_legacy_signature {
            true => signing::sign_legacy(request, &keys, self.clock.now()),
            false => signing::sign(request, &keys, self.clock.now()),
        };
        *self.last.lock() = Some(keys);
        signed
    }

    async fn refused(
        &self,
        request: &HeaderMap,
        refusal: &Refusal,
        answer: &HeaderMap,
    ) -> Result<bool> {
        let is_late = |signed| self.clock.correct(signed, answer);
        if refusal.code.starts_with("InvalidTimeStamp")
            && signing::signed_at(request).is_some_and(is_late)
        {
            return Ok(true);
        }
        let Some(tokens) = self
            .tokens
            .as_ref()
            .filter(|_| is_unauthenticated(&refusal.code))
        else {
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

/// Codes that other credentials may end.
fn is_unauthenticated(code: &str) -> bool {
    [
        "InvalidSecurityToken",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "MissingSecurityToken",
    ]
    .iter()
    .any(|missing_security_token| code.starts_with(missing_security_token))
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
    let quota = [
        "Quota",
        "QuotaExceeded",
        "QuotaInsufficient",
        "OverLimit",
        "LimitExceed",
    ];
    Some(match code {
        _ if is_throttled(code) => |text| Error::rate_limited(text, Duration::from_secs(1)),
        _ if code.starts_with("InvalidAccessKeyId") || is_unauthenticated(code) => {
            Error::unauthorized
        }
        "Forbidden.RAM" | "NoPermission" | "Forbidden" | "Forbidden.NoPermission" => {
            Error::unauthorized
        }
        "InvalidAction.NotFound" | "InvalidVersion" => return None,
        _ if code.ends_with(".NotFound") || code.starts_with("ResourceNotFound") => {
            Error::not_found
        }
        "InvalidLoadBalancerId.NotExist" => Error::not_found,
        _ if refusal.message.contains("LoadBalancerId does not exist") => Error::not_found,
        _ if code.contains("DeleteProtection") || code.contains("DeletionProtection") => {
            Error::protected
        }
        _ if is_busy(code) || code.contains("Duplicate") || code.contains("AlreadyExist") => {
            Error::conflict
        }
        "DependencyViolation" | "ResourceInUse.ServerGroup" | "VServerGroupInUse" => {
            Error::conflict
        }
        _ if quota.iter().any(|quota| code.contains(quota)) => Error::quota,
        _ => return None,
    })
}

/// Reads a refusal: `{"Code", "Message", "RequestId"}`.
fn refusal(_: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let code = answer["Code"].as_str()?.to_owned();
    let message = answer["Message"].as_str().unwrap_or_default();
    Some(Refusal {
        message: format!("{code}: {message}"),
        code,
        details: Vec::new(),
    })
}

/// Returns a transport to a product in a region, by default in that of the configuration.
pub(crate) fn transport(
    region: Option<String>,
    config: &Arc<Config>,
    metadata: &Arc<Metadata>,
    product: Product,
    tokens: Option<Arc<Tokens<Chain>>>,
    furnish: &Furnish,
) -> Result<Transport> {
    let (clock, access, last) = Default::default();
    let config = Arc::clone(config);
    let metadata = Arc::clone(metadata);
    let connection = Arc::new(Connection {
        config,
        metadata,
        product,
        region,
        tokens,
        clock,
        access,
        last,
    });
    let http = Transport::of_session(Arc::clone(&connection) as _).signer(connection as _);
    let budget = Budget {
        refill: Refill::adaptive(product.rate, product.rate * 4),
        ..Budget::default()
    };
    let http = furnish(http).budget(budget).refusals(refusal);
    let http = http.retry_refusals(|refusal| is_throttled(&refusal.code) || is_busy(&refusal.code));
    Ok(http.build()?.error_mapping(meaning))
}
