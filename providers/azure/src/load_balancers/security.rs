//! The rules of Services in the security group. Services with the same sources and ports share rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use cloud_provider::{Error, Result};
use md5::{Digest, Md5};
use provider_kit::json_path::list;
use provider_kit::load_balancers::{Attributes, ResourceKey};
use serde_json::{Value, json};

use crate::arm::text;

const PREFIX: &str = "k8s-azure-lb_";
/// The first priority of rules that allow, going up, and of rules that deny, going down.
const FIRST: u64 = 500;
const LAST: u64 = 4095;
const MOST_RULES: usize = 1000;
const MOST_PREFIXES: usize = 4000;

/// Returns the part of a resource graph for the rules.
pub(crate) fn resource() -> ResourceKey {
    ResourceKey::created_after("security rules", "")
}

/// Returns the settings of that part: the rules, and the destinations beside the addresses of the Service, if there are
/// some.
pub(crate) fn settings(rules: &BTreeSet<String>, further: Option<&BTreeSet<IpAddr>>) -> Attributes {
    let further = further.map(destinations_of).unwrap_or_default();
    further.set("rules", rules)
}

/// Returns the setting of these destinations alone.
pub(crate) fn destinations_of(further: &BTreeSet<IpAddr>) -> Attributes {
    Attributes::default().set("destinations", further)
}

/// Returns the name of a rule, in lower case.
pub(crate) fn name(rule: &str) -> Option<String> {
    Some(Parsed::of(rule)?.name().to_ascii_lowercase())
}

/// Returns `true` if a rule of the program leads to one of these addresses.
pub(crate) fn leads_to(group: &Value, addresses: &BTreeSet<IpAddr>) -> bool {
    let ours =
        crate::arm::items(group, "securityRules").filter(|security_rule| is_ours(security_rule));
    { ours }.any(|rule| {
        destinations(rule)
            .iter()
            .any(|destination| destination.parse().is_ok_and(|ip| addresses.contains(&ip)))
    })
}

/// A rule in the form `<family> <protocol> <access> <sources> <ports>`.
struct Parsed<'a> {
    family: &'a str,
    protocol: &'a str,
    access: &'a str,
    sources: Vec<&'a str>,
    ports: Vec<&'a str>,
}

impl<'a> Parsed<'a> {
    fn of(rule: &'a str) -> Option<Self> {
        let [family, protocol, access, sources, ports] = rule.split(' ').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some(Self {
            family,
            protocol,
            access,
            sources: sources.split(',').collect(),
            ports: ports.split(',').collect(),
        })
    }

    fn name(&self) -> String {
        if self.access == "Deny" {
            return format!("{PREFIX}deny-all_{}", self.family);
        }
        let text = format!(
            "{}_{}_{}",
            self.protocol,
            self.sources.join(","),
            self.ports.join(",")
        );
        let mut name = format!("{PREFIX}allow_{}_", self.family);
        for byte in Md5::digest(text) {
            // Writing to a String cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

/// Returns the values of a field that a rule has in the singular or in the plural.
fn values(rule: &Value, one: &str, many: &str) -> BTreeSet<String> {
    let properties = &rule["properties"];
    let many = properties[many]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    many.chain(properties[one].as_str())
        .filter(|many| !many.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_ours(rule: &Value) -> bool {
    text(rule, "/name").to_ascii_lowercase().starts_with(PREFIX)
}

fn destinations(rule: &Value) -> BTreeSet<String> {
    values(
        rule,
        "destinationAddressPrefix",
        "destinationAddressPrefixes",
    )
}

/// Returns a rule as a text.
fn written(rule: &Value) -> String {
    let join = |one: &str, many: &str| {
        values(rule, one, many)
            .into_iter()
            .collect::<Vec<_>>()
            .join(",")
    };
    let is_denied = text(rule, "/properties/access") == "Deny";
    let family = if text(rule, "/name").contains("_IPv6") {
        "IPv6"
    } else {
        "IPv4"
    };
    let ports = if is_denied {
        "*".to_owned()
    } else {
        join("destinationPortRange", "destinationPortRanges")
    };
    let sources = join("sourceAddressPrefix", "sourceAddressPrefixes");
    let access = if is_denied { "Deny" } else { "Allow" };
    format!(
        "{family} {} {access} {sources} {ports}",
        text(rule, "/properties/protocol")
    )
}

/// Returns the rules of a Service with these addresses and further destinations, without those of `foreign` names, and
/// the further destinations to which all of them lead.
pub(crate) fn observed(
    group: &Value,
    (own, further): (&BTreeSet<IpAddr>, &BTreeSet<IpAddr>),
    foreign: &BTreeSet<String>,
) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let mut rules = BTreeSet::new();
    let mut covered = further.clone();
    let mut families = BTreeSet::new();
    for rule in
        crate::arm::items(group, "securityRules").filter(|security_rule| is_ours(security_rule))
    {
        let rule_destinations = destinations(rule);
        let family = text(rule, "/name").contains("_IPv6");
        let has = |ip: &IpAddr| rule_destinations.contains(&ip.to_string());
        let of_family = |ip: &&IpAddr| ip.is_ipv6() == family;
        let mut own_addresses = own.iter().filter(of_family).peekable();
        let is_its_match = match own_addresses.peek() {
            Some(_) => own_addresses.all(has),
            None => further.iter().filter(of_family).any(has),
        };
        if is_its_match && !foreign.contains(&text(rule, "/name").to_ascii_lowercase()) {
            rules.insert(written(rule));
            families.insert(family);
            covered.retain(|ip| ip.is_ipv6() != family || has(ip));
        }
    }
    covered.retain(|ip| families.contains(&ip.is_ipv6()));
    (rules, covered)
}

/// The rules of one Service, as they are to be written.
#[derive(Clone)]
pub(crate) struct Edit {
    /// The addresses that rules lead to.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Addresses that rules no longer lead to.
    pub(crate) leaving: BTreeSet<IpAddr>,
    pub(crate) rules: BTreeSet<String>,
    /// Protocols and ports of other Services with the same addresses, as `Tcp 80`: their rules stay.
    pub(crate) retained: BTreeSet<String>,
    /// If set, another Service with the same address denies other traffic.
    pub(crate) retains_denial: bool,
    /// The addresses of Nodes, and the names of the rules by which other Services lead to them.
    pub(crate) nodes: BTreeSet<IpAddr>,
    pub(crate) kept: BTreeSet<String>,
    /// Addresses of Nodes that left: no rule leads to them.
    pub(crate) gone: BTreeSet<IpAddr>,
}

impl Edit {
    /// Applies the edit to the security group.
    pub(crate) fn apply(&self, group: &mut Value) -> Result<()> {
        if group.is_null() {
            return match self.rules.is_empty() {
                true => Ok(()),
                false => Err(Error::invalid(
                    "the security group of securityGroupName does not exist; create it",
                )),
            };
        }
        if self.rules.is_empty() && !group["properties"]["securityRules"].is_array() {
            return Ok(());
        }
        let all = list(group, &["properties", "securityRules"]);
        let names: BTreeMap<String, &String> = self
            .rules
            .iter()
            .filter_map(|rule| Some((Parsed::of(rule)?.name().to_ascii_lowercase(), rule)))
            .collect();
        for rule in all.iter_mut().filter(|object| is_ours(object)) {
            let name = text(rule, "/name").to_ascii_lowercase();
            let is_wanted = names.contains_key(&name);
            let may_strip = self.may_strip(rule);
            let rule_destinations = destinations(rule);
            let leaves = |ip: &IpAddr| match () {
                () if self.gone.contains(ip) => true,
                () if !self.leaving.contains(ip) && (is_wanted || !self.addresses.contains(ip)) => {
                    false
                }
                () if self.nodes.contains(ip) => !self.kept.contains(&name),
                () => may_strip,
            };
            let left: BTreeSet<String> = rule_destinations
                .iter()
                .filter(|text| !text.parse().is_ok_and(|ip| leaves(&ip)))
                .cloned()
                .collect();
            if left != rule_destinations {
                set_destinations(rule, &left);
            }
        }
        for (name, rule) in &names {
            let Some(parsed) = Parsed::of(rule) else {
                continue;
            };
            let is_ipv6 = parsed.family == "IPv6";
            let own_destinations = self
                .addresses
                .iter()
                .filter(|ip| ip.is_ipv6() == is_ipv6)
                .map(ToString::to_string);
            if let Some(existing_rule) = all
                .iter_mut()
                .find(|object| text(object, "/name").eq_ignore_ascii_case(name))
            {
                let before = destinations(existing_rule);
                // Somebody may have opened the rule by hand.
                let after: BTreeSet<String> = before
                    .iter()
                    .filter(|text| *text != "*")
                    .cloned()
                    .chain(own_destinations)
                    .collect();
                if written(existing_rule) != **rule {
                    set_rule(existing_rule, &parsed);
                }
                if after != before {
                    set_destinations(existing_rule, &after);
                }
            } else {
                let own_destinations: BTreeSet<String> = own_destinations.collect();
                let new = new_rule(&parsed, &own_destinations, all)?;
                all.push(new);
            }
        }
        let is_empty = |rule: &Value| {
            is_ours(rule)
                && destinations(rule).is_empty()
                && rule["properties"]["destinationApplicationSecurityGroups"]
                    .as_array()
                    .is_none_or(Vec::is_empty)
        };
        all.retain(|rule| !is_empty(rule));
        check_limits(all)
    }

    /// Returns `true` if the Service's addresses leave a rule that it does not want: no other Service needs them there.
    fn may_strip(&self, rule: &Value) -> bool {
        let ports = values(rule, "destinationPortRange", "destinationPortRanges");
        let protocol = text(rule, "/properties/protocol");
        let is_denied = text(rule, "/properties/access") == "Deny";
        let is_retained = |port: &String| self.retained.contains(&format!("{protocol} {port}"));
        if is_denied {
            !self.retains_denial
        } else {
            !ports.iter().any(is_retained)
        }
    }
}

/// Writes the destinations in the form of the Go program: a single one has a field of its own.
fn set_destinations(rule: &mut Value, destinations: &BTreeSet<String>) {
    let Some(properties) = rule.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let one = "destinationAddressPrefix";
    let many = "destinationAddressPrefixes";
    let single = destinations.first().filter(|_| destinations.len() == 1);
    let (key, other, value) = single.map_or((many, one, json!(destinations)), |text| {
        (one, many, json!(text))
    });
    properties.remove(other);
    properties.insert(key.to_owned(), value);
}

fn new_rule(rule: &Parsed<'_>, addresses: &BTreeSet<String>, all: &[Value]) -> Result<Value> {
    let used: BTreeSet<u64> = all
        .iter()
        .filter(|object| object["properties"]["direction"] != "Outbound")
        .filter_map(|object| object["properties"]["priority"].as_u64())
        .collect();
    let is_free = |number: &u64| !used.contains(number);
    let priority = match rule.access {
        "Deny" => (FIRST..=LAST).rev().find(is_free),
        _ => (FIRST..=LAST).find(is_free),
    };
    let priority = priority.ok_or_else(|| {
        Error::quota("the security group has no priority left between 500 and 4095")
    })?;
    let mut new =
        json!({"name": rule.name(), "properties": {"direction": "Inbound", "priority": priority}});
    set_rule(&mut new, rule);
    set_destinations(&mut new, addresses);
    Ok(new)
}

/// Writes what a rule admits or denies, and leaves its priority and destinations.
fn set_rule(new: &mut Value, rule: &Parsed<'_>) {
    let Some(properties) = new.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for key in [
        "sourceAddressPrefix",
        "sourceAddressPrefixes",
        "destinationPortRange",
        "destinationPortRanges",
    ] {
        properties.remove(key);
    }
    let (source, port) = match (&rule.sources[..], rule.access) {
        ([one], "Deny") => (
            ("sourceAddressPrefix", json!(one)),
            ("destinationPortRange", json!("*")),
        ),
        (all, "Deny") => (
            ("sourceAddressPrefixes", json!(all)),
            ("destinationPortRange", json!("*")),
        ),
        ([one], _) => (
            ("sourceAddressPrefix", json!(one)),
            ("destinationPortRanges", json!(rule.ports)),
        ),
        (all, _) => (
            ("sourceAddressPrefixes", json!(all)),
            ("destinationPortRanges", json!(rule.ports)),
        ),
    };
    let fixed = [
        ("protocol", rule.protocol),
        ("access", rule.access),
        ("sourcePortRange", "*"),
    ];
    let fixed = fixed.map(|(key, value)| (key, json!(value)));
    properties.extend(
        fixed
            .into_iter()
            .chain([source, port])
            .map(|(key, value)| (key.to_owned(), value)),
    );
}

fn check_limits(all: &[Value]) -> Result<()> {
    let sum = |of: &dyn Fn(&Value) -> usize| all.iter().map(of).sum::<usize>();
    let counts = [
        ("rules", all.len(), MOST_RULES),
        (
            "source ranges",
            sum(&|object| values(object, "sourceAddressPrefix", "sourceAddressPrefixes").len()),
            MOST_PREFIXES,
        ),
        (
            "destinations",
            sum(&|object| destinations(object).len()),
            MOST_PREFIXES,
        ),
    ];
    match counts.into_iter().find(|(_, count, most)| count > most) {
        Some((what, count, most)) => Err(Error::quota(format!(
            "the security group would have {count} {what}, and Azure allows {most}"
        ))),
        None => Ok(()),
    }
}
