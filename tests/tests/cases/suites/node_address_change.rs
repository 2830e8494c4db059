//! Suite: comparison of two address lists.

use anyhow::Result;
use controllers::node::addresses::differ;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Address, node_addresses, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    current: Option<Vec<Address>>,
    new: Option<Vec<Address>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    changed: Expected<bool>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let changed = differ(&node_addresses(given.current), &node_addresses(given.new));
    let mut comparison = Comparison::default();
    comparison.key("changed", &expect.changed, &changed);
    Ok(comparison)
}
