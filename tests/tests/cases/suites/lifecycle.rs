//! Suite: a pass of the node-lifecycle controller over a single Node.

use anyhow::Result;
use cloud_provider::Taint;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::cases::api::ApiRequest;
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ApiError, Event, TaintForm, read, taints};
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
    delete_error: Option<ApiError>,
    patch_error: Option<ApiError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    deleted: Expected<bool>,
    /// Expected Node; null if it was deleted.
    #[serde(default)]
    taints: Expected<Option<Vec<TaintForm>>>,
    #[serde(default)]
    provider_calls: Expected<Vec<String>>,
    #[serde(default)]
    events: Expected<Vec<Event>>,
    #[serde(default)]
    requests: Expected<Vec<String>>,
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let world = World::new(given.node, given.provider.unwrap_or_default(), true)?;
    let faults = given.api.unwrap_or_default();
    if let Some(error) = faults.delete_error {
        world.api.refuse(ApiRequest::is_delete, error.kind, None);
    }
    if let Some(error) = faults.patch_error {
        world.api.refuse(ApiRequest::is_patch, error.kind, None);
    }

    world
        .lifecycle_controller()?
        .pass(&CancellationToken::new())
        .await;

    let node = world.node_now()?;
    let mut comparison = Comparison::default();
    comparison.key("deleted", &expect.deleted, &node.is_none());
    let expected_taints = expect.taints.map(|list| list.map(|list| taints(&list)));
    let found: Option<Vec<Taint>> = node.map(|node| node.taints.into());
    comparison.key("taints", &expected_taints, &found);
    comparison.key(
        "provider_calls",
        &expect.provider_calls,
        &world.cloud.calls(),
    );
    comparison.events(&expect.events, &world.events());
    comparison.key("requests", &expect.requests, &world.requests());
    world.forbid_surprises(&mut comparison);
    Ok(comparison)
}
