//! Load balancers of users, which Services adopt: parts of the user stay, and those of the Service go with it.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Identity, ObservedLoadBalancer, Operation, OwnerTags,
    ResourceGraph, ResourceKey, State,
};
use provider_kit::signing::sha256_hex;
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::certificates::is_version;
use super::objects::{ADOPTED, Form, RULES, local, rule_set};
use super::spec::LoadBalancerSpec;
use super::{LoadBalancers, groups, security};
use crate::annotations::SecurityMode;

/// The longest name of a rule set.
const LONGEST_RULE_SET: usize = 32;
/// The longest value of a tag.
const LONGEST: usize = 256;
/// Settings that a load balancer of a user keeps.
const KEPT: [&str; 2] = ["ipMode", "nlbIpVersion"];
const GROUPS: &str = "networkSecurityGroupIds";

/// Returns `true` if a user created the load balancer.
pub(super) fn is_of_user(balancer: &ObservedLoadBalancer, identity: &Identity<'_>) -> bool {
    let is_tagged = balancer.owner_tags.service.as_deref() == Some(identity.uid());
    balancer.adopted || !is_tagged && balancer.legacy_owner != identity.legacy_owner
}

/// Returns the name of a listener or a backend set.
fn name_of<'a>(resource: &'a ResourceKey, settings: &'a Attributes) -> Option<&'a str> {
    match resource {
        ResourceKey::Pool(name) => Some(name),
        ResourceKey::Listener(_) => settings.text("name"),
        _ => None,
    }
}

/// Returns the end of the names of a Service's rule sets on a load balancer of a user, by which they are found again.
fn mark(uid: &str) -> String {
    format!("_{}", uid.chars().take(8).collect::<String>())
}

/// Returns the name of a Service's rule set on a load balancer of a user, where any name may be one of the user's.
fn rule_set_name(name: &str, uid: &str) -> String {
    let mark = mark(uid);
    let digest = sha256_hex(name.as_bytes());
    let start = |length: usize| name.chars().take(length).collect::<String>();
    match LONGEST_RULE_SET - mark.len() {
        room if name.len() <= room => format!("{name}{mark}"),
        room => format!(
            "{}_{}{mark}",
            start(room - 9),
            digest.get(..8).unwrap_or_default()
        ),
    }
}

/// Returns `true` for a rule set of the Service with this UID.
pub(super) fn is_rule_set_of(resource: &ResourceKey, uid: &str) -> bool {
    matches!(resource, ResourceKey::CreatedBefore(auxiliary) if auxiliary.kind == "rule set" && auxiliary.name.ends_with(&mark(uid)))
}

/// Gives rule sets of the Service names of their own.
fn with_own_rule_sets(mut desired: ResourceGraph, uid: &str) -> ResourceGraph {
    for (resource, settings) in desired.resources.clone().iter() {
        match resource {
            ResourceKey::CreatedBefore(auxiliary) if auxiliary.kind == "rule set" => {
                desired.resources.remove(resource);
                desired.resources.insert(
                    rule_set(&rule_set_name(&auxiliary.name, uid)),
                    settings.clone(),
                );
            }
            ResourceKey::Listener(_) => {
                let Some(names) = settings.get("ruleSetNames").and_then(Value::as_array) else {
                    continue;
                };
                let names = names
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|name| rule_set_name(name, uid));
                let settings = settings
                    .clone()
                    .set("ruleSetNames", names.collect::<Vec<_>>());
                desired.resources.insert(resource.clone(), settings);
            }
            _ => {}
        }
    }
    desired
}

/// Keeps the families, the network security groups and the rule sets of a user's load balancer; those of the Service are
/// added.
pub(super) fn fitted(
    desired: ResourceGraph,
    seen: &ResourceGraph,
    spec: &LoadBalancerSpec,
    uid: &str,
) -> ResourceGraph {
    let desired = with_own_rule_sets(desired, uid);
    let Some(settings) = desired.balancer_attributes().cloned() else {
        return desired;
    };
    let settings = settings.matching(|key| !KEPT.contains(&key) && key != GROUPS);
    let existing_groups = seen
        .balancer_attributes()
        .and_then(|settings| settings.get(GROUPS))
        .and_then(Value::as_array);
    let existing_groups = existing_groups
        .into_iter()
        .flatten()
        .filter_map(|object| object.as_str().map(str::to_owned));
    let all: BTreeSet<_> = existing_groups.chain(spec.groups.iter().cloned()).collect();
    let settings = if spec.groups.is_empty() {
        settings
    } else {
        settings.set(GROUPS, all)
    };
    desired.balancer(settings)
}

impl LoadBalancers {
    /// Leaves listeners and backend sets of a user out of the graph of a load balancer that is adopted, or may be. They
    /// are those that the load balancer had when it was adopted, which its tag lists.
    pub(super) fn spare_parts(&self, balancer: &mut ObservedLoadBalancer, service: Option<&str>) {
        let Some(graph) = &mut balancer.graph else {
            return;
        };
        let recorded = balancer.labels.get(ADOPTED).map(|adopted| {
            adopted
                .split(' ')
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        });
        let is_legacy = balancer.legacy_owner.as_deref().is_some_and(|uid| {
            service == Some(uid)
                || self
                    .services()
                    .iter()
                    .any(|service| service.metadata.uid.as_deref() == Some(uid))
        });
        if recorded.is_none() && (balancer.owner_tags != OwnerTags::default() || is_legacy) {
            return;
        }
        let is_theirs = |name: &str| recorded.as_ref().is_none_or(|names| names.contains(name));
        let mut foreign = BTreeMap::new();
        let mut names = BTreeSet::new();
        for (resource, settings) in &graph.resources {
            if let Some(name) = name_of(resource, settings).filter(|name| is_theirs(name)) {
                names.insert(name.to_owned());
                foreign.insert(resource.clone(), "a part that a user created".to_owned());
            }
        }
        graph
            .resources
            .retain(|resource, _| !foreign.contains_key(resource));
        graph
            .targets
            .retain(|pool, _| !foreign.contains_key(&ResourceKey::Pool(pool.clone())));
        balancer.foreign = foreign;
        if recorded.is_none() && !names.is_empty() {
            balancer.labels.insert(
                ADOPTED.to_owned(),
                names.into_iter().collect::<Vec<_>>().join(" "),
            );
        }
    }

    /// Writes the owner tags, the mode of security rules, and the mark of an adoption.
    pub(super) async fn tag(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let mut labels = local(&actual.labels);
        let adopted = is_of_user(actual, change.identity);
        labels
            .entry(RULES.to_owned())
            .or_insert_with(|| spec.mode.name().to_owned());
        if adopted {
            let parts = labels
                .entry(ADOPTED.to_owned())
                .or_insert_with(|| "true".to_owned());
            if parts.len() > LONGEST {
                return Err(Error::invalid(format!(
                    "load balancer {} has so many parts with names such as TCP-80 that they do not fit into its tag \
                     {ADOPTED} ({LONGEST} characters): {parts}; rename them, or choose another load balancer",
                    actual.id
                )));
            }
        } else {
            labels.remove(ADOPTED);
        }
        let tags = json!(change.identity.owner_tags().among(labels));
        let form = Form::of_id(&actual.id);
        self.send(
            form,
            &actual.id,
            Call::put(form.one, &[&actual.id]).json(&json!({ "freeformTags": tags })),
        )
        .await?;
        let outcome = change.outcome(1).unwrap_or_default();
        Ok(Applied::Shown(
            1,
            Box::new(ObservedLoadBalancer {
                state: State::Busy,
                adopted,
                ..outcome
            }),
        ))
    }

    /// Removes everything of a Service from a load balancer of a user; the tags, by which the rest is found, go last.
    pub(super) async fn release(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let form = Form::of_id(&actual.id);
        let id = &*actual.id;
        let identity = change.identity;
        let graph = actual.graph.clone().unwrap_or_default();
        let rules = security::rules(graph.resources.get(&security::resource()));
        let is_superseded = self.has_another(identity, id).await?;
        self.lists
            .write(identity.service, is_superseded, &BTreeSet::new(), &rules)
            .await?;
        let needs_group = is_superseded && spec.mode == SecurityMode::Groups;
        if groups::own(actual).is_some() || !needs_group {
            self.remove_group(change, form, actual, !needs_group)
                .await?;
        }
        let is_version = |name: &str| {
            [&spec.tls_secret, &spec.tls_backend_secret]
                .into_iter()
                .flatten()
                .any(|secret| is_version(name, &secret.1))
        };
        let rank = |resource: &ResourceKey| match resource {
            ResourceKey::Listener(_) => Some(0),
            ResourceKey::Pool(_) => Some(1),
            ResourceKey::CreatedBefore(auxiliary)
                if auxiliary.kind == "certificate" && is_version(&auxiliary.name) =>
            {
                Some(2)
            }
            _ => is_rule_set_of(resource, identity.uid()).then_some(2),
        };
        let mut parts: Vec<_> = graph
            .resources
            .keys()
            .filter_map(|resource| Some((rank(resource)?, resource.clone())))
            .collect();
        parts.sort();
        for (_, resource) in parts {
            self.change_part(form, id, &Operation::Delete { resource }, &graph, spec)
                .await?;
            self.settle(change, form, id).await?;
        }
        let mut labels = local(&actual.labels);
        labels.retain(|key, _| ![ADOPTED, RULES].contains(&&**key));
        self.send(
            form,
            id,
            Call::put(form.one, &[id]).json(&json!({ "freeformTags": labels })),
        )
        .await?;
        let outcome = change.outcome(1).unwrap_or_default();
        Ok(Applied::Shown(
            1,
            Box::new(ObservedLoadBalancer {
                state: State::Busy,
                adopted: false,
                labels,
                ..outcome
            }),
        ))
    }
}
