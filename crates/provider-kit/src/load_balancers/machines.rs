//! The machines of a cloud, as load balancers ask for them.

use cloud_provider::{Node, Result, async_trait};

use super::Targets;
use crate::inventory::{Machine, MachineSource, Urgency};
use crate::transport::Priority;

/// Machines that load balancers send traffic to, read with the credential with which load balancers are read.
#[async_trait]
pub trait Machines: Send + Sync + 'static {
    /// Returns `true` if the cloud shows the Node's machine. Asked when a load balancer that a Service had is not found: if none
    /// of the cluster's machines is found either, the credential is another project's.
    ///
    /// # Errors
    /// *Invalid* for a Node that is no machine of this cloud; else what the cloud answered.
    async fn has(&self, node: &Node) -> Result<bool>;

    /// IDs of all machines. Asked when the cloud refuses a change because a target does not exist any more.
    ///
    /// # Errors
    /// What the cloud answered, also if the list is not complete.
    async fn ids(&self) -> Result<Targets>;
}

#[async_trait]
impl<S: MachineSource> Machines for S {
    async fn has(&self, node: &Node) -> Result<bool> {
        let id = self.machine_id(&node.provider_id)?;
        Ok(self.state_by_id(id, Priority::Urgent).await?.is_some())
    }

    async fn ids(&self) -> Result<Targets> {
        let machines = self.list(&Urgency::of(Priority::Ordinary)).await?.complete()?;
        Ok(machines.items().iter().map(Machine::id).collect())
    }
}
