//! Pod ranges from the VCN: address blocks of the primary VNIC of a Node's instance.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Node, Result, async_trait};
use futures::future::join_all;
use ipnet::IpNet;
use parking_lot::Mutex;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::SharedPriority;
use provider_kit::node_ipam::PodRangeSource;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::created;
use crate::instance::ocid;
use crate::instances::Source;

/// The key of an instance's metadata that says how many addresses its Pods get, and from which ranges.
const METADATA: &str = "flexcidr-primary-vnic";
/// The time after which an instance that asks for no range is read again.
const AGAIN: Duration = Duration::from_secs(600);
/// The tag of address blocks for Pods.
const TAG: &str = "pod-cidr";

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Wanted {
    ip_count: u64,
    #[serde(default)]
    cidr_blocks: Vec<IpNet>,
}

/// Address blocks of VNICs as the Pod ranges of Nodes.
pub(crate) struct FlexRanges {
    source: Source,
    cluster: ClusterView,
    /// Provider IDs of Nodes whose instances ask for no range, and the time at which each is read again.
    without: Mutex<HashMap<Box<str>, Instant>>,
}

impl FlexRanges {
    pub(crate) fn new(source: Source, cluster: ClusterView) -> Self {
        Self {
            source,
            cluster,
            without: Mutex::default(),
        }
    }

    /// Returns the families of the cluster, which Service `default/kubernetes` shows.
    async fn families(&self) -> Result<Vec<bool>> {
        let (_, service) = self
            .cluster
            .get("/api/v1/namespaces/default/services/kubernetes")
            .await?;
        let families = service
            .pointer("/spec/ipFamilies")
            .and_then(Value::as_array);
        let families: Vec<_> = families
            .into_iter()
            .flatten()
            .map(|family| family == "IPv6")
            .collect();
        Ok(if families.is_empty() {
            vec![false]
        } else {
            families
        })
    }

    async fn of_node(&self, node: &Node, families: &[bool]) -> Result<Result<Vec<IpNet>, String>> {
        let id = match ocid(&node.provider_id) {
            Ok(id) => id,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let instance: Value = self
            .source
            .api
            .iaas
            .read(Call::get("/20160918/instances/{id}", &[id]))
            .await?;
        if instance["lifecycleState"] != "RUNNING" {
            return Ok(Err(format!("instance {id} is not running")));
        }
        let Some(text) = instance["metadata"][METADATA].as_str() else {
            self.without
                .lock()
                .insert((*node.provider_id).into(), Instant::now() + AGAIN);
            return Ok(Ok(Vec::new()));
        };
        let Ok(wanted) = serde_json::from_str::<Wanted>(text) else {
            return Ok(Err(format!(
                "instance {id} has no valid metadata {METADATA}, such as {{\"ip-count\": 64, \"cidr-blocks\": []}}"
            )));
        };
        let most = if families.contains(&false) {
            16_384
        } else {
            1 << 48
        };
        if !wanted.ip_count.is_power_of_two() || !(4..=most).contains(&wanted.ip_count) {
            return Ok(Err(format!(
                "ip-count {} of instance {id} is not a power of two from 4 to {most}",
                wanted.ip_count
            )));
        }
        let answer = serde_json::from_value(instance)
            .map_err(|error| Error::other(format!("instance {id}: {error}")))?;
        let vnics = self.source.own_vnics(&answer, Priority::Ordinary).await?;
        let Some(vnic) = vnics.first() else {
            return Ok(Err(format!("instance {id} has no primary VNIC yet")));
        };
        let mut ranges = Vec::new();
        for is_ipv6 in families {
            ranges.push(self.range(&vnic.id, &wanted, *is_ipv6).await?);
        }
        Ok(ranges.into_iter().collect())
    }

    /// Returns the block of a family, which is created if the VNIC has none.
    async fn range(
        &self,
        vnic: &str,
        wanted: &Wanted,
        is_ipv6: bool,
    ) -> Result<Result<IpNet, String>> {
        let path = if is_ipv6 {
            "/20160918/ipv6"
        } else {
            "/20160918/privateIps"
        };
        let call = Call::get(path, &[]).query("vnicId", vnic);
        let all = self
            .source
            .api
            .list(call, &SharedPriority::default(), |api: &Value| {
                api["id"].to_string()
            })
            .await?;
        let own_addresses: Vec<_> = all
            .complete()?
            .into_items()
            .into_iter()
            .filter(|object| object["freeformTags"].get(TAG).is_some())
            .collect();
        let block = match &own_addresses[..] {
            [] => self.create(path, vnic, wanted, is_ipv6).await?,
            [one] => one.clone(),
            _ => {
                return Ok(Err(format!(
                    "VNIC {vnic} has {} address blocks with the tag {TAG}: remove all but one",
                    own_addresses.len()
                )));
            }
        };
        let ip = block["ipAddress"].as_str().unwrap_or_default();
        let text = format!("{ip}/{}", block["cidrPrefixLength"]);
        Ok(text
            .parse()
            .map(|network: IpNet| network.trunc())
            .map_err(|_| format!("the cloud shows the address block {text:?}")))
    }

    async fn create(
        &self,
        path: &'static str,
        vnic: &str,
        wanted: &Wanted,
        is_ipv6: bool,
    ) -> Result<Value> {
        let bits = wanted.ip_count.ilog2();
        // Blocks of IPv6 begin at a multiple of four bits.
        let length = if is_ipv6 {
            (128 - bits) / 4 * 4
        } else {
            32 - bits
        };
        let mut body =
            json!({"vnicId": vnic, "cidrPrefixLength": length, "freeformTags": {TAG: "true"}});
        let from = wanted
            .cidr_blocks
            .iter()
            .find(|network| network.addr().is_ipv6() == is_ipv6);
        if let Some(from) = from {
            body[if is_ipv6 {
                "ipv6SubnetCidr"
            } else {
                "ipv4SubnetCidrAtCreation"
            }] = from.to_string().into();
        }
        // A token has at most 64 characters.
        let name: Vec<_> = vnic.chars().rev().take(40).collect();
        let token = format!(
            "{}-{length}",
            name.iter().rev().collect::<String>().replace('.', "-")
        );
        created(&token, |token| {
            let call = Call::post(path, &[])
                .json(&body)
                .header("opc-retry-token", token)
                .repeatable();
            self.source.api.iaas.read(call)
        })
        .await
    }
}

#[async_trait]
impl PodRangeSource for FlexRanges {
    fn is_open(&self, node: &Node) -> bool {
        let is_without = || {
            self.without
                .lock()
                .get(&*node.provider_id)
                .is_some_and(|again| Instant::now() < *again)
        };
        node.pod_cidrs.is_empty() && !node.provider_id.is_empty() && !is_without()
    }

    async fn ranges(&self, nodes: &[Arc<Node>]) -> Result<Vec<Result<Vec<IpNet>, String>>> {
        let families = self.families().await?;
        let found = join_all(nodes.iter().map(|node| self.of_node(node, &families))).await;
        Ok(found
            .into_iter()
            .map(|entry| entry.unwrap_or_else(|error| Err(error.to_string())))
            .collect())
    }
}
