//! The VPC of the cluster, and the subnet of new BLBs.

use cloud_provider::{Error, Result};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::annotations::SUBNET_ID;
use crate::api::all;
use crate::config;
use crate::instances::{IDS, Source};

/// Names of subnets that Baidu creates, in which a BLB can be.
const RESERVED: [&str; 2] = ["系统预定义子网", "CCE-Reserve"];

/// Finds the VPC and the subnet of the cluster.
pub(crate) struct Place {
    instances: Inventory<Source>,
    cluster: ClusterView,
    vpc: OnceCell<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Subnet {
    subnet_id: String,
    name: Option<String>,
    subnet_type: Option<String>,
}

impl Place {
    pub(crate) fn new(instances: Inventory<Source>, cluster: ClusterView) -> Self {
        Self {
            instances,
            cluster,
            vpc: OnceCell::new(),
        }
    }

    /// Returns VPC and subnet of the first Node, by name, whose instance is known.
    async fn of_node(&self) -> Result<[String; 2]> {
        let mut nodes = self.cluster.nodes().unwrap_or_default();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let list = self.instances.snapshot(Priority::Ordinary).await?;
        let mut known = nodes
            .iter()
            .filter_map(|node| list.by_id(IDS.read(node.provider_id()?).ok()?));
        let found = known
            .find(|instance| !instance.vpc.is_empty())
            .map(|instance| [instance.vpc.to_string(), instance.subnet.to_string()]);
        let [vpc, subnet] = [config::VPC_ID.key(), config::SUBNET_ID.key()];
        found.ok_or_else(|| {
            Error::other(format!(
                "no Node of the cluster has a known instance; set {vpc} and {subnet} in the cloud configuration"
            ))
        })
    }

    /// Returns the VPC of the configuration, or else of the first Node.
    pub(crate) async fn vpc(&self) -> Result<String> {
        if let Some(vpc) = &self.instances.source().0.config.vpc {
            return Ok(vpc.clone());
        }
        self.vpc
            .get_or_try_init(|| async { Ok(self.of_node().await?[0].clone()) })
            .await
            .cloned()
    }

    /// Returns the VPC, if it is configured or was read before.
    pub(super) fn known_vpc(&self) -> Option<&str> {
        self.instances
            .source()
            .0
            .config
            .vpc
            .as_ref()
            .or_else(|| self.vpc.get())
            .map(String::as_str)
    }

    async fn find(&self, id: &str) -> Result<Option<Subnet>> {
        let call = Call::get("/v1/subnet/{subnetId}", &[id]).inside("subnet");
        self.instances.source().0.bcc.find(call).await
    }

    /// Returns the subnet of a new BLB: that of the annotation, of the configuration, or of the first Node. The subnet
    /// is read in any case: a credential of another account does not find it, and creates nothing.
    pub(super) async fn subnet(&self, annotated: Option<&str>) -> Result<String> {
        let api = &self.instances.source().0;
        let chosen = annotated.map(|id| (id, format!("annotation {}", SUBNET_ID.key())));
        let chosen = chosen.or_else(|| {
            api.config
                .subnet
                .as_deref()
                .map(|id| (id, config::SUBNET_ID.key().to_owned()))
        });
        if let Some((id, setting)) = chosen {
            return match self.find(id).await? {
                Some(subnet) if subnet.is_for_blbs() => Ok(subnet.subnet_id),
                Some(subnet) => {
                    let kind = subnet.subnet_type.unwrap_or_default();
                    Err(Error::invalid(format!(
                        "{setting}: subnet {id} is of type {kind}; name one of type BCC"
                    )))
                }
                None => Err(Error::invalid(format!(
                    "{setting}: there is no subnet {id} in this account and region"
                ))),
            };
        }
        let [_, of_node] = self.of_node().await?;
        match self.find(&of_node).await? {
            Some(subnet) if subnet.is_for_blbs() => return Ok(subnet.subnet_id),
            Some(_) => {}
            None => {
                let text = format!(
                    "the account of the access key does not have subnet {of_node} of the cluster's Nodes"
                );
                return Err(Error::invalid(format!(
                    "{text}; use a key of the account that has them"
                )));
            }
        }
        let call = Call::get("/v1/subnet", &[]).query("vpcId", self.vpc().await?);
        let subnets = all(&api.bcc, call, "subnets", |subnet: &Subnet| {
            subnet.subnet_id.clone()
        })
        .await?;
        let found = subnets.into_iter().find(|subnet| {
            subnet
                .name
                .as_deref()
                .is_some_and(|name| RESERVED.contains(&name))
        });
        found.map(|subnet| subnet.subnet_id).ok_or_else(|| {
            let annotation = SUBNET_ID.key();
            Error::invalid(format!(
                "no subnet of the VPC is for BLBs; name one of type BCC in annotation {annotation}"
            ))
        })
    }
}

impl Subnet {
    fn is_for_blbs(&self) -> bool {
        self.subnet_type.as_deref() == Some("BCC")
    }
}
