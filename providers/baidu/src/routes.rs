//! Routes to Pod CIDRs: rules of the VPC's route table.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{Error, EventSubject, Node, Result, Route, async_trait};
use ipnet::IpNet;
use provider_kit::cluster::ClusterView;
use provider_kit::declared::forms::truth;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::{Found, Inventory, Key, Machine};
use provider_kit::routes::{Change, CloudRoute, RouteCloud, Target};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::annotations::ADVERTISE_ROUTE;
use crate::instances::{IDS, Source};
use crate::load_balancers::Place;

const ANNOTATIONS: &str = "node.alpha.kubernetes.io/";

/// The rules of the VPC's route table.
pub(crate) struct RouteRules {
    instances: Inventory<Source>,
    place: Arc<Place>,
    cluster: ClusterView,
    deduplicator: EventDeduplicator,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RouteTable {
    route_table_id: String,
    #[serde(default)]
    route_rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    route_rule_id: String,
    source_address: String,
    destination_address: String,
    nexthop_id: Option<String>,
    nexthop_type: Option<String>,
    description: Option<String>,
}

/// Returns `false` if the Node's annotation keeps its routes out of the table.
fn is_advertised(node: &Node) -> Result<bool> {
    let Some(text) = node.annotations.get(ADVERTISE_ROUTE) else {
        return Ok(true);
    };
    let wrong = || {
        Error::invalid(format!(
            "annotation {ADVERTISE_ROUTE} of Node {}: {text:?} is not true or false",
            node.name
        ))
    };
    truth(text).ok_or_else(wrong)
}

impl RouteRules {
    pub(crate) fn new(
        instances: Inventory<Source>,
        place: Arc<Place>,
        cluster: ClusterView,
    ) -> Self {
        let deduplicator = EventDeduplicator::new(cluster.events().clone());
        Self {
            instances,
            place,
            cluster,
            deduplicator,
        }
    }

    async fn table(&self) -> Result<RouteTable> {
        let call = Call::get("/v1/route", &[])
            .query("vpcId", self.place.vpc().await?)
            .list();
        self.instances.source().0.bcc.read(call).await
    }

    /// Returns the Nodes by the IDs of their instances.
    fn nodes(&self) -> BTreeMap<String, Arc<Node>> {
        let nodes = self.cluster.nodes().unwrap_or_default().into_iter();
        nodes
            .filter_map(|node| Some((IDS.read(node.provider_id()?).ok()?.to_owned(), node)))
            .collect()
    }

    /// Reports rules of others that overlap the route to a Node.
    fn report_conflicts(&self, rules: &[Rule], nodes: &BTreeMap<String, Arc<Node>>) {
        let description = self.instances.source().0.config.description();
        let range = |rule: &Rule| rule.destination_address.parse::<IpNet>().ok();
        let (ours, others): (Vec<_>, Vec<_>) =
            rules.iter().partition(|rule| rule.is_of(&description));
        let others = others
            .into_iter()
            .filter(|rule| range(rule).is_some_and(|range| range.prefix_len() > 0));
        for other in others {
            let overlaps = |rule: &&&Rule| match (range(rule), range(other)) {
                (Some(one), Some(other)) => one.contains(&other) || other.contains(&one),
                _ => false,
            };
            for rule in ours.iter().filter(overlaps) {
                let Some(node) = rule.nexthop_id.as_ref().and_then(|id| nodes.get(id)) else {
                    continue;
                };
                let one = &rule.destination_address;
                let id = &other.route_rule_id;
                let another = &other.destination_address;
                let text = format!(
                    "the route to {one} overlaps route rule {id} to {another}, which is not this cluster's"
                );
                self.deduplicator.warn(
                    true,
                    EventSubject::Node(node),
                    "RouteTableConflictDetection",
                    &text,
                );
            }
        }
    }
}

impl Rule {
    fn is_of(&self, description: &str) -> bool {
        self.description.as_deref() == Some(description)
    }

    /// Returns `true` for a rule that leads all traffic of a range to an instance.
    fn is_to_instance(&self) -> bool {
        self.nexthop_type.as_deref() == Some("custom")
            && ["0.0.0.0/0", "::/0"].contains(&&*self.source_address)
    }
}

#[async_trait]
impl RouteCloud for RouteRules {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let rules = self.table().await?.route_rules;
        let nodes = self.nodes();
        self.report_conflicts(&rules, &nodes);
        let description = self.instances.source().0.config.description();
        let mut routes = Vec::new();
        for rule in rules.into_iter().filter(Rule::is_to_instance) {
            // Rules of this cluster are its own if they are for Pods; rules with another description never are.
            let owner = (!rule.is_of(&description)).then(String::new);
            let id = rule.nexthop_id.unwrap_or_default();
            let node = nodes.get(&id);
            let is_kept = match node {
                Some(node) => is_advertised(node).unwrap_or(true),
                // Only rules of this cluster are looked at again, because only these can be deleted.
                None if owner.is_none() => {
                    let found = self
                        .instances
                        .find(Key::Id(&id), false, Priority::Refresh)
                        .await?;
                    matches!(found, Found::Present(_))
                }
                None => true,
            };
            let name = String::new();
            let target = if is_kept {
                Target::Machine { id, name }
            } else {
                Target::Gone(id)
            };
            let name = rule.route_rule_id;
            let destination = rule.destination_address;
            routes.push(CloudRoute {
                name,
                destination,
                target,
                owner,
                ..CloudRoute::default()
            });
        }
        Ok(routes)
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        IDS.read(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        _route: &Route,
        _destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        is_advertised(node)?;
        let key = node
            .provider_id()
            .map(|id| IDS.read(id))
            .transpose()?
            .map_or(Key::Name(&node.name), Key::Id);
        match self.instances.find(key, false, Priority::Ordinary).await? {
            Found::Present(instance) => Ok((
                Vec::new(),
                Target::Machine {
                    id: instance.id().to_owned(),
                    name: String::new(),
                },
            )),
            Found::Gone(_) => Err(Error::other(format!(
                "the instance of Node {:?} does not exist",
                node.name
            ))),
        }
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let api = &self.instances.source().0;
        if change == Change::Remove {
            return api
                .bcc
                .remove(Call::delete("/v1/route/rule/{routeRuleId}", &[&route.name]))
                .await;
        }
        let Target::Machine { id, .. } = &route.target else {
            return Ok(());
        };
        let node = self.nodes().remove(id);
        if let Some(node) = &node
            && !is_advertised(node)?
        {
            tracing::debug!(
                node = &*node.name,
                "the Node's annotation keeps its route out of the table"
            );
            return Ok(());
        }
        let table = self.table().await?.route_table_id;
        let is_ipv6 = route.destination.contains(':');
        let mut body = json!({
            "routeTableId": table, "nexthopType": "custom", "nexthopId": id,
            "sourceAddress": if is_ipv6 { "::/0" } else { "0.0.0.0/0" },
            "destinationAddress": route.destination, "description": api.config.description(),
        });
        if is_ipv6 {
            body["ipVersion"] = "6".into();
        }
        let made: Value = api
            .bcc
            .read(Call::post("/v1/route/rule", &[]).json(&body))
            .await?;
        if let Some(node) = node {
            let values = [
                ("vpc-id", self.place.vpc().await?.into()),
                ("vpc-route-table-id", table.into()),
                ("vpc-route-rule-id", made["routeRuleId"].clone()),
                ("ccm-version", env!("CARGO_PKG_VERSION").into()),
            ];
            let annotations: serde_json::Map<_, Value> = values
                .into_iter()
                .map(|(key, value)| (format!("{ANNOTATIONS}{key}"), value))
                .collect();
            let patch = json!({"metadata": {"annotations": annotations}});
            if let Err(error) = self.cluster.patch_node(&node.name, &patch).await {
                tracing::warn!(node = &*node.name, %error, "cannot write the annotations of a route");
            }
        }
        Ok(())
    }
}
