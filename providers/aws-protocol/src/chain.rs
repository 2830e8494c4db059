//! Credentials: read from their source, and renewed before they end.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, async_trait};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use provider_kit::signing::AwsCredentials;
use provider_kit::tokens::{Issued, Issuer};
use provider_kit::transport::{Call, Method, Xml};
use serde::Deserialize;

use crate::Query;
use crate::connection::{Connection, Identity, Shared};
use crate::endpoint::STS;
use crate::source::{Role, Source, choose};

/// Credentials without an end are read again after this time: the file may hold others.
const REREAD: Duration = Duration::from_secs(240);
/// Credentials that seem to have ended are tried for this time: the clock may be wrong.
const AT_LEAST: Duration = Duration::from_secs(60);

/// The credentials of one process.
pub(crate) struct Chain(pub(crate) Arc<Shared>);

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

type Keys = (AwsCredentials, Option<Timestamp>);

impl From<Temporary> for Keys {
    fn from(it: Temporary) -> Self {
        let Temporary { access_key_id: access_key, secret_access_key: secret, session_token: token, expiration } = it;
        let session_token = Some(token).filter(|token| !token.is_empty()).map(Into::into);
        (AwsCredentials { access_key, secret_key: secret.into(), session_token }, Some(expiration))
    }
}

#[async_trait]
impl Issuer for Chain {
    type Token = AwsCredentials;

    async fn issue(&self) -> Result<Issued<AwsCredentials>> {
        let (token, end) = self.keys(&self.source()?).await.map_err(|error| {
            let is_unauthorized = error.is_unauthorized();
            let error = error.context("cannot read AWS credentials");
            // Callers, and the pause before the next try, depend on the kind.
            if is_unauthorized { Error::unauthorized(error.to_string()) } else { error }
        })?;
        let left = end.and_then(|end| Duration::try_from(end.duration_since(self.0.clock.now())).ok());
        let lifetime = end.map_or(REREAD, |_| left.unwrap_or_default().max(AT_LEAST));
        Ok(Issued { token, scope: "the AWS account".to_owned(), lifetime, is_renewable: true })
    }
}

impl Chain {
    /// Returns the source that is configured now, with the role of the cloud configuration around it.
    pub(crate) fn source(&self) -> Result<Source> {
        let Shared { endpoints, settings, .. } = &*self.0;
        let source = choose(&endpoints.environment, endpoints.metadata().is_some())?;
        let Some(arn) = settings.role_arn.clone() else { return Ok(source) };
        let role = Role { arn, source_arn: settings.source_arn.clone(), has_source: true, ..Role::default() };
        Ok(Source::Role { role, by: Box::new(source) })
    }

    fn keys<'a>(&'a self, source: &'a Source) -> BoxFuture<'a, Result<Keys>> {
        async move {
            match source {
                Source::Keys(keys) => Ok((keys.clone(), None)),
                Source::Machine => self.of_machine().await,
                Source::Container { url, token, token_file } => {
                    let token = token_file.as_deref().map(read_token).transpose()?.or(token.clone());
                    let call = |call: Call| {
                        token.iter().fold(call, |call, it| call.header("authorization", it).hide(it.clone().into()))
                    };
                    let answer = self.0.plain(Method::GET, url, "container GetCredentials", call).await?;
                    answer.json::<Temporary>().map(Into::into)
                }
                Source::WebIdentity { role, token_file } => {
                    let query =
                        Query::new("AssumeRoleWithWebIdentity").set("WebIdentityToken", read_token(token_file)?);
                    self.assume(query, role, Identity::Nobody).await
                }
                Source::Role { role, by } => {
                    let (keys, _) = self.keys(by).await?;
                    self.assume(Query::new("AssumeRole"), role, Identity::Keys(keys)).await
                }
            }
        }
        .boxed()
    }

    async fn assume(&self, query: Query, role: &Role, by: Identity) -> Result<Keys> {
        let session = role.session.as_deref().unwrap_or("ccm-rs");
        let query = query.set("RoleArn", &role.arn).set("RoleSessionName", session);
        let query = query.set("ExternalId", &role.external_id).set("DurationSeconds", &role.seconds);
        let account = role.arn.split(':').nth(4).filter(|_| role.has_source);
        let headers = [("x-amz-source-arn", role.source_arn.as_deref()), ("x-amz-source-account", account)];
        let call = query.call(&STS, true);
        let call = headers
            .into_iter()
            .fold(call, |call, (name, value)| value.into_iter().fold(call, |call, value| call.header(name, value)));
        let transport = Connection::new(&self.0, &STS, by).transport(|http| http.log_bodies(false))?;
        let assumed: Result<Assumed> = transport.read_as::<Xml, _>(call).await;
        assumed.map(|it| it.credentials.into()).map_err(|error| {
            let text = format!("cannot assume role {}: {error}", role.arn);
            if error.is_unauthorized() { Error::unauthorized(text) } else { error.context(text) }
        })
    }

    async fn of_machine(&self) -> Result<Keys> {
        const PLACE: &str = "meta-data/iam/security-credentials/";
        let none = || Error::unauthorized("the machine has no IAM role: the metadata service has no credentials");
        let role = self.0.metadata(PLACE).await?.ok_or_else(none)?;
        let role = role.lines().next().unwrap_or_default();
        let keys = self.0.metadata(&format!("{PLACE}{role}")).await?.ok_or_else(none)?;
        let keys: serde_json::Result<Temporary> = serde_json::from_str(&keys);
        keys.map(Into::into)
            .map_err(|err| Error::other(format!("unexpected credentials of the metadata service: {err}")))
    }
}

fn read_token(path: &str) -> Result<String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|err| Error::unauthorized(format!("cannot read the token file {path}: {err}")))?;
    Ok(text.trim().to_owned())
}
