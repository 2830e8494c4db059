//! Small Service helpers, of the controller and of what providers share.

use anyhow::Result;
use cloud_provider::{LoadBalancerStatus, Service, default_load_balancer_name};
use controllers::service::patch::same_ingress;
use controllers::service::wants::has_finalizer;
use provider_kit::health_check::{HealthCheck, needs_health_check, requests_only_local_traffic};
use provider_kit::source_ranges::allows_all;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{read, take_function, unknown_function};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfService {
    service: Service,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statuses {
    left: LoadBalancerStatus,
    right: LoadBalancerStatus,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ranges {
    ranges: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    result: Expected<Value>,
}

pub(super) fn run(mut given: Value, expect: &Value) -> Result<Comparison> {
    let function = take_function(&mut given)?;
    let expect: Expect = read("expect", expect)?;
    let mut comparison = Comparison::default();
    comparison.key("result", &expect.result, &result(&function, &given)?);
    Ok(comparison)
}

fn result(function: &str, given: &Value) -> Result<Value> {
    let service = || anyhow::Ok(read::<OfService>("given", given)?.service);
    Ok(match function {
        "requests_only_local_traffic" => json!(requests_only_local_traffic(&service()?)),
        "needs_health_check" => json!(needs_health_check(&service()?)),
        "has_lb_finalizer" => json!(has_finalizer(&service()?)),
        "default_load_balancer_name" => json!(default_load_balancer_name(&service()?)),
        "health_check_path_port" => match HealthCheck::of(&service()?) {
            Some(HealthCheck { path, port }) => json!({"path": path, "port": port}),
            None => json!({"path": "", "port": 0}),
        },
        "load_balancer_status_equal" => {
            let Statuses { left, right } = read("given", given)?;
            json!(same_ingress(
                &left.ingress.unwrap_or_default(),
                &right.ingress.unwrap_or_default()
            ))
        }
        "is_allow_all" => {
            let ranges = read::<Ranges>("given", given)?.ranges;
            let ranges = ranges
                .iter()
                .map(|range| range.parse())
                .collect::<Result<Vec<_>, _>>()?;
            json!(allows_all(&ranges))
        }
        other => {
            return Err(unknown_function(
                other,
                "requests_only_local_traffic, needs_health_check, has_lb_finalizer, health_check_path_port, \
                 load_balancer_status_equal, default_load_balancer_name, is_allow_all",
            ));
        }
    })
}
