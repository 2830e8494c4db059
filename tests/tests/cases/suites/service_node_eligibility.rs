//! Suite: eligibility of Nodes as targets of load balancers.

use anyhow::Result;
use controllers::service::targets::{is_eligible, is_included, is_tainted_for_deletion};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{node, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    node: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    included: Expected<bool>,
    #[serde(default)]
    not_autoscaler_tainted: Expected<bool>,
    #[serde(default)]
    not_being_deleted: Expected<bool>,
    #[serde(default)]
    eligible: Expected<bool>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let node = node("given.node", &given.node)?;
    let mut comparison = Comparison::default();
    comparison.key("included", &expect.included, &is_included(&node));
    comparison.key(
        "not_autoscaler_tainted",
        &expect.not_autoscaler_tainted,
        &!is_tainted_for_deletion(&node),
    );
    comparison.key(
        "not_being_deleted",
        &expect.not_being_deleted,
        &!node.terminating,
    );
    comparison.key("eligible", &expect.eligible, &is_eligible(&node));
    Ok(comparison)
}
