//! Suite: changes of a Service that require a sync of its load balancer.

use anyhow::Result;
use controllers::Options;
use controllers::service::needs_update::needs_update;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Change, read, service};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    needs_update: Expected<bool>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Change = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let old = service("given.old", &given.old)?;
    let new = service("given.new", &given.new)?;
    let mut comparison = Comparison::default();
    let needed = needs_update(&old, &new, &Options::reference().service);
    comparison.key("needs_update", &expect.needs_update, &needed);
    Ok(comparison)
}
