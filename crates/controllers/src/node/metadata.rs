//! Metadata of instances, read from the cloud to initialize Nodes (NODE-40 to NODE-48).

use std::sync::Arc;

use cloud_provider::{
    CloudProvider, Error, Gone, InstanceMetadata, InstanceState, Instances, LookupRequest,
    NO_INSTANCES, Node, Result,
};

use crate::look_up::look_up;

/// Returns the metadata of each Node, in the order of `nodes`. `Ok(None)` means that the cloud has no metadata yet
/// (NODE-15).
pub async fn fetch(
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
) -> Vec<Result<Option<InstanceMetadata>>> {
    let id_is_optional = provider
        .instances()
        .is_some_and(Instances::provider_id_is_optional);
    let answers = look_up(provider, nodes, LookupRequest::METADATA, NO_INSTANCES).await;
    nodes
        .iter()
        .zip(answers)
        .map(|(node, answer)| judge(node, answer?, id_is_optional))
        .collect()
}

/// Returns the metadata in the result of a look-up. `id_is_optional`: see [`Instances::provider_id_is_optional`].
///
/// # Errors
/// If the cloud has no such machine, or no provider ID for it (NODE-41).
pub fn judge(
    node: &Node,
    state: InstanceState,
    id_is_optional: bool,
) -> Result<Option<InstanceMetadata>> {
    match state {
        InstanceState::Gone(gone) => Err(not_found(&gone)),
        InstanceState::Present { metadata: None, .. } => Ok(None),
        InstanceState::Present {
            metadata: Some(metadata),
            ..
        } => {
            let mut metadata = *metadata;
            if metadata.provider_id.is_empty() && !id_is_optional {
                // A Node never loses its taint without a provider ID (NODE-41).
                metadata.provider_id = node.provider_id().map(str::to_owned).ok_or_else(|| {
                    Error::other(format!(
                        "cloud provider does not set node provider ID for node {}",
                        node.name
                    ))
                })?;
            }
            Ok(Some(metadata))
        }
    }
}

fn not_found(gone: &Gone) -> Error {
    Error::not_found(format!(
        "{}: {}",
        Error::instance_not_found(),
        gone.reason()
    ))
}
