//! VNICs of instances: those of one instance, and the primary ones of all instances from a few lists.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cloud_provider::Result;
use futures::future::try_join_all;
use provider_kit::inventory::SharedPriority;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use serde_json::Value;

use crate::instance::InstanceAnswer;
use crate::instances::Source;

/// An attachment of a VNIC.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    id: Box<str>,
    instance_id: Box<str>,
    lifecycle_state: Box<str>,
    vnic_id: Option<Box<str>>,
    subnet_id: Option<Box<str>>,
    time_created: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Vnic {
    pub(crate) id: Box<str>,
    #[serde(default)]
    pub(crate) is_primary: bool,
    pub(crate) private_ip: Option<Box<str>>,
    pub(crate) public_ip: Option<Box<str>>,
    pub(crate) hostname_label: Option<Box<str>>,
    pub(crate) subnet_id: Option<Box<str>>,
    #[serde(default)]
    pub(crate) ipv6_addresses: Vec<Box<str>>,
    #[serde(default)]
    defined_tags: BTreeMap<Box<str>, Value>,
}

/// An address in a subnet: a private IP, or an IPv6.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubnetAddress {
    id: Box<str>,
    ip_address: Box<str>,
    vnic_id: Option<Box<str>>,
    #[serde(default)]
    is_primary: bool,
    hostname_label: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PublicIp {
    id: Box<str>,
    ip_address: Option<Box<str>>,
    assigned_entity_id: Option<Box<str>>,
}

impl Source {
    async fn attachments(
        &self,
        compartment: &str,
        instance: Option<&str>,
        priority: &SharedPriority,
    ) -> Result<Vec<Attachment>> {
        let call = Call::get("/20160918/vnicAttachments", &[]).query("compartmentId", compartment);
        let call = instance
            .iter()
            .fold(call, |call, id| call.query("instanceId", id));
        let all = self
            .api
            .list(call, priority, |attachment: &Attachment| {
                attachment.id.clone()
            })
            .await?
            .complete()?
            .into_items();
        Ok(all
            .into_iter()
            .filter(|attachment| {
                &*attachment.lifecycle_state == "ATTACHED" && attachment.vnic_id.is_some()
            })
            .collect())
    }

    async fn vnic(&self, id: &str, priority: Priority) -> Result<Option<Vnic>> {
        self.api
            .iaas
            .find(Call::get("/20160918/vnics/{id}", &[id]).with_priority(priority))
            .await
    }

    /// Reads the VNICs of one instance that a Node has the addresses of: the primary one first, and on OpenShift those of
    /// boot volumes.
    pub(crate) async fn own_vnics(
        &self,
        instance: &InstanceAnswer,
        priority: Priority,
    ) -> Result<Vec<Vnic>> {
        let compartment = &instance.compartment_id;
        let priority_of_list = SharedPriority::of(priority);
        let attachments = self
            .attachments(compartment, Some(&instance.id), &priority_of_list)
            .await?;
        let vnics = attachments
            .iter()
            .filter_map(|attachment| attachment.vnic_id.as_deref())
            .map(|id| self.vnic(id, priority));
        let is_of_boot_volume = |vnic: &Vnic| {
            let tags = instance
                .openshift
                .as_ref()
                .and_then(|namespace| vnic.defined_tags.get(namespace));
            tags.is_some_and(|tags| tags["boot-volume-type"] == "ISCSI")
        };
        let mut vnics: Vec<_> = try_join_all(vnics).await?.into_iter().flatten().collect();
        vnics.retain(|vnic| vnic.is_primary || is_of_boot_volume(vnic));
        vnics.sort_by_key(|vnic| !vnic.is_primary);
        Ok(vnics)
    }

    /// Reads the primary VNICs of all instances from a few lists: the first attachment of an instance is its primary VNIC.
    pub(crate) async fn vnics(
        &self,
        compartment: &str,
        domains: &BTreeSet<Box<str>>,
        priority: &SharedPriority,
    ) -> Result<HashMap<Box<str>, Vec<Vnic>>> {
        let mut first: HashMap<Box<str>, Attachment> = HashMap::new();
        for attachment in self.attachments(compartment, None, priority).await? {
            let is_later = first
                .get(&attachment.instance_id)
                .is_some_and(|instance_id| instance_id.time_created <= attachment.time_created);
            if !is_later {
                first.insert(attachment.instance_id.clone(), attachment);
            }
        }
        let subnets: BTreeSet<_> = first
            .values()
            .filter_map(|attachment| attachment.subnet_id.clone())
            .collect();
        let mut private = HashMap::new();
        let mut ipv6 = HashMap::<Box<str>, Vec<Box<str>>>::new();
        let mut is_public = false;
        for subnet in &subnets {
            let list = |path| {
                self.api.list(
                    Call::get(path, &[]).query("subnetId", subnet),
                    priority,
                    |address: &SubnetAddress| address.id.clone(),
                )
            };
            let addresses = list("/20160918/privateIps").await?.complete()?.into_items();
            private.extend(
                addresses
                    .into_iter()
                    .filter(|address| address.is_primary)
                    .filter_map(|address| Some((address.vnic_id.clone()?, address))),
            );
            let subnet = self.subnets.get(subnet).await?;
            is_public |= !subnet.prohibit_public_ip_on_vnic;
            if subnet.has_ipv6() {
                for address in list("/20160918/ipv6").await?.complete()?.into_items() {
                    let vnic = address.vnic_id.unwrap_or_default();
                    ipv6.entry(vnic).or_default().push(address.ip_address);
                }
            }
        }
        let public = if is_public {
            self.public_ips(compartment, domains, priority).await?
        } else {
            HashMap::new()
        };
        let vnic = |attachment: Attachment| {
            let id = attachment.vnic_id?;
            let address: Option<SubnetAddress> = private.remove(&id);
            let public_ip = address
                .as_ref()
                .and_then(|address| public.get(&address.id).cloned());
            let ipv6_addresses = ipv6.remove(&id).unwrap_or_default();
            let (private_ip, hostname_label) = address.map_or((None, None), |address| {
                (Some(address.ip_address), address.hostname_label)
            });
            let subnet_id = attachment.subnet_id;
            let is_primary = true;
            let defined_tags = BTreeMap::new();
            let vnic = Vnic {
                id,
                is_primary,
                private_ip,
                public_ip,
                hostname_label,
                subnet_id,
                ipv6_addresses,
                defined_tags,
            };
            Some((attachment.instance_id, vec![vnic]))
        };
        Ok(first.into_values().filter_map(vnic).collect())
    }

    /// Reads the public addresses by the private addresses that they are assigned to.
    async fn public_ips(
        &self,
        compartment: &str,
        domains: &BTreeSet<Box<str>>,
        priority: &SharedPriority,
    ) -> Result<HashMap<Box<str>, Box<str>>> {
        let call = |scope| {
            Call::get("/20160918/publicIps", &[])
                .query("compartmentId", compartment)
                .query("scope", scope)
        };
        let of_domains = domains
            .iter()
            .map(|domain| call("AVAILABILITY_DOMAIN").query("availabilityDomain", domain));
        let calls = of_domains.chain([call("REGION")]);
        let lists = calls.map(|call| {
            self.api
                .list(call, priority, |public_ip: &PublicIp| public_ip.id.clone())
        });
        let mut all = HashMap::new();
        for list in try_join_all(lists).await? {
            let pairs = list.complete()?.into_items().into_iter();
            all.extend(pairs.filter_map(|public_ip| {
                Some((public_ip.assigned_entity_id?, public_ip.ip_address?))
            }));
        }
        Ok(all)
    }
}
