//! Reads of single Nodes before a write.

use cloud_provider::Node;
use kube::Api;
use kube::api::GetParams;
use runtime::node::NodeObject;

/// The Node as the API has it: the first attempt takes any cached version, further ones a live one (HELP-20).
pub(crate) async fn read_node(api: &Api<NodeObject>, name: &str, attempt: u32) -> Result<Node, kube::Error> {
    let params = if attempt == 0 { GetParams::any() } else { GetParams::default() };
    Ok(api.get_with(name, &params).await?.node)
}
