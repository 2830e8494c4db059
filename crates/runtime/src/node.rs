//! Decoding of Nodes into the compact form.

use std::borrow::Cow;

use cloud_provider::Node;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

use crate::cache::Cached;

/// A core/v1 Node as it comes from the API, already compact.
///
/// The object is decoded directly into [`cloud_provider::Node`]: the JSON parser skips images, managed fields and the
/// like, so that a page of large Nodes never exists as full API types. Use it as `kube::Api<NodeObject>`. Only name,
/// UID and resource version of [`meta`](Resource::meta) are set.
///
/// ```
/// use runtime::node::NodeObject;
/// use kube::ResourceExt;
///
/// let object: NodeObject = serde_json::from_str(
///     r#"{"metadata":{"name":"worker-1","uid":"6e2b","resourceVersion":"7"},"status":{"images":[{"names":["x"]}]}}"#,
/// )?;
/// assert_eq!(object.resource_version().as_deref(), Some("7"));
/// assert_eq!(&*object.node.name, "worker-1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeObject {
    /// The Node in compact form.
    pub node: Node,
    meta: ObjectMeta,
}

impl From<Node> for NodeObject {
    fn from(node: Node) -> Self {
        let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        let meta = ObjectMeta {
            name: text(&node.name),
            uid: text(&node.uid),
            resource_version: text(&node.resource_version),
            ..ObjectMeta::default()
        };
        Self { node, meta }
    }
}

impl<'de> Deserialize<'de> for NodeObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Node::deserialize(deserializer).map(Self::from)
    }
}

impl Resource for NodeObject {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Node".into()
    }
    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }
    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural(_: &()) -> Cow<'_, str> {
        "nodes".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl Cached for Node {
    type Wire = NodeObject;

    fn from_wire(wire: NodeObject) -> Self {
        wire.node
    }
    fn key(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}
