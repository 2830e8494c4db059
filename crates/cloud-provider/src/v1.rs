//! The reference's first shape, `Instances` and `Zones`, as an adapter for authors who port such a provider.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;

use crate::instances::{InstanceState, Instances, Want, WantMetadata};
use crate::listing::Gone;
use crate::v2::one_by_one;
use crate::{Error, InstanceMetadata, Node, NodeAddress, Result};

/// Machines, asked one property at a time, by name or by provider id (PROV-40 … PROV-46).
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
    /// Addresses of the instance of this name.
    async fn node_addresses(&self, node_name: &str) -> Result<Vec<NodeAddress>>;
    /// Addresses of the instance with this id, which may be empty (PROV-40).
    async fn node_addresses_by_provider_id(&self, provider_id: &str) -> Result<Vec<NodeAddress>>;
    /// Bare instance id, without the scheme. *Instance not found* if there is none, *not implemented* if the cloud has
    /// no ids; a stopped instance exists (PROV-41).
    async fn instance_id(&self, node_name: &str) -> Result<String>;
    /// Instance type by name; empty if unknown.
    async fn instance_type(&self, node_name: &str) -> Result<String>;
    /// Instance type by id; empty if unknown.
    async fn instance_type_by_provider_id(&self, provider_id: &str) -> Result<String>;
    /// Whether it exists, running or stopped. `Ok(false)` can delete a Node (PROV-43).
    async fn instance_exists_by_provider_id(&self, provider_id: &str) -> Result<bool>;
    /// Whether it is shut down; *not implemented* means no (PROV-44).
    async fn instance_shutdown_by_provider_id(&self, provider_id: &str) -> Result<bool>;
    /// Legacy, called by nobody (PROV-46).
    async fn add_ssh_key_to_all_instances(&self, _user: &str, _key: &[u8]) -> Result<()> {
        Err(Error::not_implemented())
    }
    /// Legacy, called by nobody (PROV-46).
    async fn current_node_name(&self, _hostname: &str) -> Result<String> {
        Err(Error::not_implemented())
    }
}

/// Where a machine runs. Both parts may be empty (PROV-56).
///
/// ```
/// use cloud_provider::Zone;
///
/// let zone = Zone { failure_domain: "acme-1a".into(), region: "acme-1".into() };
/// assert_ne!(zone, Zone::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// The zone inside the region.
    pub failure_domain: String,
    /// The region.
    pub region: String,
}

/// Zones, for providers of the first shape (PROV-56).
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
    /// Zone of the instance with this id.
    async fn zone_by_provider_id(&self, provider_id: &str) -> Result<Zone>;
    /// Zone of the instance of this name.
    async fn zone_by_node_name(&self, node_name: &str) -> Result<Zone>;
    /// Zone of this process; called by nobody.
    async fn zone(&self) -> Result<Zone> {
        Err(Error::not_implemented())
    }
}

/// [`Instances`] from [`InstancesV1`] and [`Zones`], with the reference's order of calls.
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

/// The text for a provider that has no instances when it is asked (NODE-48, PROV-70).
///
/// ```
/// assert_eq!(cloud_provider::NO_INSTANCES, "failed to get instances from cloud provider");
/// ```
pub const NO_INSTANCES: &str = "failed to get instances from cloud provider";

impl V1 {
    /// `provider_name` becomes the scheme of provider ids (PROV-45).
    pub fn new(
        provider_name: impl Into<String>,
        instances: Arc<dyn InstancesV1>,
        zones: Option<Arc<dyn Zones>>,
    ) -> Self {
        Self { provider_name: provider_name.into(), instances, zones }
    }

    /// `<provider name>://<instance id>` of the instance of this name (HELP-71).
    ///
    /// # Errors
    /// *Instance not found* and *not implemented* as they are; any other error wrapped (PROV-69).
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

    async fn lookup_one(&self, node: &Node, want: Want) -> Result<InstanceState> {
        if want.existence
            && let Some(gone) = self.existence(node).await?
        {
            return Ok(InstanceState::Gone(gone));
        }
        let shutdown = if want.shutdown { Some(self.shutdown(node).await?) } else { None };
        let metadata = match want.metadata {
            WantMetadata::No => None,
            WantMetadata::Addresses => Some(InstanceMetadata {
                node_addresses: self.addresses(&node.provider_id, &node.name).await?,
                ..InstanceMetadata::default()
            }),
            WantMetadata::Full => Some(self.metadata(node).await?),
        };
        Ok(InstanceState::Present { shutdown, metadata: metadata.map(Box::new) })
    }

    /// LIFE-21, LIFE-22.
    async fn existence(&self, node: &Node) -> Result<Option<Gone>> {
        let id = match self.own_or_by_name(node).await {
            Ok(id) => id,
            Err(err) if err.is_not_found() => return Ok(Some(Gone::no_such_name(&node.name))),
            Err(err) => return Err(err),
        };
        let exists = self.instances.instance_exists_by_provider_id(&id).await?;
        Ok((!exists).then(|| Gone::no_such_id(&id)))
    }

    /// LIFE-41: the id is looked up again.
    async fn shutdown(&self, node: &Node) -> Result<bool> {
        let id = match self.own_or_by_name(node).await {
            Ok(id) => id,
            Err(err) if err.is_not_found() => return Ok(false),
            Err(err) => return Err(err),
        };
        match self.instances.instance_shutdown_by_provider_id(&id).await {
            Err(err) if err.is_not_implemented() => Ok(false),
            answer => answer,
        }
    }

    /// NODE-42 … NODE-46: provider id, addresses, type, zone; the first failure ends it.
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

    /// NODE-43.
    async fn addresses(&self, id: &str, name: &str) -> Result<Vec<NodeAddress>> {
        let by_id = match self.instances.node_addresses_by_provider_id(id).await {
            Ok(answer) => return Ok(answer),
            Err(err) => err,
        };
        self.instances.node_addresses(name).await.map_err(|by_name| {
            Error::other(format!("error fetching node by provider ID: {by_id}, and error by node name: {by_name}"))
        })
    }

    /// NODE-44.
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

    /// NODE-45.
    async fn zone(&self, id: &str, name: &str) -> Result<Zone> {
        let Some(zones) = &self.zones else { return Ok(Zone::default()) };
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
    async fn lookup(&self, nodes: &[Arc<Node>], want: Want) -> Vec<Result<InstanceState>> {
        one_by_one(nodes.iter().map(|node| self.lookup_one(node, want).boxed()).collect()).await
    }

    async fn provider_id(&self, node: &Arc<Node>) -> Result<String> {
        self.own_or_by_name(node).await
    }

    /// NODE-47.
    fn provider_id_is_optional(&self) -> bool {
        true
    }
}
