//! The provider: its parts, and its start.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Result, Routes, Setup,
    TargetIdentity, async_trait,
};
use provider_kit::checks::{permissions, rate_limit, reached, unavailable};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{LoadBalancerEngine, Options};
use provider_kit::node_ipam::{NodeBlocks, NodeIpam};
use provider_kit::routes::RouteTable;
use provider_kit::transport::{Call, Transport};
use serde::Deserialize;

use crate::api::{self, Api};
use crate::config::Config;
use crate::ipam::LinodeRanges;
use crate::linodes::{Linodes, Source};
use crate::metadata::NodeMetadata;
use crate::nodebalancers::NodeBalancers;
use crate::routes::InterfaceRanges;
use crate::vpcs::Vpcs;
use crate::{EVENT_SOURCE, NAME};

const TOKEN_CHECKS: Duration = Duration::from_secs(300);
const CREDENTIAL: &str =
    "put a valid API token into LINODE_API_TOKEN, or into the file of LINODE_API_TOKEN_FILE";

/// Creates the provider from the environment variables and flags.
///
/// # Errors
/// *Invalid*, with all mistakes in the variables or flags.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let [http, lists] = [
        api::cloud(&config, setup).build()?,
        api::cloud(&config, setup).build()?,
    ];
    Ok(Arc::new(Linode::new(config, http, lists)))
}

/// The cloud provider for Linode.
pub struct Linode {
    api: Api,
    config: Arc<Config>,
    cluster: ClusterView,
    linodes: Linodes,
    load_balancers: LoadBalancerEngine,
    routes: Option<RouteTable<InterfaceRanges>>,
    context: OnceLock<Context>,
}

#[derive(Deserialize)]
struct Region {
    id: String,
}

impl Linode {
    /// Creates a provider over these connections: for single objects, and for lists.
    #[must_use]
    pub fn new(config: Config, http: Transport, lists: Transport) -> Self {
        let api = Api::new(http, lists);
        let config = Arc::new(config);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let vpcs = Arc::new(Vpcs::new(api.clone(), Arc::clone(&config)));
        let source = Source {
            api: api.clone(),
            vpcs,
            config: Arc::clone(&config),
        };
        let inventory = Inventory::new(source.clone())
            .max_age(config.instances_max_age)
            .measured(api.http.metrics());
        let cloud = NodeBalancers::new(source.clone(), cluster.clone());
        let options = Options {
            targets_follow_addresses: true,
            target_identity: TargetIdentity::Addresses,
            adoptable_tag: config.adoptable_tag.clone(),
            ..Options::default()
        };
        let routes = InterfaceRanges::new(inventory.clone());
        Self {
            load_balancers: LoadBalancerEngine::of(cloud, Arc::new(source), options),
            routes: config
                .has_routes
                .then(|| RouteTable::new(routes, cluster.clone())),
            linodes: Linodes(inventory),
            context: OnceLock::new(),
            api,
            config,
            cluster,
        }
    }

    async fn profile(&self) -> Result<()> {
        self.api
            .http
            .send(Call::get("/profile", &[]))
            .await
            .map(drop)
    }

    /// Starts the background tasks, which run until the process ends.
    fn start(&self, context: &Context) {
        let until = |task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
            let stop = context.shutdown.clone();
            tokio::spawn(async move { stop.run_until_cancelled(task).await });
        };
        let linodes = self.linodes.0.clone();
        let cluster = self.cluster.clone();
        if let Some(ranges) = self.config.pod_ranges {
            let blocks = vec![NodeBlocks {
                range: ranges.cluster.into(),
                length: ranges.ipv4,
            }];
            let source = LinodeRanges {
                ranges,
                vpcs: Arc::clone(&linodes.source().vpcs),
            };
            until(Box::pin(
                NodeIpam::new(cluster.clone(), blocks, source).run(),
            ));
        }
        until(Box::pin(
            NodeMetadata {
                linodes,
                cluster,
                age: self.config.metadata_max_age,
            }
            .run(),
        ));
        if self.config.checks_token {
            let http = self.api.http.clone();
            let stop = context.shutdown.clone();
            until(Box::pin(async move {
                loop {
                    tokio::time::sleep(TOKEN_CHECKS).await;
                    match http.send(Call::get("/profile", &[])).await {
                        Err(error) if error.is_unauthorized() => {
                            tracing::error!(%error, "the token is not valid any more: the program stops");
                            stop.cancel();
                        }
                        Err(error) => tracing::warn!(%error, "the token cannot be checked"),
                        Ok(_) => {}
                    }
                }
            }));
        }
    }
}

#[async_trait]
impl CloudProvider for Linode {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.context.get_or_init(|| context.clone());
        self.profile().await.map_err(|error| {
            let check = if error.is_unauthorized() {
                "LINODE_API_TOKEN"
            } else {
                "LINODE_URL and the network"
            };
            error.context(format!(
                "Linode at {} cannot be used; check {check}",
                self.api.http.base()
            ))
        })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let answer = self.api.http.send(Call::get("/profile", &[])).await;
        let Some(answer) = reached(
            &self.api.http.base(),
            "LINODE_URL",
            CREDENTIAL,
            answer,
            &mut findings,
        ) else {
            return findings;
        };
        findings.extend(rate_limit(&answer.headers, "see what else uses this token"));
        let lists = [
            ("Linodes", "/linode/instances"),
            ("NodeBalancers", "/nodebalancers"),
            ("VPCs", "/vpcs"),
            ("firewalls", "/networking/firewalls"),
        ];
        let first = lists.map(|(what, path)| (what, Call::get(path, &[]).query("page_size", 25)));
        findings.extend(permissions(&self.api.http, first).await);
        findings.push(
            match self
                .api
                .all(Call::get("/regions", &[]), |region: &Region| {
                    region.id.clone()
                })
                .await
            {
                Ok(known) => unavailable(
                    "region",
                    "LINODE_REGION",
                    &self.config.region,
                    known.iter().map(|region| &*region.id),
                )
                .unwrap_or_else(|| Finding::ok("region", self.config.region.clone())),
                Err(error) => Finding::warning("region", error.to_string(), "try again"),
            },
        );
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(caches);
        if let Some(context) = self.context.get() {
            self.start(context);
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.linodes)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.load_balancers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        self.routes.as_ref().map(|routes| routes as &dyn Routes)
    }
}
