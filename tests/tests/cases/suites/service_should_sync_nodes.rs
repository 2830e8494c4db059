//! Suite: changes of a Node that require a node sync.

use anyhow::Result;
use controllers::service::targets::needs_node_sync;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Change, node, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    should_sync: Expected<bool>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Change = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let old = node("given.old", &given.old)?;
    let new = node("given.new", &given.new)?;
    let mut comparison = Comparison::default();
    comparison.key(
        "should_sync",
        &expect.should_sync,
        &needs_node_sync(&old, &new),
    );
    Ok(comparison)
}
