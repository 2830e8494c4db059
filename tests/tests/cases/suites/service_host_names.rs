//! Node names in a message.

use anyhow::Result;
use controllers::service::targets::host_names;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::read;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    text: Expected<String>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let mut comparison = Comparison::default();
    comparison.key("text", &expect.text, &host_names(&given.names));
    Ok(comparison)
}
