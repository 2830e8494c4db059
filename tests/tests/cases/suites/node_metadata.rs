//! Metadata retrieval for initialisation.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use cloud_provider::InstanceMetadata;
use controllers::node::metadata::fetch;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Address, ErrorText, addresses, read};
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
    /// Null on error, or if the provider has none.
    #[serde(default)]
    metadata: Expected<Option<MetadataForm>>,
    #[serde(default)]
    provider_calls: Expected<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetadataForm {
    #[serde(default)]
    provider_id: Expected<String>,
    #[serde(default)]
    instance_type: Expected<String>,
    #[serde(default)]
    zone: Expected<String>,
    #[serde(default)]
    region: Expected<String>,
    #[serde(default)]
    node_addresses: Expected<Vec<Address>>,
    #[serde(default)]
    additional_labels: Expected<BTreeMap<String, String>>,
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let node = Arc::new(node(&given.node)?);
    let script = given.provider.unwrap_or_default();
    let cloud = script.provider();
    script.withdraw(&cloud);

    let answer = fetch(&*cloud, &[node])
        .await
        .pop()
        .context("no answer for the Node")?;

    let mut comparison = Comparison::default();
    comparison.error(
        &expect.error,
        answer.as_ref().err().map(ToString::to_string).as_deref(),
    );
    let found = answer.ok().flatten();
    match (expect.metadata, found) {
        (Expected::Exactly(Some(expected)), Some(found)) => {
            compare(&mut comparison, &expected, &found);
        }
        (expected, found) => {
            comparison.key(
                "metadata",
                &expected.map(|metadata| metadata.is_some()),
                &found.is_some(),
            );
        }
    }
    comparison.key("provider_calls", &expect.provider_calls, &cloud.calls());
    comparison.forbid(cloud.violations());
    Ok(comparison)
}

fn compare(comparison: &mut Comparison, expected: &MetadataForm, found: &InstanceMetadata) {
    comparison.key(
        "metadata.provider_id",
        &expected.provider_id,
        &found.provider_id,
    );
    comparison.key(
        "metadata.instance_type",
        &expected.instance_type,
        &found.instance_type,
    );
    comparison.key("metadata.zone", &expected.zone, &found.zone);
    comparison.key("metadata.region", &expected.region, &found.region);
    comparison.key(
        "metadata.node_addresses",
        &expected.node_addresses,
        &addresses(&found.node_addresses),
    );
    comparison.key(
        "metadata.additional_labels",
        &expected.additional_labels,
        &found.additional_labels,
    );
}
