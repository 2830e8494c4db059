//! The machines of a cloud, as far as load balancers need them.

use cloud_provider::{Node, Result, async_trait};

use super::Targets;
use crate::inventory::{Machine, MachineSource, SharedPriority};
use crate::transport::Priority;

/// Machines that load balancers send traffic to, read with the credential with which load balancers are read.
#[async_trait]
pub trait Machines: Send + Sync + 'static {
    /// Returns `true` if the cloud shows the Node's machine, and `None` for a Node that is no machine of this cloud, as
    /// its provider ID tells. Used when a load balancer that a Service had is not found: if none of the cluster's machines
    /// is found either, the credential is another project's.
    ///
    /// # Errors
    /// The cloud's answer, of any kind.
    async fn has(&self, node: &Node) -> Result<Option<bool>>;

    /// Returns the IDs of all machines. Used when the cloud refuses a change because a target no longer exists.
    ///
    /// # Errors
    /// The cloud's answer, also for a partial list.
    async fn ids(&self) -> Result<Targets>;
}

#[async_trait]
impl<S: MachineSource> Machines for S {
    async fn has(&self, node: &Node) -> Result<Option<bool>> {
        match self.machine_id(&node.provider_id) {
            Ok(id) => Ok(Some(
                self.state_by_id(id, Priority::Urgent).await?.is_some(),
            )),
            Err(error) if error.is_invalid() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn ids(&self) -> Result<Targets> {
        let machines = self
            .list(&SharedPriority::of(Priority::Ordinary))
            .await?
            .complete()?;
        Ok(machines.items().iter().map(Machine::id).collect())
    }
}
