//! Adapter for providers written for the Go interfaces `Instances` and `Zones`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;

use crate::instances::{InstanceState, Instances, LookupRequest, MetadataLevel};
use crate::listing::Gone;
use crate::v2::one_by_one;
use crate::{Error, InstanceMetadata, Node, NodeAddress, Result};

/// Machines that are looked up one property at a time, by name or by provider ID (PROV-40 … PROV-46).
///
/// New providers implement [`Instances`] instead.
///
/// ```
/// use cloud_provider::{async_trait, Error, InstancesV1, NodeAddress, Result};
///
/// struct Acme;
///
/// #[async_trait]
/// impl InstancesV1 for Acme {
///     async fn node_addresses(&self, _name: &str) -> Result<Vec<NodeAddress>> { Ok(vec![]) }
///     async fn node_addresses_by_provider_id(&self, _id: &str) -> Result<Vec<NodeAddress>> { Ok(vec![]) }
///     async fn instance_id(&self, name: &str) -> Result<String> { Ok(format!("i-{name}")) }
///     async fn instance_type(&self, _name: &str) -> Result<String> { Ok("small".into()) }
///     async fn instance_type_by_provider_id(&self, _id: &str) -> Result<String> { Ok("small".into()) }
///     async fn instance_exists_by_provider_id(&self, _id: &str) -> Result<bool> { Ok(true) }
///     async fn instance_shutdown_by_provider_id(&self, _id: &str) -> Result<bool> { Err(Error::not_implemented()) }
/// }
/// ```
#[async_trait]
pub trait InstancesV1: Send + Sync {
    /// Returns the addresses of the instance of this name.
    async fn node_addresses(&self, node_name: &str) -> Result<Vec<NodeAddress>>;
    /// Returns the addresses of the instance with this ID, which may be empty (PROV-40).
    async fn node_addresses_by_provider_id(&self, provider_id: &str) -> Result<Vec<NodeAddress>>;
    /// Returns the bare instance ID, without the scheme. *Instance not found* if there is no such instance, *not
    /// implemented* if the cloud has no IDs; a stopped instance exists (PROV-41).
    async fn instance_id(&self, node_name: &str) -> Result<String>;
    /// Returns the instance type by name; empty if unknown.
    async fn instance_type(&self, node_name: &str) -> Result<String>;
    /// Returns the instance type by ID; empty if unknown.
    async fn instance_type_by_provider_id(&self, provider_id: &str) -> Result<String>;
    /// Returns `true` if the instance exists, running or stopped. `Ok(false)` can delete a Node (PROV-43).
    async fn instance_exists_by_provider_id(&self, provider_id: &str) -> Result<bool>;
    /// Returns `true` if the instance is shut down; *not implemented* means no (PROV-44).
    async fn instance_shutdown_by_provider_id(&self, provider_id: &str) -> Result<bool>;
    /// Legacy method that no controller calls (PROV-46).
    async fn add_ssh_key_to_all_instances(&self, _user: &str, _key: &[u8]) -> Result<()> {
        Err(Error::not_implemented())
    }
    /// Legacy method that no controller calls (PROV-46).
    async fn current_node_name(&self, _hostname: &str) -> Result<String> {
        Err(Error::not_implemented())
    }
}

/// The location of a machine. Both parts may be empty (PROV-56).
///
/// ```
/// use cloud_provider::Zone;
///
/// let zone = Zone { failure_domain: "acme-1a".into(), region: "acme-1".into() };
/// assert_ne!(zone, Zone::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Zone inside the region.
    pub failure_domain: String,
    /// Name of the region.
    pub region: String,
}

/// The zones of providers with `InstancesV1` (PROV-56).
///
/// ```
/// use cloud_provider::{async_trait, Result, Zone, Zones};
///
/// struct OneRegion;
///
/// #[async_trait]
/// impl Zones for OneRegion {
///     async fn zone_by_provider_id(&self, _id: &str) -> Result<Zone> {
///         Ok(Zone { region: "acme-1".into(), ..Zone::default() })
///     }
///     async fn zone_by_node_name(&self, _name: &str) -> Result<Zone> {
///         Ok(Zone { region: "acme-1".into(), ..Zone::default() })
///     }
/// }
/// ```
#[async_trait]
pub trait Zones: Send + Sync {
    /// Returns the zone of the instance with this ID.
    async fn zone_by_provider_id(&self, provider_id: &str) -> Result<Zone>;
    /// Returns the zone of the instance of this name.
    async fn zone_by_node_name(&self, node_name: &str) -> Result<Zone>;
    /// Returns the zone of this process. No controller calls it.
    async fn zone(&self) -> Result<Zone> {
        Err(Error::not_implemented())
    }
}

/// Adapter from [`InstancesV1`] and [`Zones`] to [`Instances`], with the order of calls of the Go cloud controller
/// manager.
///
/// ```
/// use std::sync::Arc;
/// use cloud_provider::{Instances, InstancesV1, V1};
///
/// fn port(machines: Arc<dyn InstancesV1>) -> impl Instances {
///     V1::new("acme", machines, None)
/// }
/// ```
pub struct V1 {
    provider_name: String,
    instances: Arc<dyn InstancesV1>,
    zones: Option<Arc<dyn Zones>>,
}

/// The error text for a provider without instances (NODE-48, PROV-70).
///
/// ```
/// assert_eq!(cloud_provider::NO_INSTANCES, "failed to get instances from cloud provider");
/// ```
pub const NO_INSTANCES: &str = "failed to get instances from cloud provider";

impl V1 {
    /// Returns an adapter; `provider_name` becomes the scheme of provider IDs (PROV-45).
    pub fn new(
        provider_name: impl Into<String>,
        instances: Arc<dyn InstancesV1>,
        zones: Option<Arc<dyn Zones>>,
    ) -> Self {
        Self {
            provider_name: provider_name.into(),
            instances,
            zones,
        }
    }

    /// Returns `<provider name>://<instance ID>` of the instance of this name (HELP-71).
    ///
    /// # Errors
    /// *Instance not found* and *not implemented* unchanged; any other error is wrapped (PROV-69).
    pub async fn provider_id_by_name(&self, node_name: &str) -> Result<String> {
        match self.instances.instance_id(node_name).await {
            Ok(id) => Ok(format!("{}://{id}", self.provider_name)),
            Err(err) if err.is_not_found() || err.is_not_implemented() => Err(err),
            Err(err) => Err(err.context("failed to get instance ID from cloud provider")),
        }
    }

    async fn own_or_by_name(&self, node: &Node) -> Result<String> {
        match node.provider_id() {
            Some(id) => Ok(id.to_owned()),
            None => self.provider_id_by_name(&node.name).await,
        }
    }

    async fn lookup_one(&self, node: &Node, request: LookupRequest) -> Result<InstanceState> {
        if request.existence
            && let Some(gone) = self.existence(node).await?
        {
            return Ok(InstanceState::Gone(gone));
        }
        let shutdown = if request.shutdown {
            Some(self.shutdown(node).await?)
        } else {
            None
        };
        let metadata = match request.metadata {
            MetadataLevel::No => None,
            MetadataLevel::Addresses => Some(InstanceMetadata {
                node_addresses: self.addresses(&node.provider_id, &node.name).await?,
                ..InstanceMetadata::default()
            }),
            MetadataLevel::Full => Some(self.metadata(node).await?),
        };
        Ok(InstanceState::Present {
            shutdown,
            metadata: metadata.map(Box::new),
        })
    }

    /// Checks if the instance exists (LIFE-21, LIFE-22).
    async fn existence(&self, node: &Node) -> Result<Option<Gone>> {
        let id = match self.own_or_by_name(node).await {
            Ok(id) => id,
            Err(err) if err.chain().any(Error::is_not_found) => {
                return Ok(Some(Gone::no_such_name(&node.name)));
            }
            Err(err) => return Err(err),
        };
        let exists = self.instances.instance_exists_by_provider_id(&id).await?;
        Ok((!exists).then(|| Gone::no_such_id(&id)))
    }

    /// Checks if the instance is shut down. The ID is looked up again, as in the Go cloud controller manager (LIFE-41).
    async fn shutdown(&self, node: &Node) -> Result<bool> {
        let id = match self.own_or_by_name(node).await {
            Ok(id) => id,
            Err(err) if err.chain().any(Error::is_not_found) => return Ok(false),
            Err(err) => return Err(err),
        };
        match self.instances.instance_shutdown_by_provider_id(&id).await {
            Err(err) if err.chain().any(Error::is_not_implemented) => Ok(false),
            answer => answer,
        }
    }

    /// Reads provider ID, addresses, type and zone; the first failure ends the read (NODE-42 … NODE-46).
    async fn metadata(&self, node: &Node) -> Result<InstanceMetadata> {
        let provider_id = match self.own_or_by_name(node).await {
            Err(err) if err.chain().any(Error::is_not_implemented) => String::new(),
            answer => answer?,
        };
        let node_addresses = self.addresses(&provider_id, &node.name).await?;
        let instance_type = self.instance_type(&provider_id, &node.name).await?;
        let zone = self.zone(&provider_id, &node.name).await?;
        Ok(InstanceMetadata {
            provider_id,
            instance_type,
            zone: zone.failure_domain,
            region: zone.region,
            node_addresses,
            ..InstanceMetadata::default()
        })
    }

    /// Reads the addresses by ID, or else by name (NODE-43).
    async fn addresses(&self, id: &str, name: &str) -> Result<Vec<NodeAddress>> {
        let by_id = match self.instances.node_addresses_by_provider_id(id).await {
            Ok(answer) => return Ok(answer),
            Err(err) => err,
        };
        self.instances
            .node_addresses(name)
            .await
            .map_err(|by_name| {
                Error::other(format!(
                    "error fetching node by provider ID: {by_id}, and error by node name: {by_name}"
                ))
            })
    }

    /// Reads the instance type by ID, or else by name (NODE-44).
    async fn instance_type(&self, id: &str, name: &str) -> Result<String> {
        let by_id = match self.instances.instance_type_by_provider_id(id).await {
            Ok(answer) => return Ok(answer),
            Err(err) => err,
        };
        self.instances.instance_type(name).await.map_err(|by_name| {
            Error::other(format!(
                "InstanceType: Error fetching by providerID: {by_id} Error fetching by NodeName: {by_name}"
            ))
        })
    }

    /// Reads the zone by ID, or else by name (NODE-45).
    async fn zone(&self, id: &str, name: &str) -> Result<Zone> {
        let Some(zones) = &self.zones else {
            return Ok(Zone::default());
        };
        let by_id = match zones.zone_by_provider_id(id).await {
            Ok(answer) => return Ok(answer),
            Err(err) => err,
        };
        zones.zone_by_node_name(name).await.map_err(|by_name| {
            Error::other(format!(
                "failed to get zone from cloud provider: Zone: Error fetching by providerID: {by_id} Error fetching by NodeName: {by_name}"
            ))
        })
    }
}

#[async_trait]
impl Instances for V1 {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        one_by_one(
            nodes
                .iter()
                .map(|node| self.lookup_one(node, request).boxed())
                .collect(),
        )
        .await
    }

    async fn provider_id(&self, node: &Arc<Node>) -> Result<String> {
        self.own_or_by_name(node).await
    }

    /// Returns `true`, because a provider may have no IDs (NODE-47).
    fn provider_id_is_optional(&self) -> bool {
        true
    }
}
