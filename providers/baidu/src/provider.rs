//! The provider: its parts, and its start.

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Fence, Finding, Instances, LoadBalancers, Result, Routes,
    Setup, async_trait,
};
use provider_kit::checks::{permissions, reached};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::routes::RouteTable;
use provider_kit::transport::{Call, Transport};

use crate::api::{self, Api, PRODUCTS};
use crate::config::Config;
use crate::instances::{BccInstances, Source};
use crate::load_balancers::{self, Place, SharedCaches};
use crate::routes::RouteRules;
use crate::{EVENT_SOURCE, NAME};

const CREDENTIAL: &str = "put a valid key into AccessKeyID and SecretAccessKey of the cloud configuration, or into the variables BCE_ACCESS_KEY_ID and BCE_SECRET_ACCESS_KEY";

/// Creates the provider from the configuration file and the environment variables.
///
/// # Errors
/// *Invalid*, with all mistakes in them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let [blb, eip, bcc] = PRODUCTS.map(|product| api::cloud(&config, setup, product).build());
    Ok(Arc::new(Baidu::new(
        config,
        [blb?, eip?, bcc?],
        setup.fence.clone(),
    )))
}

/// The cloud provider for Baidu AI Cloud.
pub struct Baidu {
    api: Api,
    cluster: ClusterView,
    instances: BccInstances,
    load_balancers: LoadBalancerEngine,
    routes: RouteTable<RouteRules>,
    caches: SharedCaches,
}

impl Baidu {
    /// Creates a provider over these connections, in the order of [`PRODUCTS`]. Services are written only while `fence` is
    /// open.
    #[must_use]
    pub fn new(config: Config, connections: [Transport; 3], fence: Fence) -> Self {
        let api = Api::new(Arc::new(config), connections);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let source = Source(api.clone());
        let caches = SharedCaches::default();
        let inventory = Inventory::new(source.clone()).measured(api.bcc.metrics());
        let place = Arc::new(Place::new(inventory.clone(), cluster.clone()));
        let routes = RouteRules::new(inventory.clone(), Arc::clone(&place), cluster.clone());
        Self {
            load_balancers: load_balancers::load_balancers(
                source,
                place,
                &cluster,
                Arc::clone(&caches),
                fence,
            ),
            routes: RouteTable::new(routes, cluster.clone()),
            instances: BccInstances(inventory),
            api,
            cluster,
            caches,
        }
    }

    fn first() -> Call {
        Call::get("/v2/instance", &[]).query("maxKeys", 1)
    }
}

#[async_trait]
impl CloudProvider for Baidu {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.api
            .bcc
            .send(Self::first())
            .await
            .map(drop)
            .map_err(|error| {
                let check = if error.is_unauthorized() {
                    "the access key"
                } else {
                    "Region and the network"
                };
                error.context(format!(
                    "Baidu AI Cloud at {} cannot be used; check {check}",
                    self.api.bcc.base()
                ))
            })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let answer = self.api.bcc.send(Self::first()).await;
        if reached(
            &self.api.bcc.base(),
            "Region",
            CREDENTIAL,
            answer,
            &mut findings,
        )
        .is_none()
        {
            return findings;
        }
        let vpc = self.api.config.vpc.iter().map(|vpc| {
            (
                "routes",
                &self.api.bcc,
                Call::get("/v1/route", &[]).query("vpcId", vpc),
            )
        });
        let one = |path| Call::get(path, &[]).query("maxKeys", 1);
        let lists = [
            ("BLBs", &self.api.blb, one("/v1/blb")),
            ("EIPs", &self.api.eip, one("/v1/eip")),
        ];
        for (what, http, call) in lists.into_iter().chain(vpc) {
            findings.extend(permissions(http, [(what, call)]).await);
        }
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(Arc::clone(&caches));
        self.caches.get_or_init(|| caches);
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.instances)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.load_balancers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(&self.routes)
    }
}
