//! Firewalls in front of NodeBalancers: attached by ID, or created from an ACL.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result, Service};
use ipnet::IpNet;
use provider_kit::load_balancers::{Attributes, Identity, OwnerTags, ResourceKey};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use super::object::OWNER_TAGS;
use super::spec::NodeBalancerSpec;
use crate::api::Api;

/// Maximum number of addresses of one family in a rule.
const MOST_ADDRESSES: usize = 255;
const MOST_RULES: usize = 25;
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
    let ports: BTreeSet<_> = spec.ports.iter().map(|it| format!("{}/{}", it.config.transport(), it.number)).collect();
    let ranges: BTreeSet<_> = acl.ranges.iter().map(ToString::to_string).collect();
    let policy = if acl.allows { "DROP" } else { "ACCEPT" };
    Some(Attributes::default().set("policy", policy).set("ports", ports).set("ranges", ranges))
}

impl Firewall {
    /// Returns `true` if the firewall was created for this NodeBalancer: it has the owner tags, or the NodeBalancer's
    /// label, as firewalls that the Go cloud controller manager created have.
    pub(super) fn is_own(&self, label: &str) -> bool {
        OWNER_TAGS.take_from(&mut self.tags.clone()) != OwnerTags::default() || self.label == label
    }

    pub(super) fn observed(&self) -> Attributes {
        let (mut ports, mut ranges) = (BTreeSet::new(), BTreeSet::new());
        for rule in &self.rules.inbound {
            let texts = rule.ports.as_deref().unwrap_or_default().split(',').map(str::trim);
            ports.extend(texts.flat_map(numbers).map(|port| format!("{}/{port}", rule.protocol)));
            for family in ["ipv4", "ipv6"] {
                let all = rule.addresses[family].as_array().into_iter().flatten().filter_map(Value::as_str);
                ranges.extend(
                    all.map(|text| text.parse::<IpNet>().map_or_else(|_| text.to_owned(), |it| it.to_string())),
                );
            }
        }
        Attributes::default().set("policy", &self.rules.inbound_policy).set("ports", ports).set("ranges", ranges)
    }
}

/// Returns the numbers of `80` or `80-82`.
fn numbers(text: &str) -> impl Iterator<Item = u16> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    range.into_iter().flat_map(|(first, last)| first..=last)
}

/// Returns the rules of an ACL firewall.
///
/// # Errors
/// *Invalid*, if there are more ranges than rules can hold.
fn rules(service: &Service, settings: &Attributes) -> Result<Value> {
    let texts = |key: &str| -> Vec<String> {
        settings.get(key).and_then(|it| serde_json::from_value(it.clone()).ok()).unwrap_or_default()
    };
    let (ports, ranges) = (texts("ports"), texts("ranges"));
    let (v6, v4): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|range| range.contains(':'));
    let policy = settings.text("policy").unwrap_or("DROP");
    let action = if policy == "DROP" { "ACCEPT" } else { "DROP" };
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let label: String = format!("{action}-{name}").chars().take(LABEL).collect();
    let mut inbound = Vec::new();
    for protocol in ["TCP", "UDP"] {
        let own = ports.iter().filter_map(|it| it.strip_prefix(protocol)?.strip_prefix('/'));
        let own = own.collect::<Vec<_>>().join(",");
        if own.is_empty() {
            continue;
        }
        for at in 0..v4.len().max(v6.len()).div_ceil(MOST_ADDRESSES) {
            let mut addresses = json!({});
            for (family, all) in [("ipv4", &v4), ("ipv6", &v6)] {
                if let Some(chunk) = all.chunks(MOST_ADDRESSES).nth(at) {
                    addresses[family] = json!(chunk);
                }
            }
            let description: String = format!("Created for Service {name}").chars().take(100).collect();
            inbound.push(json!({"action": action, "label": label, "description": description, "protocol": protocol,
                "ports": own, "addresses": addresses}));
        }
    }
    if inbound.len() > MOST_RULES {
        let count = inbound.len();
        return Err(Error::invalid(format!(
            "the ACL needs {count} firewall rules; a firewall has at most {MOST_RULES}"
        )));
    }
    Ok(json!({"inbound_policy": policy, "inbound": inbound, "outbound_policy": "ACCEPT", "outbound": []}))
}

/// Reads the firewalls of a NodeBalancer.
pub(super) async fn of(api: &Api, id: &str) -> Result<Vec<Firewall>> {
    api.all(Call::get("/nodebalancers/{id}/firewalls", &[id]), |it: &Firewall| it.id).await
}

/// Creates a firewall that is attached to the NodeBalancer by the same request.
pub(super) async fn create(
    api: &Api,
    identity: &Identity<'_>,
    id: &str,
    label: &str,
    settings: &Attributes,
) -> Result<()> {
    let label: String = label.chars().take(LABEL).collect();
    let body = json!({"label": label, "tags": OWNER_TAGS.among(&identity.owner_tags(), Vec::new()),
        "rules": rules(identity.service, settings)?,
        "devices": {"nodebalancers": [id.parse::<u64>().unwrap_or_default()]}});
    api.http.send(Call::post("/networking/firewalls", &[]).json(&body)).await.map(drop)
}

/// Writes the rules of a firewall.
pub(super) async fn update(api: &Api, identity: &Identity<'_>, firewall: u64, settings: &Attributes) -> Result<()> {
    let call = Call::put("/networking/firewalls/{id}/rules", &[&firewall.to_string()]);
    api.http.send(call.json(&rules(identity.service, settings)?)).await.map(drop)
}

/// Attaches a firewall that a user created.
pub(super) async fn attach(api: &Api, firewall: u64, id: &str) -> Result<()> {
    let call = Call::post("/networking/firewalls/{id}/devices", &[&firewall.to_string()]);
    let body = json!({"id": id.parse::<u64>().unwrap_or_default(), "type": "nodebalancer"});
    api.http.send(call.json(&body)).await.map(drop)
}

async fn devices(api: &Api, firewall: u64) -> Result<Vec<Device>> {
    api.all(Call::get("/networking/firewalls/{id}/devices", &[&firewall.to_string()]), |it: &Device| it.id).await
}

/// Detaches a firewall from a NodeBalancer.
pub(super) async fn detach(api: &Api, firewall: u64, id: &str) -> Result<()> {
    let devices = devices(api, firewall).await?;
    let is_it = |it: &&Device| it.entity.kind == "nodebalancer" && it.entity.id.to_string() == id;
    let Some(device) = devices.iter().find(is_it) else { return Ok(()) };
    let parameters = [firewall.to_string(), device.id.to_string()];
    let parameters = [&*parameters[0], &*parameters[1]];
    api.http.remove(Call::delete("/networking/firewalls/{id}/devices/{device}", &parameters)).await
}

/// Deletes an ACL firewall. A firewall that also protects another object is only detached.
pub(super) async fn delete(api: &Api, firewall: u64, id: &str) -> Result<()> {
    if devices(api, firewall).await?.len() > 1 {
        return detach(api, firewall, id).await;
    }
    api.http.remove(Call::delete("/networking/firewalls/{id}", &[&firewall.to_string()])).await
}
