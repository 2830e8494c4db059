//! Snapshot of the objects in a project that a controller could change, delete or leave behind.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::{Value, json};

use crate::cloud::{Api, Cloud, text};

/// Objects as `kind id`, each without what changes by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot(pub(crate) BTreeMap<String, Value>);

/// Fields that change by themselves, or are equal everywhere.
const VOLATILE: [&str; 12] = [
    "created_at",
    "updated_at",
    "revision_number",
    "operating_status",
    "standard_attr_id",
    "project_id",
    "tenant_id",
    "status",
    "admin_state_up",
    "mac_address",
    "normalized_cidr",
    "port_details",
];

/// Fields of ports and servers that are compared.
const PORT: [&str; 7] = [
    "id",
    "name",
    "device_id",
    "device_owner",
    "security_groups",
    "allowed_address_pairs",
    "fixed_ips",
];
const SERVER: [&str; 3] = ["id", "name", "metadata"];

fn only(value: &Value, keys: &[&str]) -> Value {
    keys.iter()
        .map(|key| ((*key).to_owned(), value[*key].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn without_volatile(value: &mut Value) {
    match value {
        Value::Object(map) => {
            VOLATILE.iter().for_each(|key| _ = map.remove(*key));
            map.values_mut().for_each(without_volatile);
        }
        Value::Array(list) => {
            list.iter_mut().for_each(without_volatile);
            list.sort_by_cached_key(ToString::to_string);
        }
        _ => {}
    }
}

impl Snapshot {
    /// Reads the current objects.
    pub(crate) async fn of(cloud: &Cloud) -> Result<Self> {
        let mine = format!("project_id={}", cloud.project());
        let mut objects = BTreeMap::new();
        let mut note = |kind: &str, mut object: Value| {
            let id = text(&object, "id").to_owned();
            without_volatile(&mut object);
            objects.insert(format!("{kind} {id}"), object);
        };
        for (kind, path) in [
            ("load balancer", "/loadbalancers"),
            ("listener", "/listeners"),
            ("pool", "/pools"),
            ("health monitor", "/healthmonitors"),
        ] {
            for object in cloud.list(Api::Balancer, &format!("{path}?{mine}")).await? {
                if kind == "pool" {
                    for member in cloud
                        .list(
                            Api::Balancer,
                            &format!("/pools/{}/members", text(&object, "id")),
                        )
                        .await?
                    {
                        note("member", member);
                    }
                }
                note(kind, object);
            }
        }
        for (kind, path) in [
            ("floating ip", "/floatingips"),
            ("security group", "/security-groups"),
            ("router", "/routers"),
        ] {
            for mut object in cloud.list(Api::Network, &format!("{path}?{mine}")).await? {
                if kind == "router" {
                    // The network assigns these addresses.
                    object["external_gateway_info"] = Value::Null;
                }
                note(kind, object);
            }
        }
        for port in cloud.list(Api::Network, &format!("/ports?{mine}")).await? {
            note("port", only(&port, &PORT));
        }
        for server in cloud.list(Api::Compute, "/servers/detail").await? {
            note("server", only(&server, &SERVER));
        }
        Ok(Self(objects))
    }

    /// Returns the differences of `other` in words; empty if they are equal.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let difference = |name: &String| match (self.0.get(name), other.0.get(name)) {
            (Some(before), None) => Some(format!("{name} is gone: {before}")),
            (None, Some(after)) => Some(format!("{name} is too many: {after}")),
            (Some(before), Some(after)) if before != after => {
                let keys = before
                    .as_object()
                    .into_iter()
                    .flat_map(|object| object.keys())
                    .filter(|key| before[*key] != after[*key]);
                let changed: Vec<String> = keys
                    .map(|key| format!("{key}: {} → {}", before[key], after[key]))
                    .collect();
                Some(format!("{name} changed: {}", changed.join(", ")))
            }
            _ => None,
        };
        names.into_iter().filter_map(difference).collect()
    }

    /// Returns the objects of one kind.
    pub(crate) fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let is_this_name =
            move |name: &str| name.rsplit_once(' ').is_some_and(|(text, _)| text == kind);
        self.0
            .iter()
            .filter(move |(name, _)| is_this_name(name))
            .map(|(_, object)| object)
    }

    /// Returns the objects in words that another project could have: generated values are replaced by names, and those
    /// of `aliases` as well.
    pub(crate) fn comparable(&self, aliases: &[(String, String)]) -> BTreeSet<String> {
        let mut aliases = aliases.to_vec();
        for (kind, name) in [
            ("load balancer", "name"),
            ("listener", "name"),
            ("pool", "name"),
            ("health monitor", "name"),
            ("floating ip", "description"),
            ("security group", "name"),
            ("router", "name"),
            ("server", "name"),
            ("port", "name"),
        ] {
            for object in self.all(kind) {
                let name = format!("<{kind} {}>", text(object, name));
                aliases.push((text(object, "id").to_owned(), name.clone()));
                for key in ["vip_address", "floating_ip_address"] {
                    aliases.push((text(object, key).to_owned(), format!("<{key} of {name}>")));
                }
            }
        }
        for object in self.all("member") {
            aliases.push((text(object, "id").to_owned(), "<member>".to_owned()));
        }
        for rule in self
            .all("security group")
            .filter_map(|object| object["security_group_rules"].as_array())
            .flatten()
        {
            aliases.push((text(rule, "id").to_owned(), "<rule>".to_owned()));
        }
        aliases.retain(|(value, _)| value.len() > 3);
        aliases.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        let mut number = BTreeMap::<String, usize>::new();
        let mut words = BTreeSet::new();
        for (kind, object) in &self.0 {
            let kind = kind.rsplit_once(' ').map_or("", |(kind, _)| kind);
            // Members are listed with their pool; the network assigns a port's addresses.
            let mut object = object.clone();
            if kind == "port" && text(&object, "device_owner").starts_with("Octavia") {
                object = json!({"name": "a VIP"});
            }
            let mut text = object.to_string();
            // Twice: an alias may contain what another one stands for.
            for _ in 0..2 {
                aliases
                    .iter()
                    .for_each(|(value, alias)| text = text.replace(value, alias));
            }
            // Lists of IDs were sorted by values that are replaced now.
            let mut value: Value = serde_json::from_str(&text).unwrap_or(json!(text));
            without_volatile(&mut value);
            let text = format!("{kind}: {value}");
            let count = number.entry(text.clone()).or_default();
            *count += 1;
            words.insert(if *count > 1 {
                format!("{text} (number {count})")
            } else {
                text
            });
        }
        words
    }
}
