//! Machines as a source for the inventory of `provider_kit::inventory`, which caches them and decides about absences.

use cloud_provider::{InstanceMetadata, Node, NodeAddress, Result, StringMap, async_trait};
use provider_kit::inventory::{Machine, MachineSource, SharedPriority};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use super::{Api, IDS};
use crate::cloud::MachineState;

/// A machine, as far as a Node needs it: thousands are kept.
#[derive(Debug, Deserialize)]
pub(super) struct KeptMachine {
    id: Box<str>,
    name: Box<str>,
    zone: Box<str>,
    region: Box<str>,
    #[serde(rename = "type")]
    machine_type: Box<str>,
    state: MachineState,
    addresses: Box<[NodeAddress]>,
    labels: StringMap,
}

impl Machine for KeptMachine {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        self.state == MachineState::Stopped
    }
}

#[async_trait]
impl MachineSource for Api {
    type Machine = KeptMachine;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<KeptMachine>> {
        let id = |machine: &KeptMachine| machine.id.clone();
        self.http
            .list(
                Call::get("/v1/machines", &[]),
                "machines",
                shared_priority,
                |machine| machine,
                id,
            )
            .await
    }

    fn lists_prove_absence(&self) -> bool {
        true
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<KeptMachine>> {
        self.http
            .find(Call::get("/v1/machines/{id}", &[id]).with_priority(priority))
            .await
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<KeptMachine>> {
        let call = Call::get("/v1/machines", &[])
            .list()
            .query("name", name)
            .inside("machines");
        self.http.read(call.with_priority(priority)).await
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        IDS.read(provider_id)
    }

    fn metadata(&self, machine: &KeptMachine, _node: &Node) -> InstanceMetadata {
        InstanceMetadata {
            provider_id: IDS.write(&machine.id),
            instance_type: machine.machine_type.to_string(),
            zone: machine.zone.to_string(),
            region: machine.region.to_string(),
            node_addresses: machine.addresses.to_vec(),
            additional_labels: machine
                .labels
                .iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        }
    }

    fn place(&self) -> String {
        self.project.get().map_or_else(
            || "the token's project".to_owned(),
            |project| format!("project {project:?}"),
        )
    }
}
