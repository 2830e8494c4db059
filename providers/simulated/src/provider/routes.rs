//! Routes of the cloud's network, which lead to machines; [`provider_kit::routes`] converts them to routes to Nodes.

use cloud_provider::{AddressType, Error, Node, Result, Route, async_trait};
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::OwnerTags;
use provider_kit::routes::{Change, CloudRoute, IpNet, RouteCloud, Target};
use provider_kit::transport::Call;

use super::{Api, IDS};
use crate::cloud::{self, NewRoute};

const ALL: &str = "/v1/routes";

#[async_trait]
impl RouteCloud for Api {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let keep = |cloud::CloudRoute {
                        id,
                        blackhole,
                        route,
                        ..
                    }| CloudRoute {
            name: id,
            destination: route.destination,
            next_hops: route.next_hop,
            target: match blackhole {
                true => Target::Gone(route.machine),
                false => Target::Machine {
                    id: route.machine,
                    name: String::new(),
                },
            },
            owner: Some(
                route
                    .labels
                    .get(OwnerTags::CLUSTER)
                    .cloned()
                    .unwrap_or_default(),
            ),
        };
        let name = |route: &CloudRoute| route.name.clone();
        let shared_priority = SharedPriority::default();
        Ok(self
            .http
            .list(Call::get(ALL, &[]), "routes", &shared_priority, keep, name)
            .await?
            .complete()?
            .into_items())
    }

    fn has_owner_tags(&self) -> bool {
        true
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        IDS.read(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        route: &Route,
        _destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let missing = || {
            Error::other(format!(
                "node {:?} has no provider id to route to",
                node.name
            ))
        };
        let id = IDS
            .read(node.provider_id().ok_or_else(missing)?)?
            .to_owned();
        let internal = route
            .target_node_addresses
            .iter()
            .filter(|address| address.kind == AddressType::InternalIP);
        let next_hops = internal
            .map(|address| address.address.to_string())
            .collect();
        Ok((
            next_hops,
            Target::Machine {
                id,
                name: String::new(),
            },
        ))
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let CloudRoute {
            name,
            destination,
            next_hops,
            target,
            owner,
        } = route;
        let (Change::Add, Target::Machine { id, .. }) = (change, target) else {
            return self
                .http
                .remove(Call::delete("/v1/routes/{id}", &[name]))
                .await;
        };
        let new = NewRoute {
            destination: destination.clone(),
            machine: id.clone(),
            next_hop: next_hops.clone(),
            labels: owner
                .iter()
                .map(|cluster| (OwnerTags::CLUSTER.to_owned(), cluster.clone()))
                .collect(),
        };
        self.http
            .send(Call::post(ALL, &[]).json(&new))
            .await
            .map(drop)
    }
}
