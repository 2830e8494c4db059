//! A Service as the API server stores it, with the fields that the API server sets.

use cloud_provider::Service;
use serde_json::Value;

/// Placeholder for the node ports that the API server allocates.
const NODE_PORT: i32 = 30_000;

/// Parses a Service, and sets the fields that the API server sets in a Service of type `LoadBalancer`.
///
/// # Errors
/// The invalid field and its problem, for Services that the API server would refuse as well.
pub(super) fn service(value: Value) -> Result<Service, String> {
    let mut service: Service = serde_path_to_error::deserialize(value).map_err(|error| {
        let hint = match error.path().to_string() {
            path if path.starts_with("metadata.annotations.") => "; put the value in quotes",
            _ => "",
        };
        format!("{}: {}{hint}", error.path(), error.inner())
    })?;
    service.status = None;
    let Some(spec) = &mut service.spec else {
        return Ok(service);
    };
    let allocates = spec.allocate_load_balancer_node_ports != Some(false);
    for port in spec
        .ports
        .iter_mut()
        .flatten()
        .filter(|port| port.node_port.is_none() && allocates)
    {
        port.node_port = Some(NODE_PORT);
    }
    if spec.external_traffic_policy.as_deref() == Some("Local") {
        spec.health_check_node_port.get_or_insert(NODE_PORT);
    }
    Ok(service)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_ports_are_those_that_the_api_server_would_allocate() {
        let node_ports = |spec: Value| {
            let spec = service(json!({"kind": "Service", "spec": spec}))
                .unwrap()
                .spec
                .unwrap();
            let ports: Vec<_> = spec
                .ports
                .unwrap()
                .iter()
                .map(|port| port.node_port)
                .collect();
            (ports, spec.health_check_node_port)
        };
        let ports = json!([{"port": 80}, {"port": 443, "nodePort": 30443}]);
        assert_eq!(
            node_ports(json!({"ports": ports})),
            (vec![Some(30_000), Some(30_443)], None)
        );
        let local = json!({"ports": ports, "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false});
        assert_eq!(node_ports(local), (vec![None, Some(30_443)], Some(30_000)));
    }

    #[test]
    fn field_of_another_type_is_named() {
        let error = service(json!({"metadata": {"annotations": {"acme/flag": true}}})).unwrap_err();
        assert!(
            error.starts_with("metadata.annotations.acme/flag: ")
                && error.ends_with("; put the value in quotes")
        );
        let error = service(json!({"spec": {"ports": [{"port": "http"}]}})).unwrap_err();
        assert!(error.starts_with("spec.ports[0].port: "), "{error}");
    }
}
