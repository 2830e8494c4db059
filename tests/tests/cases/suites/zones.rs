//! Suite: selection of volumes' zones.

use std::collections::BTreeMap;

use anyhow::Result;
use ccm_tests::zones::{
    Selection, Zones, choose_zones, choose_zones_including, hash_and_index, label_zone_list,
    label_zones, listed_zones, select_zone, select_zones, topology_zones,
};
use cloud_provider::StringMap;
use k8s_openapi::api::core::v1::TopologySelectorTerm;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ErrorText, read, take_function, unknown_function};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topologies {
    allowed_topologies: Vec<TopologySelectorTerm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    claim: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    zones: Zones,
    claim: String,
    include: Option<String>,
    count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenSelection {
    zone_parameter_present: bool,
    zone_parameter: String,
    zones_parameter_present: bool,
    zones_parameter: Zones,
    zones_with_nodes: Zones,
    node_labels: Option<BTreeMap<String, String>>,
    allowed_topologies: Vec<TopologySelectorTerm>,
    claim: String,
    count: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    /// Expected zones; null on error.
    #[serde(default)]
    zones: Expected<Option<Vec<String>>>,
    #[serde(default)]
    hash: Expected<u32>,
    #[serde(default)]
    index: Expected<u32>,
}

pub(super) fn run(mut given: Value, expect: &Value) -> Result<Comparison> {
    let function = take_function(&mut given)?;
    let expect: Expect = read("expect", expect)?;
    let mut comparison = Comparison::default();
    if function == "hash_and_index" {
        let (hash, index) = hash_and_index(&read::<Claim>("given", &given)?.claim);
        comparison.error(&expect.error, None);
        comparison.key("hash", &expect.hash, &hash);
        comparison.key("index", &expect.index, &index);
        return Ok(comparison);
    }
    let zones = zones(&function, &given)?;
    comparison.error(
        &expect.error,
        zones.as_ref().err().map(ToString::to_string).as_deref(),
    );
    comparison.key("zones", &expect.zones, &zones.ok());
    Ok(comparison)
}

fn zones(function: &str, given: &Value) -> Result<cloud_provider::Result<Vec<String>>> {
    let text = || anyhow::Ok(read::<Text>("given", given)?.text);
    let zones = match function {
        "zones_to_set" => listed_zones(&text()?),
        "label_zones_to_set" => label_zones(&text()?),
        "label_zones_to_list" => return Ok(label_zone_list(&text()?)),
        "zones_from_allowed_topologies" => {
            topology_zones(&read::<Topologies>("given", given)?.allowed_topologies)
        }
        "choose_zones" | "choose_zones_including" => {
            let Choice {
                zones,
                claim,
                include,
                count,
            } = read("given", given)?;
            match include {
                None => Ok(choose_zones(&zones, &claim, count)),
                Some(include) => choose_zones_including(&zones, &claim, &include, count),
            }
        }
        "select_zones" | "select_zone" => select(&read("given", given)?),
        other => {
            return Err(unknown_function(
                other,
                "zones_to_set, label_zones_to_set, label_zones_to_list, zones_from_allowed_topologies, hash_and_index, \
                 choose_zones, choose_zones_including, select_zones, select_zone",
            ));
        }
    };
    Ok(zones.map(|zones| zones.into_iter().collect()))
}

fn select(given: &GivenSelection) -> cloud_provider::Result<Zones> {
    let node_labels: Option<StringMap> = given
        .node_labels
        .as_ref()
        .map(|labels| labels.iter().collect());
    let selection = Selection {
        zone: given
            .zone_parameter_present
            .then_some(&*given.zone_parameter),
        zones: given
            .zones_parameter_present
            .then_some(&given.zones_parameter),
        zones_with_nodes: &given.zones_with_nodes,
        node_labels: node_labels.as_ref(),
        allowed_topologies: &given.allowed_topologies,
        claim: &given.claim,
    };
    match given.count {
        Some(count) => select_zones(&selection, count),
        None => select_zone(&selection).map(|zone| [zone].into()),
    }
}
