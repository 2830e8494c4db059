//! Suite: routes for which the controller is responsible.

use anyhow::{Result, anyhow};
use cloud_provider::Route;
use controllers::route::cluster_cidr::parse;
use controllers::route::responsibility::is_responsible;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::read;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    cluster_cidrs: Vec<String>,
    route_cidr: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    responsible: Expected<bool>,
}

/// Reads `given.cluster_cidrs`.
///
/// # Errors
/// The error of the flag's parser.
pub(super) fn ranges(texts: &[String]) -> Result<Vec<ipnet::IpNet>> {
    parse(&texts.join(",")).map_err(|error| anyhow!("given.cluster_cidrs: {error}"))
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let route = Route {
        destination_cidr: given.route_cidr,
        ..Route::default()
    };
    let mut comparison = Comparison::default();
    comparison.key(
        "responsible",
        &expect.responsible,
        &is_responsible(&route, &ranges(&given.cluster_cidrs)?),
    );
    Ok(comparison)
}
