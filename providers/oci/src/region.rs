//! The region: its name, the domain of its realm, and the metadata of the instance that names both.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::transport::{Call, Connector, RetryPolicy, Transport};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::config::{Auth, Config, profile};

/// Short names of old regions.
const SHORT: [(&str, &str); 4] =
    [("phx", "us-phoenix-1"), ("iad", "us-ashburn-1"), ("fra", "eu-frankfurt-1"), ("lhr", "uk-london-1")];
/// Domains of realms other than the commercial one, by beginnings of the names of their regions.
const DOMAINS: [(&str, &str); 6] = [
    ("us-gov-", "oraclegovcloud.com"),
    ("us-langley-", "oraclegovcloud.com"),
    ("us-luke-", "oraclegovcloud.com"),
    ("uk-gov-", "oraclegovcloud.uk"),
    ("ap-chiyoda-", "oraclecloud8.com"),
    ("ap-ibaraki-", "oraclecloud8.com"),
];
const TIMEOUT: Duration = Duration::from_secs(5);

/// Region, compartment and realm of the cluster, from the configuration or the metadata of the instance.
pub(crate) struct Region {
    config: Arc<Config>,
    connector: Arc<dyn Connector>,
    instance: OnceCell<Value>,
}

impl Region {
    pub(crate) fn new(config: Arc<Config>, connector: Arc<dyn Connector>) -> Arc<Self> {
        Arc::new(Self { config, connector, instance: OnceCell::new() })
    }

    /// Reads a path of the metadata service.
    pub(crate) async fn metadata(&self, path: &'static str) -> Result<String> {
        let retry_policy = RetryPolicy { timeout: TIMEOUT, total_timeout: 3 * TIMEOUT, ..RetryPolicy::default() };
        let http = Transport::builder(&*self.config.metadata).connector(Arc::clone(&self.connector));
        let call = Call::get(path, &[]).header("authorization", "Bearer Oracle");
        let answer = http.retry_policy(retry_policy).build()?.send(call).await;
        let answer = answer.map_err(|error| error.context("the metadata service of the instance cannot be read"))?;
        Ok(answer.text())
    }

    async fn instance(&self) -> Result<&Value> {
        let read = || async { Ok(serde_json::from_str(&self.metadata("/instance/").await?).unwrap_or_default()) };
        self.instance.get_or_try_init(read).await
    }

    async fn known(&self, configured: Option<&String>, key: &str, setting: &str) -> Result<String> {
        if let Some(value) = configured {
            return Ok(value.clone());
        }
        let of_instance = self.instance().await.map_err(|error| error.context(format!("{setting} is not set")))?;
        let value = of_instance[key].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
        value
            .ok_or_else(|| Error::invalid(format!("{setting} is not set, and the metadata of the instance lack {key}")))
    }

    /// Returns the compartment of the cluster.
    pub(crate) async fn compartment(&self) -> Result<String> {
        self.known(self.config.compartment.as_ref(), "compartmentId", "compartment").await
    }

    /// Returns the name of the region, such as `eu-frankfurt-1`.
    pub(crate) async fn name(&self) -> Result<String> {
        let of_profile = match (&self.config.region, &self.config.auth) {
            (None, Auth::Profile(path, name)) => profile(path, name)?.remove("region"),
            (region, _) => region.clone(),
        };
        let name = self.known(of_profile.as_ref(), "canonicalRegionName", "auth.region").await?.to_ascii_lowercase();
        Ok(SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| (*long).to_owned()))
    }

    fn domain(&self, region: &str) -> String {
        let environment = &self.config.environment;
        let described = environment.get("OCI_REGION_METADATA").and_then(|it| serde_json::from_str::<Value>(it).ok());
        let described = described.filter(|it| it["regionIdentifier"] == region);
        let described = described.and_then(|it| it["realmDomainComponent"].as_str().map(str::to_owned));
        let of_instance = self.instance.get().and_then(|it| it.pointer("/regionInfo/realmDomainComponent")?.as_str());
        let known =
            || DOMAINS.iter().find(|(prefix, _)| region.starts_with(prefix)).map(|(_, domain)| (*domain).to_owned());
        let default = || environment.get("OCI_DEFAULT_REALM").map(str::to_owned);
        described
            .or(of_instance.map(str::to_owned))
            .or_else(known)
            .or_else(default)
            .unwrap_or_else(|| "oraclecloud.com".to_owned())
    }

    /// Returns the base URL of a service. The names of newer services have `oci` before the domain.
    pub(crate) async fn url(&self, service: &str, is_new: bool) -> Result<String> {
        if let Some(endpoint) = &self.config.endpoint {
            return Ok(endpoint.clone());
        }
        let name = self.name().await?;
        let oci = if is_new { "oci." } else { "" };
        Ok(format!("https://{service}.{name}.{oci}{}", self.domain(&name)))
    }
}
