//! The provider of mycloud: an in-house cloud with instances, route tables and "DLB" load balancers. Copy this crate
//! for a cloud with a large API; `templates/new-provider` creates a smaller one.
//!
//! ```text
//! [Global]
//! endpoint = https://api.mycloud.internal
//! region = cn-north-1
//! cluster-id = prod
//! token-file = /etc/mycloud/token   # read again when it changes
//!
//! [LoadBalancer]
//! subnet-id = sn-1
//! ```

pub mod annotations;
mod api;
pub mod config;
mod instances;
mod load_balancers;
mod routes;

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Result, Routes, Setup,
    async_trait,
};
use provider_kit::checks::{permissions, reached};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::routes::RouteTable;
use provider_kit::transport::{Builder, Call};
use serde_json::Value;

use crate::api::Api;
use crate::config::Config;
use crate::routes::MycloudRoutes;

/// The name of the provider, and the scheme of its provider IDs.
pub const NAME: &str = "mycloud";

/// Creates the provider from its configuration. Sends no request.
///
/// # Errors
/// *Invalid*, with all mistakes in the configuration.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let (config, http) = Config::read(setup)?;
    Ok(Arc::new(Mycloud::new(config, http)?))
}

/// The provider of mycloud.
pub struct Mycloud {
    api: Api,
    cluster: ClusterView,
    instances: Inventory<Api>,
    load_balancers: Option<LoadBalancerEngine>,
    routes: Option<RouteTable<MycloudRoutes>>,
}

impl Mycloud {
    /// Creates a provider that sends its requests with `http`.
    ///
    /// # Errors
    /// *Invalid*, if `http` cannot be built.
    pub fn new(config: Config, http: Builder) -> Result<Self> {
        let settings = config.settings.clone();
        let api = Api::new(config, http)?;
        let cluster = ClusterView::new("mycloud-cloud-controller-manager");
        let age = settings.get(&config::CACHE_TTL).unwrap_or_default();
        let instances = Inventory::new(api.clone())
            .max_age(age)
            .measured(api.http.metrics());
        let is_enabled = settings.get(&config::LOAD_BALANCERS) == Some(true);
        let load_balancers = is_enabled.then(|| load_balancers::load_balancers(&api, &cluster));
        let routes = settings
            .get(&config::ROUTE_TABLE)
            .map(|table| routes::routes(&api, table, &instances, &cluster));
        Ok(Self {
            api,
            cluster,
            instances,
            load_balancers,
            routes,
        })
    }

    /// Returns the cheapest request that proves endpoint and credential.
    fn probe(&self) -> Call {
        self.api
            .call(Call::get("/v1/instances", &[]))
            .query("page_size", 1)
    }
}

#[async_trait]
impl CloudProvider for Mycloud {
    fn name(&self) -> &str {
        NAME
    }

    fn has_cluster_id(&self) -> bool {
        true
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.api
            .http
            .read::<Value>(self.probe())
            .await
            .map(drop)
            .map_err(|error| {
                let key = if error.is_unauthorized() {
                    "token or token-file"
                } else {
                    "endpoint"
                };
                error.context(format!(
                    "cannot use the API at {}; check {key} in [Global]",
                    self.api.http.base()
                ))
            })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let answer = self.api.http.read::<Value>(self.probe()).await;
        let remedy = "put a valid token into `[Global] token`, or into the file of `token-file`";
        if reached(
            &self.api.http.base(),
            "`[Global] endpoint`",
            remedy,
            answer,
            &mut findings,
        )
        .is_some()
        {
            let first = |path| self.api.call(Call::get(path, &[])).query("page_size", 1);
            let lists = [
                ("instances", "/v1/instances"),
                ("load balancers", "/v1/loadbalancers"),
            ];
            let mut calls: Vec<_> = lists
                .into_iter()
                .map(|(what, path)| (what, first(path)))
                .collect();
            if let Some(table) = self.api.config.settings.get(&config::ROUTE_TABLE) {
                let call = Call::get("/v1/route-tables/{id}/routes", &[&table]);
                calls.push(("routes", self.api.call(call).query("page_size", 1)));
            }
            findings.extend(permissions(&self.api.http, calls).await);
        }
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.cluster.set_caches(Arc::clone(&caches));
        self.load_balancers
            .iter()
            .for_each(|engine| engine.set_caches(Arc::clone(&caches)));
    }
    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.instances)
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.load_balancers.as_ref().map(|engine| engine as _)
    }
    fn routes(&self) -> Option<&dyn Routes> {
        self.routes.as_ref().map(|route_table| route_table as _)
    }
}
