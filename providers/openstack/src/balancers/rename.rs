//! The tags on a load balancer, put on and taken off, and the names of what was made for a cluster that was called otherwise
//! (§3.1).

use cloud_provider::{About, Error, Result};
use provider_kit::load_balancers::{Actual, Applied, Change, Part, State};
use provider_kit::transport::Call;
use serde_json::{Map, Value, json};

use super::octavia::{BALANCERS, ID, LISTENERS, MONITORS, POOLS, TAGS, text, texts};
use super::project::Project;
use super::read::is_pool_of;
use super::security_group;
use super::tags::{View, balancer_id, cluster_of, renamed, with_ours, without};

/// Puts the Service's tag and our mark on it. The tags of others stay: they are read right before.
pub(super) async fn mark(project: &Project, change: Change<'_>) -> Result<Applied> {
    let (identity, Some(actual)) = (change.identity, change.actual) else { return Ok(Applied::Gone) };
    let id = balancer_id(&actual.id);
    let Some(balancer) = project.balancer(id).await? else { return Ok(Applied::Gone) };
    let (sign, has_tags) = (identity.sign.as_deref().unwrap_or_default(), project.services.octavia().await?.tags);
    check_share(project, actual, &balancer, has_tags)?;
    let mut changes = Map::new();
    let before = actual.sign.as_deref().filter(|it| *it != sign);
    if let (Some(before), Some(from)) = (before, before.and_then(cluster_of)) {
        let text = format!("load balancer {id} is renamed from cluster {from:?} to {:?}", identity.cluster.name);
        project.notices.warn(true, About::Service(identity.service), "LoadBalancerRename", &text);
        rename_parts(project, &balancer, before, from, change, has_tags).await?;
        if text_is(&balancer, "name", before) {
            changes.insert("name".to_owned(), renamed(before, from, &identity.cluster.name).into());
        }
    }
    let tags: Vec<String> = texts(&balancer, TAGS).map(str::to_owned).collect();
    let wanted = with_ours(tags.clone(), before, identity);
    if has_tags && !(wanted.len() == tags.len() && wanted.iter().all(|tag| tags.contains(tag))) {
        changes.insert(TAGS.to_owned(), json!(wanted));
    }
    let mut outcome = change.outcome(1).unwrap_or_else(|| actual.clone());
    if actual.id != id {
        outcome.id = format!("{id}/{sign}");
    }
    let put = put(project, id, changes, outcome).await?;
    match put {
        // Of what a rename before this one had reached, the parts that are renamed were not known to be the Service's.
        Applied::Shown(_, outcome) if before.is_some() => {
            Ok(Applied::PlanAgain(Box::new(Actual { state: State::Busy, tree: None, ..*outcome })))
        }
        put => Ok(put),
    }
}

/// Takes the Service's tag and our mark off: others use it still. Its security group goes before that, as long as it is
/// known whose it is.
pub(super) async fn unmark(project: &Project, change: Change<'_>) -> Result<Applied> {
    let (identity, Some(actual)) = (change.identity, change.actual) else { return Ok(Applied::Gone) };
    let mut outcome = change.outcome(1).unwrap_or_else(|| actual.clone());
    if let Some(tree) = &mut outcome.tree {
        let before = tree.parts.len();
        tree.parts.retain(|part, _| !matches!(part, Part::Support(_)));
        if tree.parts.len() < before {
            security_group::remove(&project.groups, identity).await?;
        }
    }
    let id = balancer_id(&actual.id);
    let Some(balancer) = project.balancer(id).await? else { return Ok(Applied::Gone) };
    let tags: Vec<String> = texts(&balancer, TAGS).map(str::to_owned).collect();
    let left = without(without(tags.clone(), actual.sign.as_deref()), identity.sign.as_deref());
    let mut changes = Map::new();
    if left.len() != tags.len() {
        changes.insert(TAGS.to_owned(), json!(left));
    }
    let applied = put(project, id, changes, outcome).await?;
    if identity.is_leaving() && actual.id == id {
        let address = actual.ingress.iter().find_map(|it| it.ip.as_deref());
        let floating = address.filter(|address| !text_is(&balancer, "vip_address", address));
        let text = kept(actual, floating);
        project.notices.warn(true, About::Service(identity.service), "LoadBalancerKept", &text);
    }
    Ok(applied)
}

async fn put(project: &Project, id: &str, changes: Map<String, Value>, outcome: Actual) -> Result<Applied> {
    let mut state = outcome.state.clone();
    if !changes.is_empty() {
        let call = Call::put(BALANCERS.one, &[id]).json(&BALANCERS.body(changes));
        project.services.balancer.send(call).await?;
        state = State::Busy;
    }
    Ok(Applied::Shown(1, Box::new(Actual { state, ..outcome })))
}

/// Whether one more Service may use it.
fn check_share(project: &Project, actual: &Actual, balancer: &Value, has_tags: bool) -> Result<()> {
    let View { is_owner, sign, others, .. } = View::with_id(balancer, &actual.id);
    let (place, most) = (actual.place(), project.config.max_shared);
    if is_owner || sign.is_some() {
        return Ok(());
    }
    if !has_tags {
        return Err(Error::invalid(format!(
            "{place} cannot be shared: this Octavia has no tags, so nothing would tell whose its listeners are"
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

/// The Service's own listeners, each after its pool, and that after its monitor; so that what is broken off is found
/// again by the listener, and by the load balancer, which is last.
async fn rename_parts(
    project: &Project,
    balancer: &Value,
    sign: &str,
    from: &str,
    change: Change<'_>,
    has_tags: bool,
) -> Result<()> {
    let (id, to) = (text(balancer, ID), &*change.identity.cluster.name);
    let whole = project.monitored_parts(balancer.clone()).await?;
    let is_ours = |listener: &&Value| {
        let mut tags = texts(listener, TAGS).peekable();
        let is_tagged = tags.peek().is_some();
        if is_tagged { tags.any(|tag| tag == sign) } else { text_is(balancer, "name", sign) }
    };
    let is_named = |listener: &&Value| text(listener, "name").starts_with("listener_");
    let mut objects = Vec::new();
    for listener in whole.listeners.iter().filter(is_ours).filter(is_named) {
        // There may be none, and none may have a monitor.
        let pool = whole.pool_of(listener).map(|pool| &pool.object);
        objects.extend(pool.and_then(|pool| pool.get(MONITORS.name)).map(|monitor| (MONITORS, monitor)));
        objects.extend(pool.map(|pool| (POOLS, pool)));
        objects.push((LISTENERS, listener));
    }
    // What is left of a change that was broken off would be somebody else's under another name.
    objects.extend(whole.unused_pools().filter(|pool| is_pool_of(pool, sign)).map(|pool| (POOLS, pool)));
    for (kind, object) in objects {
        let name = renamed(text(object, "name"), from, to);
        let mut changes = json!({ "name": name });
        if kind == LISTENERS && has_tags {
            let others = texts(object, TAGS).filter(|tag| *tag != sign).map(str::to_owned);
            let tags: Vec<_> = others.chain([renamed(sign, from, to)]).collect();
            changes[TAGS] = json!(tags);
        } else if text_is(object, "name", &name) {
            continue;
        }
        let call = Call::put(kind.one, &[text(object, ID)]).json(&kind.body(changes));
        project.services.balancer.send(call).await?;
        project.settled(id, change.observer).await?;
    }
    Ok(())
}

/// Says why a load balancer outlives the Service that it was created for, and what stays with it.
fn kept(actual: &Actual, floating: Option<&str>) -> String {
    let whose = actual.foreign.iter().filter_map(|(part, whose)| match part {
        Part::Front(_) => None,
        Part::Support(_) => Some(whose.clone()),
        part => Some(format!("{part} is {whose}")),
    });
    let whose: Vec<String> = whose.collect();
    let floating = floating.map(|address| format!(", and so does floating IP {address}")).unwrap_or_default();
    let place = actual.place();
    format!("{place} stays{floating}: {}. Delete it when nobody uses it any more", whose.join(", "))
}

fn text_is(object: &Value, key: &str, value: &str) -> bool {
    text(object, key) == value
}
