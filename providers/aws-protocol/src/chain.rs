//! Credentials: read from their source, and renewed before they end.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, async_trait};
use jiff::Timestamp;
use provider_kit::signing::AwsCredentials;
use provider_kit::tokens::{Issued, Issuer, Tokens};
use provider_kit::transport::{Call, Method, Xml};
use serde::Deserialize;

use crate::Query;
use crate::connection::{Connection, Shared};
use crate::endpoint::STS;
use crate::profile::Profile;
use crate::source::{Source, choose};

/// Credentials without an end are read again after this time: the file may hold others.
const REREAD: Duration = Duration::from_secs(240);
/// Credentials that seem to have ended are tried for this time: the clock may be wrong.
const AT_LEAST: Duration = Duration::from_secs(60);
/// The path of the machine's roles in the metadata service.
const ROLES: &str = "meta-data/iam/security-credentials/";

/// The credentials from a source; `None` stands for the source that is configured.
pub(crate) struct Chain(pub(crate) Arc<Shared>, pub(crate) Option<Source>);

/// Credentials as the services answer them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Temporary {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "Token", default)]
    session_token: String,
    expiration: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Assumed {
    credentials: Temporary,
}

#[async_trait]
impl Issuer for Chain {
    type Token = AwsCredentials;

    async fn issue(&self) -> Result<Issued<AwsCredentials>> {
        let keys = self.keys(self.source()?).await;
        let (token, end) = keys.map_err(|error| error.context("cannot read AWS credentials"))?;
        let left =
            end.and_then(|end| Duration::try_from(end.duration_since(self.0.clock.now())).ok());
        let lifetime = end.map_or(REREAD, |_| left.unwrap_or_default().max(AT_LEAST));
        Ok(Issued {
            token,
            scope: "the AWS account".to_owned(),
            lifetime,
            is_renewable: true,
        })
    }
}

impl Chain {
    /// Returns the source that is configured now, with the role of the cloud configuration around it.
    pub(crate) fn source(&self) -> Result<Source> {
        let Shared {
            environment,
            endpoints,
            settings,
            ..
        } = &*self.0;
        if let Some(source) = &self.1 {
            return Ok(source.clone());
        }
        let source = choose(environment, endpoints.metadata().is_some())?;
        let Some(arn) = &settings.role_arn else {
            return Ok(source);
        };
        let account = arn.split(':').nth(4).unwrap_or_default();
        let of = settings.source_arn.as_deref().unwrap_or_default();
        let role = Profile::of([
            ("role_arn", &**arn),
            ("source_arn", of),
            ("source_account", account),
        ]);
        Ok(Source::Role(role, Some(Box::new(source))))
    }

    async fn keys(&self, source: Source) -> Result<(AwsCredentials, Option<Timestamp>)> {
        let text = match source {
            Source::Keys(keys) => return Ok((keys, None)),
            Source::Role(role, by) => {
                let text = format!(
                    "cannot assume role {}",
                    role.get("role_arn").unwrap_or_default()
                );
                return self
                    .assume(&role, by)
                    .await
                    .map(keys_of)
                    .map_err(|error| error.context(text));
            }
            Source::Container(url, settings) => {
                let token = settings
                    .get("container_authorization_token_file")
                    .map(read_token)
                    .transpose()?;
                let token = token.or(settings.text("container_authorization_token"));
                let call = |call: Call| {
                    token.iter().fold(call, |call, token| {
                        call.header("authorization", token)
                            .hide(token.as_str().into())
                    })
                };
                self.0
                    .plain(Method::GET, &url, "container GetCredentials", call)
                    .await?
            }
            Source::Machine => {
                let none = || {
                    Error::unauthorized(
                        "the machine has no IAM role: the metadata service has no credentials",
                    )
                };
                let role = self.0.metadata(ROLES).await?.ok_or_else(none)?;
                self.0
                    .metadata(&format!(
                        "{ROLES}{}",
                        role.lines().next().unwrap_or_default()
                    ))
                    .await?
                    .ok_or_else(none)?
            }
        };
        let keys = serde_json::from_str::<Temporary>(&text);
        keys.map(keys_of).map_err(|err| {
            Error::other(format!(
                "unexpected credentials of the machine or container: {err}"
            ))
        })
    }

    async fn assume(&self, role: &Profile, by: Option<Box<Source>>) -> Result<Temporary> {
        let query = match role.get("web_identity_token_file").filter(|_| by.is_none()) {
            Some(path) => {
                Query::new("AssumeRoleWithWebIdentity").set("WebIdentityToken", read_token(path)?)
            }
            None => Query::new("AssumeRole"),
        };
        let query = query
            .set("RoleArn", role.get("role_arn"))
            .set("ExternalId", role.get("external_id"));
        let query = query.set(
            "RoleSessionName",
            role.get("role_session_name").unwrap_or("ccm-rs"),
        );
        let call = query
            .set("DurationSeconds", role.get("duration_seconds"))
            .call(&STS, true);
        let headers = [
            ("x-amz-source-arn", "source_arn"),
            ("x-amz-source-account", "source_account"),
        ];
        let headers = headers
            .into_iter()
            .filter_map(|(name, key)| Some((name, role.get(key)?)));
        let call = headers.fold(call, |call, (name, value)| call.header(name, value));
        let by = by.map(|source| Arc::new(Tokens::of(Chain(Arc::clone(&self.0), Some(*source)))));
        let transport =
            Connection::new(&self.0, STS, by).transport(|http| http.log_bodies(false))?;
        transport
            .read_as::<Xml, Assumed>(call)
            .await
            .map(|entry| entry.credentials)
    }
}

fn keys_of(object: Temporary) -> (AwsCredentials, Option<Timestamp>) {
    let session_token = Some(object.session_token)
        .filter(|token| !token.is_empty())
        .map(Into::into);
    let keys = AwsCredentials {
        access_key: object.access_key_id,
        secret_key: object.secret_access_key.into(),
        session_token,
    };
    (keys, Some(object.expiration))
}

fn read_token(path: &str) -> Result<String> {
    let text = cloud_provider::files::read_to_string(path);
    let text = text
        .map_err(|err| Error::unauthorized(format!("cannot read the token file {path}: {err}")))?;
    Ok(text.trim().to_owned())
}
