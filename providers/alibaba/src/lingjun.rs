//! Lingjun nodes: bare-metal machines for AI, which have an API of their own.
//!
//! Such a Node has the label `alibabacloud.com/lingjun-worker=true`, and a provider ID of another form than those of ECS.
//! The kubelet reports its addresses. The cloud is asked only whether the machine exists.

use cloud_provider::{
    AddressType, Error, Gone, InstanceMetadata, InstanceState, LookupRequest, MetadataLevel, Node,
    Result,
};
use serde_json::Value;

use crate::api::{Api, EFLO, Query};
use crate::instances::machine_id;

const WORKER: &str = "alibabacloud.com/lingjun-worker";
/// The code with which the API answers for a machine that does not exist.
const NOT_FOUND: &str = "RESOURCE_NOT_FOUND";

/// Returns `true` for Nodes on Lingjun machines.
pub(crate) fn is_lingjun(node: &Node) -> bool {
    let is_other = node
        .provider_id()
        .is_some_and(|id| !id.contains("://") && machine_id(id).is_err());
    is_other && node.labels.get(WORKER) == Some("true")
}

/// Reads the state of a Lingjun machine.
///
/// # Errors
/// The cloud's answer. Only the code for the machine itself proves that the machine does not exist.
pub(crate) async fn state(api: &Api, node: &Node, request: LookupRequest) -> Result<InstanceState> {
    let id = node.provider_id().unwrap_or_default();
    let answer: Value = match api
        .read(Query::new(EFLO, "DescribeNode").set("NodeId", id))
        .await
    {
        Err(error) if error.code() == NOT_FOUND => {
            return Ok(InstanceState::Gone(Gone::no_such_id(id)));
        }
        answer => answer?,
    };
    if answer["NodeId"] != *id {
        return Err(Error::other(format!(
            "DescribeNode answered {} for Lingjun node {id:?}",
            answer["NodeId"]
        )));
    }
    let metadata = (request.metadata != MetadataLevel::No).then(|| {
        let reported = node
            .addresses
            .iter()
            .filter(|address| address.kind != AddressType::Hostname);
        Box::new(InstanceMetadata {
            provider_id: id.to_owned(),
            node_addresses: reported.cloned().collect(),
            ..InstanceMetadata::default()
        })
    });
    Ok(InstanceState::Present {
        shutdown: request.shutdown.then_some(false),
        metadata,
    })
}
