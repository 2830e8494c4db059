//! Tokens of another tenant that somebody keeps in a Key Vault: a managed identity gets none of its own there.

use cloud_provider::{ConfigFile, Error, Result};
use http::header::AUTHORIZATION;
use provider_kit::document::Document;
use provider_kit::transport::Call;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clouds::CloudEndpoints;
use crate::config::Config;
use crate::credentials::Identity;

const VAULT: &str = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.KeyVault/vaults/{vault}";

/// The secret of a Key Vault with a token: `auxiliaryTokenProvider` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuxiliarySecret {
    /// ID of the subscription of the vault.
    #[serde(rename = "subscriptionID")]
    pub subscription: String,
    /// Resource group of the vault.
    pub resource_group: String,
    /// Name of the vault.
    pub vault_name: String,
    /// Name of the secret, whose value has `access_token` and `expires_on`.
    pub secret_name: String,
}

/// The value of such a secret.
#[derive(Deserialize)]
struct StoredToken {
    access_token: String,
    expires_on: jiff::Timestamp,
}

impl Config {
    /// Returns the secret with the tokens of a tenant, if it is not the tenant of the identity.
    pub(crate) fn auxiliary_secret(&self, tenant: &str) -> Result<Option<&AuxiliarySecret>> {
        let secret = self.file.auxiliary_token_provider.as_ref();
        match secret {
            _ if tenant.eq_ignore_ascii_case(&self.file.tenant_id) => Ok(None),
            None => Err(Error::invalid(format!(
                "networkResourceTenantID: a managed identity has no token of tenant {tenant}; set auxiliaryTokenProvider"
            ))),
            secret => Ok(secret),
        }
    }
}

impl AuxiliarySecret {
    /// Reads the token with a token of the managed identity.
    pub(crate) async fn token(
        &self,
        by: &Identity,
        identity: Option<&(&'static str, String)>,
        endpoints: &CloudEndpoints,
    ) -> Result<Value> {
        let bearer = async |resource: &str| {
            let answer = by.managed(identity, resource).await?;
            let token = answer["access_token"].as_str().unwrap_or_default();
            Ok::<_, Error>(SecretString::from(format!("Bearer {token}")))
        };
        let with = |call: Call, bearer: &SecretString| {
            call.header(AUTHORIZATION.as_str(), bearer.expose_secret())
                .hide(bearer.clone())
        };
        let place = [&*self.subscription, &self.resource_group, &self.vault_name];
        let call = Call::get(VAULT, &place).query("api-version", "2023-07-01");
        let call = with(call, &bearer(&endpoints.audience).await?);
        let vault: Value = (by.connect)(&endpoints.resource_manager)
            .build()?
            .read(call)
            .await?;
        let url = vault["properties"]["vaultUri"]
            .as_str()
            .unwrap_or_default()
            .trim_end_matches('/');
        // `https://name.vault.azure.net`: tokens for vaults are issued for `https://vault.azure.net`.
        let Some(domain) = url
            .strip_prefix("https://")
            .and_then(|host| host.split_once('.'))
            .map(|(_, text)| text)
        else {
            return Err(Error::other(format!(
                "vault {} has no URL with a domain",
                self.vault_name
            )));
        };
        let call = Call::get("/secrets/{name}", &[&self.secret_name]).query("api-version", "7.4");
        let call = with(call, &bearer(&format!("https://{domain}")).await?);
        let shown: Value = (by.connect)(url).build()?.read(call).await?;
        let value = shown["value"].as_str().unwrap_or_default();
        let wrong = || {
            let Self {
                secret_name,
                vault_name,
                ..
            } = self;
            Error::invalid(format!(
                "secret {secret_name} of vault {vault_name} is no JSON with access_token and expires_on"
            ))
        };
        let file = ConfigFile {
            path: String::new(),
            text: value.to_owned(),
        };
        let read =
            Document::of(&file).and_then(|document| document.read_with_warnings::<StoredToken>());
        let (token, _) = read.map_err(|_| wrong())?;
        Ok(json!({"access_token": token.access_token, "expires_on": token.expires_on.as_second()}))
    }
}
