//! Access tokens: of a service account key, a refresh token, an external account, the metadata server or a token service.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cloud_provider::{Error, Result, async_trait};
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use provider_kit::tokens::{Issued, Issuer};
use provider_kit::transport::{Access, Answer, Call, Leaf, Transport};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::config::{Config, TokenSource};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const HOUR: Duration = Duration::from_secs(3600);
const METADATA_TOKEN: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// Issues access tokens for the API.
pub(crate) struct Credentials {
    pub(crate) config: Arc<Config>,
    pub(crate) leaf: Arc<dyn Leaf>,
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

/// The content of a credentials file.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Account {
    ServiceAccount {
        client_email: String,
        #[serde(deserialize_with = "secret")]
        private_key: SecretString,
        private_key_id: Option<String>,
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        #[serde(deserialize_with = "secret")]
        client_secret: SecretString,
        #[serde(deserialize_with = "secret")]
        refresh_token: SecretString,
        token_uri: Option<String>,
    },
    ExternalAccount {
        audience: String,
        subject_token_type: String,
        token_url: String,
        credential_source: Subject,
        service_account_impersonation_url: Option<String>,
    },
    ImpersonatedServiceAccount {
        source_credentials: Box<Self>,
        service_account_impersonation_url: String,
        #[serde(default)]
        delegates: Vec<String>,
    },
}

/// The place of the subject token of an external account.
#[derive(Deserialize)]
struct Subject {
    file: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    format: SubjectFormat,
}

#[derive(Default, Deserialize)]
struct SubjectFormat {
    subject_token_field_name: Option<String>,
}

fn secret<'de, D: Deserializer<'de>>(text: D) -> Result<SecretString, D::Error> {
    String::deserialize(text).map(Into::into)
}

impl Token {
    fn lifetime(&self) -> Duration {
        let until = |end: Timestamp| end.duration_since(Timestamp::now()).try_into().unwrap_or_default();
        self.expires_in.map(Duration::from_secs).or(self.expire_time.map(until)).unwrap_or(HOUR)
    }
}

impl Credentials {
    /// Returns a client of one URL: calls have an empty path.
    fn at(&self, url: &str) -> Result<Transport> {
        Transport::builder(url).leaf(Arc::clone(&self.leaf)).build()
    }

    /// Reads a value from the metadata server. Only the metadata server itself answers with its own header.
    pub(crate) async fn metadata(&self, path: &'static str) -> Result<Answer> {
        let http = self.at(&format!("http://{}", self.config.metadata_host))?;
        let answer = http.send(Call::get(path, &[]).header("metadata-flavor", "Google")).await;
        let answer = answer.map_err(|error| error.context("the metadata server cannot be asked"))?;
        if answer.headers.get("metadata-flavor").is_none_or(|flavor| flavor != "Google") {
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
                let own: Token = self.metadata(METADATA_TOKEN).await?.json()?;
                let call = bearer(Call::post("", &[]).json(body), &own).reading();
                Ok((self.at(url)?.read(call).await?, None))
            }
            TokenSource::File(path) => {
                let file: Value = read_json(path)?;
                let universe = file["universe_domain"].as_str().map(str::to_owned);
                let account = serde_json::from_value(file).map_err(|error| {
                    Error::invalid(format!("{}: {error}; accepted are keys of service accounts, authorized users, external and impersonated accounts", path.display()))
                })?;
                Ok((self.exchange(account).await?, universe))
            }
        }
    }

    async fn exchange(&self, account: Account) -> Result<Token> {
        match account {
            Account::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
                let uri = token_uri.as_deref().unwrap_or(TOKEN_URI);
                let assertion = assertion(&client_email, &private_key, private_key_id.as_deref(), uri)?;
                let form = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", &*assertion)];
                self.at(uri)?.read(Call::post("", &[]).form(&form).hide(assertion.clone().into()).reading()).await
            }
            Account::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
                let form = [
                    ("grant_type", "refresh_token"),
                    ("client_id", &client_id),
                    ("client_secret", client_secret.expose_secret()),
                    ("refresh_token", refresh_token.expose_secret()),
                ];
                let call = Call::post("", &[]).form(&form).reading();
                let call = [&client_secret, &refresh_token].into_iter().cloned().fold(call, Call::hide);
                self.at(token_uri.as_deref().unwrap_or(TOKEN_URI))?.read(call).await
            }
            Account::ExternalAccount {
                audience,
                subject_token_type,
                token_url,
                credential_source,
                service_account_impersonation_url,
            } => {
                let subject = self.subject(&credential_source).await?;
                let form = [
                    ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                    ("audience", &audience),
                    ("scope", SCOPE),
                    ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
                    ("subject_token_type", &subject_token_type),
                    ("subject_token", subject.expose_secret()),
                ];
                let call = Call::post("", &[]).form(&form).hide(subject.clone()).reading();
                let token: Token = self.at(&token_url)?.read(call).await?;
                match service_account_impersonation_url {
                    Some(url) => self.impersonate(&token, &url, &[]).await,
                    None => Ok(token),
                }
            }
            Account::ImpersonatedServiceAccount {
                source_credentials,
                service_account_impersonation_url,
                delegates,
            } => {
                let token = Box::pin(self.exchange(*source_credentials)).await?;
                self.impersonate(&token, &service_account_impersonation_url, &delegates).await
            }
        }
    }

    async fn impersonate(&self, token: &Token, url: &str, delegates: &[String]) -> Result<Token> {
        let body = json!({"scope": [SCOPE], "lifetime": "3600s", "delegates": delegates});
        self.at(url)?.read(bearer(Call::post("", &[]).json(&body), token).reading()).await
    }

    /// Reads the subject token of an external account: from a file, or from a URL.
    async fn subject(&self, source: &Subject) -> Result<SecretString> {
        let text = match (&source.file, &source.url) {
            (Some(path), _) => read(Path::new(path))?,
            (None, Some(url)) => {
                let known = ["authorization", "metadata", "metadata-flavor", "accept"];
                let mut call = Call::get("", &[]);
                for (name, value) in &source.headers {
                    let name = known.into_iter().find(|known| known.eq_ignore_ascii_case(name)).ok_or_else(|| {
                        Error::invalid(format!("credential_source: header {name:?} is not one of {}", known.join(", ")))
                    })?;
                    call = call.header(name, value);
                }
                String::from_utf8_lossy(&self.at(url)?.send(call).await?.body).into_owned()
            }
            (None, None) => {
                return Err(Error::invalid("credential_source has neither file nor url, which are accepted"));
            }
        };
        let Some(field) = &source.format.subject_token_field_name else { return Ok(text.trim().into()) };
        let token = serde_json::from_str::<Value>(&text).ok().and_then(|it| Some(it[field].as_str()?.to_owned()));
        token.map(Into::into).ok_or_else(|| Error::invalid(format!("the subject token has no field {field:?}")))
    }
}

fn bearer(call: Call, token: &Token) -> Call {
    let text = token.access_token.expose_secret();
    call.header("authorization", format!("Bearer {text}")).hide(token.access_token.clone())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::invalid(format!("cannot read {}: {error}", path.display())))
}

fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_str(&read(path)?).map_err(|_| Error::invalid(format!("{} is no JSON", path.display())))
}

/// Returns a signed statement that this is the service account.
fn assertion(email: &str, key: &SecretString, key_id: Option<&str>, audience: &str) -> Result<String> {
    let wrong = || Error::invalid("private_key is no RSA key in PKCS#8 form");
    let pem: String = key.expose_secret().lines().filter(|line| !line.starts_with("---")).collect();
    let der = STANDARD.decode(pem.trim()).map_err(|_| wrong())?;
    let key = RsaKeyPair::from_pkcs8(&der).map_err(|_| wrong())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": key_id});
    let claims =
        json!({"iss": email, "sub": email, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + HOUR.as_secs()});
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let text = format!("{header}.{claims}");
    let mut signature = vec![0; key.public().modulus_len()];
    let signed = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
    signed.map_err(|_| Error::other("the assertion of the service account cannot be signed"))?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[async_trait]
impl Issuer for Credentials {
    type Token = Arc<Access>;

    /// A file is read again for each token, so that a new key is used without a restart.
    async fn issue(&self) -> Result<Issued<Arc<Access>>> {
        let (token, universe) = self.token().await?;
        let default = || format!("https://compute.{}/compute/v1", universe.as_deref().unwrap_or("googleapis.com"));
        let base = self.config.endpoint.clone().unwrap_or_else(default);
        let text = SecretString::from(format!("Bearer {}", token.access_token.expose_secret()));
        let access = Access::new(&base, AUTHORIZATION, &text)?;
        let lifetime = token.lifetime();
        // Another account of the same project sees the same machines: each path names the project.
        Ok(Issued { token: Arc::new(access), scope: "Google Cloud".to_owned(), lifetime, is_renewable: true })
    }
}
