//! The share of one Service in a load balancer's document, as it is to be written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud_provider::{Error, Result};
use provider_kit::json_path::{self, place};
use provider_kit::load_balancers::{Port, Targets};
use serde_json::{Value, json};

use super::document::{
    CLUSTER_TAG, FRONTEND, LISTS, MOST_NAME, SHARED_PROBE, Share, belongs, prefix, suffix,
};
use super::probes::Probe;
use super::spec::Rule;
use crate::arm::{items, name_of, overlay, text};
use crate::config::Config;

fn list_mut<'a>(document: &'a mut Value, list: &str) -> &'a mut Vec<Value> {
    json_path::list(document, &["properties", list])
}

/// Keeps some elements of a list, without adding a list that the document does not have.
fn retain(document: &mut Value, list: &str, keep: impl FnMut(&Value) -> bool) {
    let all = document
        .pointer_mut("/properties")
        .and_then(|pointer_mut| pointer_mut.get_mut(list))
        .and_then(Value::as_array_mut);
    if let Some(all) = all {
        all.retain(keep);
    }
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
    /// The names that the pool of this Service alone may have.
    pub(crate) own_pools: [String; 2],
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
            *place(document, &["sku"]) = json!({ "name": self.config.file.sku() });
        }
        self.check_owner(document)?;
        if self.frontends.is_empty() {
            self.remove(document);
            return Ok(());
        }
        crate::tags::write(&self.config, document, &self.config.tags);
        *place(document, &["tags", CLUSTER_TAG]) = self.cluster.clone().into();
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
            let same = |object: &Value, pointer: &str| {
                !text(frontend, pointer).is_empty()
                    && text(object, pointer).eq_ignore_ascii_case(text(frontend, pointer))
            };
            let is_same = |object: &&Value| {
                same(object, FRONTEND[0].1)
                    || (same(object, FRONTEND[1].1) && same(object, FRONTEND[2].1))
            };
            let mut others =
                items(document, LISTS[0]).filter(|object| !belongs(object, &self.owner));
            let of_other = others
                .find(is_same)
                .map(|object| text(object, "/name").to_owned());
            names.insert(
                *suffix,
                of_other.unwrap_or_else(|| format!("{}{suffix}", self.base)),
            );
        }
        retain(document, LISTS[0], |object| {
            !belongs(object, &self.owner)
                || names
                    .values()
                    .any(|name| text(object, "/name").eq_ignore_ascii_case(name))
        });
        for (suffix, frontend) in &self.frontends {
            let name = format!("{}{suffix}", self.base);
            if names.get(suffix) != Some(&name) {
                continue;
            }
            let is_new = !items(document, LISTS[0]).any(|object| text(object, "/name") == name);
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
        let reference =
            |list: &str, name: &str| json!({"id": format!("{}/{list}/{name}", self.id)});
        let frontends = self.write_frontends(document);
        for (.., pool, _) in &self.rules {
            upsert(document, LISTS[1], &json!({ "name": pool }));
        }
        let mut rules = Vec::new();
        let mut probes = Vec::new();
        for (port, pool, rule) in &self.rules {
            let end = suffix(&port.protocol);
            let protocol = port.protocol.strip_suffix(end).unwrap_or(&port.protocol);
            let name = self.rule_name(protocol, port.number, end);
            let Some(frontend) = frontends.get(end) else {
                continue;
            };
            let probe = rule.probe.as_ref().map(|probe| {
                let name = match probe {
                    current if current.is_shared => SHARED_PROBE.to_owned(),
                    // All ports of a Service with local traffic have the probe of kube-proxy.
                    entry
                        if entry.request_path.as_deref() == Some("/healthz")
                            && self.shares(entry) =>
                    {
                        self.rule_name("TCP", entry.port, end)
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
            properties["frontendPort"] = if rule.protocol == "All" {
                0
            } else {
                port.number
            }
            .into();
            rules.push(json!({"name": name, "properties": properties}));
        }
        rules
            .iter()
            .try_for_each(|rule| self.check_conflict(document, rule))?;
        for (list, wanted) in [(LISTS[2], &probes), (LISTS[3], &rules)] {
            let stays = |object: &Value| {
                !belongs(object, &self.owner)
                    || wanted
                        .iter()
                        .any(|new| text(new, "/name") == text(object, "/name"))
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
            set_members(
                document,
                pool,
                (join, leave),
                self.config.vnet_id().as_deref(),
            );
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
        let is_local = |rule: &Rule| {
            rule.probe
                .as_ref()
                .is_none_or(|other_probe| other_probe == probe)
        };
        rules.clone().all(is_local) && !rules.any(|rule| rule.backend_port == probe.port)
    }

    fn check_conflict(&self, document: &Value, rule: &Value) -> Result<()> {
        let same = |object: &Value, key: &str| object["properties"][key] == rule["properties"][key];
        let same_frontend = |object: &Value| {
            let pointer = "/properties/frontendIPConfiguration/id";
            text(object, pointer).eq_ignore_ascii_case(text(rule, pointer))
        };
        let others = ["loadBalancingRules", "inboundNatRules"]
            .into_iter()
            .flat_map(|list| items(document, list));
        let conflict = others
            .filter(|object| !belongs(object, &self.owner))
            .find(|object| {
                same_frontend(object) && same(object, "frontendPort") && same(object, "protocol")
            });
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
        let id = |object: &Value| {
            name_of(text(object, "/properties/backendAddressPool/id")).to_ascii_lowercase()
        };
        let used: BTreeSet<String> = items(document, LISTS[3]).map(id).collect();
        let is_left = |name: &str| {
            self.own_pools
                .iter()
                .any(|own_name| name.eq_ignore_ascii_case(own_name))
        };
        retain(document, LISTS[1], |object| {
            let name = text(object, "/name");
            used.contains(&name.to_ascii_lowercase())
                || !is_left(name.get(..name.len() - suffix(name).len()).unwrap_or(name))
        });
    }

    fn remove(&self, document: &mut Value) {
        let used: Vec<String> = Share::of(document, &self.owner)
            .frontends
            .values()
            .map(|frontend| text(frontend, "/name").to_owned())
            .collect();
        for list in [LISTS[3], LISTS[2]] {
            retain(document, list, |object| !belongs(object, &self.owner));
        }
        // A frontend stays while rules of another Service use it.
        let in_use = |document: &Value, name: &str| {
            let uses = |object: &Value| {
                name_of(text(object, "/properties/frontendIPConfiguration/id"))
                    .eq_ignore_ascii_case(name)
            };
            let referrers =
                ["loadBalancingRules", "inboundNatRules", "inboundNatPools"].into_iter();
            let outbound = items(document, "outboundRules")
                .flat_map(|outbound_rule| items(outbound_rule, "frontendIPConfigurations"));
            referrers.flat_map(|list| items(document, list)).any(uses) || { outbound }
                .any(|object| name_of(text(object, "/id")).eq_ignore_ascii_case(name))
        };
        let gone: Vec<String> = items(document, LISTS[0])
            .map(|object| text(object, "/name"))
            .filter(|name| {
                (prefix(name) == Some(&*self.owner) || used.iter().any(|text| text == name))
                    && !in_use(document, name)
            })
            .map(str::to_owned)
            .collect();
        retain(document, LISTS[0], |object| {
            !gone.iter().any(|name| name == text(object, "/name"))
        });
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
    let Some(pool) = pools.find(|other_pool| text(other_pool, "/name").eq_ignore_ascii_case(pool))
    else {
        return;
    };
    let has_network = !text(pool, "/properties/virtualNetwork/id").is_empty();
    let members = list_mut(pool, "loadBalancerBackendAddresses");
    members.retain(|member| !leave.contains(text(member, "/properties/ipAddress")));
    for (name, ip) in join {
        if !members
            .iter()
            .any(|member| text(member, "/properties/ipAddress") == ip)
        {
            members.retain(|member| text(member, "/name") != name);
            members.push(json!({"name": name, "properties": {"ipAddress": ip}}));
        }
    }
    // A pool of network interfaces has no network.
    let network = match vnet {
        _ if members.is_empty() => Value::Null,
        Some(id) if !has_network => json!({ "id": id }),
        _ => return,
    };
    for properties in members
        .iter_mut()
        .filter_map(|member| member.get_mut("properties")?.as_object_mut())
    {
        properties.remove("virtualNetwork");
    }
    overlay(pool, &json!({"properties": {"virtualNetwork": network}}));
}

/// Writes an element over the one of its name, or adds it.
fn upsert(document: &mut Value, list: &str, wanted: &Value) {
    let all = list_mut(document, list);
    let name = text(wanted, "/name");
    match all
        .iter_mut()
        .find(|object| text(object, "/name").eq_ignore_ascii_case(name))
    {
        Some(existing_rule) => overlay(existing_rule, wanted),
        None => {
            let mut new = Value::Null;
            overlay(&mut new, wanted);
            all.push(new);
        }
    }
}

fn remove_unused_probe(document: &mut Value) {
    let is_used = items(document, LISTS[3])
        .any(|object| name_of(text(object, "/properties/probe/id")) == SHARED_PROBE);
    if !is_used && items(document, LISTS[2]).any(|object| text(object, "/name") == SHARED_PROBE) {
        retain(document, LISTS[2], |object| {
            text(object, "/name") != SHARED_PROBE
        });
    }
}
