//! The changes that initialization makes to a Node, planned before anything is written (NODE-15 to NODE-29).

use cloud_provider::{Error, InstanceMetadata, Node, Result, Taint, addresses_for_node_ip};
use serde_json::{Map, Value, json};

use crate::node::labels;

/// The planned changes that initialize a Node.
#[derive(Clone, Debug)]
pub struct Initialization {
    metadata: InstanceMetadata,
    /// Provider ID to set; `None` if the Node had one when its metadata was read (NODE-19).
    provider_id: Option<String>,
    /// UID of the Node that the metadata was read for. A new Node of the same name gets none of it (P-10).
    uid: Box<str>,
}

impl Initialization {
    /// Plans the initialization of `node` with the metadata from the cloud (NODE-17 … NODE-19).
    ///
    /// # Errors
    /// The kubelet asks for an address that the cloud does not list (NODE-18).
    pub fn plan(node: &Node, metadata: InstanceMetadata) -> Result<Self> {
        if let Some(node_ip) = node.requested_ip() {
            addresses_for_node_ip(node_ip, &metadata.node_addresses)
                .map_err(|err| invalid_node_ip(&node.name, &err))?;
        }
        let provider_id = (node.provider_id().is_none() && !metadata.provider_id.is_empty())
            .then(|| metadata.provider_id.clone());
        Ok(Self {
            metadata,
            provider_id,
            uid: node.uid.clone(),
        })
    }

    /// Returns a message about labels from the cloud that the API would refuse.
    pub fn left_out_labels(&self, node: &Node) -> Option<String> {
        labels::left_out(&node.name, &self.metadata)
    }

    /// Returns the provider ID that `node` has once the plan is carried out.
    pub fn provider_id<'a>(&'a self, node: &'a Node) -> &'a str {
        self.provider_id.as_deref().unwrap_or(&node.provider_id)
    }

    /// Returns the metadata from the cloud.
    pub fn metadata(&self) -> &InstanceMetadata {
        &self.metadata
    }

    /// Returns the patch of `nodes/NAME` that carries out the plan on the current `node` (NODE-20 … NODE-24), or `None`
    /// if nothing is left to change.
    ///
    /// The patch has only the changed fields, so that fields unknown to this program survive. It has the
    /// resourceVersion, because the API replaces `spec.taints` as a whole.
    ///
    /// # Errors
    /// An error that is no *conflict*, if the Node is not the one that was planned for.
    pub fn patch(&self, node: &Node) -> Result<Option<Value>> {
        if node.uid != self.uid {
            return Err(Error::other(format!(
                "node {} was re-created while it was being initialised; it is looked up again",
                node.name
            )));
        }
        let mut spec = Map::new();
        if let Some(id) = self
            .provider_id
            .as_deref()
            .filter(|id| *id != &*node.provider_id)
        {
            spec.insert("providerID".into(), json!(id));
        }
        if node.is_uninitialized() {
            spec.insert(
                "taints".into(),
                taints_value(&without_start_up_taint(&node.taints)),
            );
        }
        let labels = labels::from_metadata(&self.metadata, &node.labels);
        if spec.is_empty() && labels.is_empty() {
            return Ok(None);
        }
        let mut patch = json!({"metadata": {"resourceVersion": node.resource_version}});
        if !labels.is_empty() {
            patch["metadata"]["labels"] = json!(labels);
        }
        if !spec.is_empty() {
            patch["spec"] = Value::Object(spec);
        }
        Ok(Some(patch))
    }
}

/// Returns the error for an invalid node IP (NODE-18). The kind of the cause is kept, because the user must correct a
/// wrong annotation.
fn invalid_node_ip(node: &str, err: &Error) -> Error {
    Error::invalid(format!(
        "failed to get node modifiers from cloud provider: provided node ip for node {node:?} is not valid: {err}"
    ))
}

/// Returns the taints without the uninitialized taint (NODE-23).
fn without_start_up_taint(taints: &[Taint]) -> Vec<Taint> {
    taints
        .iter()
        .filter(|t| &*t.key != cloud_provider::names::TAINT_UNINITIALIZED)
        .cloned()
        .collect()
}

/// Returns the value of `spec.taints` in a patch; `null` removes the last taint (HELP-31).
pub(crate) fn taints_value(taints: &[Taint]) -> Value {
    if taints.is_empty() {
        Value::Null
    } else {
        json!(taints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(json: Value) -> Node {
        serde_json::from_value(json).unwrap()
    }

    fn fresh() -> Node {
        node(json!({
            "metadata": {"name": "n", "uid": "u1", "resourceVersion": "7"},
            "spec": {"taints": [
                {"key": "a", "effect": "NoSchedule"},
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
            ]},
        }))
    }

    fn metadata() -> InstanceMetadata {
        InstanceMetadata {
            provider_id: "p://1".into(),
            zone: "z".into(),
            ..InstanceMetadata::default()
        }
    }

    #[test]
    fn one_patch_carries_everything_and_the_version_it_was_made_for() {
        let patch = Initialization::plan(&fresh(), metadata())
            .unwrap()
            .patch(&fresh())
            .unwrap()
            .unwrap();
        assert_eq!(
            patch,
            json!({
                "metadata": {"resourceVersion": "7", "labels": {
                    "topology.kubernetes.io/zone": "z", "failure-domain.beta.kubernetes.io/zone": "z"}},
                "spec": {"providerID": "p://1", "taints": [{"key": "a", "effect": "NoSchedule"}]},
            })
        );
    }

    #[test]
    fn an_existing_provider_id_is_kept_silently() {
        let mut other_node = fresh();
        other_node.provider_id = "p://other".into();
        let patch = Initialization::plan(&other_node, metadata())
            .unwrap()
            .patch(&other_node)
            .unwrap()
            .unwrap();
        assert_eq!(patch["spec"].get("providerID"), None);
    }

    #[test]
    fn a_node_that_has_everything_already_is_not_written() {
        let done = node(json!({"metadata": {"name": "n", "uid": "u1", "labels": {
            "topology.kubernetes.io/zone": "z", "failure-domain.beta.kubernetes.io/zone": "z"}},
            "spec": {"providerID": "p://1"}}));
        assert_eq!(
            Initialization::plan(&fresh(), metadata())
                .unwrap()
                .patch(&done)
                .unwrap(),
            None
        );
    }

    #[test]
    fn an_invalid_label_does_not_keep_the_start_up_taint() {
        let metadata = InstanceMetadata {
            zone: "zone 1".into(),
            ..metadata()
        };
        let plan = Initialization::plan(&fresh(), metadata).unwrap();
        let patch = plan.patch(&fresh()).unwrap().unwrap();
        assert_eq!(patch["metadata"].get("labels"), None);
        assert_eq!(
            patch["spec"]["taints"],
            json!([{"key": "a", "effect": "NoSchedule"}])
        );
        assert!(
            plan.left_out_labels(&fresh())
                .unwrap()
                .contains(r#"zone="zone 1""#)
        );
    }

    #[test]
    fn a_re_created_node_inherits_nothing() {
        let mut other = fresh();
        other.uid = "u2".into();
        let err = Initialization::plan(&fresh(), metadata())
            .unwrap()
            .patch(&other)
            .unwrap_err();
        assert!(err.to_string().contains("re-created"), "{err}");
    }
}
