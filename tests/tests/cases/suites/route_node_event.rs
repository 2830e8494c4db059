//! Suite: updates of a Node that lead to a reconcile in watch mode.

use anyhow::Result;
use controllers::route::node_event::enqueues;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Change, read};
use crate::cases::world::node;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    enqueue: Expected<bool>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Change = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let mut comparison = Comparison::default();
    comparison.key("enqueue", &expect.enqueue, &enqueues(&node(&given.old)?, &node(&given.new)?));
    Ok(comparison)
}
