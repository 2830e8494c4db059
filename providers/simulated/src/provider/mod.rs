//! The provider, which sends requests to the simulated cloud only over HTTP.
//!
//! ```yaml
//! endpoint: http://127.0.0.1:8080
//! tokenFile: /etc/cloud/token   # read again when it changes; or `token:` with the token itself
//! project: demo                 # optional: refuse a token of another project
//! ```

mod diagnosis;
mod instances;
mod load_balancers;
mod routes;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cloud_provider::names::{LABEL_REGION, LABEL_ZONE, ZONE_DELIMITER};
use cloud_provider::{
    Caches, CloudProvider, Context, Error, Finding, Instances, LoadBalancers, PersistentVolume,
    Result, Routes, Setup, Volumes, async_trait,
};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::paging::Paging;
use provider_kit::provider_id::ProviderIds;
use provider_kit::routes::RouteTable;
use provider_kit::settings::YamlSettings;
use provider_kit::transport::{Call, Transport};

use crate::cloud::{PAGE_SIZE, Volume};

/// The provider's name, and the scheme of its provider ids.
pub const NAME: &str = "simulated";
const VOLUME_DRIVER: &str = "simulated.csi";
const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<machine id>, such as m-000123",
    valid: |id| {
        id.strip_prefix("m-")
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    },
};

/// Builds the provider from its configuration file.
///
/// # Errors
/// *Invalid*, with all mistakes in the file.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let mut settings = YamlSettings::yaml(setup)?;
    let http = settings.transport(None);
    let project = settings.text("project");
    settings.finish()?;
    Ok(Arc::new(Simulated::new(http.build()?, project)))
}

/// The provider of the simulated cloud.
pub struct Simulated {
    http: Transport,
    instances: Inventory<Api>,
    balancers: LoadBalancerEngine,
    routes: RouteTable<Api>,
    expected_project: Option<String>,
    cluster: ClusterView,
}

/// The cloud's API, and the project that the token is for once that is known.
#[derive(Clone)]
struct Api {
    http: Transport,
    project: Arc<OnceLock<String>>,
}

impl Simulated {
    /// Returns a provider that sends its requests with `http`. If `project` is set, the token must be for this project.
    #[must_use]
    pub fn new(http: Transport, project: Option<String>) -> Self {
        let http = http.error_mapping(|refusal| match &*refusal.code {
            "protected" => Some(Error::protected),
            "quota_exceeded" => Some(Error::quota),
            _ => None,
        });
        let http = http.paging(
            Paging::next_page("/next_page")
                .size("per_page", PAGE_SIZE)
                .required_total("/total"),
        );
        let api = Api {
            http: http.clone(),
            project: Arc::default(),
        };
        let balancers = load_balancers::load_balancers(&api);
        let instances = Inventory::new(api.clone()).measured(http.metrics());
        let cluster = ClusterView::new(NAME);
        let routes = RouteTable::new(api, cluster.clone());
        Self {
            http,
            instances,
            balancers,
            routes,
            expected_project: project,
            cluster,
        }
    }
}

#[async_trait]
impl CloudProvider for Simulated {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, _context: &Context) -> Result<()> {
        let token: serde_json::Value =
            self.http
                .read(Call::get("/v1/token", &[]))
                .await
                .map_err(|err| {
                    let check = if err.is_unauthorized() {
                        "token or tokenFile"
                    } else {
                        "endpoint"
                    };
                    err.context(format!(
                        "the simulated cloud at {} cannot be used; check {check}",
                        self.http.base()
                    ))
                })?;
        let project = token["project"].as_str().unwrap_or_default();
        if let Some(expected) = self
            .expected_project
            .as_deref()
            .filter(|expected| *expected != project)
        {
            return Err(Error::invalid(format!(
                "the token is for project {project:?}, `project` says {expected:?}"
            )));
        }
        self.instances
            .source()
            .project
            .get_or_init(|| project.to_owned());
        Ok(())
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.diagnose().await
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.balancers.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(caches);
    }
    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.instances)
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.balancers)
    }
    fn routes(&self) -> Option<&dyn Routes> {
        Some(&self.routes)
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }
}

#[async_trait]
impl Volumes for Simulated {
    async fn labels(&self, volume: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>> {
        let csi = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.csi.as_ref())
            .filter(|csi| csi.driver == VOLUME_DRIVER);
        let Some(csi) = csi else { return Ok(None) };
        let volume: Volume = self
            .http
            .read(Call::get("/v1/volumes/{id}", &[&csi.volume_handle]))
            .await?;
        let zone = (LABEL_ZONE.to_owned(), volume.zones.join(ZONE_DELIMITER));
        Ok(Some(
            [zone, (LABEL_REGION.to_owned(), volume.region)].into(),
        ))
    }
}
