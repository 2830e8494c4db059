//! The share of one Service in a load balancer's document: how it is read, and how it is written.

use std::collections::BTreeMap;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Attributes, Port, ResourceGraph, Targets};
use serde_json::{Value, json};

use super::spec::{Probe, Rule};
use crate::arm::{items, name_of, overlay, text};
use crate::documents::new_document;
use crate::machines::place;

/// The tag of a load balancer with the cluster that owns it. Azure does not accept a slash in the name of a tag.
pub(crate) const CLUSTER_TAG: &str = "ccm-rs-cluster";
/// The probe that all Services share.
const SHARED_PROBE: &str = "cluster-service-shared-health-probe";
/// Lists of a document whose elements Services own, in the order in which they refer to each other.
const LISTS: [&str; 4] = ["frontendIPConfigurations", "backendAddressPools", "probes", "loadBalancingRules"];

/// Returns the beginning of an element's name that tells its Service: `a` and 31 digits of the UID.
pub(crate) fn prefix(name: &str) -> Option<&str> {
    let prefix = name.get(..32)?;
    let is_uid =
        prefix.starts_with('a') && prefix[1..].bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it));
    let ends = name[32..].is_empty() || name[32..].starts_with('-');
    (is_uid && ends).then_some(prefix)
}

fn belongs(element: &Value, owner: &str) -> bool {
    prefix(&text(element, "/name").to_ascii_lowercase()) == Some(owner)
}

fn list_mut<'a>(document: &'a mut Value, list: &str) -> &'a mut Vec<Value> {
    let slot = &mut document["properties"][list];
    if !slot.is_array() {
        *slot = json!([]);
    }
    match slot {
        Value::Array(items) => items,
        _ => unreachable!("it was just made a list"),
    }
}

/// Keeps some elements of a list, without adding a list that the document does not have.
fn retain(document: &mut Value, list: &str, keep: impl FnMut(&Value) -> bool) {
    let all = document.pointer_mut("/properties").and_then(|it| it.get_mut(list)).and_then(Value::as_array_mut);
    if let Some(all) = all {
        all.retain(keep);
    }
}

/// Returns the members of a pool, as targets.
pub(crate) fn members(document: &Value, pool: &str) -> Targets {
    let pool = items(document, "backendAddressPools").find(|it| text(it, "/name").eq_ignore_ascii_case(pool));
    let Some(pool) = pool else { return Targets::default() };
    let by_address = items(pool, "loadBalancerBackendAddresses")
        .filter(|it| it["properties"]["networkInterfaceIPConfiguration"].is_null());
    let addresses = by_address.map(|it| text(it, "/properties/ipAddress").to_owned()).filter(|it| !it.is_empty());
    addresses.chain(items(pool, "backendIPConfigurations").map(|it| owner_of(text(it, "/id")))).collect()
}

/// Returns the interface or the instance of an IP configuration, in lower case.
fn owner_of(configuration: &str) -> String {
    let id = configuration.to_ascii_lowercase();
    let interface = id.split("/ipconfigurations/").next().unwrap_or_default();
    let instance = interface.split("/networkinterfaces/").next().unwrap_or_default();
    place(instance).map_or_else(|| interface.to_owned(), |place| place.id())
}

/// A Service's share, as it was read.
pub(crate) struct Share<'a> {
    pub(crate) frontend: Option<&'a Value>,
    rules: Vec<&'a Value>,
    probes: Vec<&'a Value>,
}

impl<'a> Share<'a> {
    /// Reads the share of a Service. A Service whose address belongs to another Service uses that one's frontend.
    pub(crate) fn of(document: &'a Value, owner: &str) -> Self {
        let rules: Vec<_> = items(document, "loadBalancingRules").filter(|it| belongs(it, owner)).collect();
        let probes = items(document, "probes").collect();
        let mut frontends = items(document, "frontendIPConfigurations");
        let used = rules.first().map(|it| name_of(text(it, "/properties/frontendIPConfiguration/id")));
        let frontend = frontends.clone().find(|it| belongs(it, owner));
        let frontend = frontend.or_else(|| frontends.find(|it| used == Some(text(it, "/name"))));
        Self { frontend, rules, probes }
    }

    /// Adds the resources of the share to a resource graph.
    pub(crate) fn graph(&self, document: &Value, pool: &str, mut graph: ResourceGraph) -> Result<ResourceGraph> {
        let Some(frontend) = self.frontend else { return Ok(graph) };
        let id = |pointer: &str| Some(text(frontend, pointer).to_ascii_lowercase()).filter(|it| !it.is_empty());
        let mut attributes = Attributes::default();
        if let Some(address) = id("/properties/publicIPAddress/id") {
            attributes = attributes.set("publicIPAddress", address);
        }
        if let Some(subnet) = id("/properties/subnet/id") {
            attributes = attributes.set("subnet", subnet);
        }
        if let Some(address) = id("/properties/privateIPAddress") {
            attributes = attributes.set("privateIPAddress", address);
        }
        graph = graph.balancer(attributes);
        if items(document, "backendAddressPools").any(|it| text(it, "/name").eq_ignore_ascii_case(pool)) {
            graph = graph.pool(pool, Attributes::default(), Some(members(document, pool)));
        }
        for rule in &self.rules {
            let Some(port) = port_of(text(rule, "/name")) else { continue };
            let read = self.rule(rule);
            graph = graph.listener(port.number, port.protocol, pool, Attributes::observed(&read)?);
        }
        Ok(graph)
    }

    fn rule(&self, rule: &Value) -> Rule {
        let (flag, number) = (
            |key: &str| rule["properties"][key] == true,
            |key: &str| rule["properties"][key].as_u64().unwrap_or_default(),
        );
        let probe = name_of(text(rule, "/properties/probe/id"));
        let probe = self.probes.iter().find(|it| !probe.is_empty() && text(it, "/name").eq_ignore_ascii_case(probe));
        Rule {
            protocol: text(rule, "/properties/protocol").to_owned(),
            backend_port: u16::try_from(number("backendPort")).unwrap_or_default(),
            floating: flag("enableFloatingIP"),
            idle_timeout_in_minutes: u32::try_from(number("idleTimeoutInMinutes")).unwrap_or_default().max(4),
            load_distribution: Some(text(rule, "/properties/loadDistribution"))
                .filter(|it| !it.is_empty())
                .unwrap_or("Default")
                .to_owned(),
            enable_tcp_reset: flag("enableTcpReset"),
            disable_outbound_snat: flag("disableOutboundSnat"),
            probe: probe.map(|probe| {
                let number = |key: &str| probe["properties"][key].as_u64();
                let count = number("probeThreshold").filter(|it| *it > 1).or_else(|| number("numberOfProbes"));
                Probe {
                    protocol: text(probe, "/properties/protocol").to_owned(),
                    port: u16::try_from(number("port").unwrap_or_default()).unwrap_or_default(),
                    request_path: probe["properties"]["requestPath"].as_str().map(str::to_owned),
                    interval_in_seconds: u32::try_from(number("intervalInSeconds").unwrap_or(5)).unwrap_or_default(),
                    probe_threshold: u32::try_from(count.unwrap_or(2)).unwrap_or_default(),
                    is_shared: text(probe, "/name") == SHARED_PROBE,
                }
            }),
        }
    }
}

/// Returns the port in the name of a rule: `<prefix>[-<subnet>]-<protocol>-<port>`.
fn port_of(name: &str) -> Option<Port> {
    let mut parts = name.strip_suffix("-IPv6").unwrap_or(name).rsplit('-');
    let (number, protocol) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
    Some(Port { number, protocol: protocol.into() })
}

/// The facts of a cluster that all shares of a load balancer have.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) location: String,
    pub(crate) extended_location: Value,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) cluster: String,
    pub(crate) pool: String,
    pub(crate) maximum_rules: usize,
    pub(crate) vnet: Option<String>,
}

/// A Service's share, as it is to be written.
#[derive(Clone)]
pub(crate) struct Edit {
    pub(crate) frame: Frame,
    pub(crate) owner: String,
    /// Beginning of the names of frontend, rules and probes.
    pub(crate) base: String,
    /// Name and properties of the frontend, and zones of a new one; `None` removes the share.
    pub(crate) frontend: Option<(Value, Vec<String>)>,
    pub(crate) rules: Vec<(Port, Rule)>,
    /// Addresses that join or leave the pool, each with its name. Only for pools of addresses.
    pub(crate) join: Vec<(String, String)>,
    pub(crate) leave: Targets,
}

impl Edit {
    /// Applies the edit. A document without frontends becomes `null`.
    pub(crate) fn apply(&self, document: &mut Value) -> Result<()> {
        if document.is_null() {
            if self.frontend.is_none() {
                return Ok(());
            }
            *document = new_document(&self.frame.location, &self.frame.tags);
            document["sku"] = json!({"name": "Standard"});
            if !self.frame.extended_location.is_null() {
                document["extendedLocation"] = self.frame.extended_location.clone();
            }
        }
        self.check_owner(document)?;
        match &self.frontend {
            Some((frontend, zones)) => {
                document["tags"][CLUSTER_TAG] = self.frame.cluster.clone().into();
                self.write(document, frontend, zones)
            }
            None => {
                self.remove(document);
                Ok(())
            }
        }
    }

    fn check_owner(&self, document: &Value) -> Result<()> {
        match document["tags"][CLUSTER_TAG].as_str() {
            Some(other) if other != self.frame.cluster => Err(Error::invalid(format!(
                "load balancer {} carries tag {CLUSTER_TAG} of another cluster, {other:?}; it is left alone. Give the clusters \
                 other names (--cluster-name), or remove the tag if that cluster no longer exists",
                name_of(&self.frame.id)
            ))),
            _ => Ok(()),
        }
    }

    fn write(&self, document: &mut Value, frontend: &Value, zones: &[String]) -> Result<()> {
        let frame = &self.frame;
        let reference = |list: &str, name: &str| json!({"id": format!("{}/{list}/{name}", frame.id)});
        // Azure refuses a second frontend for an address.
        let is_same = |it: &&Value| {
            let same = |pointer: &str| {
                !text(frontend, pointer).is_empty() && text(it, pointer).eq_ignore_ascii_case(text(frontend, pointer))
            };
            same("/properties/publicIPAddress/id")
                || (same("/properties/subnet/id") && same("/properties/privateIPAddress"))
        };
        let of_other = items(document, "frontendIPConfigurations").filter(|it| !belongs(it, &self.owner)).find(is_same);
        let frontend_name = of_other.map_or(&*self.base, |it| text(it, "/name")).to_owned();
        let is_shared = of_other.is_some();
        retain(document, LISTS[0], |it| !belongs(it, &self.owner) || (!is_shared && text(it, "/name") == self.base));
        if !is_shared {
            let is_new = !items(document, LISTS[0]).any(|it| text(it, "/name") == self.base);
            let mut wanted = frontend.clone();
            wanted["name"] = self.base.clone().into();
            if is_new && !zones.is_empty() {
                wanted["zones"] = json!(zones);
            }
            upsert(document, LISTS[0], &wanted);
        }
        upsert(document, LISTS[1], &json!({"name": frame.pool}));
        let (mut rules, mut probes) = (Vec::new(), Vec::new());
        for (port, rule) in &self.rules {
            let name = format!("{}-{}-{}", self.base, port.protocol, port.number);
            let probe = rule.probe.as_ref().map(|probe| {
                let name = match probe {
                    it if it.is_shared => SHARED_PROBE.to_owned(),
                    // All ports of a Service with local traffic have the probe of kube-proxy.
                    it if it.request_path.as_deref() == Some("/healthz") && self.shares(it) => {
                        format!("{}-TCP-{}", self.base, it.port)
                    }
                    _ => name.clone(),
                };
                probes.push(probe_element(&name, probe));
                name
            });
            let all = rule.protocol == "All";
            rules.push(json!({"name": name, "properties": {
                "frontendIPConfiguration": reference(LISTS[0], &frontend_name),
                "backendAddressPool": reference(LISTS[1], &frame.pool),
                "probe": probe.map(|name| reference(LISTS[2], &name)),
                "protocol": rule.protocol, "frontendPort": if all { 0 } else { port.number }, "backendPort": rule.backend_port,
                "enableFloatingIP": rule.floating, "idleTimeoutInMinutes": rule.idle_timeout_in_minutes,
                "loadDistribution": rule.load_distribution, "enableTcpReset": rule.enable_tcp_reset,
                "disableOutboundSnat": rule.disable_outbound_snat,
            }}));
        }
        rules.iter().try_for_each(|rule| self.check_conflict(document, rule))?;
        for (list, wanted) in [(LISTS[2], &probes), (LISTS[3], &rules)] {
            let stays = |it: &Value| {
                !belongs(it, &self.owner) || wanted.iter().any(|new| text(new, "/name") == text(it, "/name"))
            };
            retain(document, list, stays);
            wanted.iter().for_each(|new| upsert(document, list, new));
        }
        remove_unused_probe(document);
        let count = items(document, LISTS[3]).count();
        if count > frame.maximum_rules {
            return Err(Error::quota(format!(
                "load balancer {} would have {count} rules, and maximumLoadBalancerRuleCount is {}",
                name_of(&frame.id),
                frame.maximum_rules
            )));
        }
        self.change_members(document);
        Ok(())
    }

    /// Returns `true` if the probe is one for all ports of the Service.
    fn shares(&self, probe: &Probe) -> bool {
        let of_local = |(_, rule): &(Port, Rule)| rule.probe.as_ref().is_none_or(|it| it == probe);
        self.rules.iter().all(of_local) && !self.rules.iter().any(|(_, rule)| rule.backend_port == probe.port)
    }

    fn check_conflict(&self, document: &Value, rule: &Value) -> Result<()> {
        let same = |it: &Value, key: &str| it["properties"][key] == rule["properties"][key];
        let same_frontend = |it: &Value| {
            let pointer = "/properties/frontendIPConfiguration/id";
            text(it, pointer).eq_ignore_ascii_case(text(rule, pointer))
        };
        let others = ["loadBalancingRules", "inboundNatRules"].into_iter().flat_map(|list| items(document, list));
        let conflict = others
            .filter(|it| !belongs(it, &self.owner))
            .find(|it| same_frontend(it) && same(it, "frontendPort") && same(it, "protocol"));
        match conflict {
            Some(other) => Err(Error::invalid(format!(
                "rule {} needs port {} of a frontend that rule {} uses already; choose another port or another address",
                text(rule, "/name"),
                rule["properties"]["frontendPort"],
                text(other, "/name")
            ))),
            None => Ok(()),
        }
    }

    fn change_members(&self, document: &mut Value) {
        if self.join.is_empty() && self.leave.is_empty() {
            return;
        }
        let vnet = self.frame.vnet.as_ref().map(|id| json!({ "id": id }));
        let pools = list_mut(document, LISTS[1]).iter_mut();
        let Some(pool) = { pools }.find(|it| text(it, "/name").eq_ignore_ascii_case(&self.frame.pool)) else { return };
        let members = list_mut(pool, "loadBalancerBackendAddresses");
        members.retain(|it| !self.leave.contains(text(it, "/properties/ipAddress")));
        for (name, ip) in &self.join {
            if !members.iter().any(|it| text(it, "/properties/ipAddress") == ip) {
                members.retain(|it| text(it, "/name") != name);
                let mut member = json!({"name": name, "properties": {"ipAddress": ip}});
                vnet.iter().for_each(|vnet| member["properties"]["virtualNetwork"] = vnet.clone());
                members.push(member);
            }
        }
    }

    fn remove(&self, document: &mut Value) {
        let used: Vec<String> =
            Share::of(document, &self.owner).frontend.iter().map(|it| text(it, "/name").to_owned()).collect();
        for list in [LISTS[3], LISTS[2]] {
            retain(document, list, |it| !belongs(it, &self.owner));
        }
        // A frontend stays while rules of another Service use it.
        let in_use = |document: &Value, name: &str| {
            let uses =
                |it: &Value| name_of(text(it, "/properties/frontendIPConfiguration/id")).eq_ignore_ascii_case(name);
            let lists = ["loadBalancingRules", "inboundNatRules", "outboundRules"].into_iter();
            { lists }.flat_map(|list| items(document, list)).any(uses)
        };
        let gone: Vec<String> = items(document, LISTS[0])
            .map(|it| text(it, "/name"))
            .filter(|name| {
                (prefix(name) == Some(&*self.owner) || used.iter().any(|it| it == name)) && !in_use(document, name)
            })
            .map(str::to_owned)
            .collect();
        retain(document, LISTS[0], |it| !gone.iter().any(|name| name == text(it, "/name")));
        remove_unused_probe(document);
        if items(document, LISTS[0]).next().is_none() {
            *document = Value::Null;
        }
    }
}

fn probe_element(name: &str, probe: &Probe) -> Value {
    json!({"name": name, "properties": {
        "protocol": probe.protocol, "port": probe.port, "requestPath": probe.request_path,
        "intervalInSeconds": probe.interval_in_seconds, "probeThreshold": probe.probe_threshold,
    }})
}

/// Writes an element over the one of its name, or adds it.
fn upsert(document: &mut Value, list: &str, wanted: &Value) {
    let all = list_mut(document, list);
    let name = text(wanted, "/name");
    match all.iter_mut().find(|it| text(it, "/name").eq_ignore_ascii_case(name)) {
        Some(there) => overlay(there, wanted),
        None => {
            let mut new = Value::Null;
            overlay(&mut new, wanted);
            all.push(new);
        }
    }
}

fn remove_unused_probe(document: &mut Value) {
    let is_used = items(document, LISTS[3]).any(|it| name_of(text(it, "/properties/probe/id")) == SHARED_PROBE);
    if !is_used && items(document, LISTS[2]).any(|it| text(it, "/name") == SHARED_PROBE) {
        retain(document, LISTS[2], |it| text(it, "/name") != SHARED_PROBE);
    }
}
