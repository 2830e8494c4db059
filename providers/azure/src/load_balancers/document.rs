//! The share of one Service in a load balancer's document: how it is read, and how it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Attributes, Port, ResourceGraph, Targets};
use serde_json::{Value, json};

use super::spec::{IPV6, Probe, Rule};
use crate::arm::{items, name_of, overlay, text};
use crate::config::Config;
use crate::machines::place;

/// The tag of a load balancer with the cluster that owns it. Azure does not accept a slash in the name of a tag.
pub(crate) const CLUSTER_TAG: &str = "ccm-rs-cluster";
/// The probe that all Services share.
const SHARED_PROBE: &str = "cluster-service-shared-health-probe";
/// The longest name of an element, without the suffix of a family.
pub(crate) const MOST_NAME: usize = 75;
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

/// Returns the end of a name that tells the second family of a Service.
pub(crate) fn suffix(name: &str) -> &'static str {
    let is_second = name.len() > IPV6.len() && name.is_char_boundary(name.len() - IPV6.len());
    if is_second && name[name.len() - IPV6.len()..].eq_ignore_ascii_case(IPV6) { IPV6 } else { "" }
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
        let rules: Vec<_> = items(document, "loadBalancingRules").filter(|it| belongs(it, owner)).collect();
        let all = items(document, "frontendIPConfigurations");
        let mut frontends = BTreeMap::new();
        for rule in &rules {
            let used = name_of(text(rule, "/properties/frontendIPConfiguration/id"));
            let used = all.clone().find(|it| used.eq_ignore_ascii_case(text(it, "/name")));
            frontends.extend(used.map(|it| (suffix(text(rule, "/name")), it)));
        }
        let own = all.filter(|it| belongs(it, owner)).map(|it| (suffix(text(it, "/name")), it));
        frontends.extend(own);
        Self { frontends, rules, probes: items(document, "probes").collect() }
    }

    /// Returns the IDs of the public addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &'a str> {
        self.frontends.values().map(|it| text(it, FRONTEND[0].1)).filter(|it| !it.is_empty())
    }

    /// Returns `true` if rules of others use a frontend of the share.
    pub(crate) fn is_shared(&self, document: &Value, owner: &str) -> bool {
        let own: Vec<&str> = self.frontends.values().map(|it| text(it, "/id")).collect();
        let lists = ["loadBalancingRules", "inboundNatRules"].into_iter().flat_map(|list| items(document, list));
        lists.filter(|it| !belongs(it, owner)).any(|it| {
            let used = text(it, "/properties/frontendIPConfiguration/id");
            own.iter().any(|id| used.eq_ignore_ascii_case(id))
        })
    }

    /// Adds the resources of the share to a resource graph. A Service without rules is in the pool of the cluster.
    pub(crate) fn graph(&self, document: &Value, pool: &str, mut graph: ResourceGraph) -> Result<ResourceGraph> {
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
        let used = |rule: &&Value| name_of(text(rule, "/properties/backendAddressPool/id")).to_owned();
        let mut used: BTreeSet<String> = self.rules.iter().map(used).collect();
        if used.is_empty() {
            used.insert(pool.to_owned());
        }
        for known in items(document, "backendAddressPools").map(|it| text(it, "/name")) {
            if used.iter().any(|it| it.eq_ignore_ascii_case(known)) {
                graph = graph.pool(known, Attributes::default(), Some(members(document, known)));
            }
        }
        for rule in &self.rules {
            let Some(port) = port_of(text(rule, "/name")) else { continue };
            let attributes = Attributes::observed(&self.rule(rule)?)?;
            let pool = name_of(text(rule, "/properties/backendAddressPool/id"));
            graph = graph.listener(port.number, port.protocol, pool, attributes);
        }
        Ok(graph)
    }

    /// Reads a rule with its probe. The API leaves defaults out.
    fn rule(&self, rule: &Value) -> Result<Rule> {
        let name = name_of(text(rule, "/properties/probe/id"));
        let probe = self.probes.iter().find(|it| !name.is_empty() && text(it, "/name").eq_ignore_ascii_case(name));
        let mut properties = rule["properties"].clone();
        properties["probe"] = probe.map_or(Value::Null, |it| it["properties"].clone());
        let mut rule: Rule = crate::arm::read(&properties)?;
        rule.idle_timeout_in_minutes = rule.idle_timeout_in_minutes.max(4);
        if let Some(probe) = &mut rule.probe {
            probe.is_shared = name == SHARED_PROBE;
            // Azure shows the threshold 1 for a probe whose number of failures was stated in the older field.
            let count = properties["probe"]["numberOfProbes"].as_u64().and_then(|it| it.try_into().ok());
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
    Some(Port { number, protocol: format!("{}{end}", parts.next()?).into() })
}

/// A Service's share, as it is to be written.
#[derive(Clone)]
pub(crate) struct Edit {
    pub(crate) config: Arc<Config>,
    /// ID of the load balancer.
    pub(crate) id: String,
    /// The cluster in the tag of the load balancer.
    pub(crate) cluster: String,
    pub(crate) owner: String,
    /// Beginning of the names of frontend, rules and probes.
    pub(crate) base: String,
    /// Properties of the frontends, by the suffixes of their families; none removes the share.
    pub(crate) frontends: BTreeMap<&'static str, Value>,
    /// The name of the pool of this Service alone.
    pub(crate) own_pool: String,
    /// Zones of new frontends.
    pub(crate) zones: Vec<String>,
    pub(crate) rules: Vec<(Port, String, Rule)>,
    /// By pool, the addresses that join, each with its name, and those that leave. Only for pools of addresses.
    pub(crate) members: BTreeMap<String, (Vec<(String, String)>, Targets)>,
}

impl Edit {
    /// Applies the edit. A document without frontends becomes `null`.
    pub(crate) fn apply(&self, document: &mut Value) -> Result<()> {
        if document.is_null() {
            if self.frontends.is_empty() {
                return Ok(());
            }
            *document = self.config.new_resource();
            document["sku"] = json!({ "name": self.config.file.sku() });
        }
        self.check_owner(document)?;
        if self.frontends.is_empty() {
            self.remove(document);
            return Ok(());
        }
        crate::tags::write(&self.config, document, &self.config.tags);
        document["tags"][CLUSTER_TAG] = self.cluster.clone().into();
        self.write(document)
    }

    fn check_owner(&self, document: &Value) -> Result<()> {
        match document["tags"][CLUSTER_TAG].as_str() {
            Some(other) if other != self.cluster => Err(Error::invalid(format!(
                "load balancer {} carries tag {CLUSTER_TAG} of another cluster, {other:?}; it is left alone. Give the clusters \
                 other names (--cluster-name), or remove the tag if that cluster no longer exists",
                name_of(&self.id)
            ))),
            _ => Ok(()),
        }
    }

    /// Writes the frontends, and returns their names by the suffixes of their families.
    fn write_frontends(&self, document: &mut Value) -> BTreeMap<&'static str, String> {
        let mut names = BTreeMap::new();
        for (suffix, frontend) in &self.frontends {
            // Azure refuses a second frontend for an address.
            let same = |it: &Value, pointer: &str| {
                !text(frontend, pointer).is_empty() && text(it, pointer).eq_ignore_ascii_case(text(frontend, pointer))
            };
            let is_same = |it: &&Value| same(it, FRONTEND[0].1) || (same(it, FRONTEND[1].1) && same(it, FRONTEND[2].1));
            let mut others = items(document, LISTS[0]).filter(|it| !belongs(it, &self.owner));
            let of_other = others.find(is_same).map(|it| text(it, "/name").to_owned());
            names.insert(*suffix, of_other.unwrap_or_else(|| format!("{}{suffix}", self.base)));
        }
        retain(document, LISTS[0], |it| {
            !belongs(it, &self.owner) || names.values().any(|name| text(it, "/name").eq_ignore_ascii_case(name))
        });
        for (suffix, frontend) in &self.frontends {
            let name = format!("{}{suffix}", self.base);
            if names.get(suffix) != Some(&name) {
                continue;
            }
            let is_new = !items(document, LISTS[0]).any(|it| text(it, "/name") == name);
            let mut wanted = frontend.clone();
            wanted["name"] = name.into();
            // A frontend with a public address is in the zones of that address.
            if is_new && !self.zones.is_empty() && text(frontend, FRONTEND[0].1).is_empty() {
                wanted["zones"] = json!(self.zones);
            }
            upsert(document, LISTS[0], &wanted);
        }
        names
    }

    fn write(&self, document: &mut Value) -> Result<()> {
        let reference = |list: &str, name: &str| json!({"id": format!("{}/{list}/{name}", self.id)});
        let frontends = self.write_frontends(document);
        for (.., pool, _) in &self.rules {
            upsert(document, LISTS[1], &json!({ "name": pool }));
        }
        let (mut rules, mut probes) = (Vec::new(), Vec::new());
        for (port, pool, rule) in &self.rules {
            let end = suffix(&port.protocol);
            let protocol = port.protocol.strip_suffix(end).unwrap_or(&port.protocol);
            let name = self.rule_name(protocol, port.number, end);
            let Some(frontend) = frontends.get(end) else { continue };
            let probe = rule.probe.as_ref().map(|probe| {
                let name = match probe {
                    it if it.is_shared => SHARED_PROBE.to_owned(),
                    // All ports of a Service with local traffic have the probe of kube-proxy.
                    it if it.request_path.as_deref() == Some("/healthz") && self.shares(it) => {
                        self.rule_name("TCP", it.port, end)
                    }
                    _ => name.clone(),
                };
                let mut properties = json!(probe);
                properties["requestPath"] = json!(probe.request_path);
                properties["shared"] = Value::Null;
                probes.push(json!({"name": name, "properties": properties}));
                name
            });
            let mut properties = json!(rule);
            properties["frontendIPConfiguration"] = reference(LISTS[0], frontend);
            properties["backendAddressPool"] = reference(LISTS[1], pool);
            properties["probe"] = json!(probe.map(|name| reference(LISTS[2], &name)));
            properties["frontendPort"] = if rule.protocol == "All" { 0 } else { port.number }.into();
            rules.push(json!({"name": name, "properties": properties}));
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
        if count > self.config.maximum_rules {
            return Err(Error::quota(format!(
                "load balancer {} would have {count} rules, and maximumLoadBalancerRuleCount is {}",
                name_of(&self.id),
                self.config.maximum_rules
            )));
        }
        for (pool, (join, leave)) in &self.members {
            set_members(document, pool, (join, leave), self.config.vnet_id().as_deref());
        }
        self.remove_unused_pools(document);
        Ok(())
    }

    /// Returns the name of a rule, which is cut where its subnet is too long.
    fn rule_name(&self, protocol: &str, port: u16, end: &str) -> String {
        let (owner, rest) = self.base.split_at(self.owner.len().min(self.base.len()));
        let last = format!("-{protocol}-{port}");
        let room = MOST_NAME - owner.len() - last.len();
        format!("{owner}{}{last}{end}", rest.get(..room).unwrap_or(rest))
    }

    /// Returns `true` if the probe is one for all ports of the Service.
    fn shares(&self, probe: &Probe) -> bool {
        let mut rules = self.rules.iter().map(|(.., rule)| rule);
        let is_local = |rule: &Rule| rule.probe.as_ref().is_none_or(|it| it == probe);
        rules.clone().all(is_local) && !rules.any(|rule| rule.backend_port == probe.port)
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

    /// Removes the Service's own pools that no rule leads to.
    fn remove_unused_pools(&self, document: &mut Value) {
        let id = |it: &Value| name_of(text(it, "/properties/backendAddressPool/id")).to_ascii_lowercase();
        let used: BTreeSet<String> = items(document, LISTS[3]).map(id).collect();
        let is_left =
            |name: &str| name.eq_ignore_ascii_case(&self.own_pool) && !used.contains(&name.to_ascii_lowercase());
        retain(document, LISTS[1], |it| {
            let name = text(it, "/name");
            !is_left(name.get(..name.len() - suffix(name).len()).unwrap_or(name))
        });
    }

    fn remove(&self, document: &mut Value) {
        let used: Vec<String> =
            Share::of(document, &self.owner).frontends.values().map(|it| text(it, "/name").to_owned()).collect();
        for list in [LISTS[3], LISTS[2]] {
            retain(document, list, |it| !belongs(it, &self.owner));
        }
        // A frontend stays while rules of another Service use it.
        let in_use = |document: &Value, name: &str| {
            let uses =
                |it: &Value| name_of(text(it, "/properties/frontendIPConfiguration/id")).eq_ignore_ascii_case(name);
            let referrers = ["loadBalancingRules", "inboundNatRules", "inboundNatPools"].into_iter();
            let outbound = items(document, "outboundRules").flat_map(|it| items(it, "frontendIPConfigurations"));
            referrers.flat_map(|list| items(document, list)).any(uses) || { outbound }
                .any(|it| name_of(text(it, "/id")).eq_ignore_ascii_case(name))
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
        self.remove_unused_pools(document);
        if items(document, LISTS[0]).next().is_none() {
            *document = Value::Null;
        }
    }
}

/// Adds addresses to a pool, each with its name, and removes others. The pool names their virtual network, as with the Go
/// program, and not each member.
pub(crate) fn set_members(
    document: &mut Value,
    pool: &str,
    (join, leave): (&[(String, String)], &Targets),
    vnet: Option<&str>,
) {
    let mut pools = list_mut(document, LISTS[1]).iter_mut();
    let Some(pool) = pools.find(|it| text(it, "/name").eq_ignore_ascii_case(pool)) else { return };
    let has_network = !text(pool, "/properties/virtualNetwork/id").is_empty();
    let members = list_mut(pool, "loadBalancerBackendAddresses");
    members.retain(|it| !leave.contains(text(it, "/properties/ipAddress")));
    for (name, ip) in join {
        if !members.iter().any(|it| text(it, "/properties/ipAddress") == ip) {
            members.retain(|it| text(it, "/name") != name);
            members.push(json!({"name": name, "properties": {"ipAddress": ip}}));
        }
    }
    // A pool of network interfaces has no network.
    let network = match vnet {
        _ if members.is_empty() => Value::Null,
        Some(id) if !has_network => json!({ "id": id }),
        _ => return,
    };
    for properties in members.iter_mut().filter_map(|it| it["properties"].as_object_mut()) {
        properties.remove("virtualNetwork");
    }
    overlay(pool, &json!({"properties": {"virtualNetwork": network}}));
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
