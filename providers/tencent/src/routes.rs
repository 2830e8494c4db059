//! Routes for Pod ranges: entries of the cluster route table, which lead to the addresses of Nodes.

use cloud_provider::{Error, Result, async_trait};
use provider_kit::routes::{Change, CloudRoute, RouteCloud};
use serde_json::Value;

use crate::action::{Action, TKE};
use crate::api::{Api, list, text};

/// The cluster route table.
pub(crate) struct ClusterRoutes {
    api: Api,
    table: String,
}

impl ClusterRoutes {
    pub(crate) fn new(api: Api, table: String) -> Self {
        Self { api, table }
    }

    fn action(&self, name: &'static str) -> Action {
        Action::new(TKE, name).set("RouteTableName", &self.table)
    }

    /// Creates the route table, if the configuration has its range and the table does not exist.
    pub(crate) async fn ensure_table(&self) -> Result<()> {
        let Some(range) = self.api.config.route_table_cidr else {
            return Ok(());
        };
        let answer: Value = self
            .api
            .send(Action::new(TKE, "DescribeClusterRouteTables"))
            .await?;
        if list(&answer["RouteTableSet"])
            .any(|route_table_set| text(route_table_set, "RouteTableName") == self.table)
        {
            return Ok(());
        }
        let action = self
            .action("CreateClusterRouteTable")
            .set("RouteTableCidrBlock", range.to_string());
        let action = action
            .set("VpcId", self.api.metadata.vpc().await?)
            .set("IgnoreClusterCidrConflict", 0);
        self.api
            .send::<Value>(action)
            .await
            .map(drop)
            .map_err(|error| {
                error.context(format!(
                    "cannot create cluster route table {:?}; check cluster_route_table_cidr",
                    self.table
                ))
            })
    }

    async fn entries(&self) -> Result<Vec<CloudRoute>> {
        let answer: Result<Value> = self.api.send(self.action("DescribeClusterRoutes")).await;
        let answer = answer.map_err(|error| match error.is_not_found() {
            true => Error::invalid(format!(
                "cluster_route_table: there is no cluster route table {:?} ({error}); create it, or set cluster_route_table_cidr",
                self.table
            )),
            false => error,
        })?;
        let route = |object: &Value| CloudRoute {
            name: text(object, "GatewayIp").to_owned(),
            destination: text(object, "DestinationCidrBlock").to_owned(),
            next_hops: vec![text(object, "GatewayIp").to_owned()],
            ..CloudRoute::default()
        };
        let routes: Vec<_> = list(&answer["RouteSet"]).map(route).collect();
        match answer["TotalCount"].as_u64() {
            Some(total) if usize::try_from(total) != Ok(routes.len()) => {
                Err(Error::other(format!(
                    "the list of cluster routes is partial: {total} were announced and {} listed",
                    routes.len()
                )))
            }
            _ => Ok(routes),
        }
    }

    async fn send(&self, action: &'static str, destination: &str, gateway: &str) -> Result<()> {
        let action = self
            .action(action)
            .set("DestinationCidrBlock", destination)
            .set("GatewayIp", gateway);
        self.api.send::<Value>(action).await.map(drop)
    }
}

#[async_trait]
impl RouteCloud for ClusterRoutes {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        self.entries().await
    }

    /// Adds or removes a route. A range leads to one gateway: a route of the range to another one is removed first.
    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let gateway = route.next_hop()?;
        if route.destination.contains(':') {
            return Err(Error::invalid(format!(
                "cluster route tables have no IPv6 routes such as {}",
                route.destination
            )));
        }
        if change == Change::Remove {
            return match self
                .send("DeleteClusterRoute", &route.destination, gateway)
                .await
            {
                Err(error) if error.is_not_found() => Ok(()),
                outcome => outcome,
            };
        }
        match self
            .send("CreateClusterRoute", &route.destination, gateway)
            .await
        {
            Err(error)
                if error.is_conflict() || error.code().contains("CidrConflictWithOtherRoute") =>
            {
                let existing_routes = self.entries().await?;
                let other = existing_routes.iter().find(|other_route| {
                    other_route.has_destination_of(route) && !other_route.is_same(route)
                });
                let Some(other) = other else {
                    return Err(error);
                };
                self.send("DeleteClusterRoute", &other.destination, other.next_hop()?)
                    .await?;
                self.send("CreateClusterRoute", &route.destination, gateway)
                    .await
            }
            outcome => outcome,
        }
    }
}
