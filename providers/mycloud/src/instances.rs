//! Instances: the machines of Nodes.

use std::net::IpAddr;

use cloud_provider::{Error, InstanceMetadata, Node, Result, async_trait};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::inventory::{Machine, MachineSource, SharedPriority};
use provider_kit::paging::ListResult;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::NAME;
use crate::api::Api;
use crate::config::{ADDRESS_FAMILIES, NODE_NAME, VPC_ID};

/// An instance, as far as a Node needs it.
#[derive(Debug, Deserialize)]
pub(crate) struct Instance {
    id: Box<str>,
    #[serde(rename = "name")]
    display_name: Box<str>,
    hostname: Box<str>,
    region: Box<str>,
    zone: Box<str>,
    flavor: Box<str>,
    status: Box<str>,
    #[serde(default)]
    nics: Box<[Nic]>,
    /// The name of the Node, by the field that the configuration names.
    #[serde(skip)]
    node_name: Box<str>,
}

#[derive(Debug, Deserialize)]
struct Nic {
    #[serde(default)]
    primary: bool,
    #[serde(default)]
    vpc_id: Box<str>,
    ipv4: Option<IpAddr>,
    ipv6: Option<IpAddr>,
    eip: Option<IpAddr>,
}

impl Instance {
    /// Returns the primary interface, then the others.
    fn nics(&self) -> impl Iterator<Item = &Nic> {
        self.nics
            .iter()
            .filter(|nic| nic.primary)
            .chain(self.nics.iter().filter(|nic| !nic.primary))
    }

    /// Returns `true` unless the instance is deleted, or about to be.
    fn exists(&self) -> bool {
        !matches!(&*self.status, "DELETED" | "DELETING")
    }
}

impl Machine for Instance {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.node_name
    }
    fn is_shut_down(&self) -> bool {
        matches!(&*self.status, "STOPPED" | "STOPPING" | "SUSPENDED")
    }
    fn is_settled(&self) -> bool {
        &*self.status != "PENDING"
    }
}

impl Api {
    /// Sets the name by which a Node finds the instance.
    fn named(&self, mut instance: Instance) -> Instance {
        instance.node_name = match self.config.word(&NODE_NAME) {
            "id" => instance.id.clone(),
            "name" => instance.display_name.clone(),
            "private-ip" => {
                let address = instance.nics().find_map(|nic| nic.ipv4.or(nic.ipv6));
                address
                    .map(|address| address.to_string())
                    .unwrap_or_default()
                    .into()
            }
            _ => instance.hostname.clone(),
        };
        instance
    }
}

#[async_trait]
impl MachineSource for Api {
    type Machine = Instance;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        let call = self
            .call(Call::get("/v1/instances", &[]))
            .query("cluster_id", &self.config.cluster_id);
        let keep = |instance| self.named(instance);
        let listed = self
            .http
            .list(
                call,
                "items",
                shared_priority,
                keep,
                |instance: &Instance| instance.id.clone(),
            )
            .await?;
        Ok(listed.filter(Instance::exists))
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let call = self
            .call(Call::get("/v1/instances/{id}", &[id]))
            .with_priority(priority);
        let found: Option<Instance> = self.http.find(call).await?;
        Ok(found
            .filter(Instance::exists)
            .map(|instance| self.named(instance)))
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        let field = match self.config.word(&NODE_NAME) {
            "id" => return Ok(self.by_id(name, priority).await?.into_iter().collect()),
            "private-ip" => "private_ip",
            field => field,
        };
        let call = self
            .call(Call::get("/v1/instances", &[]))
            .query(field, name)
            .list()
            .inside("items");
        let mut found: Vec<Instance> = self.http.read(call.with_priority(priority)).await?;
        found.retain(Instance::exists);
        Ok(found
            .into_iter()
            .map(|instance| self.named(instance))
            .collect())
    }

    /// Returns the ID in `mycloud://<region>/<id>`, and in `mycloud://<id>`, which is of the configured region.
    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        let region = &self.config.region;
        let rest = provider_id
            .strip_prefix(NAME)
            .and_then(|rest| rest.strip_prefix("://"));
        let (region_of_id, id) =
            match rest.map(|rest| rest.split_once('/').unwrap_or((&**region, rest))) {
                Some((own, id)) if !id.is_empty() && !id.contains('/') => (own, id),
                _ => {
                    return Err(Error::invalid(format!(
                        "provider ID {provider_id:?} is not of the form {NAME}://<region>/<id>"
                    )));
                }
            };
        if region_of_id != region {
            return Err(Error::invalid(format!(
                "provider ID {provider_id:?} is of region {region_of_id:?}, and not of {region:?}"
            )));
        }
        Ok(id)
    }

    fn metadata(&self, instance: &Instance, _node: &Node) -> InstanceMetadata {
        let families = self.config.word(&ADDRESS_FAMILIES).split(',');
        let vpc = self.config.settings.get(&VPC_ID);
        let is_own =
            |nic: &&Nic| nic.primary || vpc.as_ref().is_none_or(|vpc| **vpc == *nic.vpc_id);
        let own_addresses = families.flat_map(|family| {
            let nics = instance.nics().filter(is_own);
            nics.filter_map(move |nic| if family == "ipv6" { nic.ipv6 } else { nic.ipv4 })
        });
        let public = instance.nics().filter_map(|nic| nic.eip);
        let addresses = Addresses::default()
            .internal(own_addresses)
            .external(public, AddressFamily::Dualstack)
            .build();
        let hostname = Addresses::of(&instance.hostname).build();
        InstanceMetadata {
            provider_id: format!("{NAME}://{}/{}", instance.region, instance.id),
            instance_type: instance.flavor.to_string(),
            region: instance.region.to_string(),
            zone: instance.zone.to_string(),
            node_addresses: [addresses, hostname].concat(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        format!("region {} at {}", self.config.region, self.http.base())
    }
}
