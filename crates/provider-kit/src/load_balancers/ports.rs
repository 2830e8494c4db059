//! The ports of a Service, for load balancers that send traffic to node ports.

use cloud_provider::{Error, Result, Service};

/// One port of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The port that clients see.
    pub number: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: &'static str,
    /// The port on every Node.
    pub node_port: u16,
}

/// The ports of a Service, if the cloud can serve them all.
///
/// ```
/// use provider_kit::load_balancers::service_ports;
///
/// let service: cloud_provider::Service = serde_json::from_value(serde_json::json!({
///     "spec": {"ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053}, {"port": 53, "nodePort": 30054}]}
/// }))?;
/// assert_eq!(service_ports(&service, &["TCP", "UDP"]).unwrap()[1].node_port, 30054);
/// let err = service_ports(&service, &["TCP"]).unwrap_err();
/// assert_eq!(err.to_string(), "port 53: protocol \"UDP\" is not one of TCP");
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// *Invalid*, naming the port, for a protocol that is not among `accepted` and for a port without a node port
/// (`allocateLoadBalancerNodePorts: false`).
pub fn service_ports(service: &Service, accepted: &[&'static str]) -> Result<Vec<ServicePort>> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let ports = ports.iter().map(|port| {
        let invalid = |text: &str| Error::invalid(format!("port {}: {text}", port.port));
        let named = port.protocol.as_deref().unwrap_or("TCP");
        let protocol = accepted.iter().find(|it| **it == named);
        let protocol =
            protocol.ok_or_else(|| invalid(&format!("protocol {named:?} is not one of {}", accepted.join(", "))))?;
        let node_port = port.node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        let node_port = node_port.ok_or_else(|| invalid("has no node port; set allocateLoadBalancerNodePorts"))?;
        let number = u16::try_from(port.port).map_err(|_| invalid("is no port number"))?;
        Ok(ServicePort { number, protocol, node_port })
    });
    ports.collect()
}
