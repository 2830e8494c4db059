//! Nodes by the instances of the inventory.

use std::sync::Arc;

use cloud_provider::{Error, InstanceState, Instances, LookupRequest, Node, Result, async_trait};
use futures::future::join_all;
use provider_kit::inventory::{Inventory, Machine, priority};

use crate::annotations::NODE_COMPARTMENT;
use crate::instance::{IDS, Instance};
use crate::instances::Source;

/// Machine source for Nodes, by instances.
pub(crate) struct Nodes(pub(crate) Inventory<Source>);

impl Nodes {
    /// Looks up a Node by an address or a host name label if its name is not an instance's display name. Only a complete
    /// list proves that no instance has them.
    async fn known(&self, node: &Arc<Node>, request: LookupRequest) -> Result<Arc<Node>> {
        if node.provider_id().is_some() {
            return Ok(Arc::clone(node));
        }
        let list = self.0.snapshot(priority(request)).await?;
        if list.by_name(&node.name).len() > 0 {
            return Ok(Arc::clone(node));
        }
        if let Some(reason) = list.partial_reason() {
            return Err(reason.clone());
        }
        let mut found = Vec::new();
        for instance in list
            .machines()
            .iter()
            .filter(|instance| instance.is_at(&node.name))
        {
            if self.0.source().is_in_network(instance).await? {
                found.push(instance);
            }
        }
        Ok(match found[..] {
            [instance] => Arc::new(Node {
                provider_id: IDS.write(instance.id()).into(),
                ..(**node).clone()
            }),
            _ => Arc::clone(node),
        })
    }
}

#[async_trait]
impl Instances for Nodes {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let known = join_all(nodes.iter().map(|node| self.known(node, request))).await;
        let sought: Vec<_> = known.iter().flatten().cloned().collect();
        let mut found = self
            .0
            .find_all(&sought, request.fresh, priority(request))
            .await
            .into_iter();
        let states = nodes.iter().zip(known).map(|(node, known)| {
            known?;
            let found = found
                .next()
                .ok_or_else(|| Error::other(format!("Node {} was not looked up", node.name)))?;
            Ok(self.0.state_of(found?, node, request))
        });
        states.collect()
    }
}

/// Returns the patch that gives a Node the labels and the annotation of its instance; `None` if it has them.
pub(crate) fn node_patch(
    node: &Node,
    instance: &Instance,
    is_ipv6: bool,
) -> Option<serde_json::Value> {
    let labels = instance
        .labels(is_ipv6)
        .into_iter()
        .filter(|(key, _)| !node.labels.contains_key(key));
    let labels: serde_json::Map<_, _> = labels
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let mut annotations = serde_json::Map::new();
    if !node.annotations.contains_key(NODE_COMPARTMENT) {
        annotations.insert(NODE_COMPARTMENT.to_owned(), instance.compartment().into());
    }
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    Some(serde_json::json!({"metadata": {"labels": labels, "annotations": annotations}}))
}
