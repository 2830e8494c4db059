//! Routes of the network to Pod ranges.

use cloud_provider::{Error, Node, Result, Route, async_trait};
use provider_kit::inventory::{
    Found, Inventory, Key, Machine as _, MachineSource as _, SharedPriority,
};
use provider_kit::routes::{Change, CloudRoute, IpNet, RouteCloud, Target};
use provider_kit::transport::{Call, Method, Priority};
use serde_json::json;

use crate::api::{Api, Place, ROUTE, instance_of, name, short, wire};
use crate::instances::{Source, Warning};

/// The description of routes to Nodes, as the Go program writes it.
const DESCRIPTION: &str = "k8s-node-route";
/// Longest beginning of a route's name that is the cluster's.
const CLUSTER_NAME: usize = 26;

/// The routes of one cluster.
pub(crate) struct NodeRoutes {
    pub(crate) instances: Inventory<Source>,
    pub(crate) cluster_name: std::sync::Arc<std::sync::OnceLock<String>>,
}

wire! {
    struct RouteAnswer {
        name: String, dest_range: String, next_hop_instance: Option<String>, network: String, description: String,
        warnings: Vec<Warning>,
    }
}

impl NodeRoutes {
    fn api(&self) -> &Api {
        &self.instances.source().api
    }

    /// Returns the beginning of the names of the cluster's routes.
    fn prefix(&self) -> String {
        let cluster = self.cluster_name.get().map_or("kubernetes", String::as_str);
        cluster.chars().take(CLUSTER_NAME).collect::<String>() + "-"
    }

    /// Returns the ID of the instance that a route leads to, as provider IDs have it.
    fn machine_of(&self, url: &str) -> String {
        let [project, zone, name] = instance_of(url);
        let id = format!("{zone}/{name}");
        if self.api().config.is_multi_project {
            format!("{project}/{id}")
        } else {
            id
        }
    }

    fn route(&self, answer: RouteAnswer) -> Option<CloudRoute> {
        let url = answer.next_hop_instance?;
        let is_gone = answer
            .warnings
            .iter()
            .any(|warning| warning.code == "NEXT_HOP_INSTANCE_NOT_FOUND");
        let id = self.machine_of(&url);
        let target = if is_gone {
            Target::Gone(id)
        } else {
            Target::Machine {
                id,
                name: name(&url).to_owned(),
            }
        };
        Some(CloudRoute {
            name: answer.name,
            destination: answer.dest_range,
            target,
            ..CloudRoute::default()
        })
    }
}

#[async_trait]
impl RouteCloud for NodeRoutes {
    /// The prefix alone decides in a filter: other conditions are compared here, where a change of their form shows.
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let place = self.api().place().await?;
        let call = place
            .all(Method::GET, ROUTE, "")
            .query("filter", format!("name eq {}.*", self.prefix()));
        let read = self
            .api()
            .list(call, &SharedPriority::default(), |route: &RouteAnswer| {
                route.name.clone()
            })
            .await?;
        let is_ours = |route: &RouteAnswer| {
            route.description == DESCRIPTION && short(&route.network) == short(&place.network)
        };
        Ok(read
            .into_iter()
            .filter(is_ours)
            .filter_map(|route| self.route(route))
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        self.instances.source().machine_id(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        _: &Route,
        _: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let key = node
            .provider_id()
            .map(|id| self.instances.source().machine_id(id))
            .transpose()?
            .map_or(Key::Name(&node.name), Key::Id);
        match self.instances.find(key, false, Priority::Ordinary).await? {
            Found::Present(machine_ref) => Ok((
                Vec::new(),
                Target::Machine {
                    id: machine_ref.id().to_owned(),
                    name: machine_ref.name().to_owned(),
                },
            )),
            Found::Gone(_) => Err(Error::other(format!(
                "the instance of Node {:?} does not exist",
                node.name
            ))),
        }
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let api = self.api();
        let place = self.api().place().await?;
        if change == Change::Remove {
            return api
                .remove(place.one(Method::DELETE, ROUTE, &route.name))
                .await;
        }
        let Target::Machine { id, .. } = &route.target else {
            return Err(Error::invalid(format!(
                "the route to {} leads to no instance",
                route.destination
            )));
        };
        let [project, zone, instance] = api.parts(&place, id);
        let url = Place {
            project: project.to_owned(),
            ..(*place).clone()
        }
        .instance(zone, instance);
        // The name follows from the range: a route that was created and not reported is not created again.
        let range = route
            .destination
            .replace(['.', '/', ':'], "-")
            .trim_matches('-')
            .to_owned();
        let body = json!({
            "name": self.prefix() + &range, "description": DESCRIPTION, "destRange": route.destination,
            "nextHopInstance": url, "network": place.network, "priority": 1000,
        });
        match api
            .change(place.all(Method::POST, ROUTE, "").json(&body))
            .await
        {
            Err(error)
                if error.is_conflict()
                    && self
                        .list()
                        .await?
                        .iter()
                        .any(|other_route| other_route.is_same(route)) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }
}

impl Api {
    /// Reads a list that must be complete. One without items has no field for them.
    pub(crate) async fn list<T: serde::de::DeserializeOwned, K: std::hash::Hash>(
        &self,
        call: Call,
        shared_priority: &SharedPriority,
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        let read = self
            .http
            .list(call, "items", shared_priority, |entry: T| entry, key)
            .await?;
        Ok(read.complete()?.into_items())
    }
}
