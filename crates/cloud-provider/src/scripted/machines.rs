//! Machines, zones and clusters of the scripted cloud.

use async_trait::async_trait;

use crate::scripted::cloud::Cloud;
use crate::{
    Clusters, Error, InstanceMetadata, InstancesV1, InstancesV2, Node, NodeAddress, Result, Zone,
    Zones,
};

#[async_trait]
impl InstancesV1 for Cloud {
    async fn node_addresses(&self, node_name: &str) -> Result<Vec<NodeAddress>> {
        self.ask("node_addresses", node_name, |s| &s.node_addresses)
            .await
    }

    async fn node_addresses_by_provider_id(&self, provider_id: &str) -> Result<Vec<NodeAddress>> {
        self.ask_by_id("node_addresses_by_provider_id", provider_id, |s| {
            &s.node_addresses_by_provider_id
        })
        .await
    }

    async fn instance_id(&self, node_name: &str) -> Result<String> {
        self.ask("instance_id", node_name, |s| &s.instance_id).await
    }

    async fn instance_type(&self, node_name: &str) -> Result<String> {
        self.ask("instance_type", node_name, |s| &s.instance_type)
            .await
    }

    async fn instance_type_by_provider_id(&self, provider_id: &str) -> Result<String> {
        self.ask_by_id("instance_type_by_provider_id", provider_id, |s| {
            &s.instance_type_by_provider_id
        })
        .await
    }

    async fn instance_exists_by_provider_id(&self, provider_id: &str) -> Result<bool> {
        self.ask_by_id("instance_exists_by_provider_id", provider_id, |s| {
            &s.instance_exists_by_provider_id
        })
        .await
    }

    /// Refuses an empty ID (PROV-86).
    async fn instance_shutdown_by_provider_id(&self, provider_id: &str) -> Result<bool> {
        let answer = self
            .ask_by_id("instance_shutdown_by_provider_id", provider_id, |s| {
                &s.instance_shutdown_by_provider_id
            })
            .await;
        if provider_id.is_empty() {
            return Err(Error::other("an empty provider ID names no instance"));
        }
        answer
    }
}

#[async_trait]
impl Zones for Cloud {
    async fn zone_by_provider_id(&self, provider_id: &str) -> Result<Zone> {
        self.ask_by_id("zone_by_provider_id", provider_id, |s| {
            &s.zone_by_provider_id
        })
        .await
    }

    async fn zone_by_node_name(&self, node_name: &str) -> Result<Zone> {
        self.ask("zone_by_node_name", node_name, |s| &s.zone_by_node_name)
            .await
    }

    async fn zone(&self) -> Result<Zone> {
        self.ask("zone", &(), |s| &s.zone).await
    }
}

#[async_trait]
impl InstancesV2 for Cloud {
    async fn instance_exists(&self, node: &Node) -> Result<bool> {
        self.ask("instance_exists", node, |s| &s.instance_exists)
            .await
    }

    async fn instance_shutdown(&self, node: &Node) -> Result<bool> {
        self.ask("instance_shutdown", node, |s| &s.instance_shutdown)
            .await
    }

    async fn instance_metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>> {
        self.ask("instance_metadata", node, |s| &s.instance_metadata)
            .await
    }
}

#[async_trait]
impl Clusters for Cloud {
    async fn list(&self) -> Result<Vec<String>> {
        self.ask("list_clusters", &(), |s| &s.list_clusters).await
    }

    async fn master(&self, cluster: &str) -> Result<String> {
        self.ask("master", cluster, |s| &s.master).await
    }
}
