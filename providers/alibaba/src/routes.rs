//! Routes for Pod ranges: entries of VPC route tables that lead to instances.
//!
//! A route is whole if all tables have it, and if it is published to the CEN of the configuration.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cloud_provider::{Error, Node, Result, Route, async_trait};
use futures::future::try_join_all;
use futures::try_join;
use provider_kit::cluster::ClusterView;
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::{Found, Inventory, Key, SharedPriority};
use provider_kit::routes::{Change, CloudRoute, IpNet, RouteCloud, Target};
use provider_kit::transport::Priority;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::api::{Api, Query, VPC, wire};
use crate::cen;
use crate::instances::{AT_ONCE, Source, disable_checks, machine_id};

/// Entries of one request.
const ENTRIES: usize = 50;
/// Codes of entries that need no change: the route is there, or is gone.
const DONE: [&str; 3] = [
    "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE",
    "VPC_ROUTE_ENTRY_STATUS_ERROR",
    "VPC_ROUTER_ENTRY_NOT_EXIST",
];

wire! {
    Entry { destination_cidr_block: String, next_hops: NextHops, route_entry_id: String, r#type: String }
    NextHops { next_hop: Vec<NextHop> }
    NextHop { next_hop_id: String, next_hop_type: String }
    Table { route_table_id: String }
}

/// The route tables of the cluster.
pub(crate) struct VpcRoutes {
    api: Api,
    cluster: ClusterView,
    inventory: Inventory<Source>,
    tables: OnceCell<Vec<String>>,
    /// Changes of one table go one after the other, 50 in a request.
    changes: Coalescer<(String, Change), Value, ()>,
    /// Interfaces whose check is switched off.
    checks: Coalescer<(), String, ()>,
}

impl VpcRoutes {
    pub(crate) fn new(api: Api, cluster: ClusterView, inventory: Inventory<Source>) -> Self {
        let of_changes = api.clone();
        let of_checks = api.clone();
        let locks: Arc<provider_kit::keyed_lock::KeyedLock<String>> = Arc::default();
        let changes = Coalescer::answering_each(move |(table, change), entries: Vec<Value>| {
            let api = of_changes.clone();
            let locks = Arc::clone(&locks);
            async move {
                let _lock = locks.lock(table).await;
                let mut outcomes = Vec::with_capacity(entries.len());
                for entries in entries.chunks(ENTRIES) {
                    outcomes.extend(carry_out(&api, change, entries).await);
                }
                outcomes
            }
        });
        let checks = Coalescer::new(move |(), interfaces: Vec<String>| {
            let api = of_checks.clone();
            async move {
                for interfaces in interfaces.chunks(AT_ONCE) {
                    disable_checks(&api, interfaces).await?;
                }
                Ok(())
            }
        });
        Self {
            api,
            cluster,
            inventory,
            tables: OnceCell::new(),
            changes,
            checks,
        }
    }

    /// Lists the routes of a table, each with `true` if it is published as the configuration asks.
    async fn list_table(&self, table: &str) -> Result<Vec<(CloudRoute, bool)>> {
        let query = Query::new(VPC, "DescribeRouteEntryList").set("RouteTableId", table);
        let query = query
            .set("RouteEntryType", "Custom")
            .set("NextHopType", "Instance");
        let size = ("MaxResult", 100);
        let shared = SharedPriority::default();
        let id = |entry: &Entry| entry.route_entry_id.clone();
        let found = self
            .api
            .tokens(query, size, "/RouteEntrys/RouteEntry", &shared, id);
        let (found, published) = try_join!(found, cen::published(&self.api, table))?;
        let route = |Entry {
                         destination_cidr_block: destination,
                         next_hops,
                         ..
                     }| match &next_hops.next_hop[..] {
            [hop] if destination != "0.0.0.0/0" => {
                let is_published = published
                    .as_ref()
                    .is_none_or(|all| all.contains(&destination));
                let target = Target::Machine {
                    id: hop.next_hop_id.clone(),
                    name: String::new(),
                };
                let name = format!("{table}/{}", hop.next_hop_id);
                Some((
                    CloudRoute {
                        name,
                        destination,
                        target,
                        ..CloudRoute::default()
                    },
                    is_published,
                ))
            }
            _ => None,
        };
        Ok(found
            .complete()?
            .into_items()
            .into_iter()
            .filter_map(route)
            .collect())
    }

    /// Returns the tables of the configuration, or else the only one of the VPC.
    async fn tables(&self) -> Result<&Vec<String>> {
        let find = || async {
            if !self.api.config.route_tables.is_empty() {
                return Ok(self.api.config.route_tables.clone());
            }
            let vpc = self.api.metadata.vpc().await?;
            let query = Query::new(VPC, "DescribeRouteTableList").set("VpcId", &vpc);
            let id = |entry: &Table| entry.route_table_id.clone();
            let found = self
                .api
                .pages(query, 50, "/RouterTableList/RouterTableListType", id)
                .await?;
            let found: Vec<_> = found.complete()?.into_items().iter().map(id).collect();
            match found.len() {
                1 => Ok(found),
                count => Err(Error::invalid(format!(
                    "VPC {vpc} has {count} route tables ({}); set Global.routeTableIDs to those of the cluster",
                    found.join(", ")
                ))),
            }
        };
        self.tables.get_or_try_init(find).await
    }
}

/// Returns the destination of a route and the instance that it leads to.
fn key(route: &CloudRoute) -> (String, String) {
    let id = match &route.target {
        Target::Machine { id, .. } => id.clone(),
        _ => String::new(),
    };
    (route.destination.clone(), id)
}

/// Returns the keys of the routes that a Node should have.
fn keys_of(node: &Node) -> impl Iterator<Item = (String, String)> {
    let id = node
        .provider_id()
        .and_then(|id| machine_id(id).ok())
        .unwrap_or_default();
    node.pod_cidrs
        .iter()
        .map(|range| (range.to_string(), id.to_owned()))
}

/// Sends entries with one request, and returns the outcome of each.
async fn carry_out(api: &Api, change: Change, entries: &[Value]) -> Vec<Result<()>> {
    let query = match change {
        Change::Add => Query::new(VPC, "CreateRouteEntries"),
        Change::Remove => Query::new(VPC, "DeleteRouteEntries"),
    };
    let answer = api.change(query.set("RouteEntries", entries)).await;
    let outcome = |entry: &Value| {
        let answer = answer.as_ref().map_err(Clone::clone)?;
        let failed = answer["FailedRouteEntries"]
            .as_array()
            .into_iter()
            .flatten();
        let mut failed = failed.filter(|object| object["DstCidrBlock"] == entry["DstCidrBlock"]);
        let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
        match failed.find(|object| !DONE.contains(&&*text(object, "FailedCode"))) {
            Some(current) => Err(Error::other(format!(
                "{}: {}",
                text(current, "FailedCode"),
                text(current, "FailedMessage")
            ))),
            None => Ok(()),
        }
    };
    entries.iter().map(outcome).collect()
}

#[async_trait]
impl RouteCloud for VpcRoutes {
    /// Lists the routes of all tables. A route of a Node that is not whole is left out, so that its creation adds what is
    /// missing; one without a Node is deleted.
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let tables = self.tables().await?;
        let found = try_join_all(tables.iter().map(|table| self.list_table(table)))
            .await?
            .concat();
        let mut counts: HashMap<(String, String), usize> = HashMap::new();
        for (route, _) in found.iter().filter(|(_, is_published)| *is_published) {
            *counts.entry(key(route)).or_default() += 1;
        }
        let nodes = self.cluster.nodes().unwrap_or_default();
        let of_nodes: HashSet<_> = nodes.iter().flat_map(|node| keys_of(node)).collect();
        let counts = |route: &CloudRoute| {
            let key = key(route);
            counts.get(&key) == Some(&tables.len()) || !of_nodes.contains(&key)
        };
        Ok(found
            .into_iter()
            .map(|(route, _)| route)
            .filter(counts)
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        machine_id(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        _route: &Route,
        _destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let id = match node.provider_id() {
            Some(id) => machine_id(id)?.to_owned(),
            None => match self
                .inventory
                .find(Key::Name(&node.name), false, Priority::Ordinary)
                .await?
            {
                Found::Present(machine_ref) => machine_ref.instance_id().to_owned(),
                Found::Gone(gone) => {
                    return Err(Error::other(format!(
                        "no route to Node {}: {}",
                        node.name,
                        gone.reason()
                    )));
                }
            },
        };
        Ok((
            Vec::new(),
            Target::Machine {
                id,
                name: String::new(),
            },
        ))
    }

    /// Lets the instance take packets for other addresses than its own. The setting stays when the route is deleted.
    async fn change_auxiliaries(&self, change: Change, route: &CloudRoute) -> Result<bool> {
        let Target::Machine { id, .. } = &route.target else {
            return Ok(false);
        };
        if change == Change::Add
            && !self.api.config.skips_check
            && let id = format!("{}.{id}", self.api.metadata.region().await?)
            && let Found::Present(machine_ref) = self
                .inventory
                .find(Key::Id(&id), false, Priority::Ordinary)
                .await?
            && !machine_ref.interface.is_empty()
        {
            self.checks
                .join((), machine_ref.interface.to_string())
                .await?;
        }
        Ok(false)
    }

    /// Adds a route to all tables and publishes it, or removes one from its table. A listed route is called
    /// `<table>/<instance>`.
    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let entries: Vec<(String, String)> =
            match (change, &route.target, route.name.split_once('/')) {
                (Change::Add, Target::Machine { id, .. }, _) => self
                    .tables()
                    .await?
                    .iter()
                    .map(|table| (table.clone(), id.clone()))
                    .collect(),
                (Change::Remove, _, Some((table, id))) => vec![(table.to_owned(), id.to_owned())],
                _ => return Err(Error::invalid("a route needs an instance")),
            };
        for (table, id) in entries {
            if change == Change::Remove {
                cen::set_published(&self.api, &table, &route.destination, false).await?;
            }
            let mut entry =
                json!({"RouteTableId": table, "DstCidrBlock": route.destination, "NextHop": id});
            if change == Change::Add {
                entry["NextHopType"] = "Instance".into();
                entry["IpVersion"] = if route.destination.contains(':') {
                    6.into()
                } else {
                    4.into()
                };
            }
            self.changes.join((table.clone(), change), entry).await?;
            if change == Change::Add {
                cen::set_published(&self.api, &table, &route.destination, true).await?;
            }
        }
        Ok(())
    }
}
