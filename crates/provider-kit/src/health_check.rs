//! Services whose Nodes accept traffic only for their own Pods, and the health check by which a load balancer finds
//! those Nodes (HELP-53 … HELP-55).

use cloud_provider::Service;

/// The health check at which kube-proxy reports if a Node has Pods of a Service.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::health_check::HealthCheck;
///
/// let service: Service = serde_json::from_value(serde_json::json!({
///     "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30012},
/// }))?;
/// assert_eq!(HealthCheck::of(&service), Some(HealthCheck { path: "/healthz", port: 30012 }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path of the HTTP request.
    pub path: &'static str,
    /// Port of the health check, the same on every Node.
    pub port: i32,
}

impl HealthCheck {
    /// Returns the health check of kube-proxy for a Service with a health check node port (HELP-55). `None` if there is
    /// none: then a load balancer checks the Service's node ports.
    #[must_use]
    pub fn of(service: &Service) -> Option<Self> {
        let port = service
            .spec
            .as_ref()?
            .health_check_node_port
            .filter(|port| *port != 0)?;
        needs_health_check(service).then_some(Self {
            path: "/healthz",
            port,
        })
    }
}

/// Returns `true` if Nodes without Pods of this Service drop its traffic (HELP-53).
#[must_use]
pub fn requests_only_local_traffic(service: &Service) -> bool {
    is_local(service, &["LoadBalancer", "NodePort"])
}

/// Returns `true` if a load balancer must find out which Nodes have Pods of this Service (HELP-54).
#[must_use]
pub fn needs_health_check(service: &Service) -> bool {
    is_local(service, &["LoadBalancer"])
}

fn is_local(service: &Service, types: &[&str]) -> bool {
    service.spec.as_ref().is_some_and(|spec| {
        types.contains(&spec.type_.as_deref().unwrap_or_default())
            && spec.external_traffic_policy.as_deref() == Some("Local")
    })
}
