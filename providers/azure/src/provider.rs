//! The provider: its parts, and its start.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Result, Routes, Setup, async_trait,
};
use parking_lot::Mutex;
use provider_kit::checks::{reached, unavailable};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{LoadBalancerEngine, Options};
use provider_kit::routes;
use provider_kit::shared_document::SharedDocuments;
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Access, Budget, Builder, Jitter, Refill, RetryPolicy, Transport};

use crate::arm::{Arm, LANES, LOAD_BALANCERS, MACHINES, PAGING, PUBLIC_ADDRESSES, SCALE_SETS, SECURITY_GROUPS};
use crate::config::{Config, PoolKind};
use crate::credentials::{Connect, Identity};
use crate::documents::{DocumentKind, Documents, Shared};
use crate::load_balancers::AzureLoadBalancers;
use crate::machines::Machines;
use crate::nodes::Nodes;
use crate::routes::RouteTable;
use crate::{EVENT_SOURCE, NAME};

const CREDENTIAL: &str = "correct the credential in the file of --cloud-config";

/// Creates the provider from the configuration file.
///
/// # Errors
/// *Invalid*, with all mistakes in the file.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    Ok(Arc::new(Azure::new(setup, |http| http)?))
}

/// The cloud provider for Azure.
pub struct Azure {
    config: Arc<Config>,
    documents: Shared,
    nodes: Nodes,
    cloud: AzureLoadBalancers,
    load_balancers: LoadBalancerEngine,
    routes: Option<routes::RouteTable<RouteTable>>,
    cluster: ClusterView,
}

/// Returns the clients of each lane. The last two lanes are those of `Microsoft.Compute`.
fn clients(
    config: &Arc<Config>,
    setup: &Setup,
    connect: &Connect,
    change: impl Fn(Builder) -> Builder,
) -> Result<Vec<[Transport; 2]>> {
    let file = &config.file;
    let tokens =
        |tenant: &str| Arc::new(Tokens::of(Identity::new(Arc::clone(connect), Arc::clone(config), setup, tenant)));
    let own = tokens(&file.tenant_id);
    let network = match file.network_tenant.is_empty() || file.network_tenant == file.tenant_id {
        true => Arc::clone(&own),
        false => tokens(&file.network_tenant),
    };
    let retry_policy = RetryPolicy {
        max_attempts: 5,
        backoff: std::time::Duration::from_secs(1),
        jitter: Jitter::Full,
        ..RetryPolicy::default()
    };
    let client = |lane: usize, writes: bool| {
        let tokens = if lane + 2 < LANES { &network } else { &own };
        let session = tokens.session(|access: &Arc<Access>| Ok(Arc::clone(access)));
        let http = Transport::of_session(session).setup(setup).retry_policy(retry_policy).paging(PAGING);
        let http = http.correlation("x-ms-correlation-request-id");
        let http = if file.user_agent.is_empty() { http } else { http.user_agent(file.user_agent.clone()) };
        let (rate, burst) = match writes {
            true => (file.qps_write, file.cloud_provider_rate_limit_bucket_write),
            false => (file.qps, file.cloud_provider_rate_limit_bucket),
        };
        let http = match file.cloud_provider_rate_limit && rate > 0.0 {
            true => {
                let interval = std::time::Duration::from_secs_f64(1.0 / rate);
                let refill = Refill::Stated { interval, burst: burst.max(1) };
                http.budget(Budget { share_left_to_others: 0.0, refill })
            }
            false => http,
        };
        change(http).build()
    };
    (0..LANES).map(|lane| Ok([client(lane, false)?, client(lane, true)?])).collect()
}

impl Azure {
    /// Creates a provider whose clients `change` completes, for tests.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes in the configuration file.
    pub fn new(setup: &Setup, change: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Result<Self> {
        let config = Arc::new(Config::read(setup)?);
        let change = Arc::new(change);
        let (own, its_setup) = (Arc::clone(&change), setup.clone());
        let connect: Connect = Arc::new(move |base: &str| own(Transport::builder(base).setup(&its_setup)));
        let arm = Arc::new(Arm::new(clients(&config, setup, &connect, |http| change(http))?));
        let documents = SharedDocuments::new(Documents::new(Arc::clone(&arm), config.nodes.clone()));
        let groups: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let machines = Machines { arm: Arc::clone(&arm), config: Arc::clone(&config), groups };
        let inventory = Inventory::new(machines.clone()).measured(Arc::clone(&setup.metrics));
        let cluster = ClusterView::new(EVENT_SOURCE);
        let cloud = AzureLoadBalancers::new(Arc::clone(&config), documents.clone(), inventory.clone(), cluster.clone());
        let by_address = config.file.pool_kind != PoolKind::Nic;
        let options = Options { targets_follow_addresses: by_address, ..Options::default() };
        let table = RouteTable {
            documents: documents.clone(),
            config: Arc::clone(&config),
            cluster: cluster.clone(),
            unmanaged: Mutex::default(),
        };
        let has_routes = !config.file.route_table_name.is_empty();
        Ok(Self {
            load_balancers: LoadBalancerEngine::of(cloud.clone(), Arc::new(machines), options),
            routes: has_routes.then(|| routes::RouteTable::new(table, cluster.clone())),
            nodes: Nodes(inventory),
            cloud,
            documents,
            config,
            cluster,
        })
    }

    fn arm(&self) -> &Arm {
        self.documents.store().arm()
    }
}

#[async_trait]
impl CloudProvider for Azure {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.cloud.learn_cluster(&context.cluster);
        self.arm().probe(&[&MACHINES], &self.config.nodes).await.map_err(|error| {
            let check = if error.is_unauthorized() {
                "the credential and its role"
            } else {
                "subscriptionId, resourceGroup and the network"
            };
            error.context(format!("Azure at {} cannot be used; check {check}", self.config.endpoints.resource_manager))
        })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let (mut findings, config) = (Vec::new(), &self.config);
        let answer = self.arm().probe(&[&MACHINES], &config.nodes).await;
        let base = &config.endpoints.resource_manager;
        if reached(base, "cloud or resourceManagerEndpoint", CREDENTIAL, answer, &mut findings).is_none() {
            return findings;
        }
        for (what, of, group) in [
            ("scale sets", &SCALE_SETS, &config.nodes),
            ("load balancers", &LOAD_BALANCERS, &config.load_balancers),
            ("public IP addresses", &PUBLIC_ADDRESSES, &config.load_balancers),
            ("security groups", &SECURITY_GROUPS, &config.security_group),
        ] {
            let remedy = format!("give the identity a role that can read {what} of resource group {}", group.name);
            findings.push(match self.arm().probe(&[of], group).await {
                Ok(()) => Finding::ok("permission", format!("{what} of resource group {} can be read", group.name)),
                Err(error) => Finding::failure("permission", error.to_string(), remedy),
            });
        }
        for (kind, key, group, name) in [
            (
                DocumentKind::SecurityGroup,
                "securityGroupName",
                &config.security_group,
                &config.file.security_group_name,
            ),
            (DocumentKind::RouteTable, "routeTableName", &config.route_table, &config.file.route_table_name),
        ] {
            if name.is_empty() {
                continue;
            }
            match self.arm().all(kind.resource_type(), group).await {
                Ok(all) => {
                    let names = all.iter().map(|it| crate::arm::text(it, "/name"));
                    findings.extend(
                        unavailable("configuration", key, name, names).filter(|_| kind != DocumentKind::RouteTable),
                    );
                }
                Err(error) => {
                    findings.push(Finding::warning("configuration", error.to_string(), format!("check {key}")));
                }
            }
        }
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.cloud.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(caches);
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.nodes)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.load_balancers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        self.routes.as_ref().map(|routes| routes as &dyn Routes)
    }
}
