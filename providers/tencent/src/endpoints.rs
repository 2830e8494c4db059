//! Pods behind a Service: targets that are Pods, or Nodes with Pods.

use std::collections::BTreeMap;

use cloud_provider::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

/// Rules by which the targets of a Service follow its Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pods {
    /// If set, targets are Pods.
    pub(crate) is_direct: bool,
    /// If set, terminating Pods stay targets with weight 0.
    pub(crate) keeps_terminating: bool,
    /// If set, only Nodes with ready Pods are targets of all ports, and not only of UDP ports.
    pub(crate) binds_nodes: bool,
    /// If set, the weight of a Node is its number of ready Pods.
    pub(crate) has_weights: bool,
}

/// The endpoints of a Service.
#[derive(Debug)]
pub(crate) struct Endpoints(Vec<Slice>);

#[derive(Debug, Deserialize)]
struct Slice {
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
    #[serde(default)]
    ports: Option<Vec<SlicePort>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    conditions: Conditions,
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct SlicePort {
    name: Option<String>,
    protocol: Option<String>,
    port: Option<u16>,
}

impl Endpoint {
    fn is_ready(&self) -> bool {
        self.conditions.ready != Some(false)
    }
}

impl Endpoints {
    /// Reads the endpoints in the EndpointSlices of a Service.
    ///
    /// # Errors
    /// *Other* for a slice that cannot be read.
    pub(crate) fn of(slices: Vec<Value>) -> Result<Self> {
        let slices = slices
            .into_iter()
            .map(serde_json::from_value)
            .collect::<Result<_, _>>();
        slices
            .map(Self)
            .map_err(|error| Error::other(format!("EndpointSlices cannot be read: {error}")))
    }

    fn endpoints(&self) -> impl Iterator<Item = (&Slice, &Endpoint)> {
        self.0.iter().flat_map(|slice| {
            slice
                .endpoints
                .iter()
                .flatten()
                .map(move |endpoint| (slice, endpoint))
        })
    }

    /// Returns the number of ready Pods on a Node.
    pub(crate) fn on_node(&self, node: &str) -> u32 {
        let is_there = |endpoint: &Endpoint| {
            endpoint.is_ready() && endpoint.node_name.as_deref() == Some(node)
        };
        u32::try_from(
            self.endpoints()
                .filter(|(_, endpoint)| is_there(endpoint))
                .count(),
        )
        .unwrap_or(u32::MAX)
    }

    /// Returns the addresses and ports of the Pods behind a port of the Service, with their weights.
    pub(crate) fn of_port(
        &self,
        name: &str,
        protocol: &str,
        keeps_terminating: bool,
        weight: u32,
    ) -> Vec<(String, u16, u32)> {
        let is_this_port = |port: &&SlicePort| {
            port.name.as_deref().unwrap_or_default() == name
                && port.protocol.as_deref().unwrap_or("TCP") == protocol
        };
        let mut found = BTreeMap::new();
        for (slice, endpoint) in self.endpoints() {
            let port = slice
                .ports
                .iter()
                .flatten()
                .find(is_this_port)
                .and_then(|port| port.port);
            let weight = match endpoint.is_ready() {
                true => weight,
                false if keeps_terminating && endpoint.conditions.terminating == Some(true) => 0,
                false => continue,
            };
            if let (Some(port), Some(ip)) = (port, endpoint.addresses.first()) {
                let known = found.entry((ip.clone(), port)).or_insert(weight);
                *known = weight.max(*known);
            }
        }
        found
            .into_iter()
            .map(|((ip, port), weight)| (ip, port, weight))
            .collect()
    }
}
