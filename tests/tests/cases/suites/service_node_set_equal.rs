//! Suite: equality of two sets of Nodes as targets.

use anyhow::Result;
use controllers::service::Members;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{nodes, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    old: Vec<Value>,
    new: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    equal: Expected<bool>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let old = nodes("given.old", &given.old)?;
    let new = nodes("given.new", &given.new)?;
    let mut comparison = Comparison::default();
    comparison.key(
        "equal",
        &expect.equal,
        &Members::of(&old).same(&Members::of(&new)),
    );
    Ok(comparison)
}
