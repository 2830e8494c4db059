//! The provider: its parts, its start, and the checks of `doctor`.

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Node, Result, Routes, Setup,
    async_trait,
};
use provider_kit::checks::reached;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{LoadBalancerEngine, OwnerTags};
use provider_kit::routes::RouteTable;
use provider_kit::transport::{Builder, Connector, Tls, network};
use serde_json::{Value, json};

use crate::action::{Action, CLB, CVM, TKE, VPC};
use crate::api::Api;
use crate::config::Config;
use crate::instances::{Nodes, Source};
use crate::load_balancers::{ClusterTag, load_balancers};
use crate::refusals::RefusalStatus;
use crate::routes::ClusterRoutes;
use crate::{EVENT_SOURCE, NAME, TKE_SCHEME};

const CREDENTIAL: &str = "check the credential: secret_id and secret_key, the OIDC role of the Pod, or the role of the machine";

/// Creates the provider from the configuration file and the environment.
///
/// # Errors
/// *Invalid*, with everything that is wrong with them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let url = Config::read(setup)?.endpoint(CVM.name);
    let connector = network(&Tls::default(), &url)
        .map_err(|error| error.context(format!("endpoint_domain ({url})")))?;
    Ok(Arc::new(Tencent::new(setup, connector)?))
}

/// The provider of clusters on Tencent Cloud.
pub struct Tencent {
    api: Api,
    cluster: ClusterView,
    nodes: Nodes,
    load_balancers: LoadBalancerEngine,
    cluster_tag: ClusterTag,
    routes: Option<RouteTable<ClusterRoutes>>,
}

impl Tencent {
    /// Creates the provider, which sends all requests with `connector`.
    ///
    /// # Errors
    /// *Invalid*, with everything that is wrong with the configuration.
    pub fn new(setup: &Setup, connector: Arc<dyn Connector>) -> Result<Self> {
        let config = Config::read(setup)?;
        let of_setup = setup.clone();
        let furnish = Arc::new(move |http: Builder| {
            http.setup(&of_setup)
                .connector(RefusalStatus(Arc::clone(&connector)))
        });
        let api = Api::new(config, setup, furnish)?;
        let source = Source::new(api.clone());
        let cluster = ClusterView::new(EVENT_SOURCE);
        let inventory = Inventory::new(source.clone()).measured(Arc::clone(&setup.metrics));
        let cluster_tag = ClusterTag::default();
        let routes = api
            .config
            .route_table
            .clone()
            .map(|table| ClusterRoutes::new(api.clone(), table));
        Ok(Self {
            load_balancers: load_balancers(
                api.clone(),
                source,
                cluster.clone(),
                Arc::clone(&cluster_tag),
                setup.fence.clone(),
            ),
            cluster_tag,
            routes: routes.map(|routes| RouteTable::new(routes, cluster.clone())),
            nodes: Nodes(inventory),
            api,
            cluster,
        })
    }

    /// Returns the cheapest read of each API, with the permission that it needs.
    async fn probes(&self) -> Result<Vec<(&'static str, Action)>> {
        let filter = json!([{"Name": "vpc-id", "Values": [self.api.metadata.vpc().await?]}]);
        let mut probes = vec![
            (
                "cvm:DescribeInstances",
                Action::new(CVM, "DescribeInstances")
                    .set("Filters", filter)
                    .set("Limit", 1),
            ),
            (
                "clb:DescribeLoadBalancers",
                Action::new(CLB, "DescribeLoadBalancers").set("Limit", 1),
            ),
            (
                "vpc:DescribeSecurityGroups",
                Action::new(VPC, "DescribeSecurityGroups").set("Limit", "1"),
            ),
        ];
        if let Some(table) = &self.api.config.route_table {
            let action = Action::new(TKE, "DescribeClusterRoutes").set("RouteTableName", table);
            probes.push(("tke:DescribeClusterRoutes", action));
        }
        Ok(probes)
    }
}

#[async_trait]
impl CloudProvider for Tencent {
    fn name(&self) -> &str {
        NAME
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        *self.cluster_tag.lock() = Some(OwnerTags::cluster(&context.cluster).to_owned());
        let action = Action::new(CVM, "DescribeInstances").set("Limit", 1);
        self.api
            .send::<Value>(action)
            .await
            .map(drop)
            .map_err(|error| {
                let check = match error.is_unauthorized() {
                    true => "the credential, and that its policy allows cvm:DescribeInstances",
                    false => "region, endpoint_domain and the network",
                };
                error.context(format!("Tencent Cloud cannot be used; check {check}"))
            })?;
        match &self.routes {
            Some(routes) => routes.cloud().ensure_table().await,
            None => Ok(()),
        }
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let probes = match self.probes().await {
            Ok(probes) => probes,
            Err(error) => {
                let remedy = "set region and vpc_id in the cloud configuration, or run on an instance of the VPC";
                return vec![Finding::failure("region", error.to_string(), remedy)];
            }
        };
        for (permission, action) in probes {
            let answer = self.api.send::<Value>(action).await;
            let is_forbidden = answer
                .as_ref()
                .is_err_and(|error| error.status() == Some(403));
            if let (Err(error), true) = (&answer, is_forbidden) {
                let remedy = format!("allow {permission} in the CAM policy");
                findings.push(Finding::failure("permissions", error.to_string(), remedy));
                continue;
            }
            if let (Err(error), true) = (&answer, permission.starts_with("tke")) {
                let remedy = "set cluster_route_table to an existing table, or cluster_route_table_cidr to create it";
                findings.push(Finding::failure("routes", error.to_string(), remedy));
                continue;
            }
            let place = "region, vpc_id and endpoint_domain";
            if reached(
                &format!("API {permission}"),
                place,
                CREDENTIAL,
                answer,
                &mut findings,
            )
            .is_none()
            {
                break;
            }
        }
        findings
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(caches);
    }

    /// Returns `true` for provider IDs of the Go program and of kubelets of TKE.
    fn owns_node(&self, node: &Node) -> bool {
        node.provider_id_scheme()
            .is_none_or(|scheme| [NAME, TKE_SCHEME].contains(&scheme))
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
