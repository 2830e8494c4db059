//! The provider: its parts, and its start.

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers as LoadBalancerApi, Result,
    Setup, TargetIdentity, async_trait,
};
use provider_kit::checks::{permissions, reached};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{LoadBalancerEngine, Options};
use provider_kit::transport::{Call, Transport};

use crate::api::{self, Api};
use crate::config::Config;
use crate::hosts::{Hosts, Source};
use crate::load_balancers::LoadBalancers;
use crate::{EVENT_SOURCE, NAME};

const CREDENTIAL: &str = "put an environment API key into CATTLE_ACCESS_KEY and CATTLE_SECRET_KEY";
/// The types that the provider reads, with their names for people.
const TYPES: [(&str, &str); 5] = [
    ("hosts", "host"),
    ("load balancers", "loadBalancerService"),
    ("external services", "externalService"),
    ("stacks", "stack"),
    ("settings", "setting"),
];

/// Creates the provider from the environment variables and the file of `--cloud-config`.
///
/// # Errors
/// *Invalid*, with all mistakes in the variables or in the file.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let http = api::cloud(&config, setup).build()?;
    Ok(Arc::new(Rancher::new(config, http)))
}

/// The cloud provider for Rancher.
pub struct Rancher {
    api: Api,
    cluster: ClusterView,
    hosts: Hosts,
    load_balancers: LoadBalancerEngine,
    sweeper: LoadBalancers,
}

impl Rancher {
    /// Creates a provider over this connection.
    #[must_use]
    pub fn new(config: Config, http: Transport) -> Self {
        let api = Api::new(http);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let source = Source {
            api: api.clone(),
            config: Arc::new(config),
        };
        let cloud = LoadBalancers::new(source.clone(), cluster.clone());
        let options = Options {
            targets_follow_addresses: true,
            target_identity: TargetIdentity::Addresses,
            ..Options::default()
        };
        Self {
            hosts: Hosts(Inventory::new(source.clone()).measured(api.http.metrics())),
            sweeper: cloud.clone(),
            load_balancers: LoadBalancerEngine::of(cloud, Arc::new(source), options),
            api,
            cluster,
        }
    }
}

#[async_trait]
impl CloudProvider for Rancher {
    fn name(&self) -> &str {
        NAME
    }

    fn has_cluster_id(&self) -> bool {
        false
    }

    /// Owner tags name the Service itself.
    fn needs_cluster_id(&self) -> bool {
        false
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.api.collections().await.map_err(|error| {
            let check = if error.is_unauthorized() {
                "CATTLE_ACCESS_KEY and CATTLE_SECRET_KEY"
            } else {
                "CATTLE_URL"
            };
            error.context(format!(
                "Rancher at {} cannot be used; check {check}",
                self.api.http.base()
            ))
        })?;
        let sweeper = self.sweeper.sweeper(&context.cluster);
        let stop = context.shutdown.clone();
        tokio::spawn(async move { stop.run_until_cancelled(sweeper).await });
        Ok(())
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let answer = self.api.http.send(Call::get("", &[])).await;
        if reached(
            &self.api.http.base(),
            "CATTLE_URL",
            CREDENTIAL,
            answer,
            &mut findings,
        )
        .is_none()
        {
            return findings;
        }
        let mut lists = Vec::new();
        for (what, kind) in TYPES {
            match self.api.listing(kind, &[("limit", "1")]).await {
                Ok(call) => lists.push((what, call)),
                Err(error) => findings.push(Finding::failure(
                    "permissions",
                    error.to_string(),
                    CREDENTIAL,
                )),
            }
        }
        findings.extend(permissions(&self.api.http, lists).await);
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(caches);
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.hosts)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancerApi> {
        Some(&self.load_balancers)
    }
}
