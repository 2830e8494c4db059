//! Concurrency settings of the node controller.

use anyhow::Result;
use controllers::Options;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::read;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    concurrent_node_syncs: Option<i32>,
    concurrent_node_status_updates: Option<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    status_workers: Expected<i32>,
    #[serde(default)]
    errors: Expected<Vec<String>>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let mut options = Options::reference();
    if let Some(workers) = given.concurrent_node_syncs {
        options.node.concurrent_node_syncs = workers;
    }
    if let Some(workers) = given.concurrent_node_status_updates {
        options.node.concurrent_node_status_updates = workers;
    }
    let mut comparison = Comparison::default();
    comparison.key(
        "status_workers",
        &expect.status_workers,
        &options.node.status_workers(),
    );
    comparison.key("errors", &expect.errors, &options.validate());
    Ok(comparison)
}
