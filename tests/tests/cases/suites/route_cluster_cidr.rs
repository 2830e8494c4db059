//! Suite: interpretation of `--cluster-cidr`.

use anyhow::Result;
use controllers::route::cluster_cidr::parse;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ErrorText, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    flag: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    cidrs: Expected<Vec<String>>,
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let parsed = parse(&given.flag);
    let mut comparison = Comparison::default();
    let ranges = parsed
        .as_deref()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    comparison.key("cidrs", &expect.cidrs, &ranges);
    comparison.error(&expect.error, parsed.err().as_deref());
    Ok(comparison)
}
