//! Reads of single Nodes before a write.

use cloud_provider::Node;
use kube::Api;
use kube::api::GetParams;
use runtime::node::NodeObject;

/// Reads a Node from the API server: attempt 0 accepts a version from its watch cache (`resourceVersion=0`), later
/// attempts require the latest version (HELP-20).
pub(crate) async fn read_node(
    api: &Api<NodeObject>,
    name: &str,
    attempt: u32,
) -> Result<Node, kube::Error> {
    let params = if attempt == 0 {
        GetParams::any()
    } else {
        GetParams::default()
    };
    Ok(api.get_with(name, &params).await?.node)
}
