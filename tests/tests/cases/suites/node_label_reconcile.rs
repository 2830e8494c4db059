//! Alignment of deprecated and stable labels of a Node without the start-up taint.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::node_initialization::owned;
use crate::cases::api::ApiRequest;
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ApiError, ErrorText, read};
use crate::cases::script::ProviderScript;
use crate::cases::world::World;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    labels: Option<BTreeMap<String, String>>,
    in_cache: Option<bool>,
    patch_error: Option<ApiError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    #[serde(default)]
    labels: Expected<Option<BTreeMap<String, String>>>,
    /// Null if no patch was sent.
    #[serde(default)]
    patched_labels: Expected<Option<BTreeMap<String, String>>>,
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let mut metadata =
        json!({"name": "node0", "uid": "node-uid", "creationTimestamp": "2024-01-01T00:00:00Z"});
    if let Some(labels) = given.labels {
        metadata["labels"] = json!(labels);
    }
    let world = World::new(
        json!({"metadata": metadata, "spec": {}, "status": {}}),
        ProviderScript::default(),
        given.in_cache.unwrap_or(true),
    )?;
    if let Some(error) = given.patch_error {
        world.api.refuse(ApiRequest::is_patch, error.kind, None);
    }

    let error = world.sync().await?;

    let mut comparison = Comparison::default();
    comparison.error(&expect.error, error.as_deref());
    let node = world.node_now()?.context("the Node is gone")?;
    comparison.key(
        "labels",
        &expect.labels.map(Option::unwrap_or_default),
        &owned(&node.labels),
    );
    let patches: Vec<ApiRequest> = world
        .api
        .requests()
        .into_iter()
        .filter(ApiRequest::is_patch)
        .collect();
    let patched = match patches.last() {
        None => None,
        Some(patch) => Some(read(
            "the patch's labels",
            &patch.body["metadata"]["labels"],
        )?),
    };
    comparison.key("patched_labels", &expect.patched_labels, &patched);
    world.forbid_surprises(&mut comparison);
    Ok(comparison)
}
