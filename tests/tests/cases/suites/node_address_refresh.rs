//! Suite: a periodic address pass over a single Node.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::cases::api::ApiRequest;
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Address, ApiError, ErrorText, Event, addresses, read};
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
    patch_error: Option<ApiError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// Always null: a pass has no result.
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    #[serde(default)]
    addresses: Expected<Vec<Address>>,
    #[serde(default)]
    provider_calls: Expected<Vec<String>>,
    #[serde(default)]
    events: Expected<Vec<Event>>,
    #[serde(default)]
    patch_sent: Expected<bool>,
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let world = World::new(given.node, given.provider.unwrap_or_default(), true)?;
    if let Some(error) = given.api.unwrap_or_default().patch_error {
        world.api.refuse(ApiRequest::is_patch, error.kind, None);
    }

    world
        .node_controller()?
        .refresh_addresses(&CancellationToken::new())
        .await;

    let mut comparison = Comparison::default();
    comparison.error(&expect.error, None);
    let node = world.node_now()?.context("the Node is gone")?;
    comparison.key("addresses", &expect.addresses, &addresses(&node.addresses));
    comparison.key(
        "provider_calls",
        &expect.provider_calls,
        &world.cloud.calls(),
    );
    comparison.events(&expect.events, &world.events());
    let patched = world
        .requests()
        .iter()
        .any(|what| what == "patch nodes/status");
    comparison.key("patch_sent", &expect.patch_sent, &patched);
    world.forbid_surprises(&mut comparison);
    Ok(comparison)
}
