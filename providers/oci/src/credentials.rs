//! Credentials: API keys, instance principals and workload identities.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use cloud_provider::{Error, Result, async_trait};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use jiff::Timestamp;
use parking_lot::Mutex;
use provider_kit::cluster::ClusterView;
use provider_kit::signing::{CloudClock, Signer};
use provider_kit::tokens::{Issued, Issuer, Tokens};
use provider_kit::transport::{Call, Connector, Refusal, Tls, Transport, network};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use x509_parser::parse_x509_certificate;

use crate::config::{ApiKey, Auth, Config, profile};
use crate::region::Region;
use crate::signature::{SigningKey, read_key, session_key};

/// The time after which the file of an API key is read again.
const KEY_LIFETIME: Duration = Duration::from_secs(600);
/// Seconds for which the token of a ServiceAccount is valid.
const ACCOUNT_TOKEN_LIFETIME: u32 = 21_600;
/// The certificate authority of the cluster, which issued the certificate of its token service.
const CLUSTER_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Issues the keys that requests are signed with.
pub(crate) struct KeySource {
    pub(crate) config: Arc<Config>,
    pub(crate) region: Arc<Region>,
    pub(crate) connector: Arc<dyn Connector>,
    /// The principal of one Service, instead of that of the program.
    pub(crate) account: Option<Account>,
}

/// A ServiceAccount whose workload identity signs requests for one Service.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) cluster: ClusterView,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Account {
    /// Requests a token of the ServiceAccount.
    async fn token(&self) -> Result<SecretString> {
        let Self {
            cluster,
            namespace,
            name,
        } = self;
        let spec = json!({"expirationSeconds": ACCOUNT_TOKEN_LIFETIME});
        let body =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        let answer = cluster
            .api()?
            .send(request.map_err(|error| Error::invalid(error.to_string()))?)
            .await?;
        let found: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let token = found["status"]["token"]
            .as_str()
            .map(|token| token.to_owned().into());
        token.ok_or_else(|| {
            Error::invalid(format!(
                "ServiceAccount {namespace}/{name} gives no token (the API server answered {}): create it, and allow \
                 the controller to create serviceaccounts/token",
                answer.status()
            ))
        })
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(alias = "access_token")]
    token: String,
}

#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

fn lifetime(token: &str) -> Result<Duration> {
    let payload = token
        .split('.')
        .nth(1)
        .and_then(|part| URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok());
    let claims: Option<Claims> = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
    let claims =
        claims.ok_or_else(|| Error::other("a session token has another form than expected"))?;
    let left = claims.exp - Timestamp::now().as_second();
    Ok(Duration::from_secs(left.try_into().unwrap_or_default()))
}

/// Returns the text of a certificate or key without its first and last line.
fn bare(pem: &str) -> String {
    pem.lines()
        .filter(|line| !line.starts_with("-----"))
        .map(str::trim)
        .collect()
}

/// Returns the tenancy of an instance's certificate, and its fingerprint.
fn leaf(pem: &str) -> Result<(String, String)> {
    let broken = || Error::other("the certificate of the instance is not valid");
    let der = STANDARD.decode(bare(pem)).map_err(|_| broken())?;
    let (_, certificate) = parse_x509_certificate(&der).map_err(|_| broken())?;
    let mut texts = certificate
        .subject()
        .iter_attributes()
        .filter_map(|attribute_type_and_value| attribute_type_and_value.as_str().ok());
    let tenancy = texts.find_map(|text| {
        text.strip_prefix("opc-tenant:")
            .or(text.strip_prefix("opc-identity:"))
    });
    let tenancy = tenancy
        .ok_or_else(|| Error::other("the certificate of the instance names no tenancy"))?
        .to_owned();
    let mut fingerprint = String::new();
    for byte in digest(&SHA256, &der).as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(fingerprint, "{byte:02x}:");
    }
    Ok((tenancy, fingerprint.trim_end_matches(':').to_owned()))
}

impl KeySource {
    fn api_key(&self, key: &ApiKey) -> Result<Issued<SigningKey>> {
        let ApiKey {
            tenancy,
            user,
            fingerprint,
            ..
        } = key;
        let pair = read_key(key.key.expose_secret(), key.passphrase.as_ref())?;
        let token = SigningKey {
            id: format!("{tenancy}/{user}/{fingerprint}").into(),
            pair,
        };
        Ok(Issued {
            token,
            scope: format!("tenancy {tenancy}"),
            lifetime: KEY_LIFETIME,
            is_renewable: true,
        })
    }

    fn of_profile(&self, path: &std::path::Path, name: &str) -> Result<Issued<SigningKey>> {
        let entries = profile(path, name)?;
        let get = |key: &str| {
            let missing = || {
                Error::invalid(format!(
                    "profile {name:?} of {} has no {key}",
                    path.display()
                ))
            };
            entries.get(key).cloned().ok_or_else(missing)
        };
        let read = |file: &str| {
            let home = self.config.environment.get("HOME").unwrap_or_default();
            let file = file
                .strip_prefix("~/")
                .map_or_else(|| file.to_owned(), |rest| format!("{home}/{rest}"));
            cloud_provider::files::read_to_string(&file)
                .map_err(|error| Error::invalid(format!("{file} cannot be read: {error}")))
        };
        let key: SecretString = read(&get("key_file")?)?.into();
        let passphrase = entries
            .get("pass_phrase")
            .map(|pass_phrase| pass_phrase.clone().into());
        if let Some(file) = entries.get("security_token_file") {
            let token = read(file)?.trim().to_owned();
            let pair = read_key(key.expose_secret(), passphrase.as_ref())?;
            return session(&token, pair, format!("tenancy {}", get("tenancy")?));
        }
        let [tenancy, user, fingerprint] = [get("tenancy")?, get("user")?, get("fingerprint")?];
        self.api_key(&ApiKey {
            tenancy,
            user,
            fingerprint,
            key,
            passphrase,
        })
    }

    /// Exchanges the certificate of the instance for a token of its principal.
    async fn instance(&self) -> Result<Issued<SigningKey>> {
        let read = async |path: &'static str| self.region.metadata(path).await;
        let certificate = read("/identity/cert.pem").await?;
        let key = read("/identity/key.pem").await?;
        let intermediate = read("/identity/intermediate.pem").await?;
        let (tenancy, fingerprint) = leaf(&certificate)?;
        let federation_key = SigningKey {
            id: format!("{tenancy}/fed-x509-sha256/{fingerprint}").into(),
            pair: read_key(&key, None)?,
        };
        let session_key = session_key().await?;
        let body = json!({
            "certificate": bare(&certificate), "publicKey": bare(&session_key.public),
            "intermediateCertificates": [bare(&intermediate)], "fingerprintAlgorithm": "SHA256",
        });
        let base = self.region.url("auth", false).await?;
        let http = Transport::builder(base)
            .connector(Arc::clone(&self.connector))
            .signer(Arc::new(Federation(federation_key)));
        let answer: TokenAnswer = http
            .build()?
            .read(Call::post("/v1/x509", &[]).json(&body).reading())
            .await?;
        session(
            &answer.token,
            session_key.pair,
            format!("tenancy {tenancy}"),
        )
    }

    /// Exchanges the token of the program's own ServiceAccount at an identity domain.
    async fn workload(&self) -> Result<Issued<SigningKey>> {
        let variable = |name: &str| {
            let value = self
                .config
                .environment
                .get(&format!("OCI_WORKLOAD_IDENTITY_{name}"));
            value.map(str::trim).filter(|text| !text.is_empty())
        };
        let required = |name: &str| {
            let missing = || {
                Error::invalid(format!(
                    "OCI_WORKLOAD_IDENTITY_{name} is not set; useWorkloadIdentity needs it"
                ))
            };
            variable(name).map(str::to_owned).ok_or_else(missing)
        };
        let path =
            variable("TOKEN_PATH").unwrap_or("/var/run/secrets/kubernetes.io/serviceaccount/token");
        let subject = cloud_provider::files::read_to_string(path)
            .map_err(|error| Error::invalid(format!("{path} cannot be read: {error}")))?;
        let session_key = session_key().await?;
        let form = [
            (
                "grant_type",
                "urn:ietf:params:oauth:grant-type:token-exchange".to_owned(),
            ),
            (
                "requested_token_type",
                variable("REQUESTED_TOKEN_TYPE")
                    .unwrap_or("urn:oci:token-type:oci-rpst")
                    .to_owned(),
            ),
            (
                "subject_token_type",
                variable("SUBJECT_TOKEN_TYPE").unwrap_or("jwt").to_owned(),
            ),
            ("subject_token", subject.trim().to_owned()),
            ("public_key", bare(&session_key.public)),
            ("res_type", required("RESOURCE_TYPE")?),
        ];
        let lifetime = variable("RPST_EXP").map(|variable| ("rpst_exp", variable.to_owned()));
        let call = form
            .iter()
            .chain(&lifetime)
            .fold(Call::post("/oauth2/v1/token", &[]), |call, (key, value)| {
                call.query(key, value)
            });
        let call = call.form().hide(subject.trim().to_owned().into()).reading();
        let mut http =
            Transport::builder(required("DOMAIN_URL")?).connector(Arc::clone(&self.connector));
        let call = if variable("USE_INSTANCE_PRINCIPAL_FOR_TOKEN_EXCHANGE")
            .is_some_and(|variable| variable.eq_ignore_ascii_case("true"))
        {
            http = http.signer(Arc::new(Federation(self.instance().await?.token)));
            call
        } else {
            let client = format!("{}:{}", required("CLIENT_ID")?, required("CLIENT_SECRET")?);
            let basic = format!("Basic {}", STANDARD.encode(client));
            call.header(AUTHORIZATION.as_str().to_owned().leak(), &basic)
                .hide(basic.into())
        };
        let answer: TokenAnswer = http.build()?.read(call).await?;
        session(&answer.token, session_key.pair, "the workload".to_owned())
    }

    /// Exchanges the token of a Service's ServiceAccount at the control plane of an enhanced OKE cluster.
    async fn of_account(&self, account: &Account) -> Result<Issued<SigningKey>> {
        let token = account.token().await?;
        let host = self
            .config
            .environment
            .get("KUBERNETES_SERVICE_HOST")
            .unwrap_or("kubernetes.default.svc");
        let session_key = session_key().await?;
        let body = json!({"podKey": bare(&session_key.public)});
        let call = Call::post("/resourcePrincipalSessionTokens", &[])
            .json(&body)
            .reading();
        let call = call
            .header("authorization", format!("Bearer {}", token.expose_secret()))
            .hide(token);
        let url = format!("https://{host}:12250");
        let connector = match std::path::Path::new(CLUSTER_CA) {
            file if file.exists() => network(
                &Tls {
                    roots: Some(file.to_owned()),
                    ..Tls::default()
                },
                &url,
            )?,
            _ => Arc::clone(&self.connector),
        };
        let answer = Transport::builder(url).connector(connector).build()?.send(call).await.map_err(|error| {
            let hint = "no workload identity for the Service: the cluster must be an enhanced OKE cluster";
            if error.is_unauthorized() { error.context(hint) } else { error }
        })?;
        let inner = serde_json::from_slice::<String>(&answer.body)
            .ok()
            .and_then(|text| STANDARD.decode(text).ok());
        let inner: Option<TokenAnswer> =
            inner.and_then(|entry| serde_json::from_slice(&entry).ok());
        let token = inner.ok_or_else(|| {
            Error::other("the token of a workload identity has another form than expected")
        })?;
        session(&token.token, session_key.pair, "the workload".to_owned())
    }
}

/// Returns the key of a session, which is valid as long as its token.
fn session(
    token: &str,
    pair: ring::signature::RsaKeyPair,
    scope: String,
) -> Result<Issued<SigningKey>> {
    let token = token.trim_start_matches("ST$");
    let lifetime = lifetime(token)?;
    Ok(Issued {
        token: SigningKey {
            id: format!("ST${token}").into(),
            pair,
        },
        scope,
        lifetime,
        is_renewable: true,
    })
}

#[async_trait]
impl Issuer for KeySource {
    type Token = SigningKey;

    async fn issue(&self) -> Result<Issued<SigningKey>> {
        if let Some(account) = &self.account {
            return self.of_account(account).await;
        }
        let issued = match &self.config.auth {
            Auth::Key(key) => self
                .config
                .renewed_key()
                .and_then(|new| self.api_key(new.as_ref().unwrap_or(key))),
            Auth::Profile(path, name) => self.of_profile(path, name),
            Auth::Instance => self.instance().await,
            Auth::Workload => self.workload().await,
            Auth::Offline => Err(Error::unauthorized("there is no credential")),
        };
        // A mistake in the credential is no mistake of the object that a request is for.
        issued.map_err(|error| {
            if error.is_invalid() {
                Error::unauthorized(error.to_string())
            } else {
                error
            }
        })
    }
}

/// Signs the request of the federation, with the key of the instance's certificate.
struct Federation(SigningKey);

#[async_trait]
impl Signer for Federation {
    async fn sign(&self, request: &mut Request<Bytes>, now: Timestamp) -> Result<()> {
        let is_session = self.0.id.expose_secret().starts_with("ST$");
        self.0.sign(request, now, is_session)
    }

    fn redact(&self, text: String) -> String {
        text
    }
}

/// Signs requests with the current key.
pub(crate) struct KeySigner {
    pub(crate) keys: Arc<Tokens<KeySource>>,
    pub(crate) clock: CloudClock,
    /// The last token, which appears in no message.
    last: Mutex<Option<SecretString>>,
    reads: Pace,
    writes: Pace,
}

/// A rate limit: requests wait for their turn.
struct Pace {
    /// The pause between two requests, and the number of requests that may be early.
    limit: Option<(Duration, u32)>,
    /// The time at which the next request is due.
    due: Mutex<Option<Instant>>,
}

impl Pace {
    fn new(limit: Option<(f64, u32)>) -> Self {
        let limit = limit.map(|(rate, burst)| (Duration::from_secs_f64(1.0 / rate), burst));
        Self {
            limit,
            due: Mutex::default(),
        }
    }

    async fn wait(&self) {
        let Some((pause, burst)) = self.limit else {
            return;
        };
        let now = Instant::now();
        let due = {
            let mut due = self.due.lock();
            let turn = due.unwrap_or(now).max(now);
            *due = Some(turn + pause);
            turn
        };
        tokio::time::sleep_until(due.checked_sub(pause * burst).unwrap_or(now)).await;
    }
}

impl KeySigner {
    pub(crate) fn new(keys: Arc<Tokens<KeySource>>, config: &Config) -> Arc<Self> {
        let [reads, writes] = [config.reads, config.writes].map(Pace::new);
        Arc::new(Self {
            keys,
            clock: CloudClock::default(),
            last: Mutex::default(),
            reads,
            writes,
        })
    }
}

#[async_trait]
impl Signer for KeySigner {
    async fn sign(&self, request: &mut Request<Bytes>, _now: Timestamp) -> Result<()> {
        if request.method() == Method::GET {
            &self.reads
        } else {
            &self.writes
        }
        .wait()
        .await;
        let key = self.keys.current().await?;
        *self.last.lock() =
            Some(key.id.clone()).filter(|secret| secret.expose_secret().starts_with("ST$"));
        key.sign(request, self.clock.now(), true)
    }

    async fn refused(
        &self,
        request: &HeaderMap,
        refusal: &Refusal,
        answer: &HeaderMap,
    ) -> Result<bool> {
        if refusal.code != "NotAuthenticated" {
            return Ok(false);
        }
        let date = request
            .get(http::header::DATE)
            .and_then(|header| header.to_str().ok());
        let signed = date.and_then(|date| {
            jiff::fmt::rfc2822::DateTimeParser::new()
                .parse_timestamp(date)
                .ok()
        });
        if signed.is_some_and(|signed| self.clock.correct(signed, answer)) {
            return Ok(true);
        }
        let other = self.keys.instead_of(|key| key.has_signed(request)).await;
        Ok(other.is_ok_and(|key| !key.has_signed(request)))
    }

    fn redact(&self, text: String) -> String {
        match &*self.last.lock() {
            Some(token) => text.replace(token.expose_secret(), "[redacted]"),
            None => text,
        }
    }
}
