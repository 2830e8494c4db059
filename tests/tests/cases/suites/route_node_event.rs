//! Suite: updates of a Node that lead to a reconcile in watch mode.

use anyhow::Result;
use controllers::route::node_event::trigger;
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
    #[serde(default)]
    trigger: Expected<String>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Change = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let mut comparison = Comparison::default();
    let trigger = trigger(&node(&given.old)?, &node(&given.new)?);
    comparison.key("enqueue", &expect.enqueue, &trigger.is_some());
    comparison.key(
        "trigger",
        &expect.trigger,
        &trigger
            .map(|trigger| trigger.as_str().to_owned())
            .unwrap_or_default(),
    );
    Ok(comparison)
}
