//! Tags of the instances of an OpenShift cluster.

use std::time::Duration;

use cloud_provider::{Node, Result};
use provider_kit::cluster::ClusterView;
use provider_kit::transport::Call;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::instance::ocid;

/// The pause between two rounds.
const INTERVAL: Duration = Duration::from_secs(240 * 60);
/// The number of defined tags that an instance can have.
const LIMIT: usize = 64;
/// The tag of all instances of a cluster: namespace, key and value.
const TAG: (&str, &str, &str) = (
    "openshift-tags",
    "openshift-resource",
    "openshift-resource-infra",
);
/// The label by which Nodes of OpenShift are known, unless `OPENSHIFT_NODE_LABEL_ID` names another one.
const LABEL: &str = "node.openshift.io/os_id=rhel";

/// Gives all instances of an OpenShift cluster the tags that the configuration and OpenShift ask for.
pub(crate) async fn tag_instances(api: Api, cluster: ClusterView) {
    loop {
        let nodes = cluster.nodes().unwrap_or_default();
        if nodes.iter().any(|node| {
            is_of_openshift(node, api.config.environment.get("OPENSHIFT_NODE_LABEL_ID"))
        }) {
            for node in &nodes {
                if let Err(error) = tag_instance(&api, node).await {
                    tracing::warn!(node = &*node.name, %error, "the instance of a Node is not tagged");
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn is_of_openshift(node: &Node, label: Option<&str>) -> bool {
    let label = label
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .unwrap_or(LABEL);
    match label.split_once('=') {
        Some((key, value)) => node.labels.get(key.trim()) == Some(value.trim()),
        None => node.labels.contains_key(label),
    }
}

async fn tag_instance(api: &Api, node: &Node) -> Result<()> {
    const INSTANCE: &str = "/20160918/instances/{id}";
    let id = ocid(&node.provider_id)?;
    let answer = api.iaas.send(Call::get(INSTANCE, &[id])).await?;
    let instance: Value = answer.json()?;
    let Some(tags) = missing(
        &instance["definedTags"],
        &json!(api.config.common_tags.defined),
    ) else {
        return Ok(());
    };
    let count = |tags: &Value| {
        tags.as_object()
            .into_iter()
            .flatten()
            .filter_map(|(_, tag)| tag.as_object())
            .map(Map::len)
            .sum()
    };
    let present: usize = count(&instance["definedTags"]);
    if present >= LIMIT {
        tracing::warn!(
            node = &*node.name,
            tags = present,
            "the instance of a Node has as many tags as are possible"
        );
        return Ok(());
    }
    let etag = answer
        .headers
        .get("etag")
        .and_then(|header| header.to_str().ok());
    let call = Call::put(INSTANCE, &[id]).json(&json!({ "definedTags": tags }));
    api.iaas
        .send(
            etag.iter()
                .fold(call, |call, etag| call.header("if-match", etag)),
        )
        .await
        .map(drop)
}

/// Returns the tags of an instance with those that it lacks; `None` if it lacks none.
fn missing(present: &Value, common: &Value) -> Option<Value> {
    let mut wanted = if common.is_object() {
        common.clone()
    } else {
        json!({})
    };
    if !wanted[TAG.0].is_object() {
        wanted[TAG.0] = json!({});
    }
    wanted[TAG.0][TAG.1] = TAG.2.into();
    let mut all = if present.is_object() {
        present.clone()
    } else {
        json!({})
    };
    for (namespace, tags) in wanted.as_object().into_iter().flatten() {
        // A namespace that is no object cannot be indexed.
        if !all[namespace].is_object() {
            all[namespace] = json!({});
        }
        for (key, value) in tags.as_object().into_iter().flatten() {
            all[namespace][key] = value.clone();
        }
    }
    (all != *present).then_some(all)
}
