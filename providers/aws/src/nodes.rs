//! Answers for Nodes: existence with a grace period, shutdown, and metadata with labels.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    Error, Gone, InstanceState, Instances, LookupRequest, MetadataLevel, Node, Result, async_trait,
};
use jiff::Timestamp;
use provider_kit::inventory::{Found, Inventory, priority};

use crate::instances::{Instance, Source};
use crate::labels::Labels;

/// Look-ups of the instances behind Nodes.
pub(crate) struct Nodes {
    pub(crate) inventory: Inventory<Source>,
    pub(crate) labels: Labels,
    /// EC2 shows new instances late: a Node younger than this keeps its place.
    pub(crate) grace: Duration,
}

impl Nodes {
    fn state(
        &self,
        found: Found<Instance>,
        node: &Node,
        request: LookupRequest,
    ) -> Result<InstanceState> {
        let instance = match found {
            Found::Present(instance) => instance,
            Found::Gone(gone) if is_young(node, self.grace, Timestamp::now()) => {
                let reason = gone.reason();
                let grace = self.grace.as_secs();
                return Err(Error::other(format!(
                    "{reason}; Node {} is younger than {grace} s and stays: EC2 shows new instances late",
                    node.name
                )));
            }
            gone @ Found::Gone(_) => return Ok(self.inventory.state_of(gone, node, request)),
        };
        if !instance.exists() {
            let what = if node.provider_id.is_empty() {
                &node.name
            } else {
                &node.provider_id
            };
            let Instance {
                instance_id: id,
                instance_state,
                ..
            } = &*instance;
            let state = if instance_state.name.is_empty() {
                "without a state"
            } else {
                &*instance_state.name
            };
            return Ok(InstanceState::Gone(
                Gone::no_such_id(what).with_hint(format!("{id} is {state}")),
            ));
        }
        if let Some(odd) = instance
            .odd_address()
            .filter(|_| request.metadata != MetadataLevel::No)
        {
            let id = &instance.instance_id;
            return Err(Error::other(format!(
                "instance {id} has an address that cannot be read: {odd:?}"
            )));
        }
        Ok(self
            .inventory
            .state_of(Found::Present(instance), node, request))
    }
}

/// Returns `true` if the Node was created less than `grace` ago.
pub(crate) fn is_young(node: &Node, grace: Duration, now: Timestamp) -> bool {
    node.created
        .is_some_and(|created| now.duration_since(created).unsigned_abs() < grace && now >= created)
}

#[async_trait]
impl Instances for Nodes {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let found = self
            .inventory
            .find_all(nodes, request.fresh, priority(request))
            .await;
        let states = nodes
            .iter()
            .zip(found)
            .map(|(node, found)| self.state(found?, node, request));
        let mut states: Vec<_> = states.collect();
        if request.metadata == MetadataLevel::Full {
            self.labels.add(nodes, &mut states).await;
        }
        states
    }
}
