//! Suite: classification of a Service that the controller sees for the first time.

use anyhow::Result;
use controllers::Options;
use controllers::service::wants::{concerns_us, needs_cleanup, wants_load_balancer};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{read, service};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    service: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    wants_load_balancer: Expected<bool>,
    #[serde(default)]
    needs_cleanup: Expected<bool>,
    #[serde(default)]
    enqueue_on_add: Expected<bool>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let service = service("given.service", &given.service)?;
    let options = Options::reference().service;
    let mut comparison = Comparison::default();
    comparison.key(
        "wants_load_balancer",
        &expect.wants_load_balancer,
        &wants_load_balancer(&service, &options),
    );
    comparison.key(
        "needs_cleanup",
        &expect.needs_cleanup,
        &needs_cleanup(&service),
    );
    comparison.key(
        "enqueue_on_add",
        &expect.enqueue_on_add,
        &concerns_us(&service, &options),
    );
    Ok(comparison)
}
