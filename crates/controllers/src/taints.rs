//! Taints of Nodes, added and removed without changing taints of others (HELP-30 … HELP-33).

use cloud_provider::{Node, Taint};
use kube::Api;
use runtime::api_error::is_conflict;
use runtime::node::NodeObject;
use runtime::retry::ConflictRetry;
use runtime::writes::strategic_patch;
use serde_json::json;

use crate::node::plan::taints_value;
use crate::read::read_node;

/// The Node whose taints are changed.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Name of the Node.
    pub name: &'a str,
    /// UID of the Node, so that a Node that was re-created with the same name is not changed (P-10). `None` accepts any
    /// UID.
    pub uid: Option<&'a str>,
}

impl<'a> From<&'a Node> for Target<'a> {
    fn from(node: &'a Node) -> Self {
        Self {
            name: &node.name,
            uid: Some(&node.uid),
        }
    }
}

/// Returns `current` with `wanted` added, or `None` if it has all of them, equal in every field (HELP-30).
#[must_use]
pub fn with_taints(current: &[Taint], wanted: &[Taint]) -> Option<Vec<Taint>> {
    let mut next = current.to_vec();
    for taint in wanted {
        match next.iter_mut().find(|t| t.matches(taint)) {
            Some(present) => present.clone_from(taint),
            None => next.push(taint.clone()),
        }
    }
    (next != current).then_some(next)
}

/// Returns `current` without the taints that match one of `unwanted`, or `None` if none does (HELP-32).
#[must_use]
pub fn without_taints(current: &[Taint], unwanted: &[Taint]) -> Option<Vec<Taint>> {
    let next: Vec<Taint> = current
        .iter()
        .filter(|t| !unwanted.iter().any(|u| u.matches(t)))
        .cloned()
        .collect();
    (next.len() != current.len()).then_some(next)
}

/// Sets taints on a Node. Sends no request without taints, and no write without a change.
///
/// # Errors
/// The API's answer; a conflict only after five attempts (HELP-31, HELP-33).
pub async fn add_or_update_taints(
    api: &Api<NodeObject>,
    node: Target<'_>,
    taints: &[Taint],
) -> Result<(), kube::Error> {
    if taints.is_empty() {
        return Ok(());
    }
    change(api, node, |current| with_taints(current, taints)).await
}

/// Removes taints from a Node. Sends no request if the `cached` Node has none of them (HELP-32).
///
/// # Errors
/// Those of [`add_or_update_taints`].
pub async fn remove_taints(
    api: &Api<NodeObject>,
    node: Target<'_>,
    cached: Option<&Node>,
    taints: &[Taint],
) -> Result<(), kube::Error> {
    if taints.is_empty()
        || cached.is_some_and(|node| without_taints(&node.taints, taints).is_none())
    {
        return Ok(());
    }
    change(api, node, |current| without_taints(current, taints)).await
}

/// Replaces the taints. The list has no merge key, so it is replaced as a whole, with the resourceVersion that it was
/// read from (HELP-31).
async fn change(
    api: &Api<NodeObject>,
    target: Target<'_>,
    next: impl Fn(&[Taint]) -> Option<Vec<Taint>>,
) -> Result<(), kube::Error> {
    let Target { name, uid } = target;
    ConflictRetry::TAINTS
        .run(is_conflict, |attempt| {
            let next = &next;
            async move {
                let node = read_node(api, name, attempt).await?;
                if uid.is_some_and(|uid| *uid != *node.uid) {
                    return Ok(());
                }
                let Some(taints) = next(&node.taints) else {
                    return Ok(());
                };
                let patch = json!({
                    "metadata": {"resourceVersion": node.resource_version},
                    "spec": {"taints": taints_value(&taints)},
                });
                strategic_patch(api, name, None, &patch).await.map(drop)
            }
        })
        .await
}
