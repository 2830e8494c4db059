//! Access tokens: of a service account key, a refresh token, an external account, the metadata server or a token service.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cloud_provider::{CloudMetrics, Error, Result, async_trait};
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use provider_kit::tokens::{Issued, Issuer};
use provider_kit::transport::{Access, Answer, Call, Connector, Transport};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::config::{Config, TokenSource};
use crate::metrics::token_requested;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// Headers that the URL of a subject token may need.
const HEADERS: [&str; 4] = ["authorization", "metadata", "metadata-flavor", "accept"];
const HOUR: Duration = Duration::from_secs(3600);
const METADATA_TOKEN: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// Issues access tokens for the API.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) config: Arc<Config>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) metrics: Arc<dyn CloudMetrics>,
}

/// An access token, and the time for which it is valid.
#[derive(Deserialize)]
struct Token {
    #[serde(alias = "accessToken", deserialize_with = "secret")]
    access_token: SecretString,
    expires_in: Option<u64>,
    #[serde(rename = "expireTime")]
    expire_time: Option<Timestamp>,
}

fn secret<'de, D: Deserializer<'de>>(text: D) -> Result<SecretString, D::Error> {
    String::deserialize(text).map(Into::into)
}

impl Token {
    fn lifetime(&self) -> Duration {
        let until = |end: Timestamp| {
            end.duration_since(Timestamp::now())
                .try_into()
                .unwrap_or_default()
        };
        self.expires_in
            .map(Duration::from_secs)
            .or(self.expire_time.map(until))
            .unwrap_or(HOUR)
    }
}

impl Credentials {
    /// Returns a client of one URL: calls have an empty path.
    fn at(&self, url: &str) -> Result<Transport> {
        Transport::builder(url)
            .connector(Arc::clone(&self.connector))
            .build()
    }

    /// Reads a value from the metadata server. Only the metadata server itself answers with its own header.
    pub(crate) async fn metadata(&self, path: &'static str) -> Result<Answer> {
        let base = format!("http://{}", self.config.metadata_host);
        let http = Transport::builder(base)
            .connector(Arc::clone(&self.connector))
            .metadata_service()
            .build()?;
        let answer = http
            .send(Call::get(path, &[]).header("metadata-flavor", "Google"))
            .await;
        let answer = answer.map_err(|error| error.context("the metadata server cannot be read"))?;
        if answer
            .headers
            .get("metadata-flavor")
            .is_none_or(|flavor| flavor != "Google")
        {
            let host = &self.config.metadata_host;
            return Err(Error::other(format!(
                "{host} is no metadata server: its answer lacks the header Metadata-Flavor"
            )));
        }
        Ok(answer)
    }

    async fn token(&self) -> Result<(Token, Option<String>)> {
        match &self.config.tokens {
            TokenSource::Metadata => Ok((self.metadata(METADATA_TOKEN).await?.json()?, None)),
            TokenSource::Url(url, body) => {
                let own_token: Token = self.metadata(METADATA_TOKEN).await?.json()?;
                let call = bearer(Call::post("", &[]).json(body), &own_token).reading();
                let token = self.at(url)?.read(call).await;
                token_requested(&*self.metrics, token.is_err());
                Ok((token?, None))
            }
            TokenSource::File(path) => {
                let account = serde_json::from_str(&read(path)?);
                let account: Value = account
                    .map_err(|_| Error::invalid(format!("{} is not valid JSON", path.display())))?;
                let token = self.exchange(&account).await;
                let token = token.map_err(|error| {
                    error.context(format!("credentials file {}", path.display()))
                })?;
                Ok((
                    token,
                    account["universe_domain"].as_str().map(str::to_owned),
                ))
            }
        }
    }

    async fn exchange(&self, account: &Value) -> Result<Token> {
        let text = |key: &str| text(account, key);
        let uri = account["token_uri"].as_str().unwrap_or(TOKEN_URI);
        let impersonation = account["service_account_impersonation_url"].as_str();
        match text("type")? {
            "service_account" => {
                let assertion = assertion(
                    text("client_email")?,
                    text("private_key")?,
                    account["private_key_id"].as_str(),
                    uri,
                )?;
                let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                self.submit(uri, &[("grant_type", grant), ("assertion", &assertion)])
                    .await
            }
            "authorized_user" => {
                let keys = ["client_id", "client_secret", "refresh_token"];
                let own_keys: Vec<_> = keys
                    .into_iter()
                    .map(|key| Ok((key, text(key)?)))
                    .collect::<Result<_>>()?;
                self.submit(
                    uri,
                    &[&[("grant_type", "refresh_token")], &*own_keys].concat(),
                )
                .await
            }
            "external_account" => {
                let subject = self.subject(&account["credential_source"]).await?;
                let form = [
                    (
                        "grant_type",
                        "urn:ietf:params:oauth:grant-type:token-exchange",
                    ),
                    ("audience", text("audience")?),
                    ("scope", SCOPE),
                    (
                        "requested_token_type",
                        "urn:ietf:params:oauth:token-type:access_token",
                    ),
                    ("subject_token_type", text("subject_token_type")?),
                    ("subject_token", subject.expose_secret()),
                ];
                let token = self.submit(text("token_url")?, &form).await?;
                match impersonation {
                    Some(url) => self.impersonate(&token, url, &Value::Null).await,
                    None => Ok(token),
                }
            }
            "impersonated_service_account" => {
                let token = Box::pin(self.exchange(&account["source_credentials"])).await?;
                let url = text("service_account_impersonation_url")?;
                self.impersonate(&token, url, &account["delegates"]).await
            }
            other => Err(Error::invalid(format!(
                "unknown type {other:?}; valid types are service_account, authorized_user, external_account, impersonated_service_account"
            ))),
        }
    }

    /// Sends a form to a token service. Values that are secret appear in no message.
    async fn submit(&self, url: &str, form: &[(&str, &str)]) -> Result<Token> {
        let mut call = Call::post("", &[]).form().reading();
        for (key, value) in form {
            call = call.query(key, value);
            if [
                "assertion",
                "client_secret",
                "refresh_token",
                "subject_token",
            ]
            .contains(key)
            {
                call = call.hide((*value).into());
            }
        }
        self.at(url)?.read(call).await
    }

    async fn impersonate(&self, token: &Token, url: &str, delegates: &Value) -> Result<Token> {
        let body = json!({"scope": [SCOPE], "lifetime": "3600s", "delegates": delegates.as_array().into_iter().flatten().collect::<Vec<_>>()});
        self.at(url)?
            .read(bearer(Call::post("", &[]).json(&body), token).reading())
            .await
    }

    /// Reads the subject token of an external account: from a file, or from a URL.
    async fn subject(&self, source: &Value) -> Result<SecretString> {
        let content = match (source["file"].as_str(), source["url"].as_str()) {
            (Some(path), _) => read(Path::new(path))?,
            (None, Some(url)) => {
                let mut call = Call::get("", &[]);
                for (name, value) in source["headers"].as_object().into_iter().flatten() {
                    let known =
                        HEADERS.into_iter().find(|known| known.eq_ignore_ascii_case(name)).ok_or_else(|| {
                            let known = HEADERS.join(", ");
                            Error::invalid(format!(
                                "credential_source: unknown header {name:?}; valid headers are {known}"
                            ))
                        })?;
                    call = call.header(known, value.as_str().unwrap_or_default());
                }
                String::from_utf8_lossy(&self.at(url)?.send(call).await?.body).into_owned()
            }
            (None, None) => {
                return Err(Error::invalid("credential_source has neither file nor url"));
            }
        };
        let Some(field) = source["format"]["subject_token_field_name"].as_str() else {
            return Ok(content.trim().into());
        };
        Ok(text(&serde_json::from_str(&content).unwrap_or_default(), field)?.into())
    }
}

/// Returns a field of a credentials file.
fn text<'a>(account: &'a Value, key: &str) -> Result<&'a str> {
    account[key]
        .as_str()
        .ok_or_else(|| Error::invalid(format!("field {key:?} is missing or not a string")))
}

fn bearer(call: Call, token: &Token) -> Call {
    let text = token.access_token.expose_secret();
    call.header("authorization", format!("Bearer {text}"))
        .hide(token.access_token.clone())
}

fn read(path: &Path) -> Result<String> {
    cloud_provider::files::read_to_string(path)
        .map_err(|error| Error::invalid(format!("cannot read {}: {error}", path.display())))
}

/// Returns a signed JWT that names the service account.
fn assertion(email: &str, key: &str, key_id: Option<&str>, audience: &str) -> Result<String> {
    let wrong = || Error::invalid("private_key is not an RSA key in PKCS#8 form");
    let pem: String = key
        .lines()
        .filter(|line| !line.starts_with("---"))
        .collect();
    let der = STANDARD.decode(pem.trim()).map_err(|_| wrong())?;
    let key = RsaKeyPair::from_pkcs8(&der).map_err(|_| wrong())?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": key_id});
    let claims = json!({"iss": email, "sub": email, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + HOUR.as_secs()});
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let text = format!("{header}.{claims}");
    let mut signature = vec![0; key.public().modulus_len()];
    let signed = key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        text.as_bytes(),
        &mut signature,
    );
    signed.map_err(|_| Error::other("the assertion of the service account cannot be signed"))?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[async_trait]
impl Issuer for Credentials {
    type Token = Arc<Access>;

    /// A file is read again for each token, so that a new key is used without a restart.
    async fn issue(&self) -> Result<Issued<Arc<Access>>> {
        let (token, universe) = self.token().await?;
        let default = || {
            format!(
                "https://compute.{}/compute/v1",
                universe.as_deref().unwrap_or("googleapis.com")
            )
        };
        let base = self.config.endpoint.clone().unwrap_or_else(default);
        let text = SecretString::from(format!("Bearer {}", token.access_token.expose_secret()));
        let access = Access::new(&base, AUTHORIZATION, &text)?;
        let lifetime = token.lifetime();
        // Another account of the same project sees the same machines: each path names the project.
        Ok(Issued {
            token: Arc::new(access),
            scope: "Google Cloud".to_owned(),
            lifetime,
            is_renewable: true,
        })
    }
}
