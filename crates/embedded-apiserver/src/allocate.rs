//! Cluster IPs and node ports: allocated when a Service needs them, released when it is deleted.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::defaults::items_mut;
use crate::resources::{self, Resource};
use crate::status::{ApiError, StatusCause};

/// The range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

#[derive(Debug)]
pub(crate) struct Allocators {
    network: u32,
    size: u32,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u16>,
}

impl Allocators {
    pub(crate) fn new(network: Ipv4Addr, prefix: u8) -> Self {
        let size = 1_u32 << (32 - u32::from(prefix.clamp(8, 30)));
        let network = u32::from(network) & !(size - 1);
        Self {
            network,
            size,
            taken: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// Reserves the cluster IPs and node ports of a seeded Service.
    pub(crate) fn reserve(&self, resource: &Resource, service: &Value) {
        if resource.plural == "services" {
            let mut taken = self.lock();
            taken.addresses.extend(addresses(service));
            taken.ports.extend(ports(service));
        }
    }

    /// Releases the cluster IPs and node ports of a Service.
    pub(crate) fn release(&self, resource: &Resource, service: &Value) {
        if resource.plural == "services" {
            let mut taken = self.lock();
            for address in addresses(service) {
                taken.addresses.remove(&address);
            }
            for port in ports(service) {
                taken.ports.remove(&port);
            }
        }
    }

    /// Allocates the addresses and ports that the Service needs, and releases those that only `old` has.
    ///
    /// # Errors
    ///
    /// 422 if a wanted address or port is taken or out of range.
    pub(crate) fn allocate(
        &self,
        resource: &Resource,
        old: Option<&Value>,
        new: &mut Value,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        if resource.plural != "services" {
            return Ok(());
        }
        let mut taken = self.lock();
        let (had_addresses, had_ports) = old
            .map(|old| (addresses(old), ports(old)))
            .unwrap_or_default();
        let mut addresses_now = taken.addresses.clone();
        let mut ports_now = taken.ports.clone();
        addresses_now.retain(|address| !had_addresses.contains(address));
        ports_now.retain(|port| !had_ports.contains(port));
        self.give_address(new, &mut addresses_now)
            .map_err(|cause| invalid(resource, new, cause))?;
        give_ports(new, &mut ports_now).map_err(|cause| invalid(resource, new, cause))?;
        if !dry_run {
            taken.addresses = addresses_now;
            taken.ports = ports_now;
        }
        Ok(())
    }

    fn give_address(
        &self,
        service: &mut Value,
        taken: &mut BTreeSet<u32>,
    ) -> Result<(), StatusCause> {
        let spec = &mut service["spec"];
        if spec["type"] == "ExternalName" {
            return Ok(());
        }
        let wanted = spec["clusterIP"]
            .as_str()
            .or(spec["clusterIPs"][0].as_str())
            .unwrap_or_default()
            .to_owned();
        let address = match wanted.as_str() {
            "None" => "None".to_owned(),
            "" => Ipv4Addr::from(self.free(taken)).to_string(),
            text => {
                self.claim(text, taken)?;
                text.to_owned()
            }
        };
        spec["clusterIP"] = json!(address);
        if spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
            spec["clusterIPs"] = json!([address]);
        }
        if spec["ipFamilyPolicy"].is_null() {
            let headless_without_selector = address == "None" && spec["selector"].is_null();
            spec["ipFamilyPolicy"] = json!(if headless_without_selector {
                "RequireDualStack"
            } else {
                "SingleStack"
            });
        }
        if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
            let both = address == "None" && spec["ipFamilyPolicy"] == "RequireDualStack";
            spec["ipFamilies"] = if both {
                json!(["IPv4", "IPv6"])
            } else {
                json!(["IPv4"])
            };
        }
        Ok(())
    }

    fn claim(&self, text: &str, taken: &mut BTreeSet<u32>) -> Result<(), StatusCause> {
        let failed = |detail: String| {
            StatusCause::invalid(
                "spec.clusterIPs",
                &json!([text]),
                &format!("failed to allocate IP {text}: {detail}"),
            )
        };
        let Ok(address) = text.parse::<Ipv4Addr>() else {
            return Err(failed(
                "the provided IP is not in the valid range".to_owned(),
            ));
        };
        let address = u32::from(address);
        let last = self.network + (self.size - 1);
        if address <= self.network || address >= last {
            return Err(failed(
                "the provided network does not match the current range".to_owned(),
            ));
        }
        if taken.insert(address) {
            Ok(())
        } else {
            Err(failed("provided IP is already allocated".to_owned()))
        }
    }

    fn free(&self, taken: &mut BTreeSet<u32>) -> u32 {
        loop {
            let address = self.network + fastrand::u32(1..self.size - 1);
            if taken.insert(address) {
                return address;
            }
        }
    }
}

fn invalid(resource: &Resource, service: &Value, cause: StatusCause) -> ApiError {
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    ApiError::invalid(
        resources::by_plural("services").unwrap_or(resource.storage()),
        name,
        &[cause],
    )
}

fn give_ports(service: &mut Value, taken: &mut BTreeSet<u16>) -> Result<(), StatusCause> {
    let stated = ports(service);
    let spec = &mut service["spec"];
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let allocates = kind == "NodePort"
        || (kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false);
    let mut port_numbers: Vec<(u16, Value)> = Vec::new();
    for (index, port) in items_mut(spec, "ports").enumerate() {
        let protocol = port["protocol"].clone();
        match port["nodePort"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
        {
            // Several protocols of one Service may share a node port.
            Some(wanted)
                if port_numbers
                    .iter()
                    .any(|(port, other)| *port == wanted && *other != protocol) => {}
            Some(wanted) => {
                claim_port(wanted, &format!("spec.ports[{index}].nodePort"), taken)?;
                port_numbers.push((wanted, protocol));
            }
            None if allocates => {
                let free = free_port(taken, &stated);
                port_numbers.push((free, protocol));
                port["nodePort"] = json!(free);
            }
            None => {}
        }
    }
    if kind == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local" {
        match spec["healthCheckNodePort"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
        {
            Some(wanted) => claim_port(wanted, "spec.healthCheckNodePort", taken)?,
            None => spec["healthCheckNodePort"] = json!(free_port(taken, &stated)),
        }
    }
    Ok(())
}

fn claim_port(port: u16, field: &str, taken: &mut BTreeSet<u16>) -> Result<(), StatusCause> {
    if !NODE_PORTS.contains(&port) {
        let detail =
            "provided port is not in the valid range. The range of valid ports is 30000-32767";
        return Err(StatusCause::invalid(field, &json!(port), detail));
    }
    if taken.insert(port) {
        Ok(())
    } else {
        Err(StatusCause::invalid(
            field,
            &json!(port),
            "provided port is already allocated",
        ))
    }
}

/// Returns a free port that the Service does not state for another one of its ports.
fn free_port(taken: &mut BTreeSet<u16>, stated: &BTreeSet<u16>) -> u16 {
    loop {
        let port = fastrand::u16(NODE_PORTS);
        if !stated.contains(&port) && taken.insert(port) {
            return port;
        }
    }
}

fn addresses(service: &Value) -> BTreeSet<u32> {
    let listed = service["spec"]["clusterIPs"]
        .as_array()
        .into_iter()
        .flatten();
    let parse = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
    listed
        .chain([&service["spec"]["clusterIP"]])
        .filter_map(Value::as_str)
        .filter_map(parse)
        .collect()
}

fn ports(service: &Value) -> BTreeSet<u16> {
    let spec = &service["spec"];
    let listed = spec["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| &port["nodePort"]);
    listed
        .chain([&spec["healthCheckNodePort"]])
        .filter_map(Value::as_u64)
        .filter_map(|port| u16::try_from(port).ok())
        .filter(|port| *port > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_chosen_is_never_one_that_the_service_keeps_for_a_later_port() {
        let all: Vec<u16> = NODE_PORTS.collect();
        let kept = all[0];
        let free = all[1];
        for _ in 0..20 {
            let mut taken: BTreeSet<u16> = all[2..].iter().copied().collect();
            let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP", "nodePort": kept}]);
            let mut service = json!({"spec": {"type": "NodePort", "ports": ports}});
            assert!(give_ports(&mut service, &mut taken).is_ok());
            assert_eq!(service["spec"]["ports"][0]["nodePort"], free);
        }
    }
}
