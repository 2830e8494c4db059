//! Applies planned operations. After each of them, the kit waits until Octavia has finished it.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Actual, Applied, Change, Operation, Part, State, Tree};
use provider_kit::transport::Call;

use super::create::{Made, body};
use super::octavia::{BALANCERS, ID};
use super::project::Project;
use super::published::lead_by;
use super::read::Whole;
use super::requests::Names;
use super::spec::ServiceSpec;
use super::tags::{View, balancer_id};
use super::{floating_ip, rename, requests, security_group};
use crate::keys::{CASCADE_DELETE, PROVIDER_REQUIRES_SERIAL_API_CALLS};

/// Applies at least the first operation of a change.
///
/// # Errors
/// The error of Octavia or Neutron; *invalid* if the load balancer has failed, or the Service's settings are
/// impossible.
pub(super) async fn apply(project: &Project, change: Change<'_>, spec: &Result<ServiceSpec>) -> Result<Applied> {
    let is_removed = change.operations.iter().any(removes);
    let failed = change.actual.and_then(|it| match &it.state {
        State::Failed(text) => Some((it, text)),
        _ => None,
    });
    if let Some((actual, text)) = failed.filter(|_| !is_removed) {
        return Err(cannot_change(actual, text));
    }
    // Of a load balancer in ERROR, Octavia deletes no single part: only the whole load balancer can be deleted.
    let goes_at_once = is_removed && (project.config.flag(&CASCADE_DELETE) || failed.is_some());
    match &change.operations[0] {
        operation if operation.part().is_some_and(|part| matches!(part, Part::CreatedAfter(_))) => {
            front(project, change, operation, spec).await
        }
        Operation::Create { part: Part::Balancer, .. } => create(project, change).await,
        Operation::Tag => rename::tag(project, change).await,
        Operation::Untag => rename::untag(project, change).await,
        operation if goes_at_once || removes(operation) => remove(project, change, goes_at_once).await,
        operation if security_group::is_meant_by(operation) => secure(project, change, operation).await,
        _ => requests::change_parts(project, change).await,
    }
}

/// Creates everything in one request. The rest is planned from the answer.
async fn create(project: &Project, change: Change<'_>) -> Result<Applied> {
    let names = Names::of_change(project, &change).await?;
    let is_serial = project.config.flag(&PROVIDER_REQUIRES_SERIAL_API_CALLS);
    let members = change.operations.iter().map(|it| match it {
        Operation::AddTargets { targets, .. } if !is_serial => targets.len(),
        _ => 0,
    });
    let _room = project.room_for(members.sum()).await;
    let body = body(change.identity, change.operations, names, is_serial);
    // The answer contains all members twice, and may be longer than 1 MiB with ten thousand members.
    let call = Call::post(BALANCERS.all, &[]).list().json(&body).inside(BALANCERS.name);
    let whole = Whole::from(project.services.balancer.read::<Made>(call).await?);
    let view = View::of(&whole.balancer, change.identity, false);
    let shown = view.and_then(|view| whole.seen(view, Vec::new()));
    let mut shown = shown.ok_or_else(|| Error::other("Octavia shows a new load balancer as deleted, or untagged"))?;
    if let (Some(tree), Some(before)) = (&mut shown.tree, change.actual.and_then(|it| it.tree.as_ref())) {
        let group = before.parts.iter().filter(|(part, _)| !matches!(part, Part::CreatedAfter(_)));
        tree.parts.extend(group.map(|(part, settings)| (part.clone(), settings.clone())));
        tree.targets.extend(before.targets.iter().map(|(pool, targets)| (pool.clone(), targets.clone())));
    }
    Ok(Applied::PlanAgain(Box::new(shown)))
}

/// Deletes the load balancer with all its resources. The security group is deleted first, because it is found by means
/// of the load balancer.
async fn remove(project: &Project, change: Change<'_>, cascade: bool) -> Result<Applied> {
    let Some(actual) = change.actual else { return Ok(Applied::Gone) };
    if change.operations.iter().any(|it| it.deletes(|part| matches!(part, Part::CreatedBefore(_)))) {
        project.groups.remove(change.identity).await?;
    }
    let call = Call::delete(BALANCERS.one, &[balancer_id(&actual.id)]);
    let call = if cascade { call.query("cascade", true) } else { call };
    match project.services.balancer.send(call).await {
        Err(err) if err.is_not_found() => Ok(Applied::Gone),
        Err(err) => Err(err),
        Ok(_) => Ok(Applied::PlanAgain(Box::new(Actual { state: State::Busy, tree: None, ..actual.clone() }))),
    }
}

async fn front(
    project: &Project,
    change: Change<'_>,
    operation: &Operation,
    spec: &Result<ServiceSpec>,
) -> Result<Applied> {
    let actual = change.actual.ok_or_else(|| Error::other("a floating IP without a load balancer"))?;
    let stays = change.operations.contains(&Operation::Untag);
    let settings = actual.tree.as_ref().and_then(Tree::balancer_attributes);
    let setting = |key: &str| settings.and_then(|it| it.text(key)).unwrap_or_default().to_owned();
    let mut outcome = change.outcome(1);
    // The other Services that share the load balancer need the floating IP.
    if stays {
        return Ok(shown(outcome));
    }
    let (port, goes) = (setting("vip_port_id"), change.operations.iter().any(removes));
    let given = floating_ip::apply(project, operation, change.identity, actual, &port, goes, spec).await?;
    if let Some(outcome) = &mut outcome {
        let address = given.as_ref().and_then(|it| it.text("address").map(str::to_owned));
        lead_by(outcome, &address.unwrap_or_else(|| setting("vip_address")));
        if let (Some(part), Some(tree)) = (operation.part(), &mut outcome.tree) {
            tree.parts.remove(part);
            tree.parts.extend(given.map(|settings| (part.clone(), settings)));
        }
    }
    Ok(shown(outcome))
}

async fn secure(project: &Project, change: Change<'_>, operation: &Operation) -> Result<Applied> {
    let settings = project.groups.apply(operation, change.identity).await?;
    let mut outcome = change.outcome(1);
    if let (Some(outcome), Some(settings), Some(part)) = (&mut outcome, settings, operation.part()) {
        if outcome.id.is_empty() {
            outcome.id = settings.text(ID).unwrap_or_default().to_owned();
        }
        if let Some(tree) = &mut outcome.tree {
            tree.parts.insert(part.clone(), settings);
        }
    }
    Ok(shown(outcome))
}

/// Returns the remedy for a load balancer in ERROR.
pub(super) fn repair(actual: &Actual) -> String {
    format!("An administrator may repair it with `openstack loadbalancer failover {}`", balancer_id(&actual.id))
}

/// Returns the error about a change of a load balancer in ERROR.
fn cannot_change(failed: &Actual, text: &str) -> Error {
    let (place, repair) = (failed.place(), repair(failed));
    if failed.foreign.is_empty() {
        return Error::invalid(format!("{place}: {text}. {repair}; or delete it to get a new one"));
    }
    let others: BTreeSet<&str> = failed.foreign.values().map(String::as_str).collect();
    let others = others.into_iter().collect::<Vec<_>>().join(", ");
    Error::invalid(format!(
        "{place} has the provisioning status ERROR, in which Octavia refuses all changes of its parts; it is not \
         deleted, because others use it ({others}). {repair}"
    ))
}

/// Returns the outcome of one operation.
fn shown(outcome: Option<Actual>) -> Applied {
    outcome.map_or(Applied::Gone, |outcome| Applied::Shown(1, Box::new(outcome)))
}

/// Returns `true` if the load balancer itself is deleted.
fn removes(operation: &Operation) -> bool {
    operation.deletes(|part| *part == Part::Balancer)
}
