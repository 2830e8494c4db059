//! Credentials, and the requests for tokens. The kit decides when a token is requested.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cloud_provider::{ConfigFile, Environment, Error, Result, Setup, async_trait};
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use provider_kit::cached::Cached;
use provider_kit::document::Document;
use provider_kit::tokens::{Issued, Issuer};
use provider_kit::transport::{Access, Builder, Call, Transport};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::clouds::{CloudEndpoints, METADATA, METADATA_VERSION};
use crate::config::{CREDENTIALS, Config, IdentityKind};
use crate::config_secret::ConfigSecret;

/// The metadata service of a machine, and the variable by which Azure's own clients know another one.
const IMDS: &str = "http://169.254.169.254";
const IMDS_VARIABLE: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
/// The time for which the endpoints that a custom cloud shows are kept.
const ENDPOINTS_AGE: Duration = Duration::from_secs(86_400);
const TO_PEM: &str =
    "convert a certificate in PFX: openssl pkcs12 -in cert.pfx -nodes -out cert.pem";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A function that returns the builder of a client for a base URL.
pub(crate) type Connect = Arc<dyn Fn(&str) -> Builder + Send + Sync>;

/// The way in which the program proves its identity.
enum Credential {
    ClientSecret(SecretString),
    /// Private key and certificate, as PEM.
    Certificate(SecretString),
    /// The contents of the file with the token of the ServiceAccount.
    Federated(SecretString),
    /// With the parameter that selects a user-assigned identity.
    Managed(Option<(&'static str, String)>),
    /// The user who is logged in with the command `az`.
    Cli,
}

/// A token, and the access that it gives.
pub(crate) struct Token {
    pub(crate) access: Arc<Access>,
    pub(crate) bearer: SecretString,
}

/// The issuer of tokens for one tenant.
pub(crate) struct Identity {
    pub(crate) connect: Connect,
    pub(crate) config: Arc<Config>,
    pub(crate) tenant: String,
    file: Option<cloud_provider::ConfigFile>,
    secret: Option<ConfigSecret>,
    environment: Environment,
    endpoints: Cached<CloudEndpoints>,
}

impl Identity {
    pub(crate) fn new(
        connect: Connect,
        config: Arc<Config>,
        setup: &Setup,
        secret: Option<ConfigSecret>,
        tenant: &str,
    ) -> Self {
        let file = setup.config.clone();
        let environment = setup.environment.clone();
        Self {
            connect,
            config,
            tenant: tenant.to_owned(),
            file,
            secret,
            environment,
            endpoints: Cached::default(),
        }
    }

    /// Returns the endpoints of the cloud. A custom cloud shows its own.
    async fn endpoints(&self) -> Result<Arc<CloudEndpoints>> {
        let read = async || {
            let known = self.config.endpoints.clone();
            if known.shown_as.is_none() {
                return Ok(known);
            }
            let http = (self.connect)(&known.resource_manager).build()?;
            let shown = http
                .find(Call::get(METADATA, &[]).query("api-version", METADATA_VERSION))
                .await;
            let shown: Option<Value> =
                shown.map_err(|error| error.context("cannot read the endpoints of the cloud"))?;
            known.with_shown(&shown.unwrap_or_default())
        };
        self.endpoints
            .get(ENDPOINTS_AGE, read)
            .await
            .map(|(endpoints, _)| endpoints)
    }

    /// Reads the credential from the configuration as it is now, so that a renewed one is used without a restart.
    async fn credential(&self) -> Result<(Credential, String)> {
        let secret = match &self.secret {
            Some(secret) => Some(secret.read().await?.text),
            None => None,
        };
        let of_file = |config_file: &ConfigFile| {
            std::fs::read_to_string(&config_file.path).unwrap_or_else(|_| config_file.text.clone())
        };
        let text = secret.or_else(|| self.file.as_ref().map(of_file));
        let path = self
            .file
            .as_ref()
            .map_or("no configuration file", |config_file| &config_file.path);
        let mut file = Document::of(&ConfigFile {
            path: path.to_owned(),
            text: text.unwrap_or_default(),
        })?;
        // Other keys are reported where the configuration is read.
        file.spell(CREDENTIALS);
        let kind = IdentityKind::read(&file)?;
        let file = Value::Object(file.values().clone());
        let value = |key: &str| match &file[key] {
            Value::String(text) => text.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
            scalar => scalar.to_string(),
        };
        let variable = |name: &str| self.environment.get(name).unwrap_or_default().to_owned();
        let or = |text: String, name: &str| {
            if text.is_empty() {
                variable(name)
            } else {
                text
            }
        };
        let read = |path: &str, key: &str| {
            let bytes = std::fs::read(path)
                .map_err(|error| Error::invalid(format!("{key}: {path}: {error}")))?;
            let text = String::from_utf8(bytes).map(|text| SecretString::from(text.trim()));
            text.map_err(|_| Error::invalid(format!("{key}: {path} is no text; {TO_PEM}")))
        };
        let client = value("aadClientId");
        if kind.use_federated_workload_identity_extension {
            let token = or(value("aadFederatedTokenFile"), "AZURE_FEDERATED_TOKEN_FILE");
            let token = read(&token, "aadFederatedTokenFile")?;
            return Ok((Credential::Federated(token), or(client, "AZURE_CLIENT_ID")));
        }
        if kind.use_managed_identity_extension {
            let id = value("userAssignedIdentityID");
            let parameter = if id.contains("/subscriptions/") {
                "msi_res_id"
            } else {
                "client_id"
            };
            return Ok((
                Credential::Managed((!id.is_empty()).then_some((parameter, id))),
                client,
            ));
        }
        let secret = value("aadClientSecret");
        if !secret.is_empty() && secret != "msi" {
            return Ok((Credential::ClientSecret(secret.into()), client));
        }
        match value("aadClientCertPath") {
            path if !path.is_empty() => Ok((
                Credential::Certificate(read(&path, "aadClientCertPath")?),
                client,
            )),
            _ if client.is_empty() => Ok((Credential::Cli, client)),
            _ => Err(Error::invalid(format!(
                "{path}: no credential: set aadClientSecret, aadClientCertPath, useManagedIdentityExtension or \
                 useFederatedWorkloadIdentityExtension"
            ))),
        }
    }

    fn login(&self, endpoints: &CloudEndpoints) -> Result<(Transport, &'static str, &str)> {
        let is_adfs = self.config.file.identity_system == "adfs";
        let tenant = if is_adfs { "adfs" } else { &self.tenant };
        let template = if is_adfs {
            "/{tenant}/oauth2/token"
        } else {
            "/{tenant}/oauth2/v2.0/token"
        };
        Ok(((self.connect)(&endpoints.login).build()?, template, tenant))
    }

    async fn client_credentials(
        &self,
        client: &str,
        proof: &[(&str, &str)],
        secret: &SecretString,
    ) -> Result<Value> {
        let endpoints = self.endpoints().await?;
        let (http, template, tenant) = self.login(&endpoints)?;
        let scope = format!("{}/.default", endpoints.audience.trim_end_matches('/'));
        let call = Call::post(template, &[tenant])
            .form()
            .reading()
            .hide(secret.clone());
        let call = call
            .query("grant_type", "client_credentials")
            .query("client_id", client)
            .query("scope", scope);
        http.read(
            proof
                .iter()
                .fold(call, |call, (key, value)| call.query(key, value)),
        )
        .await
    }

    /// Requests a token of a managed identity for a resource.
    pub(crate) async fn managed(
        &self,
        identity: Option<&(&'static str, String)>,
        resource: &str,
    ) -> Result<Value> {
        let variables = ["IDENTITY_ENDPOINT", "IDENTITY_HEADER"]
            .map(|name| self.environment.get(name).unwrap_or_default());
        let (http, call) = match variables {
            [endpoint, header] if !endpoint.is_empty() && !header.is_empty() => {
                let call = Call::get("", &[])
                    .query("api-version", "2019-08-01")
                    .header("x-identity-header", header);
                (
                    (self.connect)(endpoint).build()?,
                    call.hide(header.to_owned().into()),
                )
            }
            _ => {
                let call = Call::get("/metadata/identity/oauth2/token", &[])
                    .query("api-version", "2018-02-01");
                let base = self
                    .environment
                    .get(IMDS_VARIABLE)
                    .filter(|base| !base.is_empty())
                    .unwrap_or(IMDS);
                (
                    (self.connect)(base.trim_end_matches('/')).build()?,
                    call.header("metadata", "true"),
                )
            }
        };
        let call = call.query("resource", resource);
        http.read(
            identity
                .into_iter()
                .fold(call, |call, (key, value)| call.query(key, value)),
        )
        .await
    }

    async fn cli(&self, audience: String) -> Result<Value> {
        let tenant = self.tenant.clone();
        let run = move || {
            let mut command = std::process::Command::new("az");
            command.args([
                "account",
                "get-access-token",
                "--output",
                "json",
                "--resource",
                &audience,
            ]);
            command
                .args(if tenant.is_empty() {
                    vec![]
                } else {
                    vec!["--tenant", &tenant]
                })
                .output()
        };
        let explained = |what: String| {
            Error::unauthorized(format!(
                "no credential is configured, and az gives no token: {what}"
            ))
        };
        let output = tokio::task::spawn_blocking(run)
            .await
            .map_err(|error| explained(error.to_string()))?;
        let output = output.map_err(|error| explained(error.to_string()))?;
        if !output.status.success() {
            return Err(explained(cloud_provider::excerpt(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )));
        }
        let shown: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| explained("its answer is no JSON".to_owned()))?;
        Ok(json!({"access_token": shown["accessToken"], "expires_on": shown["expires_on"]}))
    }
}

#[async_trait]
impl Issuer for Identity {
    type Token = Token;

    async fn issue(&self) -> Result<Issued<Token>> {
        let (credential, client) = self.credential().await?;
        let endpoints = self.endpoints().await?;
        let answer = match credential {
            Credential::ClientSecret(secret) => {
                self.client_credentials(
                    &client,
                    &[("client_secret", secret.expose_secret())],
                    &secret,
                )
                .await
            }
            Credential::Federated(token) => {
                let proof = [
                    ("client_assertion_type", ASSERTION),
                    ("client_assertion", token.expose_secret()),
                ];
                self.client_credentials(&client, &proof, &token).await
            }
            Credential::Certificate(pem) => {
                let (_, template, tenant) = self.login(&endpoints)?;
                let path = template.replace("{tenant}", tenant);
                let audience = format!("{}{path}", endpoints.login);
                let assertion =
                    SecretString::from(assertion(pem.expose_secret(), &client, &audience)?);
                let proof = [
                    ("client_assertion_type", ASSERTION),
                    ("client_assertion", assertion.expose_secret()),
                ];
                self.client_credentials(&client, &proof, &assertion).await
            }
            Credential::Managed(identity) => match self.config.auxiliary_secret(&self.tenant)? {
                Some(secret) => secret.token(self, identity.as_ref(), &endpoints).await,
                None => self.managed(identity.as_ref(), &endpoints.audience).await,
            },
            Credential::Cli => self.cli(endpoints.audience.clone()).await,
        };
        let answer = answer.map_err(|error| {
            let text = "cannot get a token of Microsoft Entra ID; check the credential in the cloud configuration";
            // A wrong secret is answered 400 or 401.
            if error.is_invalid() || error.is_unauthorized() {
                Error::unauthorized(format!("{text}: {error}"))
            } else {
                error.context(text)
            }
        })?;
        let token = answer["access_token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Error::other(
                "the answer to the request for a token has no access_token",
            ));
        }
        let base = &endpoints.resource_manager;
        let bearer = SecretString::from(format!("Bearer {token}"));
        let access = Arc::new(Access::new(base, AUTHORIZATION, &bearer)?);
        Ok(Issued {
            token: Token { access, bearer },
            scope: format!("tenant {}", self.tenant),
            lifetime: lifetime(&answer),
            is_renewable: true,
        })
    }
}

fn lifetime(answer: &Value) -> Duration {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
    let left = number(&answer["expires_in"])
        .or_else(|| number(&answer["expires_on"]).map(|end| end.saturating_sub(now)));
    Duration::from_secs(left.unwrap_or(3600).max(60))
}

/// Returns a JWT that is signed with the key of the certificate.
fn assertion(pem: &str, client: &str, audience: &str) -> Result<String> {
    let wrong = |what: &str| {
        Error::invalid(format!(
            "aadClientCertPath: {what}; the file is PEM with private key and certificate: {TO_PEM}"
        ))
    };
    let blocks = blocks(pem);
    let certificate = blocks
        .get("CERTIFICATE")
        .ok_or_else(|| wrong("no certificate is found"))?;
    let key = match (blocks.get("PRIVATE KEY"), blocks.get("RSA PRIVATE KEY")) {
        (Some(der), _) => RsaKeyPair::from_pkcs8(der),
        (None, Some(der)) => RsaKeyPair::from_der(der),
        (None, None) => return Err(wrong("no private key is found, or it is encrypted")),
    };
    let key = key.map_err(|_| wrong("the private key is no RSA key of 2048 to 4096 bits"))?;
    let thumbprint = URL_SAFE_NO_PAD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, certificate));
    let now = Timestamp::now().as_second();
    let id = format!("{client}-{}", Timestamp::now().as_nanosecond());
    let claims = json!({"aud": audience, "iss": client, "sub": client, "jti": id, "nbf": now - 60, "exp": now + 540});
    let parts = [
        json!({"alg": "RS256", "typ": "JWT", "x5t": thumbprint}),
        claims,
    ];
    let signed = parts
        .map(|parts| URL_SAFE_NO_PAD.encode(parts.to_string()))
        .join(".");
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| wrong("the private key cannot sign"))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Returns the first block of each label of a PEM file, decoded.
fn blocks(pem: &str) -> BTreeMap<&str, Vec<u8>> {
    let mut found = BTreeMap::new();
    for part in pem.split("-----BEGIN ").skip(1) {
        let Some((label, rest)) = part.split_once("-----") else {
            continue;
        };
        let body: String = rest
            .split("-----END")
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        if let Ok(der) = STANDARD.decode(body) {
            found.entry(label).or_insert(der);
        }
    }
    found
}
