//! Subnets: their address ranges and security lists, cached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use ipnet::IpNet;
use parking_lot::Mutex;
use provider_kit::cached::Cached;
use provider_kit::transport::Call;
use serde::Deserialize;

use crate::api::Api;

/// The time for which a subnet is cached. Its ranges do not change; users change its security lists.
const AGE: Duration = Duration::from_secs(600);

/// A subnet, as the API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subnet {
    pub(crate) id: String,
    pub(crate) vcn_id: String,
    cidr_block: Option<String>,
    ipv6_cidr_block: Option<String>,
    #[serde(default)]
    ipv6_cidr_blocks: Vec<String>,
    #[serde(default)]
    pub(crate) security_list_ids: Vec<String>,
    pub(crate) availability_domain: Option<String>,
    #[serde(default)]
    pub(crate) prohibit_public_ip_on_vnic: bool,
}

impl Subnet {
    pub(crate) fn ranges(&self) -> impl Iterator<Item = IpNet> {
        let all = self
            .cidr_block
            .iter()
            .chain(&self.ipv6_cidr_block)
            .chain(&self.ipv6_cidr_blocks);
        all.filter_map(|text| text.parse().ok())
    }

    /// Returns `true` if addresses of this family exist in the subnet.
    pub(crate) fn has(&self, is_ipv6: bool) -> bool {
        self.ranges().any(|range| range.addr().is_ipv6() == is_ipv6)
    }

    pub(crate) fn has_ipv6(&self) -> bool {
        self.has(true)
    }

    /// Returns `true` if the subnet is in one availability domain.
    pub(crate) fn is_of_one_domain(&self) -> bool {
        self.availability_domain
            .as_deref()
            .is_some_and(|availability_domain| !availability_domain.is_empty())
    }
}

/// The subnets of the cluster, by OCID.
pub(crate) struct Subnets {
    api: Api,
    known: Mutex<HashMap<String, Arc<Cached<Subnet>>>>,
}

impl Subnets {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            known: Mutex::default(),
        }
    }

    /// Returns the subnet with this OCID, read at most ten minutes ago.
    pub(crate) async fn get(&self, id: &str) -> Result<Arc<Subnet>> {
        let cached = Arc::clone(self.known.lock().entry(id.to_owned()).or_default());
        let read = async || {
            let found = self
                .api
                .iaas
                .find(Call::get("/20160918/subnets/{id}", &[id]))
                .await?;
            found.ok_or_else(|| {
                Error::not_found(format!(
                    "subnet {id} does not exist, or the principal may not read it (allow it to use subnets)"
                ))
            })
        };
        Ok(cached.get(AGE, read).await?.0)
    }
}
