//! The provider: its parts, and its start.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers as LoadBalancersTrait,
    Result, Setup, TargetIdentity, async_trait,
};
use provider_kit::checks::reached;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{LoadBalancerEngine, Options};
use provider_kit::node_ipam::NodeIpam;
use provider_kit::operation::Polling;
use provider_kit::transport::{Call, Connector, Priority, Tls, network};

use crate::api::Api;
use crate::config::Config;
use crate::diagnosis::permissions;
use crate::instance::ocid;
use crate::instances::Source;
use crate::ipam::FlexRanges;
use crate::load_balancers::certificates::Certificates;
use crate::load_balancers::{LoadBalancers, is_group};
use crate::nodes::{Nodes, node_patch};
use crate::openshift::tag_instances;
use crate::{EVENT_SOURCE, NAME};

const REMEDY: &str = "check the credential of the cloud configuration, and the policies of its user or dynamic group";
/// The pause between two comparisons of Nodes with their instances.
const INTERVAL: Duration = Duration::from_secs(60);

/// Creates the provider from the cloud configuration and the environment.
///
/// # Errors
/// *Invalid*, with all mistakes.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let connector = network(
        &Tls::default(),
        config
            .endpoint
            .as_deref()
            .unwrap_or("https://iaas.oraclecloud.com"),
    )?;
    Ok(Arc::new(Oci::new(config, setup, &connector)?))
}

/// The cloud provider for Oracle Cloud.
pub struct Oci {
    api: Api,
    config: Arc<Config>,
    cluster: ClusterView,
    nodes: Nodes,
    certificates: Certificates,
    load_balancers: LoadBalancerEngine,
    context: OnceLock<Context>,
}

impl Oci {
    /// Creates a provider whose requests `connector` carries.
    ///
    /// # Errors
    /// *Other*, if a client cannot be built.
    pub fn new(config: Config, setup: &Setup, connector: &Arc<dyn Connector>) -> Result<Self> {
        let config = Arc::new(config);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let api = Api::new(&config, setup, connector, None)?;
        let source = Source::new(api.clone(), cluster.clone());
        let inventory = Inventory::new(source.clone()).measured(api.iaas.metrics());
        let of_account = {
            let config = Arc::clone(&config);
            let setup = setup.clone();
            let connector = Arc::clone(connector);
            Box::new(move |account| Api::new(&config, &setup, &connector, Some(account)))
        };
        let cloud = LoadBalancers::new(
            api.clone(),
            inventory.clone(),
            cluster.clone(),
            Some(of_account),
        );
        let certificates = cloud.certificates();
        let polling = Polling {
            first: Duration::from_secs(1),
            ..Polling::default()
        };
        let options = Options {
            polling,
            targets_follow_addresses: true,
            target_identity: TargetIdentity::AddressesAndProviderId,
            outlives: is_group,
            adoptable_tag: api.config.adoptable_tag.clone(),
            price: &["shapeName", "shapeDetails.maximumBandwidthInMbps"],
            ..Options::default()
        };
        Ok(Self {
            load_balancers: LoadBalancerEngine::of(cloud, Arc::new(source), options),
            nodes: Nodes(inventory),
            certificates,
            context: OnceLock::new(),
            api,
            config,
            cluster,
        })
    }

    async fn first_request(&self) -> Result<()> {
        let compartment = self.api.region.compartment().await?;
        let call =
            Call::get("/20160918/availabilityDomains", &[]).query("compartmentId", compartment);
        self.api.identity.send(call).await.map(drop)
    }

    /// Starts the background tasks, which run until the process ends.
    fn start(&self, context: &Context) {
        let inventory = self.nodes.0.clone();
        let cluster = self.cluster.clone();
        let stop = context.shutdown.clone();
        let is_ipv6 = self.config.is_ipv6;
        if self.config.has_flex_cidr {
            let source = FlexRanges::new(inventory.source().clone(), cluster.clone());
            let ipam = NodeIpam::new(cluster.clone(), Vec::new(), source);
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(ipam.run()).await });
        }
        if self.config.tags_instances {
            let tagging = tag_instances(self.api.clone(), cluster.clone());
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(tagging).await });
        }
        let certificates = self.certificates.clone().follow();
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(certificates).await });
        let update = async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                if let Err(error) = update_nodes(&inventory, &cluster, is_ipv6).await {
                    tracing::warn!(%error, "labels and annotations of Nodes are not updated");
                }
            }
        };
        tokio::spawn(async move { stop.run_until_cancelled(update).await.unwrap_or(()) });
    }
}

/// Gives Nodes the labels and annotations of their instances that they lack.
async fn update_nodes(
    inventory: &Inventory<Source>,
    cluster: &ClusterView,
    is_ipv6: bool,
) -> Result<()> {
    use crate::annotations::{FAULT_DOMAIN, FULL_AD, NODE_COMPARTMENT};
    let mut nodes = cluster.nodes().unwrap_or_default();
    nodes.retain(|node| {
        let lacks_label = !node.labels.contains_key(FAULT_DOMAIN)
            || is_ipv6 && !node.labels.contains_key(FULL_AD);
        !node.provider_id.is_empty()
            && (lacks_label || !node.annotations.contains_key(NODE_COMPARTMENT))
    });
    if nodes.is_empty() {
        return Ok(());
    }
    let list = inventory.snapshot(Priority::Refresh).await?;
    for node in &nodes {
        let instance = ocid(&node.provider_id).ok().and_then(|id| list.by_id(id));
        let Some(patch) = instance.and_then(|instance| node_patch(node, instance, is_ipv6)) else {
            continue;
        };
        if let Err(error) = cluster.patch_node(&node.name, &patch).await {
            tracing::warn!(node = &*node.name, %error, "labels and annotations of a Node are not updated");
        }
    }
    Ok(())
}

#[async_trait]
impl CloudProvider for Oci {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.context.get_or_init(|| context.clone());
        self.first_request()
            .await
            .map_err(|error| error.context(format!("Oracle Cloud cannot be used; {REMEDY}")))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let place = self
            .api
            .region
            .url("identity", true)
            .await
            .unwrap_or_default();
        if reached(
            &place,
            "auth.region",
            REMEDY,
            self.first_request().await,
            &mut findings,
        )
        .is_none()
        {
            return findings;
        }
        let Ok(compartment) = self.api.region.compartment().await else {
            return findings;
        };
        findings.extend(permissions(&self.api, &compartment).await);
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
        Some(&self.nodes)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancersTrait> {
        self.config
            .has_load_balancers
            .then_some(&self.load_balancers as &dyn LoadBalancersTrait)
    }
}
