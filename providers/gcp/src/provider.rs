//! The provider: its parts, and its start.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Result, Routes, Setup,
    async_trait,
};
use provider_kit::checks::{permissions, reached, unavailable};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::{Inventory, SharedPriority};
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::node_ipam::NodeIpam;
use provider_kit::routes::RouteTable;
use provider_kit::transport::{Call, Connector, Method, Tls, network};
use serde::Deserialize;
use serde_json::Value;

use crate::api::{Api, BACKEND_SERVICE, CHECK, FIREWALL, ROUTE, RULE, TARGET_POOL};
use crate::config::{Config, PodRanges};
use crate::instances::{Source, Vms};
use crate::ipam::{InstanceRanges, Reserved};
use crate::kubernetes::Kubernetes;
use crate::load_balancers::load_balancers;
use crate::routes::NodeRoutes;
use crate::{EVENT_SOURCE, NAME};

const ENDPOINT: &str = "https://compute.googleapis.com";
const CREDENTIAL: &str = "give the service account the role of docs/providers/gcp.md, or correct GOOGLE_APPLICATION_CREDENTIALS and token-url";

/// Creates the provider from the file, the flags and the environment variables.
///
/// # Errors
/// *Invalid*, with everything that is wrong with them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let connector = network(
        &Tls::default(),
        config.endpoint.as_deref().unwrap_or(ENDPOINT),
    )?;
    Ok(Arc::new(Gce::new(config, setup, &connector)?))
}

/// The provider of Google Cloud.
pub struct Gce {
    api: Api,
    kubernetes: Kubernetes,
    instances: Vms,
    load_balancers: LoadBalancerEngine,
    routes: RouteTable<NodeRoutes>,
    cluster_name: Arc<OnceLock<String>>,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
    context: OnceLock<Context>,
}

#[derive(Deserialize)]
struct Zone {
    name: String,
}

impl Gce {
    /// Creates a provider that sends its requests through `connector`.
    ///
    /// # Errors
    /// *Invalid* for an address that is none.
    pub fn new(config: Config, setup: &Setup, connector: &Arc<dyn Connector>) -> Result<Self> {
        let api = Api::new(config, setup, connector)?;
        let cluster = ClusterView::new(EVENT_SOURCE);
        let kubernetes = Kubernetes::new(cluster.clone());
        let cluster_name = Arc::default();
        let caches = Arc::default();
        let inventory = Inventory::new(Source::new(api.clone()))
            .max_age(api.config.max_age)
            .measured(api.http.metrics());
        let routes = NodeRoutes {
            instances: inventory.clone(),
            cluster_name: Arc::clone(&cluster_name),
        };
        Ok(Self {
            load_balancers: load_balancers(&inventory, &kubernetes, &caches),
            routes: RouteTable::new(routes, cluster),
            instances: Vms(inventory),
            context: OnceLock::new(),
            api,
            kubernetes,
            cluster_name,
            caches,
        })
    }

    async fn project(&self) -> Result<Value> {
        let place = self.api.place().await?;
        self.api
            .http
            .read(Call::get("/projects/{project}", &[&place.project]))
            .await
    }
}

#[async_trait]
impl CloudProvider for Gce {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.kubernetes.cluster.connect(context);
        self.cluster_name
            .get_or_init(|| context.cluster.name.clone());
        self.context.get_or_init(|| context.clone());
        self.project()
            .await
            .map(drop)
            .map_err(|error| error.context(format!("Google Cloud cannot be used; {CREDENTIAL}")))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let endpoint = self.api.config.endpoint.as_deref().unwrap_or(ENDPOINT);
        if reached(
            endpoint,
            "`api-endpoint`",
            CREDENTIAL,
            self.project().await,
            &mut findings,
        )
        .is_none()
        {
            return findings;
        }
        let Ok(place) = self.api.place().await else {
            return findings;
        };
        let kinds = [
            ("forwarding rules", RULE),
            ("target pools", TARGET_POOL),
            ("backend services", BACKEND_SERVICE),
            ("health checks", CHECK),
            ("firewalls", FIREWALL),
            ("routes", ROUTE),
        ];
        let first = |call: Call| call.list().query("maxResults", 1);
        let instances = Call::get(
            "/projects/{project}/aggregated/instances",
            &[&place.project],
        );
        let mut lists: Vec<(&'static str, Call)> = vec![("instances", first(instances))];
        for (what, kind) in kinds {
            lists.push((what, first(place.all(Method::GET, kind, ""))));
        }
        findings.extend(permissions(&self.api.http, lists).await);
        let zones = Call::get("/projects/{project}/zones", &[&place.project]);
        let zones = self
            .api
            .list(zones, &SharedPriority::default(), |zone: &Zone| {
                zone.name.clone()
            })
            .await;
        findings.push(match zones {
            Ok(known) => unavailable(
                "zone",
                "`local-zone`",
                &place.zone,
                known.iter().map(|zone| &*zone.name),
            )
            .unwrap_or_else(|| Finding::ok("zone", place.zone.clone())),
            Err(error) => Finding::warning("zone", error.to_string(), "try again"),
        });
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.kubernetes.cluster.set_caches(Arc::clone(&caches));
        self.caches.get_or_init(|| Arc::clone(&caches));
        let Some(context) = self.context.get() else {
            return;
        };
        let until = |task: Pin<Box<dyn Future<Output = ()> + Send>>| {
            let stop = context.shutdown.clone();
            tokio::spawn(async move { stop.run_until_cancelled(task).await });
        };
        until(Box::pin(self.kubernetes.clone().update_services(
            caches,
            Arc::clone(&self.api.config),
            self.api.http.metrics(),
        )));
        let instances = self.instances.0.clone();
        let cluster = self.kubernetes.cluster.clone();
        match self.api.config.pod_ranges.clone() {
            None => {}
            Some(PodRanges::Cluster(blocks, reserved)) => {
                until(Box::pin(
                    NodeIpam::new(cluster, blocks, Reserved(reserved)).run(),
                ));
            }
            Some(PodRanges::Instances(families)) => {
                let source = InstanceRanges {
                    instances,
                    cluster: cluster.clone(),
                    families,
                };
                until(Box::pin(NodeIpam::new(cluster, Vec::new(), source).run()));
            }
        }
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
