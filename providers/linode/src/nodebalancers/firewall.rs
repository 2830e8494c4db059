//! Firewalls in front of NodeBalancers: attached by ID, or created from an ACL.

use std::collections::BTreeSet;

use cloud_provider::{Result, Service};
use ipnet::IpNet;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, ResourceGraph, ResourceKey,
};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use serde_json::{Value, json};

use super::object::OWNER_TAGS;
use super::spec::NodeBalancerSpec;
use crate::annotations::Acl;
use crate::api::Api;

/// Maximum number of addresses of one family in a rule.
const MOST_ADDRESSES: usize = 255;
/// Maximum number of ports in a rule.
const MOST_PORTS: usize = 15;
const MOST_RULES: usize = 25;
/// Prefix of the ID of a firewall whose NodeBalancer no longer exists.
const LEFT: &str = "firewall-";
const LABEL: usize = 32;

/// A firewall, as the API shows it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Firewall {
    pub(super) id: u64,
    label: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    rules: Rules,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Rules {
    inbound_policy: String,
    inbound: Vec<Rule>,
}

#[derive(Clone, Debug, Deserialize)]
struct Rule {
    protocol: String,
    #[serde(default)]
    ports: Option<String>,
    #[serde(default)]
    addresses: Value,
}

#[derive(Deserialize)]
struct Device {
    id: u64,
    entity: Entity,
}

#[derive(Deserialize)]
struct Entity {
    id: u64,
    #[serde(rename = "type")]
    kind: String,
}

/// Returns the resource of an ACL firewall. It is deleted before the NodeBalancer.
pub(super) fn resource() -> ResourceKey {
    ResourceKey::created_after("firewall", "acl")
}

/// Returns the settings that a Service wants of its ACL firewall.
pub(super) fn desired(spec: &NodeBalancerSpec) -> Option<Attributes> {
    let acl = spec.acl.as_ref()?;
    let ports: BTreeSet<_> = spec
        .ports
        .iter()
        .map(|port| format!("{}/{}", port.config.transport(), port.number))
        .collect();
    let ranges: BTreeSet<_> = acl.ranges.iter().map(ToString::to_string).collect();
    let policy = if acl.allows { "DROP" } else { "ACCEPT" };
    Some(
        Attributes::default()
            .set("policy", policy)
            .set("ports", ports)
            .set("ranges", ranges),
    )
}

impl Firewall {
    /// Returns `true` if the firewall was created for this NodeBalancer: it has the owner tags of the same Service, or it
    /// is one of the Go cloud controller manager, which has the label and the tags of the NodeBalancer. A label that no
    /// program generates is no sign alone, because a user may have chosen it for both.
    pub(super) fn is_own(&self, balancer: &ObservedLoadBalancer) -> bool {
        let mut tags = self.tags.clone();
        let owner = OWNER_TAGS.take_from(&mut tags);
        let has_label = self.label == short(&balancer.name);
        match owner.service {
            Some(service) if balancer.owner_tags.service.is_some() => {
                Some(service) == balancer.owner_tags.service
            }
            Some(_) => has_label,
            None => {
                let has_tags =
                    !tags.is_empty() && tags.iter().all(|tag| balancer.labels.contains_key(tag));
                has_label && (is_generated(&self.label) || has_tags)
            }
        }
    }

    pub(super) fn observed(&self) -> Attributes {
        let mut ports = BTreeSet::new();
        let mut ranges = BTreeSet::new();
        for rule in &self.rules.inbound {
            let texts = rule
                .ports
                .as_deref()
                .unwrap_or_default()
                .split(',')
                .map(str::trim);
            ports.extend(
                texts
                    .flat_map(numbers)
                    .map(|port| format!("{}/{port}", rule.protocol)),
            );
            for family in ["ipv4", "ipv6"] {
                let all = rule.addresses[family]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str);
                ranges.extend(all.map(|text| {
                    text.parse::<IpNet>()
                        .map_or_else(|_| text.to_owned(), |network| network.to_string())
                }));
            }
        }
        Attributes::default()
            .set("policy", &self.rules.inbound_policy)
            .set("ports", ports)
            .set("ranges", ranges)
    }
}

/// Returns the label that the firewall of a NodeBalancer has.
fn short(label: &str) -> String {
    label.chars().take(LABEL).collect()
}

/// Returns `true` for a label such as `ccm-4a5b6c7d8e9f`.
fn is_generated(label: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase();
    label
        .rsplit_once('-')
        .is_some_and(|(_, hash)| hash.len() == 12 && hash.bytes().all(is_hex))
}

/// Returns a label that the API accepts for the firewall of a NodeBalancer: it begins with a letter, and has no two dashes
/// or underscores in a row.
fn label_of(balancer: &str, name: &str) -> String {
    let is_accepted = balancer.starts_with(|character: char| character.is_ascii_alphabetic())
        && !["--", "__"].iter().any(|twice| balancer.contains(twice));
    short(if is_accepted { balancer } else { name })
}

/// Returns the numbers of `80` or `80-82`.
fn numbers(text: &str) -> impl Iterator<Item = u16> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    range.into_iter().flat_map(|(first, last)| first..=last)
}

/// Returns the mistake, if there are more ports and ranges than the rules of a firewall can hold.
pub(super) fn too_large<'a>(
    acl: &Acl,
    ports: impl Iterator<Item = &'a str> + Clone,
) -> Option<String> {
    let (v6, v4): (Vec<&IpNet>, Vec<&IpNet>) = acl
        .ranges
        .iter()
        .partition(|range| matches!(range, IpNet::V6(_)));
    let chunks = v4.len().max(v6.len()).div_ceil(MOST_ADDRESSES);
    let of = |protocol: &str| {
        ports
            .clone()
            .filter(|a_str| *a_str == protocol)
            .count()
            .div_ceil(MOST_PORTS)
    };
    let count = chunks * (of("TCP") + of("UDP"));
    (count > MOST_RULES).then(|| {
        format!(
            "the {} address ranges and {} ports need {count} firewall rules, and a firewall has at most {MOST_RULES} rules of \
             {MOST_ADDRESSES} ranges of a family and {MOST_PORTS} ports; join ranges",
            acl.ranges.len(),
            ports.count()
        )
    })
}

/// Returns the rules of an ACL firewall.
fn rules(service: &Service, settings: &Attributes) -> Value {
    let texts = |key: &str| -> Vec<String> {
        settings
            .get(key)
            .and_then(|key| serde_json::from_value(key.clone()).ok())
            .unwrap_or_default()
    };
    let ports = texts("ports");
    let ranges = texts("ranges");
    let (v6, v4): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|range| range.contains(':'));
    let policy = settings.text("policy").unwrap_or("DROP");
    let action = if policy == "DROP" { "ACCEPT" } else { "DROP" };
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let label: String = format!("{action}-{name}").chars().take(LABEL).collect();
    let description: String = format!("Created for Service {name}")
        .chars()
        .take(100)
        .collect();
    let mut inbound = Vec::new();
    for protocol in ["TCP", "UDP"] {
        let port_texts: Vec<_> = ports
            .iter()
            .filter_map(|port| port.strip_prefix(protocol)?.strip_prefix('/'))
            .collect();
        for port_chunk in port_texts.chunks(MOST_PORTS) {
            for at in 0..v4.len().max(v6.len()).div_ceil(MOST_ADDRESSES) {
                let mut addresses = json!({});
                for (family, all) in [("ipv4", &v4), ("ipv6", &v6)] {
                    if let Some(chunk) = all.chunks(MOST_ADDRESSES).nth(at) {
                        addresses[family] = json!(chunk);
                    }
                }
                inbound.push(
                    json!({"action": action, "label": label, "description": description,
                    "protocol": protocol, "ports": port_chunk.join(","), "addresses": addresses}),
                );
            }
        }
    }
    json!({"inbound_policy": policy, "inbound": inbound, "outbound_policy": "ACCEPT", "outbound": []})
}

/// Reads the firewalls of a NodeBalancer.
pub(super) async fn of(api: &Api, id: &str) -> Result<Vec<Firewall>> {
    api.all(
        Call::get("/nodebalancers/{id}/firewalls", &[id]),
        |firewall: &Firewall| firewall.id,
    )
    .await
}

/// Creates a firewall that is attached to the NodeBalancer by the same request.
pub(super) async fn create(
    api: &Api,
    identity: &Identity<'_>,
    id: &str,
    label: &str,
    settings: &Attributes,
) -> Result<()> {
    let body = json!({"label": label_of(label, &identity.name), "tags": OWNER_TAGS.among(&identity.owner_tags(), Vec::new()),
        "rules": rules(identity.service, settings),
        "devices": {"nodebalancers": [id.parse::<u64>().unwrap_or_default()]}});
    api.http
        .send(Call::post("/networking/firewalls", &[]).json(&body))
        .await
        .map(drop)
}

/// Writes the rules of a firewall.
pub(super) async fn update(
    api: &Api,
    identity: &Identity<'_>,
    firewall: u64,
    settings: &Attributes,
) -> Result<()> {
    let call = Call::put("/networking/firewalls/{id}/rules", &[&firewall.to_string()]);
    api.http
        .send(call.json(&rules(identity.service, settings)))
        .await
        .map(drop)
}

/// Attaches a firewall that a user created.
pub(super) async fn attach(api: &Api, firewall: u64, id: &str) -> Result<()> {
    let call = Call::post(
        "/networking/firewalls/{id}/devices",
        &[&firewall.to_string()],
    );
    let body = json!({"id": id.parse::<u64>().unwrap_or_default(), "type": "nodebalancer"});
    api.http.send(call.json(&body)).await.map(drop)
}

async fn devices(api: &Api, firewall: u64) -> Result<Vec<Device>> {
    api.all(
        Call::get(
            "/networking/firewalls/{id}/devices",
            &[&firewall.to_string()],
        ),
        |device: &Device| device.id,
    )
    .await
}

/// Detaches a firewall from a NodeBalancer.
pub(super) async fn detach(api: &Api, firewall: u64, id: &str) -> Result<()> {
    let devices = devices(api, firewall).await?;
    let is_this_device = |device: &&Device| {
        device.entity.kind == "nodebalancer" && device.entity.id.to_string() == id
    };
    let Some(device) = devices.iter().find(is_this_device) else {
        return Ok(());
    };
    let parameters = [firewall.to_string(), device.id.to_string()];
    let parameters = [&*parameters[0], &*parameters[1]];
    api.http
        .remove(Call::delete(
            "/networking/firewalls/{id}/devices/{device}",
            &parameters,
        ))
        .await
}

/// Deletes an ACL firewall while its NodeBalancer stays. A firewall that also protects another object is only detached.
pub(super) async fn delete(api: &Api, firewall: u64, id: &str) -> Result<()> {
    if devices(api, firewall).await?.len() > 1 {
        return detach(api, firewall, id).await;
    }
    api.http
        .remove(Call::delete(
            "/networking/firewalls/{id}",
            &[&firewall.to_string()],
        ))
        .await
}

/// Deletes an ACL firewall after its NodeBalancer. A firewall that also protects another object stays.
pub(super) async fn delete_unused(api: &Api, firewall: u64) -> Result<()> {
    match devices(api, firewall).await {
        Ok(devices) if devices.is_empty() => {
            api.http
                .remove(Call::delete(
                    "/networking/firewalls/{id}",
                    &[&firewall.to_string()],
                ))
                .await
        }
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Returns the number of the firewall, if a load balancer consists of a firewall only.
pub(super) fn left(id: &str) -> Option<u64> {
    id.strip_prefix(LEFT)?.parse().ok()
}

/// Finds the firewalls of a Service whose NodeBalancer no longer exists, because a deletion was interrupted.
pub(super) async fn find_left(
    api: &Api,
    identity: &Identity<'_>,
    owner_tag: &str,
) -> Result<Vec<ObservedLoadBalancer>> {
    let call = Call::get("/networking/firewalls", &[]);
    let filter = json!({"tags": owner_tag});
    let shared_priority = SharedPriority::of(Priority::Urgent);
    let found = api
        .list(
            call,
            Some(filter),
            &shared_priority,
            |firewall: Firewall| firewall,
            |firewall: &Firewall| firewall.id,
        )
        .await?;
    let found = found
        .complete()?
        .into_items()
        .into_iter()
        .map(Firewall::into_actual);
    Ok(found
        .filter(|load_balancer| load_balancer.owner_tags.service.as_deref() == Some(identity.uid()))
        .collect())
}

/// Reads a firewall whose NodeBalancer no longer exists.
pub(super) async fn read_left(api: &Api, firewall: u64) -> Result<Option<ObservedLoadBalancer>> {
    let call = Call::get("/networking/firewalls/{id}", &[&firewall.to_string()]);
    Ok(api
        .http
        .find::<Firewall>(call)
        .await?
        .map(Firewall::into_actual))
}

impl Firewall {
    fn into_actual(self) -> ObservedLoadBalancer {
        let graph = ResourceGraph::default().resource(resource(), self.observed());
        let owner_tags = OWNER_TAGS.take_from(&mut self.tags.clone());
        ObservedLoadBalancer {
            id: format!("{LEFT}{}", self.id),
            name: self.label,
            owner_tags,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }
    }
}
