//! Adds and removes tags of a load balancer, and renames it if it was created for the cluster's former name.

use cloud_provider::{Error, EventSubject, Result};
use provider_kit::load_balancers::{Applied, Change, ObservedLoadBalancer, ResourceKey, State};
use provider_kit::transport::Call;
use serde_json::{Map, Value, json};

use super::octavia::{BALANCERS, ID, LISTENERS, MONITORS, POOLS, TAGS, text, texts};
use super::project::Project;
use super::read::is_pool_of;
use super::tags::{Share, balancer_id, cluster_of, renamed, with_ours, without};
use crate::keys::MAX_SHARED_LB;

/// Adds the tags of the Service. The tags of others stay: they are read right before.
///
/// # Errors
/// Octavia's answer; *invalid* if no further Service may share the load balancer.
pub(super) async fn tag(project: &Project, change: Change<'_>) -> Result<Applied> {
    let (identity, Some(actual)) = (change.identity, change.actual) else {
        return Ok(Applied::Gone);
    };
    let id = balancer_id(&actual.id);
    let Some(balancer) = project.balancer(id).await? else {
        return Ok(Applied::Gone);
    };
    let legacy_owner_tag = identity.legacy_owner.as_deref().unwrap_or_default();
    let has_tags = project.services.octavia().await?.tags;
    check_share(project, actual, &balancer, has_tags)?;
    let mut changes = Map::new();
    let before = actual
        .legacy_owner
        .as_deref()
        .filter(|legacy_owner| *legacy_owner != legacy_owner_tag);
    if let (Some(before), Some(from)) = (before, before.and_then(cluster_of)) {
        let text = format!(
            "load balancer {id} is renamed from cluster {from:?} to {:?}",
            identity.cluster.name
        );
        project.deduplicator.warn(
            true,
            EventSubject::Service(identity.service),
            "LoadBalancerRename",
            &text,
        );
        rename_resources(project, &balancer, before, from, change, has_tags).await?;
        if balancer["name"] == before {
            changes.insert(
                "name".to_owned(),
                renamed(before, from, &identity.cluster.name).into(),
            );
        }
    }
    let tags: Vec<String> = texts(&balancer, TAGS).map(str::to_owned).collect();
    let wanted = with_ours(tags.clone(), before, identity);
    if has_tags && !(wanted.len() == tags.len() && wanted.iter().all(|tag| tags.contains(tag))) {
        changes.insert(TAGS.to_owned(), json!(wanted));
    }
    let mut outcome = change.outcome(1).unwrap_or_else(|| actual.clone());
    if actual.id != id {
        outcome.id = format!("{id}/{legacy_owner_tag}");
    }
    let put = put(project, id, changes, outcome).await?;
    match put {
        // Listeners and pools that an interrupted rename had already renamed were not recognized as the Service's in
        // this plan.
        Applied::Shown(_, outcome) if before.is_some() => {
            Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
                state: State::Busy,
                graph: None,
                ..*outcome
            })))
        }
        put => Ok(put),
    }
}

/// Removes the tags of the Service from a load balancer that others use. The Service's security group is deleted first, as long
/// as its owner is known.
///
/// # Errors
/// The answer of Octavia or Neutron.
pub(super) async fn untag(project: &Project, change: Change<'_>) -> Result<Applied> {
    let (identity, Some(actual)) = (change.identity, change.actual) else {
        return Ok(Applied::Gone);
    };
    let mut outcome = change.outcome(1).unwrap_or_else(|| actual.clone());
    if let Some(graph) = &mut outcome.graph {
        let before = graph.resources.len();
        graph
            .resources
            .retain(|resource, _| !matches!(resource, ResourceKey::CreatedBefore(_)));
        if graph.resources.len() < before {
            project.groups.remove(identity).await?;
        }
    }
    let id = balancer_id(&actual.id);
    let Some(balancer) = project.balancer(id).await? else {
        return Ok(Applied::Gone);
    };
    let tags: Vec<String> = texts(&balancer, TAGS).map(str::to_owned).collect();
    let left = without(
        without(tags.clone(), actual.legacy_owner.as_deref()),
        identity.legacy_owner.as_deref(),
    );
    let mut changes = Map::new();
    if left.len() != tags.len() {
        changes.insert(TAGS.to_owned(), json!(left));
    }
    let applied = put(project, id, changes, outcome).await?;
    if identity.is_leaving() && actual.id == id {
        let address = actual
            .ingress
            .iter()
            .find_map(|ingress| ingress.ip.as_deref());
        let floating = address.filter(|address| text(&balancer, "vip_address") != *address);
        let text = kept(actual, floating);
        project.deduplicator.warn(
            true,
            EventSubject::Service(identity.service),
            "LoadBalancerKept",
            &text,
        );
    }
    Ok(applied)
}

async fn put(
    project: &Project,
    id: &str,
    changes: Map<String, Value>,
    outcome: ObservedLoadBalancer,
) -> Result<Applied> {
    let mut state = outcome.state.clone();
    if !changes.is_empty() {
        let call = Call::put(BALANCERS.one, &[id]).json(&BALANCERS.body(changes));
        project.services.balancer.send(call).await?;
        state = State::Busy;
    }
    Ok(Applied::Shown(
        1,
        Box::new(ObservedLoadBalancer { state, ..outcome }),
    ))
}

/// Checks that one more Service may use the load balancer.
fn check_share(
    project: &Project,
    actual: &ObservedLoadBalancer,
    balancer: &Value,
    has_tags: bool,
) -> Result<()> {
    let Share {
        is_owner,
        legacy_owner_tag,
        others,
        ..
    } = Share::with_id(balancer, &actual.id);
    let place = actual.place();
    let most = usize::from(project.config.get(&MAX_SHARED_LB).unwrap_or_default());
    if is_owner || legacy_owner_tag.is_some() {
        return Ok(());
    }
    if !has_tags {
        return Err(Error::invalid(format!(
            "{place} cannot be shared: this Octavia has no tags, which would name the owners of listeners"
        )));
    }
    if others.len() >= most {
        return Err(Error::invalid(format!(
            "{place} is used by {} already, and max-shared-lb is {most}; choose another one, or raise that",
            others.join(", ")
        )));
    }
    Ok(())
}

/// Renames the health monitor, the pool and then the listener of each port; the load balancer is renamed last. So an
/// interrupted rename is found by the old name of the listener or of the load balancer, and continues.
async fn rename_resources(
    project: &Project,
    balancer: &Value,
    legacy_owner_tag: &str,
    from: &str,
    change: Change<'_>,
    has_tags: bool,
) -> Result<()> {
    let id = text(balancer, ID);
    let to = &*change.identity.cluster.name;
    let whole = project.monitored_resources(balancer.clone()).await?;
    let is_ours = |listener: &&Value| {
        let mut tags = texts(listener, TAGS).peekable();
        let is_tagged = tags.peek().is_some();
        if is_tagged {
            tags.any(|tag| tag == legacy_owner_tag)
        } else {
            text(balancer, "name") == legacy_owner_tag
        }
    };
    let is_named = |listener: &&Value| text(listener, "name").starts_with("listener_");
    let mut objects = Vec::new();
    for listener in whole.listeners.iter().filter(is_ours).filter(is_named) {
        // A listener may have no pool, and a pool no monitor.
        let pool = whole.pool_of(listener).map(|pool| &pool.object);
        objects.extend(
            pool.and_then(|pool| pool.get(MONITORS.name))
                .map(|monitor| (MONITORS, monitor)),
        );
        objects.extend(pool.map(|pool| (POOLS, pool)));
        objects.push((LISTENERS, listener));
    }
    // A pool that is left of an interrupted change would have another owner under another name.
    objects.extend(
        whole
            .unused_pools()
            .filter(|pool| is_pool_of(pool, legacy_owner_tag))
            .map(|pool| (POOLS, pool)),
    );
    for (kind, object) in objects {
        let name = renamed(text(object, "name"), from, to);
        let mut changes = json!({ "name": name });
        if kind == LISTENERS && has_tags {
            let others = texts(object, TAGS)
                .filter(|tag| *tag != legacy_owner_tag)
                .map(str::to_owned);
            let tags: Vec<_> = others
                .chain([renamed(legacy_owner_tag, from, to)])
                .collect();
            changes[TAGS] = json!(tags);
        } else if text(object, "name") == name {
            continue;
        }
        let call = Call::put(kind.one, &[text(object, ID)]).json(&kind.body(changes));
        project.services.balancer.send(call).await?;
        project.settled(id, change.callbacks).await?;
    }
    Ok(())
}

/// Returns the event about a load balancer that outlives the Service for which it was created.
fn kept(actual: &ObservedLoadBalancer, floating: Option<&str>) -> String {
    let whose = actual
        .foreign
        .iter()
        .filter_map(|(resource, whose)| match resource {
            ResourceKey::CreatedAfter(_) => None,
            ResourceKey::CreatedBefore(_) => Some(whose.clone()),
            resource => Some(format!("{resource} is {whose}")),
        });
    let whose: Vec<String> = whose.collect();
    let floating = floating
        .map(|address| format!(", and so does floating IP {address}"))
        .unwrap_or_default();
    let place = actual.place();
    format!(
        "{place} stays{floating}: {}. Delete it when nobody uses it any more",
        whose.join(", ")
    )
}
