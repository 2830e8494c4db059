//! Health probes of Nodes, and the annotations of one port.

use cloud_provider::Service;
use provider_kit::annotations::Annotations;
use provider_kit::health_check::HealthCheck;
use serde::{Deserialize, Serialize};

use crate::annotations as key;
use crate::annotations::{PREFIX, ProbeProtocol};
use crate::config::Config;

/// The port of kube-proxy's health check, which shared probes read.
const SHARED_PORT: u16 = 10256;

/// A health probe of Nodes, in the form of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Probe {
    pub(crate) protocol: String,
    pub(crate) port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_path: Option<String>,
    #[serde(default = "five")]
    pub(crate) interval_in_seconds: u32,
    pub(crate) probe_threshold: u32,
    /// If set, all Services share the probe.
    #[serde(rename = "shared")]
    pub(crate) is_shared: bool,
}

/// The interval of a probe that states none.
fn five() -> u32 {
    5
}

/// The annotations of one port.
pub(super) struct OfPort<'a>(pub(super) &'a Service, pub(super) u16);

impl<'a> OfPort<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        debug_assert!(key::OF_PORT.contains(&key), "{key}");
        let all = self.0.metadata.annotations.as_ref()?;
        all.get(&format!("{PREFIX}port_{}_{key}", self.1))
            .map(|prefix_port_key| prefix_port_key.trim())
            .filter(|entry| !entry.is_empty())
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.text(key)
            .is_some_and(|key| key.eq_ignore_ascii_case("true"))
    }

    fn number(
        &self,
        key: &str,
        least: u32,
        otherwise: Option<u32>,
        annotations: &mut Annotations<'_>,
    ) -> u32 {
        let otherwise = otherwise.unwrap_or(least);
        let Some(text) = self.text(key) else {
            return otherwise;
        };
        text.parse().ok().filter(|number| *number >= least).unwrap_or_else(|| {
            let port = self.1;
            annotations.mistake(format!(
                "annotation {PREFIX}port_{port}_{key}: {text:?} is not a whole number from {least} on"
            ));
            otherwise
        })
    }
}

/// Returns the probe of a port that is served by this node port.
pub(super) fn probe(
    service: &Service,
    config: &Config,
    annotations: &mut Annotations<'_>,
    index: usize,
    node_port: u16,
) -> Probe {
    let spec = service.spec.as_ref();
    let port = spec
        .and_then(|spec| spec.ports.as_ref())
        .and_then(|ports| ports.get(index));
    let port_annotations = OfPort(
        service,
        port.and_then(|port| u16::try_from(port.port).ok())
            .unwrap_or_default(),
    );
    let interval = annotations.get(&key::PROBE_INTERVAL);
    let interval = port_annotations.number("health-probe_interval", 5, interval, annotations);
    let count = annotations.get(&key::PROBE_COUNT);
    let count = port_annotations.number("health-probe_num-of-probe", 2, count, annotations);
    if interval * count >= 120 {
        annotations.mistake(format!(
            "health probe of port {}: interval {interval} × {count} probes must be less than 120 seconds",
            port_annotations.1
        ));
    }
    let common = Probe {
        interval_in_seconds: interval,
        probe_threshold: count,
        ..Probe::default()
    };
    let http = |port: u16, path: &str| Probe {
        protocol: "Http".to_owned(),
        port,
        request_path: Some(path.to_owned()),
        interval_in_seconds: 5,
        probe_threshold: 2,
        ..Probe::default()
    };
    // The probe of kube-proxy does not speak the PROXY protocol.
    let has_proxy = [&key::LINK_CREATE, &key::LINK_PROXY_PROTOCOL]
        .iter()
        .all(|declaration| annotations.get(declaration) == Some(true));
    if let Some(check) = HealthCheck::of(service).filter(|_| !has_proxy) {
        return http(u16::try_from(check.port).unwrap_or_default(), check.path);
    }
    if config.has_shared_probe {
        let path = Some(&*config.file.shared_probe_path)
            .filter(|text| !text.is_empty())
            .unwrap_or("/healthz");
        return Probe {
            is_shared: true,
            ..http(config.file.shared_probe_port.unwrap_or(SHARED_PORT), path)
        };
    }
    let of_app = port.and_then(|port| port.app_protocol.as_deref());
    let of_service = annotations.get(&key::PROBE_PROTOCOL);
    let parsed = |text: &str| match text.to_ascii_lowercase().as_str() {
        "http" => ProbeProtocol::Http,
        "https" => ProbeProtocol::Https,
        _ => ProbeProtocol::Tcp,
    };
    let protocol = port_annotations
        .text("health-probe_protocol")
        .or(of_app)
        .map(parsed)
        .or(of_service)
        .unwrap_or_default();
    // The basic SKU has no HTTPS probes.
    let is_known = protocol != ProbeProtocol::Https || !config.file.is_basic();
    let protocol = if is_known {
        protocol
    } else {
        ProbeProtocol::Tcp
    };
    let path = port_annotations
        .text("health-probe_request-path")
        .map(str::to_owned)
        .or_else(|| annotations.get(&key::PROBE_PATH));
    let stated = probe_port(&port_annotations, annotations);
    if stated.is_none() && node_port == 0 {
        annotations.mistake(format!(
            "port {0}: has no node port, which its health probe needs; set allocateLoadBalancerNodePorts, or annotation {PREFIX}port_{0}_health-probe_port or {PREFIX}port_{0}_no_probe_rule",
            port_annotations.1
        ));
    }
    Probe {
        protocol: protocol.text().to_owned(),
        port: stated.unwrap_or(node_port),
        request_path: path.filter(|_| protocol != ProbeProtocol::Tcp),
        ..common
    }
}

/// Returns the port of a probe that an annotation names: a port of the Service, by name or number, or any number.
fn probe_port(annotations_of_port: &OfPort<'_>, annotations: &mut Annotations<'_>) -> Option<u16> {
    let text = annotations_of_port.text("health-probe_port")?;
    let ports = annotations_of_port
        .0
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let named = ports
        .iter()
        .find(|port| port.name.as_deref() == Some(text) || port.port.to_string() == text);
    let port = match named {
        Some(port) => port
            .node_port
            .and_then(|node_port| u16::try_from(node_port).ok())
            .filter(|port| *port != 0),
        None => text.parse().ok().filter(|port| *port != 0),
    };
    if port.is_none() {
        annotations.mistake(format!("annotation {PREFIX}port_{}_health-probe_port: {text:?} is neither a port of the Service nor a number from 1 to 65535", annotations_of_port.1));
    }
    port
}
