//! The machines of a cloud, as far as load balancers need them.

use cloud_provider::{Error, Node, Result, async_trait};

use super::Targets;
use crate::inventory::{Machine, MachineSource, SharedPriority};
use crate::transport::Priority;

/// Machines that load balancers send traffic to, read with the credential with which load balancers are read.
#[async_trait]
pub trait Machines: Send + Sync + 'static {
    /// Returns `true` if the cloud shows the Node's machine. Used when a load balancer that a Service had is not found:
    /// if none of the cluster's machines is found either, the credential is another project's.
    ///
    /// # Errors
    /// *Invalid* for a Node that is no machine of this cloud, which is left out of the proof; otherwise the cloud's answer,
    /// with another kind, so that a request that the cloud refuses does not leave out all Nodes.
    async fn has(&self, node: &Node) -> Result<bool>;

    /// Returns the IDs of all machines. Used when the cloud refuses a change because a target no longer exists.
    ///
    /// # Errors
    /// The cloud's answer, also for a partial list.
    async fn ids(&self) -> Result<Targets>;
}

#[async_trait]
impl<S: MachineSource> Machines for S {
    async fn has(&self, node: &Node) -> Result<bool> {
        let id = self.machine_id(&node.provider_id)?;
        // Only the provider ID tells that the Node is no machine of this cloud. An *invalid* answer, such as a 400 or a
        // credential that cannot be read, would otherwise stand for a cluster without machines.
        let read = |error: Error| if error.is_invalid() { error.context(format!("machine {id}")) } else { error };
        Ok(self.state_by_id(id, Priority::Urgent).await.map_err(read)?.is_some())
    }

    async fn ids(&self) -> Result<Targets> {
        let machines = self.list(&SharedPriority::of(Priority::Ordinary)).await?.complete()?;
        Ok(machines.items().iter().map(Machine::id).collect())
    }
}
