//! The provider: its parts, its start, and the reload of its configuration.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, CloudProvider, ConfigFile, Context, Finding, Instances, LoadBalancers, Reload, Result,
    Routes, Setup, async_trait,
};
use parking_lot::RwLock;
use provider_kit::cluster::ClusterView;
use provider_kit::instrumented::InstrumentedCapability;
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::routes::RouteTable;

use crate::balancers;
use crate::config::Config;
use crate::diagnosis::Diagnosis;
use crate::metrics::reconciled;
use crate::ports::Ports;
use crate::routes::{self, RouterRoutes};
use crate::servers::{Servers, servers};
use crate::services::Services;
use crate::{EVENT_SOURCE, NAME};

/// Creates the provider from the configuration file, the files that it names, and the environment.
///
/// # Errors
/// *Invalid*, with everything that is wrong with them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let services = Services::new(&config, setup)?;
    Ok(Arc::new(OpenStack::over(config, services, setup)))
}

/// The cloud provider for OpenStack.
pub struct OpenStack {
    services: Services,
    setup: Setup,
    /// The configuration at the start, with the credential as it was last read.
    config: RwLock<Arc<Config>>,
    cluster: ClusterView,
    servers: Servers,
    balancers: Option<InstrumentedCapability<LoadBalancerEngine>>,
    routes: Option<RouteTable<RouterRoutes>>,
    /// If set, Neutron has the extensions that routes need; read at the start.
    has_routes: OnceLock<bool>,
}

impl OpenStack {
    /// Returns a provider that uses these services. `setup` is the setup that it was created from.
    #[must_use]
    pub fn over(config: Config, services: Services, setup: &Setup) -> Self {
        let cluster = ClusterView::new(EVENT_SOURCE);
        let ports = Ports::new(services.clone());
        let servers = servers(&services, &ports, &config);
        let routes = config.router.clone();
        let routes =
            routes.map(|id| routes::routes(services.clone(), ports.clone(), id, cluster.clone()));
        let balancers = config.balancers.clone().map(|balancers| {
            let config = Arc::new(balancers);
            let events = cluster.events().clone();
            let tag = setup.adoptable_tag.clone();
            reconciled(
                balancers::balancers(&services, config, ports, events, tag),
                &setup.metrics,
            )
        });
        let setup = setup.clone();
        let config = RwLock::new(Arc::new(config));
        let has_routes = OnceLock::new();
        Self {
            services,
            setup,
            config,
            cluster,
            servers,
            balancers,
            routes,
            has_routes,
        }
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read())
    }
}

#[async_trait]
impl CloudProvider for OpenStack {
    fn name(&self) -> &str {
        NAME
    }

    /// Returns `true`: load balancers carry the UID of their Service, everything else names of the cluster's own
    /// objects.
    fn needs_cluster_id(&self) -> bool {
        false
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.services.project_id().await.map_err(|error| {
            let place = &self.config().auth.url;
            error.context(format!(
                "OpenStack at {place} cannot be used; check [Global] in the cloud configuration"
            ))
        })?;
        if let Some(routes) = &self.routes {
            let are_supported = routes.cloud().are_supported().await?;
            if !*self.has_routes.get_or_init(|| are_supported) {
                tracing::warn!(
                    "Pods get no routes: Neutron has neither the extension extraroute nor extraroute-atomic"
                );
            }
        }
        Ok(())
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Diagnosis {
            services: &self.services,
            config: &self.config(),
        }
        .findings()
        .await
    }

    /// Takes over the credential and the certificates of the services (P-39); anything else is read at the start only.
    async fn reload(&self, file: &ConfigFile) -> Result<Reload> {
        let new = Config::read(&Setup {
            config: Some(file.clone()),
            ..self.setup.clone()
        })?;
        let used = self.config();
        // Objects in another project are not this cluster's.
        if !new.auth.may_be_for_the_same(&used.auth) {
            return Ok(Reload::NeedsRestart);
        }
        self.services.reload(&new).await?;
        let is_all = new.differs_in_access_only(&used);
        let Config {
            auth, tls, files, ..
        } = new;
        let used = Config {
            auth,
            tls,
            files,
            ..(*used).clone()
        };
        *self.config.write() = Arc::new(used);
        Ok(if is_all {
            Reload::Done
        } else {
            Reload::NeedsRestart
        })
    }

    fn config_files(&self) -> Vec<PathBuf> {
        self.config().files.clone()
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        if let Some(balancers) = &self.balancers {
            balancers.inner().set_caches(Arc::clone(&caches));
        }
        self.cluster.set_caches(caches);
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.servers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        let has_none = self.has_routes.get() == Some(&false);
        self.routes
            .as_ref()
            .filter(|_| !has_none)
            .map(|routes| routes as _)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.balancers.as_ref().map(|balancers| balancers as _)
    }
}
