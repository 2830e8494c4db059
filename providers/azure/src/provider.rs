//! The provider: its parts, and its start.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use cloud_provider::{
    Caches, CloudProvider, ConfigFile, Context, Error, Finding, Instances, LoadBalancers, Reload,
    Result, Routes, Setup, TargetIdentity, async_trait,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use provider_kit::checks::{reached, unavailable};
use provider_kit::cluster::ClusterView;
use provider_kit::instrumented::InstrumentedCapability;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{LoadBalancerEngine, Options};
use provider_kit::node_ipam::NodeIpam;
use provider_kit::routes;
use provider_kit::shared_document::SharedDocuments;
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Builder, Jitter, RetryPolicy, Transport};

use crate::arm::{
    Arm, LANES, LOAD_BALANCERS, MACHINES, PAGING, PUBLIC_ADDRESSES, ROUTE_TABLES, SCALE_SETS,
    SECURITY_GROUPS, SharedArm, is_of_nodes, text,
};
use crate::config::{Config, CurrentConfig, PoolKind, RateLimit};
use crate::config_secret::ConfigSecret;
use crate::credentials::{Connect, Identity, Token};
use crate::documents::Documents;
use crate::ipam::{PodBlocks, SetLengths, pod_blocks};
use crate::load_balancers::AzureLoadBalancers;
use crate::machines::Machines;
use crate::metrics::GoSeries;
use crate::nodes::Nodes;
use crate::out_of_service::follow_shutdowns;
use crate::rate_limits::reported;
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
    setup: Setup,
    change: Change,
    cluster: ClusterView,
    /// The parts, which exist when the configuration is known: at once, or with the first access to a Secret.
    parts: OnceLock<Parts>,
    context: OnceLock<Context>,
    pod_blocks: Option<PodBlocks>,
}

/// A function that completes the builder of a client.
type Change = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// The parts that follow from the configuration.
struct Parts {
    config: CurrentConfig,
    arm: SharedArm,
    machines: Inventory<Machines>,
    nodes: Nodes,
    cloud: AzureLoadBalancers,
    load_balancers: InstrumentedCapability<LoadBalancerEngine>,
    routes: Option<InstrumentedCapability<routes::RouteTable<RouteTable>>>,
}

/// Returns the clients of Azure Resource Manager.
fn arm(
    config: &Arc<Config>,
    setup: &Setup,
    connect: &Connect,
    secret: Option<&ConfigSecret>,
    change: impl Fn(Builder) -> Builder,
) -> Result<Arm> {
    let file = &config.file;
    let tokens = |tenant: &str| {
        let connect = Arc::clone(connect);
        let config = Arc::clone(config);
        Arc::new(Tokens::of(Identity::new(
            connect,
            config,
            setup,
            secret.cloned(),
            tenant,
        )))
    };
    let own_tokens = tokens(&file.tenant_id);
    let is_one_tenant = file.network_tenant.is_empty() || file.network_tenant == file.tenant_id;
    let network = match is_one_tenant {
        true => Arc::clone(&own_tokens),
        false => tokens(&file.network_tenant),
    };
    let retry_policy = RetryPolicy {
        max_attempts: 5,
        backoff: std::time::Duration::from_secs(1),
        jitter: Jitter::Full,
        ..RetryPolicy::default()
    };
    // In the order of the lanes.
    let limits: [&RateLimit; LANES] = [
        &file.load_balancer_rate_limit,
        &file.address_rate_limit,
        &file.security_group_rate_limit,
        &file.route_table_rate_limit,
        &file.interface_rate_limit,
        &file.private_link_service_rate_limit,
        &file.virtual_machine_rate_limit,
        &file.virtual_machine_scale_set_rate_limit,
    ];
    let series = GoSeries::new(config, &setup.metrics);
    let client = |lane: usize, writes: bool| {
        let tokens = if is_of_nodes(lane) {
            &own_tokens
        } else {
            &network
        };
        let session = tokens.session(|token: &Token| Ok(Arc::clone(&token.access)));
        let http = Transport::of_session(session)
            .setup(setup)
            .own_series(series.clone());
        let http = http
            .retry_policy(retry_policy)
            .paging(PAGING)
            .correlation("x-ms-correlation-request-id");
        let http = if file.user_agent.is_empty() {
            http
        } else {
            http.user_agent(file.user_agent.clone())
        };
        let budget = limits[lane].budget(&file.rate_limit, writes);
        change(http.budget(budget).rate_limits(reported)).build()
    };
    let clients = (0..LANES)
        .map(|lane| Ok([client(lane, false)?, client(lane, true)?]))
        .collect::<Result<_>>()?;
    Ok(Arm::new(clients, (!is_one_tenant).then_some(network)))
}

impl Azure {
    /// Creates a provider whose clients `change` completes, for tests.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes in the configuration file.
    pub fn new(
        setup: &Setup,
        change: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Result<Self> {
        let (change, cluster): (Change, _) = (Arc::new(change), ClusterView::new(EVENT_SOURCE));
        let pod_blocks = pod_blocks(setup)?;
        let setup_of = setup.clone();
        let parts = OnceLock::new();
        let context = OnceLock::new();
        let provider = Self {
            setup: setup_of,
            change,
            cluster,
            parts,
            context,
            pod_blocks,
        };
        if ConfigSecret::of(setup, &provider.cluster).is_none() || setup.environment.is_offline() {
            let parts = provider.parts_of(setup, None)?;
            provider.parts.get_or_init(|| parts);
        }
        Ok(provider)
    }

    /// Creates the parts for a configuration.
    fn parts_of(&self, setup: &Setup, secret: Option<&ConfigSecret>) -> Result<Parts> {
        let config = Arc::new(Config::read(setup)?);
        let cluster = self.cluster.clone();
        let own_change = Arc::clone(&self.change);
        let its_setup = setup.clone();
        let connect: Connect =
            Arc::new(move |base: &str| own_change(Transport::builder(base).setup(&its_setup)));
        let arm = Arc::new(arm(&config, setup, &connect, secret, |http| {
            (self.change)(http)
        })?);
        let documents =
            SharedDocuments::new(Documents::new(Arc::clone(&arm), config.nodes.clone()));
        let groups: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let machines = Machines {
            arm: Arc::clone(&arm),
            config: Arc::clone(&config),
            groups,
        };
        let inventory = Inventory::new(machines.clone()).measured(Arc::clone(&setup.metrics));
        let current = CurrentConfig::new((*config).clone());
        let cloud = AzureLoadBalancers::new(
            current.clone(),
            documents.clone(),
            inventory.clone(),
            cluster.clone(),
            setup.fence.clone(),
        );
        let by_address = config.file.pool_kind != PoolKind::Nic;
        let target_identity = if by_address {
            TargetIdentity::Addresses
        } else {
            TargetIdentity::ProviderId
        };
        let options = Options {
            targets_follow_addresses: by_address,
            target_identity,
            ..Options::default()
        };
        let table = RouteTable {
            documents,
            config: current.clone(),
            cluster: cluster.clone(),
            unmanaged: Mutex::default(),
        };
        let has_routes = !config.file.route_table_name.is_empty();
        let series = GoSeries::new(&config, &setup.metrics);
        Ok(Parts {
            load_balancers: series.measure(LoadBalancerEngine::of(
                cloud.clone(),
                Arc::new(machines),
                options,
            )),
            routes: has_routes.then(|| series.measure(routes::RouteTable::new(table, cluster))),
            nodes: Nodes(inventory.clone()),
            machines: inventory,
            arm,
            cloud,
            config: current,
        })
    }

    /// Returns the parts, and creates them from the Secret if they do not exist yet.
    async fn parts(&self) -> Result<&Parts> {
        if let Some(parts) = self.parts.get() {
            return Ok(parts);
        }
        let missing =
            || Error::invalid("no configuration: set --cloud-config or --cloud-config-secret-name");
        let secret = ConfigSecret::of(&self.setup, &self.cluster).ok_or_else(missing)?;
        let setup = Setup {
            config: Some(secret.read().await?),
            ..self.setup.clone()
        };
        let parts = self.parts_of(&setup, Some(&secret))?;
        Ok(self.parts.get_or_init(|| parts))
    }
}

#[async_trait]
impl CloudProvider for Azure {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.context.get_or_init(|| context.clone());
        let parts = self.parts().await?;
        let config = parts.config.get();
        parts.cloud.learn_cluster(&context.cluster);
        parts.arm.probe(&MACHINES, &config.nodes).await.map_err(|error| {
            let check = match () {
                () if error.is_unauthorized() => "the credential and its role".to_owned(),
                () if error.is_not_found() => format!(
                    "subscriptionId and resourceGroup. If resource group {} was deleted with everything in it, nothing is left to \
                     clean up: remove finalizer {FINALIZER_LOAD_BALANCER} from the Services that are being deleted, and uninstall \
                     the program",
                    config.nodes.name
                ),
                () => "subscriptionId, resourceGroup and the network".to_owned(),
            };
            error.context(format!("Azure at {} cannot be used; check {check}", config.endpoints.resource_manager))
        })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let parts = match self.parts().await {
            Ok(parts) => parts,
            Err(error) => {
                return vec![Finding::failure(
                    "configuration",
                    error.to_string(),
                    "correct the configuration",
                )];
            }
        };
        let config = parts.config.get();
        let answer = parts.arm.probe(&MACHINES, &config.nodes).await;
        let base = &config.endpoints.resource_manager;
        if reached(
            base,
            "cloud or resourceManagerEndpoint",
            CREDENTIAL,
            answer,
            &mut findings,
        )
        .is_none()
        {
            return findings;
        }
        let file = &config.file;
        for (what, of, group, is_used) in [
            (
                "scale sets",
                &SCALE_SETS,
                &config.nodes,
                config.has_scale_sets(),
            ),
            (
                "load balancers",
                &LOAD_BALANCERS,
                &config.load_balancers,
                true,
            ),
            (
                "public IP addresses",
                &PUBLIC_ADDRESSES,
                &config.load_balancers,
                true,
            ),
            (
                "security groups",
                &SECURITY_GROUPS,
                &config.security_group,
                !file.security_group_name.is_empty(),
            ),
            (
                "route tables",
                &ROUTE_TABLES,
                &config.route_table,
                !file.route_table_name.is_empty(),
            ),
        ] {
            if !is_used {
                continue;
            }
            let remedy = format!(
                "give the identity a role that can read {what} of resource group {}",
                group.name
            );
            match parts.arm.all(of, group).await {
                Ok(all) if what == "security groups" => {
                    let names = all.iter().map(|object| text(object, "/name"));
                    findings.extend(unavailable(
                        "configuration",
                        "securityGroupName",
                        &file.security_group_name,
                        names,
                    ));
                }
                Ok(_) => {}
                Err(error) => {
                    findings.push(Finding::failure("permission", error.to_string(), remedy));
                    continue;
                }
            }
            findings.push(Finding::ok(
                "permission",
                format!("{what} of resource group {} can be read", group.name),
            ));
        }
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        if let Some(parts) = self.parts.get() {
            parts.load_balancers.inner().set_caches(Arc::clone(&caches));
            parts.cloud.set_caches(Arc::clone(&caches));
        }
        self.cluster.set_caches(caches);
        let Some(context) = self.context.get() else {
            return;
        };
        let until = |task: BoxFuture<'static, ()>| {
            let stop = context.shutdown.clone();
            tokio::spawn(async move { stop.run_until_cancelled(task).await });
        };
        let config = self.parts.get().map(|parts| parts.config.clone());
        if config
            .as_ref()
            .is_some_and(|current_config| !current_config.get().file.disable_out_of_service_taint)
        {
            until(Box::pin(follow_shutdowns(self.cluster.clone())));
        }
        if let (Some(secret), Some(config)) = (ConfigSecret::of(&self.setup, &self.cluster), config)
        {
            until(Box::pin(secret.follow(self.setup.clone(), config)));
        }
        if let (Some(blocks), Some(parts)) = (self.pod_blocks.clone(), self.parts.get()) {
            let arm = Arc::clone(&parts.arm);
            let machines = parts.machines.clone();
            let config = parts.config.clone();
            let source = SetLengths {
                blocks: blocks.clone(),
                machines,
                arm,
                config,
            };
            until(Box::pin(
                NodeIpam::new(self.cluster.clone(), blocks.blocks, source).run(),
            ));
        }
    }

    async fn reload(&self, config: &ConfigFile) -> Result<Reload> {
        let parts = self.parts().await?;
        let setup = Setup {
            config: Some(config.clone()),
            ..self.setup.clone()
        };
        // Credentials are read again with each request for a token.
        match ConfigSecret::of(&setup, &self.cluster) {
            Some(secret) => parts.config.update(&secret.config(&setup).await?),
            None => parts.config.update(&Config::read(&setup)?),
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        self.parts.get().map(|parts| &parts.nodes as &dyn Instances)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.parts
            .get()
            .map(|parts| &parts.load_balancers as &dyn LoadBalancers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        self.parts
            .get()?
            .routes
            .as_ref()
            .map(|routes| routes as &dyn Routes)
    }
}
