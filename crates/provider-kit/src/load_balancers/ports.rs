//! The ports of a Service, for load balancers that send traffic to node ports.

use std::fmt::Display;

use cloud_provider::{Error, Result, Service};

/// A port of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The port that clients connect to.
    pub number: u16,
    /// Transport protocol: `TCP`, `UDP` or `SCTP`.
    pub protocol: &'static str,
    /// The port on every Node.
    pub node_port: u16,
}

/// Returns the ports of a Service, if the cloud can serve them all.
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
    let ports = each_port(service, accepted).map(|port| match port? {
        ServicePort {
            number,
            node_port: 0,
            ..
        } => Err(invalid(
            number,
            "has no node port; set allocateLoadBalancerNodePorts",
        )),
        port => Ok(port),
    });
    ports.collect()
}

/// Returns the ports of a Service one by one, for callers that report every mistake, or that serve ports without a node
/// port: then `node_port` is 0.
pub fn each_port(
    service: &Service,
    accepted: &[&'static str],
) -> impl Iterator<Item = Result<ServicePort>> {
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    ports.iter().map(move |port| {
        let named = port.protocol.as_deref().unwrap_or("TCP");
        let protocol = accepted.iter().find(|text| **text == named);
        let wrong = || {
            invalid(
                port.port,
                &format!("protocol {named:?} is not one of {}", accepted.join(", ")),
            )
        };
        let protocol = protocol.ok_or_else(wrong)?;
        let node_port = port
            .node_port
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or_default();
        let number =
            u16::try_from(port.port).map_err(|_| invalid(port.port, "is no port number"))?;
        Ok(ServicePort {
            number,
            protocol,
            node_port,
        })
    })
}

fn invalid(port: impl Display, text: &str) -> Error {
    Error::invalid(format!("port {port}: {text}"))
}
