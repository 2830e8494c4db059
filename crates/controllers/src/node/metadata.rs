//! Asking the cloud for what initialises Nodes (NODE-40 to NODE-48).

use std::sync::Arc;

use cloud_provider::{
    CloudProvider, Error, Gone, InstanceMetadata, InstanceState, Instances, NO_INSTANCES, Node, Result, Want,
};

use crate::look_up::look_up;

/// The metadata of each Node, in their order. `Ok(None)`: the cloud has none yet (NODE-15).
pub async fn fetch(provider: &dyn CloudProvider, nodes: &[Arc<Node>]) -> Vec<Result<Option<InstanceMetadata>>> {
    let id_is_optional = provider.instances().is_some_and(Instances::provider_id_is_optional);
    let answers = look_up(provider, nodes, Want::METADATA, NO_INSTANCES).await;
    nodes.iter().zip(answers).map(|(node, answer)| judge(node, answer?, id_is_optional)).collect()
}

/// What a look-up of all metadata says of one Node. `id_is_optional`: see [`Instances::provider_id_is_optional`].
///
/// # Errors
/// The cloud does not have the machine, or no id for it (NODE-41).
pub fn judge(node: &Node, state: InstanceState, id_is_optional: bool) -> Result<Option<InstanceMetadata>> {
    match state {
        InstanceState::Gone(gone) => Err(not_found(&gone)),
        InstanceState::Present { metadata: None, .. } => Ok(None),
        InstanceState::Present { metadata: Some(metadata), .. } => {
            let mut metadata = *metadata;
            if metadata.provider_id.is_empty() && !id_is_optional {
                // NODE-41: a Node never loses its taint without a provider id.
                metadata.provider_id = node.provider_id().map(str::to_owned).ok_or_else(|| {
                    Error::other(format!("cloud provider does not set node provider ID for node {}", node.name))
                })?;
            }
            Ok(Some(metadata))
        }
    }
}

fn not_found(gone: &Gone) -> Error {
    Error::not_found(format!("{}: {}", Error::instance_not_found(), gone.reason()))
}
