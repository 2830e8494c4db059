//! Nodes: their metadata, and the absence of their instances.

use std::sync::Arc;

use cloud_provider::{Caches, CloudProvider, InstanceState, LookupRequest, MetadataLevel, Node};

use crate::harness::Harness;

const FRESH: LookupRequest = LookupRequest { existence: true, shutdown: true, metadata: MetadataLevel::Full, fresh: true };

#[tokio::test(start_paused = true)]
async fn node_gets_the_labels_of_its_instance_under_both_forms_of_provider_id() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let node = harness.cluster.nodes()[0].clone();
    let bare = Node { provider_id: node.provider_id.trim_start_matches("oci://").into(), ..(*node).clone() };
    let named = Node { provider_id: "".into(), ..(*node).clone() };
    for node in [(*node).clone(), bare, named] {
        let found = provider.instances().unwrap().lookup(&[Arc::new(node)], FRESH).await;
        let InstanceState::Exists { metadata: Some(metadata), .. } = found[0].as_ref().unwrap() else { panic!("{found:?}") };
        assert_eq!((&*metadata.instance_type, &*metadata.region, &*metadata.zone), ("VM.Standard.E4.Flex", "phx", "PHX-AD-1"));
        assert_eq!(metadata.additional_labels["oci.oraclecloud.com/fault-domain"], "FAULT-DOMAIN-2");
    }
}
