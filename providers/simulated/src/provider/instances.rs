//! Machines. How few requests it takes, and what proves an absence, is the kit's business.

use cloud_provider::{InstanceMetadata, NodeAddress, Result, StringMap, WantMetadata, async_trait};
use provider_kit::inventory::{Machine, MachineSource};
use provider_kit::paging::Reading;
use provider_kit::provider_id::ProviderIds;
use provider_kit::transport::Call;
use serde::Deserialize;

use super::{Api, IDS, ListPage};
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
    fn metadata(&self, _want: WantMetadata) -> InstanceMetadata {
        InstanceMetadata {
            provider_id: IDS.write(&self.id),
            instance_type: self.machine_type.to_string(),
            zone: self.zone.to_string(),
            region: self.region.to_string(),
            node_addresses: self.addresses.to_vec(),
            additional_labels: self.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }
}

#[async_trait]
impl MachineSource for Api {
    type Machine = KeptMachine;

    async fn list(&self) -> Result<Reading<KeptMachine>> {
        self.read_list("/v1/machines", |machine| machine, |machine: &KeptMachine| machine.id.clone()).await
    }

    async fn by_id(&self, id: &str) -> Result<Option<KeptMachine>> {
        self.http.find(Call::get("/v1/machines/{id}", &[id])).await
    }

    async fn by_name(&self, name: &str) -> Result<Vec<KeptMachine>> {
        let page: ListPage<_> = self.http.read(Call::get("/v1/machines", &[]).query("name", name)).await?;
        Ok(page.items)
    }

    fn provider_ids(&self) -> ProviderIds {
        IDS
    }

    fn place(&self) -> String {
        self.project.get().map_or_else(|| "the token's project".to_owned(), |project| format!("project {project:?}"))
    }
}
