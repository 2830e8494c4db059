//! Applies planned operations. After each of them, the kit waits until Octavia has finished it.

use std::collections::BTreeSet;

use cloud_provider::{Error, LoadBalancerWarning, Result};
use provider_kit::load_balancers::{
    Applied, Change, ObservedLoadBalancer, Operation, ResourceGraph, ResourceKey, State,
};
use provider_kit::transport::Call;

use super::create::{CreatedResponse, body};
use super::octavia::{BALANCERS, ID};
use super::project::Project;
use super::published::{is_published, lead_by, status};
use super::read::Whole;
use super::requests::ObjectNames;
use super::spec::ServiceSpec;
use super::tags::{Share, balancer_id};
use super::{floating_ip, rename, requests, security_group};
use crate::annotations as key;
use crate::keys::{CASCADE_DELETE, PROVIDER_REQUIRES_SERIAL_API_CALLS};

/// Applies at least the first operation of a change.
///
/// # Errors
/// The error of Octavia or Neutron; *invalid* if the load balancer has failed, or the Service's settings are
/// impossible.
pub(super) async fn apply(
    project: &Project,
    change: Change<'_>,
    spec: &Result<ServiceSpec>,
) -> Result<Applied> {
    let is_removed = change.operations.iter().any(removes);
    let failed = change
        .actual
        .and_then(|load_balancer| match &load_balancer.state {
            State::Failed(text) => Some((load_balancer, text)),
            _ => None,
        });
    if let Some((actual, text)) = failed.filter(|_| !is_removed) {
        return Err(cannot_change(actual, text));
    }
    // Of a load balancer in ERROR, Octavia deletes no single resource: only the whole load balancer can be deleted.
    let goes_at_once = is_removed && (project.config.flag(&CASCADE_DELETE) || failed.is_some());
    // A Service that shows its address serves until Octavia accepts the deletion, and what is left of its load balancer is
    // found again. Without an address, as for a load balancer whose Service is deleted already, nothing would find it.
    let serves = is_removed && is_published(change.identity.service);
    if goes_at_once && (serves || !is_floating_ip(&change.operations[0])) {
        return remove(project, change, true).await;
    }
    match change.operations {
        // Octavia may refuse the deletion of any other resource, and the load balancer is reached until then.
        [floating, rest @ ..] if serves && is_floating_ip(floating) && !removes(&rest[0]) => {
            let applied = apply_first(
                project,
                Change {
                    operations: rest,
                    ..change
                },
                spec,
            )
            .await?;
            Ok(match applied {
                Applied::Shown(_, shown) => Applied::PlanAgain(shown),
                other => other,
            })
        }
        [floating, ..] if serves && is_floating_ip(floating) => {
            remove(project, change, false).await
        }
        _ => apply_first(project, change, spec).await,
    }
}

/// Applies the first operation of a change, or a prefix.
async fn apply_first(
    project: &Project,
    change: Change<'_>,
    spec: &Result<ServiceSpec>,
) -> Result<Applied> {
    match &change.operations[0] {
        operation if is_floating_ip(operation) => {
            apply_floating_ip(project, change, operation, spec).await
        }
        Operation::Create {
            resource: ResourceKey::Balancer,
            ..
        } => create(project, change).await,
        Operation::Tag => rename::tag(project, change).await,
        Operation::Untag => rename::untag(project, change).await,
        operation if removes(operation) => remove(project, change, false).await,
        operation if security_group::is_meant_by(operation) => {
            apply_security_group(project, change, operation).await
        }
        _ => requests::change_resources(project, change).await,
    }
}

/// Creates everything in one request. The rest is planned from the answer.
async fn create(project: &Project, change: Change<'_>) -> Result<Applied> {
    let names = ObjectNames::of_change(project, &change).await?;
    let is_serial = project.config.flag(&PROVIDER_REQUIRES_SERIAL_API_CALLS);
    let members = change.operations.iter().map(|operation| match operation {
        Operation::AddTargets { targets, .. } if !is_serial => targets.len(),
        _ => 0,
    });
    let _room = project.room_for(members.sum()).await;
    let body = body(change.identity, change.operations, names, is_serial);
    // The answer contains all members twice, and may be longer than 1 MiB with ten thousand members.
    let call = Call::post(BALANCERS.all, &[])
        .list()
        .json(&body)
        .inside(BALANCERS.name);
    let whole = Whole::from(
        project
            .services
            .balancer
            .read::<CreatedResponse>(call)
            .await?,
    );
    let view = Share::of(&whole.balancer, change.identity, false);
    let shown = view.and_then(|view| whole.seen(view, Vec::new()));
    let mut shown = shown
        .ok_or_else(|| Error::other("Octavia shows a new load balancer as deleted, or untagged"))?;
    if let (Some(graph), Some(before)) = (
        &mut shown.graph,
        change
            .actual
            .and_then(|load_balancer| load_balancer.graph.as_ref()),
    ) {
        let group = before
            .resources
            .iter()
            .filter(|(resource, _)| !matches!(resource, ResourceKey::CreatedAfter(_)));
        graph
            .resources
            .extend(group.map(|(resource, settings)| (resource.clone(), settings.clone())));
        graph.targets.extend(
            before
                .targets
                .iter()
                .map(|(pool, targets)| (pool.clone(), targets.clone())),
        );
    }
    Ok(Applied::PlanAgain(Box::new(shown)))
}

/// Deletes the load balancer with all its resources, and then its security group and its floating IP: if Octavia refuses
/// the deletion, the load balancer keeps working. Both are read before, so that a credential that becomes another
/// project's in between does not pass for their absence. The group of a Service that shows no address is deleted first.
async fn remove(project: &Project, change: Change<'_>, cascade: bool) -> Result<Applied> {
    let Some(actual) = change.actual else {
        return Ok(Applied::Gone);
    };
    let goes = |is_wanted: fn(&ResourceKey) -> bool| {
        change
            .operations
            .iter()
            .any(|operation| operation.deletes(is_wanted))
    };
    let floating = match goes(|resource| matches!(resource, ResourceKey::CreatedAfter(_))) {
        true => {
            floating_ip::to_delete(project, change.identity, &actual.id, &vip_port(actual)).await?
        }
        false => None,
    };
    let mut groups = match goes(|resource| matches!(resource, ResourceKey::CreatedBefore(_))) {
        true => project.groups.ids(change.identity).await?,
        false => Vec::new(),
    };
    if !is_published(change.identity.service) {
        for id in std::mem::take(&mut groups) {
            project.groups.delete(&id).await?;
        }
    }
    let call = Call::delete(BALANCERS.one, &[balancer_id(&actual.id)]);
    let call = if cascade {
        call.query("cascade", true)
    } else {
        call
    };
    match project.services.balancer.send(call).await {
        Err(err) if err.is_not_found() => return Ok(Applied::Gone),
        answer => answer?,
    };
    for id in groups {
        project.groups.delete(&id).await?;
    }
    if let Some(id) = floating {
        project
            .services
            .network
            .send(Call::delete("/floatingips/{id}", &[&id]))
            .await?;
    }
    Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
        state: State::Busy,
        graph: None,
        ..actual.clone()
    })))
}

/// Returns the ID of the port of the VIP; empty if it is not known.
fn vip_port(actual: &ObservedLoadBalancer) -> String {
    let settings = actual
        .graph
        .as_ref()
        .and_then(ResourceGraph::balancer_attributes);
    settings
        .and_then(|settings| settings.text("vip_port_id"))
        .unwrap_or_default()
        .to_owned()
}

async fn apply_floating_ip(
    project: &Project,
    change: Change<'_>,
    operation: &Operation,
    spec: &Result<ServiceSpec>,
) -> Result<Applied> {
    let actual = change
        .actual
        .ok_or_else(|| Error::other("a floating IP without a load balancer"))?;
    let stays = change.operations.contains(&Operation::Untag);
    let settings = actual
        .graph
        .as_ref()
        .and_then(ResourceGraph::balancer_attributes);
    let setting = |key: &str| {
        settings
            .and_then(|settings| settings.text(key))
            .unwrap_or_default()
            .to_owned()
    };
    let mut outcome = change.outcome(1);
    // The other Services that share the load balancer need the floating IP.
    if stays {
        return Ok(shown(outcome));
    }
    let port = setting("vip_port_id");
    let goes = change.operations.iter().any(removes);
    let is_internal =
        spec.as_ref().is_ok_and(|spec| spec.internal) && !change.identity.is_leaving();
    if matches!(operation, Operation::Delete { .. })
        && !goes
        && is_internal
        && is_published(change.identity.service)
    {
        show_vip(project, change, actual, &setting("vip_address")).await?;
    }
    let given = floating_ip::apply(
        project,
        operation,
        change.identity,
        actual,
        &port,
        goes,
        spec,
    )
    .await?;
    if let Some(outcome) = &mut outcome {
        let address = given
            .as_ref()
            .and_then(|settings| settings.text("address").map(str::to_owned));
        lead_by(outcome, &address.unwrap_or_else(|| setting("vip_address")));
        if let (Some(resource), Some(graph)) = (operation.resource(), &mut outcome.graph) {
            graph.resources.remove(resource);
            graph
                .resources
                .extend(given.map(|settings| (resource.clone(), settings)));
        }
    }
    Ok(shown(outcome))
}

/// Shows the VIP on a Service that becomes internal, and reports it, before the Service loses its floating IP.
async fn show_vip(
    project: &Project,
    change: Change<'_>,
    actual: &ObservedLoadBalancer,
    vip: &str,
) -> Result<()> {
    let text = format!(
        "{} becomes internal (annotation {}): the Service shows {vip}, and then loses its floating IP, with the address",
        actual.place(),
        key::INTERNAL.key()
    );
    change
        .callbacks
        .warn(&LoadBalancerWarning::Replacing { text });
    let mut internal = actual.clone();
    lead_by(&mut internal, vip);
    change
        .callbacks
        .publish(&status(&internal, change.identity.service, &project.config))
        .await
}

async fn apply_security_group(
    project: &Project,
    change: Change<'_>,
    operation: &Operation,
) -> Result<Applied> {
    let settings = project.groups.apply(operation, change.identity).await?;
    let mut outcome = change.outcome(1);
    if let (Some(outcome), Some(settings), Some(resource)) =
        (&mut outcome, settings, operation.resource())
    {
        if outcome.id.is_empty() {
            outcome.id = settings.text(ID).unwrap_or_default().to_owned();
        }
        if let Some(graph) = &mut outcome.graph {
            graph.resources.insert(resource.clone(), settings);
        }
    }
    Ok(shown(outcome))
}

/// Returns the remedy for a load balancer in ERROR.
pub(super) fn repair(actual: &ObservedLoadBalancer) -> String {
    format!(
        "An administrator may repair it with `openstack loadbalancer failover {}`",
        balancer_id(&actual.id)
    )
}

/// Returns the error about a change of a load balancer in ERROR.
fn cannot_change(failed: &ObservedLoadBalancer, text: &str) -> Error {
    let place = failed.place();
    let repair = repair(failed);
    if failed.foreign.is_empty() {
        return Error::invalid(format!(
            "{place}: {text}. {repair}; or delete it to get a new one"
        ));
    }
    let others: BTreeSet<&str> = failed.foreign.values().map(String::as_str).collect();
    let others = others.into_iter().collect::<Vec<_>>().join(", ");
    Error::invalid(format!(
        "{place} has the provisioning status ERROR, in which Octavia refuses all changes of its resources; it is not \
         deleted, because others use it ({others}). {repair}"
    ))
}

/// Returns the outcome of one operation.
fn shown(outcome: Option<ObservedLoadBalancer>) -> Applied {
    outcome.map_or(Applied::Gone, |outcome| {
        Applied::Shown(1, Box::new(outcome))
    })
}

/// Returns `true` if an operation is about the floating IP.
fn is_floating_ip(operation: &Operation) -> bool {
    operation
        .resource()
        .is_some_and(|resource| matches!(resource, ResourceKey::CreatedAfter(_)))
}

/// Returns `true` if the load balancer itself is deleted.
fn removes(operation: &Operation) -> bool {
    operation.deletes(|resource| *resource == ResourceKey::Balancer)
}
