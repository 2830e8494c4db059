//! The provider: its parts, its start, and the checks of `doctor`.

use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, CloudProvider, Cluster, Context, Fence, Finding, Instances, LoadBalancers, Node,
    Result, Routes, Setup, async_trait,
};
use provider_kit::checks::reached;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::routes::RouteTable;
use provider_kit::transport::Builder;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, ECS, Furnish, NLB, Query, SLB, VPC};
use crate::config::Config;
use crate::instances::{Nodes, Source, exclusion};
use crate::load_balancers::{Ids, load_balancers};
use crate::metrics::Requests;
use crate::routes::VpcRoutes;
use crate::{ALIAS, EVENT_SOURCE, NAME, services};

const CREDENTIAL: &str =
    "check the credential: Global.accessKeyID, ACCESS_KEY_ID, the OIDC role or the RAM role";

/// Creates the provider from the configuration file, the environment and the flags.
///
/// # Errors
/// *Invalid*, with everything that is wrong with them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    Ok(Arc::new(Alibaba::new(setup, |http| http)?))
}

/// Creates the provider under its historic name.
///
/// # Errors
/// *Invalid*, with everything that is wrong with the configuration.
pub fn alicloud(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    Ok(Arc::new(Alibaba {
        name: ALIAS,
        ..Alibaba::new(setup, |http| http)?
    }))
}

/// The provider of clusters on Alibaba Cloud.
pub struct Alibaba {
    name: &'static str,
    api: Api,
    cluster: ClusterView,
    nodes: Nodes,
    load_balancers: Arc<LoadBalancerEngine>,
    routes: RouteTable<VpcRoutes>,
    fence: Fence,
    /// IDs of load balancers, for labels of Services.
    ids: Ids,
    /// The token that ends background tasks, and the cluster; set when the program leads.
    context: OnceLock<(CancellationToken, Cluster)>,
}

impl Alibaba {
    /// Creates the provider; `furnish` completes each connection, such as with a fake in the same process.
    ///
    /// # Errors
    /// *Invalid*, with everything that is wrong with the configuration.
    pub fn new(
        setup: &Setup,
        furnish: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Result<Self> {
        let config = Config::read(setup)?;
        let of_setup = setup.clone();
        let agent = format!("ClusterId/{}", config.cluster);
        let furnish: Furnish = Arc::new(move |http: Builder| {
            let series = Requests(Arc::clone(&of_setup.metrics));
            furnish(http.setup(&of_setup).user_agent(&*agent).own_series(series))
        });
        let api = Api::new(config, setup, &furnish)?;
        let source = Source::new(api.clone());
        let cluster = ClusterView::new(EVENT_SOURCE);
        let ids = Ids::default();
        let inventory = Inventory::new(source.clone()).measured(Arc::clone(&setup.metrics));
        let routes = VpcRoutes::new(api.clone(), cluster.clone(), inventory.clone());
        Ok(Self {
            name: NAME,
            load_balancers: Arc::new(load_balancers(api.clone(), source, &cluster, setup, &ids)),
            routes: RouteTable::new(routes, cluster.clone()),
            nodes: Nodes(inventory),
            fence: setup.fence.clone(),
            ids,
            context: OnceLock::new(),
            api,
            cluster,
        })
    }

    /// Returns the cheapest read of each API, with the permission that it needs.
    async fn probes(&self) -> Result<[(&'static str, Query); 4]> {
        let vpc = self.api.metadata.vpc().await?;
        Ok([
            (
                "ecs:DescribeInstances",
                Query::new(ECS, "DescribeInstances").set("MaxResults", 10),
            ),
            (
                "slb:DescribeLoadBalancers",
                Query::new(SLB, "DescribeLoadBalancers").set("PageSize", 1),
            ),
            (
                "nlb:ListLoadBalancers",
                Query::new(NLB, "ListLoadBalancers").set("MaxResults", 1),
            ),
            (
                "vpc:DescribeRouteTableList",
                Query::new(VPC, "DescribeRouteTableList").set("VpcId", vpc),
            ),
        ])
    }
}

#[async_trait]
impl CloudProvider for Alibaba {
    fn name(&self) -> &str {
        self.name
    }

    fn has_cluster_id(&self) -> bool {
        true
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.context
            .get_or_init(|| (context.shutdown.clone(), context.cluster.clone()));
        let query = Query::new(ECS, "DescribeInstances").set("MaxResults", 10);
        self.api
            .read::<Value>(query)
            .await
            .map(drop)
            .map_err(|error| {
                let check = match error.is_unauthorized() {
                    true => "the credential, and that its policy allows ecs:DescribeInstances",
                    false => "Global.region, ECS_ENDPOINT and the network",
                };
                error.context(format!("Alibaba Cloud cannot be used; check {check}"))
            })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let probes = match self.probes().await {
            Ok(probes) => probes,
            Err(error) => {
                let remedy = "set Global.region and Global.vpcid, or run on an instance of the VPC";
                return vec![Finding::failure("region", error.to_string(), remedy)];
            }
        };
        for (permission, query) in probes {
            let base = format!("API {permission}");
            let place = "Global.region, --network and the endpoint variables";
            let answer = self.api.read::<Value>(query).await;
            if let Err(error) = answer.as_ref()
                && error.is_unauthorized()
                && error.code().contains("orbidden")
            {
                let remedy = format!("allow {permission} in the RAM policy");
                findings.push(Finding::failure("permissions", error.to_string(), remedy));
                continue;
            }
            if reached(&base, place, CREDENTIAL, answer, &mut findings).is_none() {
                return findings;
            }
        }
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(Arc::clone(&caches));
        if let Some((shutdown, cluster)) = self.context.get().cloned() {
            let load_balancers = Arc::clone(&self.load_balancers);
            let ids = Arc::clone(&self.ids);
            let view = self.cluster.clone();
            let fence = self.fence.clone();
            let task = services::Labels {
                cluster: view,
                load_balancers,
                cluster_name: cluster,
                fence,
                ids,
            }
            .run(caches);
            tokio::spawn(async move { shutdown.run_until_cancelled(task).await });
        }
    }

    /// Returns `true` for provider IDs without a scheme, and with either name of the provider, unless a label keeps the
    /// Node from being managed: such a Node gets no route.
    fn owns_node(&self, node: &Node) -> bool {
        exclusion(node).is_none()
            && node
                .provider_id_scheme()
                .is_none_or(|scheme| [NAME, ALIAS].contains(&scheme))
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.nodes)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&*self.load_balancers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(&self.routes)
    }
}
