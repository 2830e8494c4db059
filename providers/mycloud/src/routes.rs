//! Routes: entries of one route table, which lead to instances.

use std::collections::HashSet;

use cloud_provider::{Error, Node, Result, Route, async_trait};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::{Inventory, Machine, MachineSource, SharedPriority};
use provider_kit::routes::{Change, CloudRoute, IpNet, RouteCloud, RouteTable, Target};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use crate::api::Api;

const ALL: &str = "/v1/route-tables/{id}/routes";
const ONE: &str = "/v1/route-tables/{id}/routes/{route}";

/// The routes of a table.
pub(crate) struct MycloudRoutes {
    api: Api,
    table: String,
    instances: Inventory<Api>,
    /// Serializes changes: the cloud refuses two changes of one table at once.
    lock: Mutex<()>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    destination: String,
    next_hop_id: String,
    status: String,
    #[serde(default)]
    owner: String,
    /// The ID of the Kubernetes cluster.
    #[serde(default)]
    description: String,
}

pub(crate) fn routes(
    api: &Api,
    table: String,
    instances: &Inventory<Api>,
    cluster: &ClusterView,
) -> RouteTable<MycloudRoutes> {
    let api = api.clone();
    let instances = instances.clone();
    RouteTable::new(
        MycloudRoutes {
            api,
            table,
            instances,
            lock: Mutex::default(),
        },
        cluster.clone(),
    )
}

#[async_trait]
impl RouteCloud for MycloudRoutes {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let owner = self.api.config.owner();
        let keep = |entry: Entry| CloudRoute {
            name: entry.id,
            destination: entry.destination,
            next_hops: Vec::new(),
            target: match &*entry.status {
                "BLACKHOLE" => Target::Gone(entry.next_hop_id),
                _ => Target::Machine {
                    id: entry.next_hop_id,
                    name: String::new(),
                },
            },
            owner: Some(if entry.owner == owner {
                entry.description
            } else {
                String::new()
            }),
        };
        let call = self.api.call(Call::get(ALL, &[&self.table]));
        let name = |route: &CloudRoute| route.name.clone();
        Ok(self
            .api
            .http
            .list(call, "items", &SharedPriority::default(), keep, name)
            .await?
            .complete()?
            .into_items())
    }

    fn has_owner_tags(&self) -> bool {
        true
    }

    /// Marks routes to instances that no longer exist. Each instance is looked up by its ID.
    async fn find_targets(&self, routes: &mut [CloudRoute]) -> Result<()> {
        let listed = self.instances.snapshot(Priority::Refresh).await?;
        let known: HashSet<&str> = listed.machines().iter().map(Machine::id).collect();
        for route in routes
            .iter_mut()
            .filter(|route| route.owner.as_deref() != Some(""))
        {
            if let Target::Machine { id, .. } = &route.target
                && !known.contains(&**id)
                && self.api.by_id(id, Priority::Refresh).await?.is_none()
            {
                route.target = Target::Gone(id.clone());
            }
        }
        Ok(())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        self.api.machine_id(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        _route: &Route,
        _destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let missing = || {
            Error::other(format!(
                "node {:?} has no provider ID to route to",
                node.name
            ))
        };
        let id = self
            .api
            .machine_id(node.provider_id().ok_or_else(missing)?)?
            .to_owned();
        Ok((
            Vec::new(),
            Target::Machine {
                id,
                name: String::new(),
            },
        ))
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let _turn = self.lock.lock().await;
        let (Change::Add, Target::Machine { id, .. }) = (change, &route.target) else {
            let outcome = self
                .api
                .submit_and_wait(Call::delete(ONE, &[&self.table, &route.name]), &())
                .await;
            return if outcome.as_ref().is_err_and(Error::is_not_found) {
                Ok(())
            } else {
                outcome
            };
        };
        let body = json!({"destination": route.destination, "next_hop_type": "instance", "next_hop_id": id,
            "owner": self.api.config.owner(), "description": route.owner});
        self.api
            .submit_and_wait(Call::post(ALL, &[&self.table]).json(&body), &())
            .await
    }
}
