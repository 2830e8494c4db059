//! Credentials from the configuration, from an OIDC role or from the role of the machine, and the metadata service.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, async_trait};
use jiff::Timestamp;
use provider_kit::signing::AwsCredentials as Keys;
use provider_kit::tokens::{Issued, Issuer};
use provider_kit::transport::{Call, Transport};
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::action::{Action, STS};
use crate::api::{Furnish, transport};
use crate::config::{Config, Oidc};

/// Lifetime of keys in the configuration, which do not expire.
const FOREVER: Duration = Duration::from_secs(24 * 3600);
/// Credentials that seem to have expired are used for this time: the clock may be wrong.
const AT_LEAST: Duration = Duration::from_secs(60);
const ROLES: &str = "cam/security-credentials/";

/// The metadata service of the machine that the program runs on.
pub(crate) struct Metadata {
    config: Arc<Config>,
    http: Transport,
    region: OnceCell<String>,
    vpc: OnceCell<String>,
}

impl Metadata {
    pub(crate) fn new(config: Arc<Config>, furnish: &Furnish) -> Result<Self> {
        let http = furnish(Transport::builder(&config.metadata))
            .metadata_service()
            .build()?;
        Ok(Self {
            config,
            http,
            region: OnceCell::new(),
            vpc: OnceCell::new(),
        })
    }

    /// Returns the region of the configuration, or else of the machine.
    pub(crate) async fn region(&self) -> Result<String> {
        let read = async {
            self.read("placement/region")
                .await
                .map_err(|error| unknown("region", &error))
        };
        known(&self.region, self.config.region.as_ref(), read).await
    }

    /// Returns the VPC of the configuration, or else of the machine.
    pub(crate) async fn vpc(&self) -> Result<String> {
        let read = async {
            let mac = self.read("mac").await;
            let vpc = match mac {
                Ok(mac) => {
                    self.read(&format!("network/interfaces/macs/{mac}/vpc-id"))
                        .await
                }
                Err(error) => Err(error),
            };
            vpc.map_err(|error| unknown("vpc_id", &error))
        };
        known(&self.vpc, self.config.vpc.as_ref(), read).await
    }

    /// Reads a path below `/latest/meta-data/`.
    async fn read(&self, path: &str) -> Result<String> {
        let parts: Vec<&str> = path.split('/').collect();
        let call = match parts[..] {
            [name] => Call::get("/latest/meta-data/{name}", &[name]),
            ["cam", kind, ""] => Call::get("/latest/meta-data/cam/{kind}/", &[kind]),
            [one, two] => Call::get("/latest/meta-data/{one}/{two}", &[one, two]),
            ["cam", kind, role] => Call::get("/latest/meta-data/cam/{kind}/{role}", &[kind, role]),
            _ => Call::get(
                "/latest/meta-data/network/interfaces/macs/{mac}/vpc-id",
                &[parts.get(3).unwrap_or(&"")],
            ),
        };
        let answer = self.http.send(call.operation("metadata Get")).await?;
        Ok(answer.text())
    }
}

async fn known(
    cell: &OnceCell<String>,
    set: Option<&String>,
    read: impl Future<Output = Result<String>>,
) -> Result<String> {
    match set {
        Some(text) => Ok(text.clone()),
        None => cell.get_or_try_init(|| read).await.cloned(),
    }
}

fn unknown(key: &str, error: &Error) -> Error {
    error.clone().context(format!(
        "{key} is unknown; set it in the cloud configuration"
    ))
}

/// The credentials of the first source that is configured.
pub(crate) struct Chain {
    config: Arc<Config>,
    metadata: Arc<Metadata>,
    furnish: Furnish,
    is_offline: bool,
}

/// Credentials as the metadata service and STS answer them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Temporary {
    tmp_secret_id: String,
    tmp_secret_key: String,
    token: String,
    expired_time: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Assumed {
    credentials: Temporary,
    expired_time: i64,
}

impl Temporary {
    fn keys(self) -> (Keys, Option<Timestamp>) {
        let end = self
            .expired_time
            .and_then(|expired_time| Timestamp::from_second(expired_time).ok());
        let session_token = Some(self.token)
            .filter(|text| !text.is_empty())
            .map(Into::into);
        (
            Keys {
                access_key: self.tmp_secret_id,
                secret_key: self.tmp_secret_key.into(),
                session_token,
            },
            end,
        )
    }
}

impl Chain {
    pub(crate) fn new(
        config: Arc<Config>,
        metadata: Arc<Metadata>,
        furnish: Furnish,
        is_offline: bool,
    ) -> Self {
        Self {
            config,
            metadata,
            furnish,
            is_offline,
        }
    }

    async fn keys(&self) -> Result<(Keys, Option<Timestamp>)> {
        if self.is_offline {
            return Ok((
                Keys {
                    access_key: String::new(),
                    secret_key: String::new().into(),
                    session_token: None,
                },
                None,
            ));
        }
        if let Some((id, key, token)) = &self.config.key {
            let keys = Keys {
                access_key: id.clone(),
                secret_key: key.clone(),
                session_token: token.clone(),
            };
            return Ok((keys, None));
        }
        if let Some(oidc) = &self.config.oidc {
            let text = format!("cannot assume role {}", oidc.role);
            return self
                .assume(oidc)
                .await
                .map(Temporary::keys)
                .map_err(|error| error.context(text));
        }
        let role = match &self.config.role {
            Some(role) => role.clone(),
            None => self
                .metadata
                .read(ROLES)
                .await?
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        let text = self.metadata.read(&format!("{ROLES}{role}")).await?;
        let keys: Result<Temporary, _> = serde_json::from_str(&text);
        keys.map(Temporary::keys).map_err(|_| {
            Error::unauthorized(format!(
                "the CAM role {role:?} of the machine has no credentials"
            ))
        })
    }

    async fn assume(&self, oidc: &Oidc) -> Result<Temporary> {
        let path = &oidc.token_file;
        let token = cloud_provider::files::read_to_string(path);
        let token = token.map_err(|err| {
            Error::unauthorized(format!("cannot read the OIDC token {path}: {err}"))
        })?;
        let action = Action::new(STS, "AssumeRoleWithWebIdentity")
            .set("ProviderId", &oidc.provider)
            .set("WebIdentityToken", token.trim())
            .set("RoleArn", &oidc.role)
            .set("RoleSessionName", "ccm-rs")
            .set("DurationSeconds", 7200);
        let http = transport(&self.config, STS, None, &self.furnish)?;
        let call = action.call(&oidc.region).hide(token.trim().into());
        let answer: Assumed = http.read(call).await?;
        Ok(Temporary {
            expired_time: Some(answer.expired_time),
            ..answer.credentials
        })
    }
}

#[async_trait]
impl Issuer for Chain {
    type Token = Keys;

    async fn issue(&self) -> Result<Issued<Keys>> {
        let (token, end) = self.keys().await.map_err(|error| {
            error.context(
                "cannot get credentials for Tencent Cloud from secret_id, an OIDC role or the role of the machine",
            )
        })?;
        let left =
            end.and_then(|end| Duration::try_from(end.duration_since(Timestamp::now())).ok());
        let lifetime = end.map_or(FOREVER, |_| left.unwrap_or_default().max(AT_LEAST));
        Ok(Issued {
            token,
            scope: "the account".to_owned(),
            lifetime,
            is_renewable: end.is_some(),
        })
    }
}
