//! The provider of Acme Cloud.
//!
//! ```yaml
//! tokenFile: /etc/acme/token           # read again when it changes; or `token:` with the token itself
//! endpoint: https://api.acme.example   # optional
//! ```

mod load_balancers;
mod machines;

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Result, Setup, async_trait,
};
pub use load_balancers::ANNOTATIONS;
use provider_kit::checks::{permissions, reached};
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::paging::Paging;
use provider_kit::provider_id::ProviderIds;
use provider_kit::settings::YamlSettings;
use provider_kit::transport::{Builder, Call, Transport};
use serde_json::Value;

/// The name of the provider, and the scheme of its provider IDs.
pub const NAME: &str = "acme";
const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<server ID>, such as srv-7",
    valid: |id| id.starts_with("srv-"),
};

/// Creates the provider from its configuration file. Sends no request.
///
/// # Errors
/// *Invalid*, with all mistakes in the file.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let mut settings = YamlSettings::yaml(setup)?;
    let http = settings.transport("https://api.acme.example");
    settings.finish()?;
    Ok(Arc::new(Acme::new(http)?))
}

/// The provider of Acme Cloud.
pub struct Acme {
    http: Transport,
    instances: Inventory<Api>,
    load_balancers: LoadBalancerEngine,
}

/// The API of the cloud.
#[derive(Clone)]
struct Api(Transport);

impl Acme {
    /// Creates a provider that sends its requests with `http`.
    ///
    /// # Errors
    /// *Invalid*, if `http` cannot be built.
    pub fn new(http: Builder) -> Result<Self> {
        let paging = Paging::next_page("/meta/next_page")
            .size("per_page", 100)
            .required_total("/meta/total");
        let http = http
            .paging(paging)
            .build()?
            .error_mapping(|refusal| match &*refusal.code {
                "protected" => Some(cloud_provider::Error::protected),
                "quota_exceeded" => Some(cloud_provider::Error::quota),
                _ => None,
            });
        let instances = Inventory::new(Api(http.clone())).measured(http.metrics());
        Ok(Self {
            instances,
            load_balancers: load_balancers::load_balancers(&Api(http.clone())),
            http,
        })
    }
}

#[async_trait]
impl CloudProvider for Acme {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, _context: &Context) -> Result<()> {
        self.http
            .read::<Value>(Call::get("/v1/account", &[]))
            .await
            .map(drop)
            .map_err(|error| {
                let key = if error.is_unauthorized() {
                    "token or tokenFile"
                } else {
                    "endpoint"
                };
                error.context(format!(
                    "cannot use the API at {}; check {key} in the cloud configuration",
                    self.http.base()
                ))
            })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let answer = self.http.read::<Value>(Call::get("/v1/account", &[])).await;
        let remedy = "put a valid token into `token`, or into the file of `tokenFile`";
        if reached(
            &self.http.base(),
            "`endpoint`",
            remedy,
            answer,
            &mut findings,
        )
        .is_some()
        {
            let lists = [
                ("servers", "/v1/servers"),
                ("load balancers", "/v1/load_balancers"),
            ];
            let first = lists.map(|(what, path)| (what, Call::get(path, &[]).query("per_page", 1)));
            findings.extend(permissions(&self.http, first).await);
        }
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(caches);
    }
    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.instances)
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.load_balancers)
    }
}
