//! Suite: resolution of provider IDs.

use std::sync::Arc;

use anyhow::Result;
use cloud_provider::scripted::ScriptedProvider;
use cloud_provider::{CloudProvider, Error, NO_INSTANCES, Node};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ErrorText, read, take_function, unknown_function};
use crate::cases::script::ProviderScript;
use crate::cases::world::node;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    node: Value,
    provider: Option<ProviderScript>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    /// Expected provider ID; empty on error.
    #[serde(default)]
    provider_id: Expected<Option<String>>,
    #[serde(default)]
    provider_calls: Expected<Vec<String>>,
}

pub(super) async fn run(mut given: Value, expect: Value) -> Result<Comparison> {
    let function = take_function(&mut given)?;
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let node = Arc::new(node(&given.node)?);
    let script = given.provider.unwrap_or_default();
    let cloud = script.provider();
    script.withdraw(&cloud);

    let answer = match function.as_str() {
        "lookup_by_name" => look_up_by_name(&cloud, &node).await,
        "resolve_for_node" => resolve(&cloud, &node).await,
        other => return Err(unknown_function(other, "lookup_by_name, resolve_for_node")),
    };

    let mut comparison = Comparison::default();
    comparison.error(
        &expect.error,
        answer.as_ref().err().map(ToString::to_string).as_deref(),
    );
    comparison.key(
        "provider_id",
        &expect.provider_id.map(Option::unwrap_or_default),
        &answer.unwrap_or_default(),
    );
    comparison.key("provider_calls", &expect.provider_calls, &cloud.calls());
    comparison.forbid(cloud.violations());
    Ok(comparison)
}

async fn look_up_by_name(cloud: &ScriptedProvider, node: &Node) -> cloud_provider::Result<String> {
    match cloud.v1() {
        Some(machines) => machines.provider_id_by_name(&node.name).await,
        None => Err(Error::other(NO_INSTANCES)),
    }
}

async fn resolve(cloud: &ScriptedProvider, node: &Arc<Node>) -> cloud_provider::Result<String> {
    match (cloud.instances(), node.provider_id()) {
        (Some(machines), _) => machines.provider_id(node).await,
        (None, Some(own)) => Ok(own.to_owned()),
        (None, None) => Err(Error::other(NO_INSTANCES)),
    }
}
