//! The share of one Service in a load balancer's document, as it was read.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Result, is_default_load_balancer_name};
use provider_kit::json_path;
use provider_kit::load_balancers::{Attributes, Port, ResourceGraph, Targets};
use serde_json::Value;

use super::spec::{IPV6, Rule};
use crate::arm::{items, name_of, text};
use crate::machines::place;

/// The tag of a load balancer with the cluster that owns it. Azure does not accept a slash in the name of a tag.
pub(crate) const CLUSTER_TAG: &str = "ccm-rs-cluster";
/// The probe that all Services share.
pub(super) const SHARED_PROBE: &str = "cluster-service-shared-health-probe";
/// The longest name of an element, without the suffix of a family.
pub(crate) const MOST_NAME: usize = 75;
/// Lists of a document whose elements Services own, in the order in which they refer to each other.
pub(super) const LISTS: [&str; 4] = [
    "frontendIPConfigurations",
    "backendAddressPools",
    "probes",
    "loadBalancingRules",
];

/// Returns the beginning of an element's name that tells its Service: `a` and 31 digits of the UID.
pub(crate) fn prefix(name: &str) -> Option<&str> {
    let prefix = name.get(..32)?;
    let ends = name[32..].is_empty() || name[32..].starts_with('-');
    (is_default_load_balancer_name(prefix) && ends).then_some(prefix)
}

pub(super) fn belongs(element: &Value, owner: &str) -> bool {
    prefix(&text(element, "/name").to_ascii_lowercase()) == Some(owner)
}

/// Returns the members of a pool, as targets.
pub(crate) fn members(document: &Value, pool: &str) -> Targets {
    let pool = items(document, "backendAddressPools").find(|backend_address_pool| {
        text(backend_address_pool, "/name").eq_ignore_ascii_case(pool)
    });
    let Some(pool) = pool else {
        return Targets::default();
    };
    let by_address = items(pool, "loadBalancerBackendAddresses")
        .filter(|object| object["properties"]["networkInterfaceIPConfiguration"].is_null());
    let addresses = by_address
        .map(|address| text(address, "/properties/ipAddress").to_owned())
        .filter(|ip_address| !ip_address.is_empty());
    addresses
        .chain(
            items(pool, "backendIPConfigurations")
                .map(|backend_ip_configuration| owner_of(text(backend_ip_configuration, "/id"))),
        )
        .collect()
}

/// Returns the interface or the instance of an IP configuration, in lower case.
fn owner_of(configuration: &str) -> String {
    let id = configuration.to_ascii_lowercase();
    let interface = id.split("/ipconfigurations/").next().unwrap_or_default();
    let instance = interface
        .split("/networkinterfaces/")
        .next()
        .unwrap_or_default();
    place(instance).map_or_else(|| interface.to_owned(), |place| place.id())
}

/// Returns the end of a name that tells the second family of a Service.
pub(crate) fn suffix(name: &str) -> &'static str {
    let is_second = name.len() > IPV6.len() && name.is_char_boundary(name.len() - IPV6.len());
    if is_second && name[name.len() - IPV6.len()..].eq_ignore_ascii_case(IPV6) {
        IPV6
    } else {
        ""
    }
}

/// Attributes of the load balancer in a resource graph, by the field of a frontend.
pub(crate) const FRONTEND: [(&str, &str); 3] = [
    ("publicIPAddress", "/properties/publicIPAddress/id"),
    ("subnet", "/properties/subnet/id"),
    ("privateIPAddress", "/properties/privateIPAddress"),
];

/// A Service's share, as it was read.
pub(crate) struct Share<'a> {
    /// Frontends by the suffix of their family.
    pub(crate) frontends: BTreeMap<&'static str, &'a Value>,
    rules: Vec<&'a Value>,
    probes: Vec<&'a Value>,
}

impl<'a> Share<'a> {
    /// Reads the share of a Service. A Service whose address belongs to another Service uses that one's frontend.
    pub(crate) fn of(document: &'a Value, owner: &str) -> Self {
        let rules: Vec<_> = items(document, "loadBalancingRules")
            .filter(|load_balancing_rule| belongs(load_balancing_rule, owner))
            .collect();
        let all = items(document, "frontendIPConfigurations");
        let mut frontends = BTreeMap::new();
        for rule in &rules {
            let used = name_of(text(rule, "/properties/frontendIPConfiguration/id"));
            let used = all
                .clone()
                .find(|object| used.eq_ignore_ascii_case(text(object, "/name")));
            frontends.extend(used.map(|object| (suffix(text(rule, "/name")), object)));
        }
        let own_parts = all
            .filter(|object| belongs(object, owner))
            .map(|object| (suffix(text(object, "/name")), object));
        frontends.extend(own_parts);
        Self {
            frontends,
            rules,
            probes: items(document, "probes").collect(),
        }
    }

    /// Returns the IDs of the public addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &'a str> {
        self.frontends
            .values()
            .map(|frontend| text(frontend, FRONTEND[0].1))
            .filter(|text| !text.is_empty())
    }

    /// Returns `true` if rules of others use a frontend of the share.
    pub(crate) fn is_shared(&self, document: &Value, owner: &str) -> bool {
        let own_names: Vec<&str> = self
            .frontends
            .values()
            .map(|frontend| text(frontend, "/id"))
            .collect();
        let lists = ["loadBalancingRules", "inboundNatRules"]
            .into_iter()
            .flat_map(|list| items(document, list));
        lists
            .filter(|object| !belongs(object, owner))
            .any(|object| {
                let used = text(object, "/properties/frontendIPConfiguration/id");
                own_names.iter().any(|id| used.eq_ignore_ascii_case(id))
            })
    }

    /// Adds the resources of the share to a resource graph. A Service without rules is in the pool of the cluster.
    pub(crate) fn graph(
        &self,
        document: &Value,
        pool: &str,
        mut graph: ResourceGraph,
    ) -> Result<ResourceGraph> {
        if self.frontends.is_empty() {
            return Ok(graph);
        }
        let mut attributes = Attributes::default();
        for (suffix, frontend) in &self.frontends {
            for (key, pointer) in FRONTEND {
                let value = text(frontend, pointer).to_ascii_lowercase();
                if !value.is_empty() {
                    attributes = attributes.set(format!("{key}{suffix}"), value);
                }
            }
        }
        graph = graph.balancer(attributes);
        let used =
            |rule: &&Value| name_of(text(rule, "/properties/backendAddressPool/id")).to_owned();
        let mut used: BTreeSet<String> = self.rules.iter().map(used).collect();
        if used.is_empty() {
            used.insert(pool.to_owned());
        }
        for known in items(document, "backendAddressPools")
            .map(|backend_address_pool| text(backend_address_pool, "/name"))
        {
            if used.iter().any(|text| text.eq_ignore_ascii_case(known)) {
                graph = graph.pool(known, Attributes::default(), Some(members(document, known)));
            }
        }
        for rule in &self.rules {
            let Some(port) = port_of(text(rule, "/name")) else {
                continue;
            };
            let attributes = Attributes::observed(&self.rule(rule)?)?;
            let pool = name_of(text(rule, "/properties/backendAddressPool/id"));
            graph = graph.listener(port.number, port.protocol, pool, attributes);
        }
        Ok(graph)
    }

    /// Reads a rule with its probe. The API leaves defaults out.
    fn rule(&self, rule: &Value) -> Result<Rule> {
        let name = name_of(text(rule, "/properties/probe/id"));
        let probe = self
            .probes
            .iter()
            .find(|probe| !name.is_empty() && text(probe, "/name").eq_ignore_ascii_case(name));
        let mut properties = rule["properties"].clone();
        *json_path::place(&mut properties, &["probe"]) =
            probe.map_or(Value::Null, |probe| probe["properties"].clone());
        let mut rule: Rule = crate::arm::read(&properties)?;
        rule.idle_timeout_in_minutes = rule.idle_timeout_in_minutes.max(4);
        if let Some(probe) = &mut rule.probe {
            probe.is_shared = name == SHARED_PROBE;
            // Azure shows the threshold 1 for a probe whose number of failures was stated in the older field.
            let count = properties["probe"]["numberOfProbes"]
                .as_u64()
                .and_then(|number_of_probes| number_of_probes.try_into().ok());
            if probe.probe_threshold < 2 {
                probe.probe_threshold = count.unwrap_or(2);
            }
        }
        Ok(rule)
    }
}

/// Returns the port in the name of a rule: `<prefix>[-<subnet>]-<protocol>-<port>[-IPv6]`.
fn port_of(name: &str) -> Option<Port> {
    let end = suffix(name);
    let mut parts = name[..name.len() - end.len()].rsplit('-');
    let number = parts.next()?.parse().ok()?;
    Some(Port {
        number,
        protocol: format!("{}{end}", parts.next()?).into(),
    })
}
