//! Routes: one route table, a shared document.

use cloud_provider::{AddressType, Result, async_trait};
use parking_lot::Mutex;
use provider_kit::cluster::ClusterView;
use provider_kit::json_path::{list, place};
use provider_kit::routes::{Change, CloudRoute, RouteCloud};
use serde_json::{Value, json};

use crate::arm::{items, text};
use crate::config::CurrentConfig;
use crate::documents::{DocumentKey, DocumentKind, Shared};
use crate::nodes::is_unmanaged;

/// The number of routes that Azure accepts in a table.
const MOST: usize = 400;

/// The route table of the Nodes.
pub(crate) struct RouteTable {
    pub(crate) documents: Shared,
    pub(crate) config: CurrentConfig,
    pub(crate) cluster: ClusterView,
    /// Routes to Nodes that are no machines of Azure: they are not written.
    pub(crate) unmanaged: Mutex<Vec<CloudRoute>>,
}

impl RouteTable {
    fn key(&self) -> DocumentKey {
        let config = self.config.get();
        let group = config.route_table.clone();
        let name = config.file.route_table_name.clone();
        DocumentKey {
            kind: DocumentKind::RouteTable,
            group,
            name,
        }
    }

    /// Returns the name of the Node that a route leads to, as it is in the name of the route.
    fn node(&self, hop: &str) -> Option<(String, bool)> {
        let has = |node: &cloud_provider::Node| {
            node.addresses
                .iter()
                .any(|address| address.kind == AddressType::InternalIP && &*address.address == hop)
        };
        let node = self.cluster.nodes()?.into_iter().find(|node| has(node))?;
        Some((node.name.to_string(), is_unmanaged(&node)))
    }
}

/// Returns the name of a route: `<node>____<destination without punctuation>`.
fn name_of(node: &str, destination: &str) -> String {
    format!("{node}____{}", destination.replace(['.', ':', '/'], ""))
}

#[async_trait]
impl RouteCloud for RouteTable {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let table = self.documents.store().get(&self.key()).await?;
        let route = |object: &Value| {
            let hop = text(object, "/properties/nextHopIpAddress");
            CloudRoute {
                name: text(object, "/name").to_owned(),
                destination: text(object, "/properties/addressPrefix").to_owned(),
                next_hops: (!hop.is_empty())
                    .then(|| hop.to_owned())
                    .into_iter()
                    .collect(),
                ..CloudRoute::default()
            }
        };
        let unmanaged = self.unmanaged.lock().clone();
        Ok(items(&table, "routes")
            .map(route)
            .chain(unmanaged)
            .collect())
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let config = self.config.get();
        if change == Change::Remove {
            let route = route.clone();
            self.unmanaged
                .lock()
                .retain(|other_route| !other_route.is_same(&route));
            let remove = move |table: &mut Value| {
                let all = table
                    .pointer_mut("/properties/routes")
                    .and_then(Value::as_array_mut);
                let is_this_object = |object: &Value| match route.name.is_empty() {
                    true => text(object, "/properties/addressPrefix") == route.destination,
                    false => text(object, "/name").eq_ignore_ascii_case(&route.name),
                };
                all.into_iter()
                    .for_each(|all| all.retain(|object| !is_this_object(object)));
                Ok(())
            };
            return self.documents.edit(&self.key(), remove).await;
        }
        let hop = route.next_hop()?.to_owned();
        let (node, is_unmanaged) = self
            .node(&hop)
            .unwrap_or_else(|| (hop.replace(['.', ':'], "-"), false));
        if is_unmanaged {
            self.unmanaged.lock().push(route.clone());
            return Ok(());
        }
        let name = name_of(&node, &route.destination);
        let destination = route.destination.clone();
        let add = move |table: &mut Value| {
            if table.is_null() {
                *table = json!({"location": config.file.location, "properties": {}});
            }
            // A table in another group is not the cluster's.
            if config.route_table == config.nodes {
                crate::tags::write(&config, table, &config.tags);
            }
            let all = list(table, &["properties", "routes"]);
            let wanted = json!({"addressPrefix": destination, "nextHopType": "VirtualAppliance", "nextHopIpAddress": hop});
            match all
                .iter_mut()
                .find(|object| text(object, "/name").eq_ignore_ascii_case(&name))
            {
                Some(existing_route) => {
                    crate::arm::overlay(place(existing_route, &["properties"]), &wanted);
                }
                None => all.push(json!({"name": name, "properties": wanted})),
            }
            match all.len() {
                count if count > MOST => Err(cloud_provider::Error::quota(format!(
                    "the route table would have {count} routes, and Azure allows {MOST}"
                ))),
                _ => Ok(()),
            }
        };
        self.documents.edit(&self.key(), add).await
    }
}
