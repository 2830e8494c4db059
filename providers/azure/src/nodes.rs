//! Nodes: the machines behind them, in the form of [`Instances`].

use std::sync::Arc;

use cloud_provider::{
    InstanceState, Instances, LookupRequest, MetadataLevel, Node, Result, async_trait,
};
use futures::future::join_all;
use jiff::Timestamp;
use provider_kit::inventory::{Found, Inventory, Machine, MachineSource, priority};

use crate::machines::{Machines, VirtualMachine, place};

/// The label of a Node that is no machine of the cloud.
const MANAGED: &str = "kubernetes.azure.com/managed";
/// The label of a Node whose machine is in another resource group.
const GROUP: &str = "kubernetes.azure.com/resource-group";

/// The machines of Nodes.
pub(crate) struct Nodes(pub(crate) Inventory<Machines>);

/// Returns `true` if a label says that the Node is no machine of the cloud.
pub(crate) fn is_unmanaged(node: &Node) -> bool {
    node.labels
        .get(MANAGED)
        .is_some_and(|text| text.eq_ignore_ascii_case("false"))
}

/// Returns `true` unless a label says that the machine of the Node is in another resource group.
pub(crate) fn is_of_group(node: &Node, group: &str) -> bool {
    node.labels
        .get(GROUP)
        .is_none_or(|other_group| other_group.is_empty() || other_group.eq_ignore_ascii_case(group))
}

/// Returns the Node with its provider ID in lower case, by which machines are compared.
pub(crate) fn compared(node: &Arc<Node>) -> Arc<Node> {
    match node
        .provider_id()
        .and_then(place)
        .filter(|_| node.provider_id_scheme() == Some(crate::NAME))
    {
        Some(place) => {
            let provider_id = format!("{}://{}", crate::NAME, place.id()).into();
            Arc::new(Node {
                provider_id,
                ..(**node).clone()
            })
        }
        None => Arc::clone(node),
    }
}

impl Nodes {
    async fn state(
        &self,
        found: Result<Found<VirtualMachine>>,
        node: &Node,
        request: LookupRequest,
    ) -> Result<InstanceState> {
        let source = self.0.source();
        let found = match found? {
            // A Node may be younger than what Azure shows.
            Found::Gone(_) if is_young(node, source.config.grace_period) => {
                return Ok(InstanceState::Present {
                    shutdown: request.shutdown.then_some(false),
                    metadata: None,
                });
            }
            found => found,
        };
        if let Found::Present(machine) = &found
            && request.shutdown
            && !machine.has_state()
        {
            let state = source.state_by_id(machine.id(), priority(request)).await?;
            let is_off = state.is_some_and(|machine| machine.is_shut_down());
            let known = self.0.state_of(
                found,
                node,
                LookupRequest {
                    shutdown: false,
                    ..request
                },
            );
            return Ok(match known {
                InstanceState::Present { metadata, .. } => InstanceState::Present {
                    shutdown: Some(is_off),
                    metadata,
                },
                gone @ InstanceState::Gone(_) => gone,
            });
        }
        Ok(self.0.state_of(found, node, request))
    }
}

fn is_young(node: &Node, grace: std::time::Duration) -> bool {
    let age = |created: Timestamp| Timestamp::now().duration_since(created);
    !grace.is_zero()
        && node
            .created
            .is_some_and(|created| age(created).unsigned_abs() < grace)
}

#[async_trait]
impl Instances for Nodes {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let groups = nodes
            .iter()
            .filter_map(|node| node.labels.get(GROUP))
            .map(str::to_ascii_lowercase);
        self.0.source().groups.lock().extend(groups);
        let managed: Vec<_> = nodes
            .iter()
            .filter(|node| !is_unmanaged(node))
            .map(compared)
            .collect();
        let mut found = self
            .0
            .find_all(&managed, request.fresh, priority(request))
            .await
            .into_iter();
        let states = nodes.iter().map(|node| {
            let found = if is_unmanaged(node) {
                None
            } else {
                found.next()
            };
            async move {
                match found {
                    Some(found) => self.state(found, node, request).await,
                    None => {
                        let metadata = (request.metadata != MetadataLevel::No).then(Box::default);
                        Ok(InstanceState::Present {
                            shutdown: request.shutdown.then_some(false),
                            metadata,
                        })
                    }
                }
            }
        });
        join_all(states).await
    }
}
