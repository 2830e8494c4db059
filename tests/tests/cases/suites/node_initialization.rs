//! Suite: a sync of one Node by the node controller.
//!
//! The Go cloud-controller-manager removes the start-up taint with a full update, this project with a patch of the same
//! resource (`decisions.md`, D-8); a case's `update_…` means that write, `patch_error` any other patch.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::api::ApiRequest;
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{
    Address, ApiError, ApiErrorKind, ErrorText, Event, TaintForm, addresses, read, taints,
};
use crate::cases::script::ProviderScript;
use crate::cases::world::World;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    node: Value,
    provider: Option<ProviderScript>,
    api: Option<Faults>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Faults {
    update_conflicts: Option<u32>,
    update_error: Option<ApiError>,
    patch_error: Option<ApiError>,
    in_cache: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    #[serde(default)]
    node: Expected<NodeForm>,
    #[serde(default)]
    provider_calls: Expected<Vec<String>>,
    #[serde(default)]
    events: Expected<Vec<Event>>,
    #[serde(default)]
    write_attempts: Expected<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeForm {
    #[serde(default)]
    provider_id: Expected<String>,
    #[serde(default)]
    labels: Expected<BTreeMap<String, String>>,
    #[serde(default)]
    taints: Expected<Vec<TaintForm>>,
    #[serde(default)]
    addresses: Expected<Vec<Address>>,
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let faults = given.api.unwrap_or_default();
    let world = World::new(
        given.node,
        given.provider.unwrap_or_default(),
        faults.in_cache.unwrap_or(true),
    )?;
    if let Some(times) = faults.update_conflicts {
        world.api.refuse(
            ApiRequest::changes_taints,
            ApiErrorKind::Conflict,
            Some(times),
        );
    }
    if let Some(error) = faults.update_error {
        world
            .api
            .refuse(ApiRequest::changes_taints, error.kind, None);
    }
    if let Some(error) = faults.patch_error {
        world.api.refuse(
            |request| request.is_patch() && !request.changes_taints(),
            error.kind,
            None,
        );
    }

    let error = world.sync().await?;

    let mut comparison = Comparison::default();
    comparison.error(&expect.error, error.as_deref());
    if let Expected::Exactly(expected) = expect.node {
        let node = world.node_now()?.context("the Node is gone")?;
        comparison.key(
            "node.provider_id",
            &expected.provider_id,
            &node.provider_id.to_string(),
        );
        comparison.key("node.labels", &expected.labels, &owned(&node.labels));
        comparison.key(
            "node.taints",
            &expected.taints.map(|list| taints(&list)),
            &node.taints.to_vec(),
        );
        comparison.key(
            "node.addresses",
            &expected.addresses,
            &addresses(&node.addresses),
        );
    }
    comparison.key(
        "provider_calls",
        &expect.provider_calls,
        &world.cloud.calls(),
    );
    comparison.events(&expect.events, &world.events());
    let attempts = world
        .api
        .requests()
        .iter()
        .filter(|request| request.changes_taints())
        .count();
    comparison.key("write_attempts", &expect.write_attempts, &attempts);
    world.forbid_surprises(&mut comparison);
    Ok(comparison)
}

/// Labels in a form that compares and prints well.
pub(super) fn owned(labels: &cloud_provider::StringMap) -> BTreeMap<String, String> {
    labels
        .iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
