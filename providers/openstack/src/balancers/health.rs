//! The health of members, from the tree of states that Octavia keeps of each load balancer.

use std::collections::BTreeMap;

use cloud_provider::{Result, TargetHealth};
use provider_kit::load_balancers::ObservedLoadBalancer;
use provider_kit::transport::Call;
use serde_json::Value;

use super::project::Project;
use super::tags::balancer_id;

/// Reads the health of a load balancer's members. A member without a health monitor is not checked, and has no entry.
pub(super) async fn targets(
    project: &Project,
    observed: &ObservedLoadBalancer,
) -> Result<Option<BTreeMap<String, TargetHealth>>> {
    let call = Call::get(
        "/lbaas/loadbalancers/{id}/status",
        &[balancer_id(&observed.id)],
    )
    .inside("statuses");
    let states: Option<Value> = project.services.balancer.find(call).await?;
    let Some(states) = states else {
        return Ok(None);
    };
    let known = observed
        .graph
        .iter()
        .flat_map(|graph| &graph.targets)
        .flat_map(|(_, targets)| targets.iter());
    Ok(Some(
        known
            .filter_map(|target| Some((target.to_owned(), health(target, &states)?)))
            .collect(),
    ))
}

/// Returns the worst state of a target among all pools; a target is a name and an address.
fn health(target: &str, states: &Value) -> Option<TargetHealth> {
    let address = target.rsplit(' ').next().unwrap_or_default();
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let pools = list(&states["loadbalancer"], "listeners")
        .into_iter()
        .flat_map(|listener| list(&listener, "pools"));
    let members = pools
        .flat_map(|pool| list(&pool, "members"))
        .filter(|member| member["address"] == address);
    let mut health = None;
    for member in members {
        let state = member["operating_status"].as_str().unwrap_or_default();
        match state {
            "ONLINE" if health.is_none() => {
                health = Some(TargetHealth {
                    is_healthy: true,
                    detail: String::new(),
                });
            }
            "ONLINE" | "NO_MONITOR" | "" => {}
            _ => {
                let detail = format!("port {}: {state}", member["protocol_port"]);
                health = Some(TargetHealth {
                    is_healthy: false,
                    detail,
                });
            }
        }
    }
    health
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn member_is_unhealthy_if_one_of_its_ports_is() {
        let member = |address: &str, port: u16, state: &str| json!({"address": address, "protocol_port": port, "operating_status": state});
        let members = [
            member("10.0.0.1", 80, "ONLINE"),
            member("10.0.0.2", 80, "ONLINE"),
            member("10.0.0.2", 443, "ERROR"),
            member("10.0.0.3", 80, "NO_MONITOR"),
        ];
        let states = json!({"loadbalancer": {"listeners": [{"pools": [{"members": members}]}]}});
        let judged = |target| {
            health(target, &states)
                .map(|target_health| (target_health.is_healthy, target_health.detail))
        };
        assert_eq!(judged("a 10.0.0.1"), Some((true, String::new())));
        assert_eq!(
            judged("b 10.0.0.2"),
            Some((false, "port 443: ERROR".to_owned()))
        );
        assert_eq!(judged("c 10.0.0.3"), None, "it is not checked");
        assert_eq!(judged("10.0.0.9"), None);
    }
}
