//! An instance, as far as a Node needs it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cloud_provider::{Error, Result};
use provider_kit::inventory::Machine;
use provider_kit::provider_id::ProviderIds;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::NAME;
use crate::annotations::{FAULT_DOMAIN, FULL_AD};
use crate::vnics::Vnic;

/// Provider IDs of Nodes: `oci://ocid1.instance.oc1…`.
pub(crate) const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<instance OCID>",
    valid: is_ocid,
};
fn is_ocid(id: &str) -> bool {
    id.starts_with("ocid1.")
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// Returns the OCID in a provider ID. Kubelets of OKE write the OCID alone.
pub(crate) fn ocid(provider_id: &str) -> Result<&str> {
    if is_ocid(provider_id) {
        Ok(provider_id)
    } else {
        IDS.read(provider_id)
    }
}

/// The instance part of a machine, as the API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceAnswer {
    pub(crate) id: Box<str>,
    #[serde(default)]
    pub(crate) display_name: Box<str>,
    pub(crate) shape: Box<str>,
    pub(crate) region: Box<str>,
    pub(crate) availability_domain: Box<str>,
    #[serde(default)]
    fault_domain: Option<Box<str>>,
    pub(crate) compartment_id: Box<str>,
    lifecycle_state: Box<str>,
    /// The namespace of the tags of an OpenShift cluster.
    #[serde(
        default,
        rename = "definedTags",
        deserialize_with = "openshift_namespace"
    )]
    pub(crate) openshift: Option<Box<str>>,
}

impl InstanceAnswer {
    pub(crate) fn is_gone(&self) -> bool {
        ["TERMINATING", "TERMINATED"].contains(&&*self.lifecycle_state)
    }
}

fn openshift_namespace<'de, D: Deserializer<'de>>(tags: D) -> Result<Option<Box<str>>, D::Error> {
    let tags = Option::<BTreeMap<Box<str>, IgnoredAny>>::deserialize(tags)?.unwrap_or_default();
    Ok(tags.into_keys().find(|key| key.starts_with("openshift-")))
}

/// An instance, as far as a Node needs it: thousands are kept.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) answer: InstanceAnswer,
    pub(crate) internal: Box<[IpAddr]>,
    pub(crate) external: Box<[IpAddr]>,
    pub(crate) ipv6: Box<[IpAddr]>,
    hostname: Option<Box<str>>,
    pub(crate) subnet: Option<Box<str>>,
}

impl Instance {
    /// Returns an instance with its VNICs, the primary one first.
    ///
    /// # Errors
    /// *Other*, if an address cannot be parsed.
    pub(crate) fn new(answer: InstanceAnswer, vnics: &[Vnic]) -> Result<Self> {
        let parsed = |texts: Vec<&str>| {
            let ip = |text: &str| {
                let ip = text.split('/').next().and_then(|part| part.parse().ok());
                ip.ok_or_else(|| {
                    Error::other(format!(
                        "instance {} has the address {text:?}, which is not one",
                        answer.id
                    ))
                })
            };
            texts
                .into_iter()
                .filter(|text| !text.is_empty())
                .map(ip)
                .collect::<Result<Box<[IpAddr]>>>()
        };
        let first = vnics.first();
        Ok(Self {
            internal: parsed(
                vnics
                    .iter()
                    .filter_map(|vnic| vnic.private_ip.as_deref())
                    .collect(),
            )?,
            external: parsed(
                vnics
                    .iter()
                    .filter_map(|vnic| vnic.public_ip.as_deref())
                    .collect(),
            )?,
            ipv6: parsed(
                first
                    .iter()
                    .flat_map(|vnic| &vnic.ipv6_addresses)
                    .map(|ipv6_address| &**ipv6_address)
                    .collect(),
            )?,
            hostname: first.and_then(|vnic| vnic.hostname_label.clone()),
            subnet: first.and_then(|vnic| vnic.subnet_id.clone()),
            answer,
        })
    }

    /// Returns an instance whose addresses are not known.
    pub(crate) fn bare(answer: InstanceAnswer) -> Self {
        let (internal, external, ipv6) = Default::default();
        Self {
            answer,
            internal,
            external,
            ipv6,
            hostname: None,
            subnet: None,
        }
    }

    /// Returns the availability domain without the prefix of the tenancy.
    pub(crate) fn zone(&self) -> &str {
        let full = &*self.answer.availability_domain;
        full.split_once(':').map_or(full, |(_, zone)| zone)
    }

    /// Returns the labels that a Node has for its instance.
    pub(crate) fn labels(&self, is_ipv6: bool) -> Vec<(&'static str, String)> {
        let fault_domain = self
            .answer
            .fault_domain
            .as_ref()
            .map(|fault_domain| (FAULT_DOMAIN, fault_domain.to_string()));
        let full = is_ipv6.then(|| (FULL_AD, self.answer.availability_domain.replace(':', ".")));
        fault_domain.into_iter().chain(full).collect()
    }

    pub(crate) fn compartment(&self) -> &str {
        &self.answer.compartment_id
    }

    pub(crate) fn is_at(&self, text: &str) -> bool {
        let ips = || self.internal.iter().chain(&self.external);
        let dashed = || {
            self.ipv6
                .iter()
                .any(|address| address.to_string().replace(':', "-") == text)
        };
        text.parse()
            .is_ok_and(|ip: IpAddr| ips().any(|address| *address == ip))
            || self.hostname.as_deref() == text.split('.').next()
            || dashed()
    }
}

impl Machine for Instance {
    fn id(&self) -> &str {
        &self.answer.id
    }
    fn name(&self) -> &str {
        &self.answer.display_name
    }
    fn is_shut_down(&self) -> bool {
        ["STOPPING", "STOPPED"].contains(&&*self.answer.lifecycle_state)
    }
    fn is_settled(&self) -> bool {
        self.hostname.is_some() || self.subnet.is_some()
    }
}
