//! Suite: source ranges that may reach a load balancer.

use anyhow::Result;
use cloud_provider::Service;
use cloud_provider::names::ANNOTATION_SOURCE_RANGES;
use provider_kit::source_ranges::{allows_all, source_ranges};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ErrorText, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    spec_ranges: Option<Vec<String>>,
    annotation: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    /// Expected ranges; null on error.
    #[serde(default)]
    ranges: Expected<Option<Vec<String>>>,
    #[serde(default)]
    allow_all: Expected<Option<bool>>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let mut service = Service::default();
    service
        .spec
        .get_or_insert_default()
        .load_balancer_source_ranges = given.spec_ranges;
    service.metadata.annotations = given
        .annotation
        .map(|value| [(ANNOTATION_SOURCE_RANGES.to_owned(), value)].into());

    let ranges = source_ranges(&service);

    let mut comparison = Comparison::default();
    comparison.error(
        &expect.error,
        ranges.as_ref().err().map(ToString::to_string).as_deref(),
    );
    comparison.key(
        "allow_all",
        &expect.allow_all,
        &ranges.as_ref().ok().map(allows_all),
    );
    let texts = ranges.ok().map(|ranges| {
        let mut texts: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    });
    comparison.key("ranges", &expect.ranges, &texts);
    Ok(comparison)
}
