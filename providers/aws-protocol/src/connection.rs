//! Connections: endpoints of requests, and their signatures.

use std::sync::Arc;

use bytes::Bytes;
use cloud_provider::{Environment, Error, Result, async_trait};
use http::{HeaderMap, Request};
use jiff::Timestamp;
use parking_lot::Mutex;
use provider_kit::signing::{CloudClock, SigV4, Signer};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Access, Builder, Call, Method, Refusal, Session, Transport};
use tokio::sync::OnceCell;

use crate::Settings;
use crate::chain::Chain;
use crate::endpoint::{Endpoint, Endpoints, Service};
use crate::refusal;

/// Lifetime of a token of the metadata service, in seconds.
const TOKEN_LIFETIME: u32 = 21_600;

/// Settings and state that the connections of one process share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) environment: Environment,
    pub(crate) endpoints: Endpoints,
    pub(crate) clock: CloudClock,
    pub(crate) region: OnceCell<String>,
    /// Completes a transport, with the setup and what the provider adds.
    pub(crate) furnish: Box<dyn Fn(Builder) -> Builder + Send + Sync>,
}

impl Shared {
    pub(crate) async fn region(&self) -> Result<&str> {
        let region = self.region.get_or_try_init(|| async {
            let Endpoints {
                variables, profile, ..
            } = &self.endpoints;
            let known = self
                .settings
                .region
                .as_deref()
                .or(variables.get("region"))
                .or(variables.get("default_region"));
            if let Some(region) = known.or(profile.get("region")) {
                return Ok(region.to_owned());
            }
            let unknown =
                "the AWS region is not known; set Region in the cloud configuration, or AWS_REGION";
            let region = self
                .metadata("meta-data/placement/region")
                .await
                .map_err(|error| error.context(unknown))?;
            region.ok_or_else(|| Error::invalid(unknown))
        });
        region.await.map(String::as_str)
    }

    /// Reads a path of the metadata service, with a token (IMDSv2).
    pub(crate) async fn metadata(&self, path: &str) -> Result<Option<String>> {
        let Some(base) = self.endpoints.metadata() else {
            return Ok(None);
        };
        let hint = |error: Error| {
            let hint = "the metadata service does not answer; in a Pod without the host's network, the instance's hop limit \
                        must be at least 2 (HttpPutResponseHopLimit)";
            if error.is_unanswered() {
                error.context(hint)
            } else {
                error
            }
        };
        let token = |call: Call| {
            call.header("x-aws-ec2-metadata-token-ttl-seconds", TOKEN_LIFETIME)
                .reading()
        };
        let token = self
            .plain(
                Method::PUT,
                &format!("{base}/latest/api/token"),
                "imds GetToken",
                token,
            )
            .await;
        let token = token.map_err(hint)?;
        let call = |call: Call| {
            call.header("x-aws-ec2-metadata-token", &token)
                .hide(token.as_str().into())
        };
        match self
            .plain(
                Method::GET,
                &format!("{base}/latest/{path}"),
                "imds GetMetadata",
                call,
            )
            .await
        {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some).map_err(hint),
        }
    }

    /// Sends a request to a service of the own machine, which has one URL and answers a text at once.
    pub(crate) async fn plain(
        &self,
        method: Method,
        url: &str,
        operation: &str,
        complete: impl FnOnce(Call) -> Call,
    ) -> Result<String> {
        let (base, path) = url.strip_suffix('/').map_or((url, ""), |base| (base, "/"));
        let http = (self.furnish)(Transport::builder(base))
            .metadata_service()
            .build()?;
        let answer = http
            .send(complete(Call::new(method, path, &[]).operation(operation)))
            .await?;
        Ok(answer.text())
    }
}

/// The connection to one API: its endpoint, and the signature of its requests.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    service: Service,
    /// The credentials; without them requests are not signed.
    tokens: Option<Arc<Tokens<Chain>>>,
    endpoint: OnceCell<Endpoint>,
    /// The last signature, whose secrets are hidden.
    last: Mutex<Option<SigV4>>,
}

impl Connection {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        service: Service,
        tokens: Option<Arc<Tokens<Chain>>>,
    ) -> Arc<Self> {
        let (endpoint, last) = Default::default();
        Arc::new(Self {
            shared: Arc::clone(shared),
            service,
            tokens,
            endpoint,
            last,
        })
    }

    /// Returns a transport over this connection.
    pub(crate) fn transport(
        self: &Arc<Self>,
        complete: impl Fn(Builder) -> Builder,
    ) -> Result<Transport> {
        let http = Transport::of_session(Arc::clone(self) as _).signer(Arc::clone(self) as _);
        let http = (self.shared.furnish)(http)
            .refusals(refusal::read)
            .retry_refusals(refusal::is_throttled);
        Ok(complete(http.correlation("x-amzn-requestid"))
            .build()?
            .error_mapping(refusal::error_mapping))
    }

    async fn endpoint(&self) -> Result<&Endpoint> {
        let find = || async {
            self.shared
                .endpoints
                .endpoint(&self.service, self.shared.region().await?)
        };
        self.endpoint.get_or_try_init(find).await
    }
}

#[async_trait]
impl Session for Connection {
    async fn access(&self) -> Result<Arc<Access>> {
        Ok(Arc::clone(&self.endpoint().await?.access))
    }

    async fn renewed(&self, _refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        Ok(None)
    }
}

#[async_trait]
impl Signer for Connection {
    async fn sign(&self, request: &mut Request<Bytes>, _now: Timestamp) -> Result<()> {
        let Some(tokens) = &self.tokens else {
            return Ok(());
        };
        let credentials = (*tokens.current().await?).clone();
        let Endpoint { region, name, .. } = self.endpoint().await?;
        let signature = SigV4 {
            credentials,
            region: region.clone(),
            service: name.clone(),
        };
        let signed = signature.sign_at(request, self.shared.clock.now());
        *self.last.lock() = Some(signature);
        signed
    }

    async fn refused(
        &self,
        request: &HeaderMap,
        refusal: &Refusal,
        answer: &HeaderMap,
    ) -> Result<bool> {
        let is_late = |signed| self.shared.clock.correct(signed, answer);
        if refusal::is_clock(&refusal.code) && SigV4::signed_at(request).is_some_and(is_late) {
            return Ok(true);
        }
        let Some(tokens) = self
            .tokens
            .as_ref()
            .filter(|_| refusal::is_unauthenticated(&refusal.code))
        else {
            return Ok(false);
        };
        let other = tokens.instead_of(|keys| keys.have_signed(request)).await;
        Ok(other.is_ok_and(|keys| !keys.have_signed(request)))
    }

    fn redact(&self, text: String) -> String {
        match &*self.last.lock() {
            Some(signature) => signature.redact(text),
            None => text,
        }
    }
}
