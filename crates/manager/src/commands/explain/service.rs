//! The causes of a Service's state.

use cloud_provider::names::{CONDITION_LOAD_BALANCER_READY, FINALIZER_LOAD_BALANCER};
use cloud_provider::{LoadBalancerIngress, Ownership, Service, TargetDescription};
use controllers::EventReason;
use controllers::service::Operation;
use controllers::service::condition::Reason;
use controllers::service::targets::host_names;
use controllers::service::wants::{has_finalizer, is_foreign, may_hold_leftovers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::cause::{Cause, Causes};
use super::facts::{Balancers, Facts, ServiceFacts};
use super::state::State;
use crate::commands::plan::{Side, restores_balancer};

/// Returns the causes of a Service's state.
pub(super) fn causes(facts: &Facts, service_facts: &ServiceFacts) -> Vec<Cause> {
    let mut causes = Causes::default();
    let Some(service) = &service_facts.service else {
        vanished(facts, &mut causes);
        return causes.finish(facts);
    };
    let operation = Operation::at_start(service, &service_facts.options);
    if operation.is_some() {
        match (service_facts.offers, facts.runs.service) {
            (false, _) if facts.cloud_error.is_none() => causes.note(State::CapabilityMissing, ""),
            (_, false) => causes.note(State::ControllerOff, "service-lb-controller"),
            _ => {}
        }
    }
    match operation {
        None => not_ours(service_facts, service, &mut causes),
        Some(operation) => ours(facts, service_facts, service, operation, &mut causes),
    }
    if let Balancers::Failed(error) = &service_facts.balancers {
        causes.note(State::CloudUnreachable, error.clone());
    }
    reported(facts, service_facts, service, &mut causes);
    causes.finish(facts)
}

fn not_ours(service_facts: &ServiceFacts, service: &Service, causes: &mut Causes) {
    let spec = service.spec.as_ref();
    let kind = spec
        .and_then(|spec| spec.type_.as_deref())
        .unwrap_or("ClusterIP");
    if kind != "LoadBalancer" {
        causes.note(State::NotALoadBalancer, format!("spec.type is {kind}"));
        return;
    }
    let detail = match spec.and_then(|spec| spec.load_balancer_class.as_deref()) {
        Some(class) => format!(
            "spec.loadBalancerClass is {class:?}; this manager's are: {}",
            our_classes(service_facts)
        ),
        None => format!(
            "it has no spec.loadBalancerClass, and --default-load-balancer=false leaves such Services to others; this manager's \
             classes are: {}",
            our_classes(service_facts)
        ),
    };
    causes.note(State::OtherClass, detail);
    if may_hold_leftovers(service, &service_facts.options) && own(service_facts).is_some() {
        causes.note(
            State::LeftOnOtherClass,
            own(service_facts).unwrap_or_default(),
        );
    }
}

fn our_classes(service_facts: &ServiceFacts) -> String {
    let default = service_facts
        .options
        .is_default
        .then(|| "Services without a class".to_owned());
    let classes: Vec<String> = default
        .into_iter()
        .chain(
            service_facts
                .options
                .classes
                .iter()
                .map(|class| format!("{class:?}")),
        )
        .collect();
    classes.join(", ")
}

/// Returns the Service's own load balancer, as `name (ID)`.
fn own(service_facts: &ServiceFacts) -> Option<String> {
    let Balancers::Described(all) = &service_facts.balancers else {
        return None;
    };
    let own_services = all
        .iter()
        .find(|balancer| balancer.ownership == Ownership::Own)?;
    Some(format!(
        "load balancer {:?} ({})",
        own_services.name, own_services.id
    ))
}

fn ours(
    facts: &Facts,
    service_facts: &ServiceFacts,
    service: &Service,
    operation: Operation,
    causes: &mut Causes,
) {
    let since = service
        .metadata
        .deletion_timestamp
        .as_ref()
        .map(|time| time.0);
    if let Some(condition) = condition(service).filter(|condition| condition.status == "False") {
        let state =
            Reason::parse(&condition.reason).map_or(Some(State::SyncFailed), State::of_reason);
        let at = Some(condition.last_transition_time.0);
        state
            .into_iter()
            .for_each(|state| causes.add(Cause::new(state, condition.message.clone()).since(at)));
    }
    if let Some(state) = State::of_operation(operation) {
        let is_others = operation == Operation::TearDown
            && is_foreign(service, &service_facts.options)
            && own(service_facts).is_none();
        let others = finalizers(service).collect::<Vec<_>>().join(", ");
        causes.add(
            Cause::new(
                if is_others {
                    State::ForeignFinalizer
                } else {
                    state
                },
                others,
            )
            .since(since),
        );
        return;
    }
    if service_facts.targets == 0 {
        let detail = match service_facts.excluded.first() {
            _ if service_facts.unidentified.is_some() => {
                service_facts.unidentified.clone().unwrap_or_default()
            }
            None => "the cluster has no Nodes".to_owned(),
            Some((node, why)) if service_facts.excluded.len() == 1 => {
                format!("the only Node, {node}, is excluded: {why}")
            }
            Some((node, why)) => format!(
                "{} Nodes are excluded, such as {node}: {why}",
                service_facts.excluded.len()
            ),
        };
        let event = facts.current(EventReason::NoTargets, &[EventReason::TargetsUpdated]);
        causes.add(Cause::new(State::NoNodes, detail).since(event.and_then(|event| event.first)));
    }
    missing_balancer(facts, service, causes);
    foreign_owners(service_facts, causes);
    unhealthy_targets(service_facts, causes);
    if facts
        .plan
        .notes
        .iter()
        .any(|note| note == crate::commands::plan::RUN_ELSEWHERE)
    {
        causes.note(State::ImplementedElsewhere, "");
    }
    if !has_finalizer(service) && condition(service).is_none() {
        let created = service
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        causes.add(Cause::new(State::NotWorkedOnYet, "").since(created));
    }
}

/// Adds the cause of a Service whose load balancer was deleted in the cloud. The plan tells, because addresses that are
/// left over are no load balancer.
fn missing_balancer(facts: &Facts, service: &Service, causes: &mut Causes) {
    let cloud = facts
        .plan
        .steps
        .iter()
        .filter(|step| step.side == Side::Cloud)
        .map(|step| &step.step);
    let addresses: Vec<&str> = ingress(service)
        .iter()
        .filter_map(|entry| entry.ip.as_deref().or(entry.hostname.as_deref()))
        .collect();
    if !addresses.is_empty() && restores_balancer(cloud) {
        causes.note(
            State::LoadBalancerMissing,
            format!("the Service shows {}", addresses.join(", ")),
        );
    }
}

fn foreign_owners(service_facts: &ServiceFacts, causes: &mut Causes) {
    let Balancers::Described(all) = &service_facts.balancers else {
        return;
    };
    let has_own = own(service_facts).is_some();
    for balancer in all.iter().filter(|_| !has_own) {
        if let Ownership::Foreign(whose) = &balancer.ownership {
            causes.note(State::ForeignOwner, whose.clone());
        }
    }
}

fn unhealthy_targets(service_facts: &ServiceFacts, causes: &mut Causes) {
    let Balancers::Described(all) = &service_facts.balancers else {
        return;
    };
    let targets: Vec<_> = all.iter().flat_map(|balancer| &balancer.targets).collect();
    let is_unhealthy = |target: &&&TargetDescription| {
        target
            .health
            .as_ref()
            .is_some_and(|health| !health.is_healthy)
    };
    let unhealthy: Vec<&str> = targets
        .iter()
        .filter(is_unhealthy)
        .map(|target| target.node.as_deref().unwrap_or(&target.target))
        .collect();
    if !unhealthy.is_empty() {
        let detail = format!(
            "{} of {} targets: {}",
            unhealthy.len(),
            targets.len(),
            host_names(&unhealthy)
        );
        causes.note(State::TargetsUnhealthy, detail);
    }
}

/// Adds the causes that only events report.
fn reported(facts: &Facts, service_facts: &ServiceFacts, service: &Service, causes: &mut Causes) {
    let has_condition = condition(service).is_some();
    for reason in EventReason::ALL {
        let Some((state, ends)) = State::of_event(*reason) else {
            continue;
        };
        let Some(event) = facts.current(*reason, ends) else {
            continue;
        };
        let applies = match state {
            // The condition is newer than any event.
            State::SyncFailed => !has_condition,
            State::TargetsNotUpdated => true,
            // An event about drift is outdated unless the plan has steps, too.
            State::Drifted => facts.plan.steps.iter().any(|step| step.side == Side::Cloud),
            // The number of targets is known, so the event is not needed.
            State::NoNodes => service_facts.targets == 0,
            _ => false,
        };
        if applies && Operation::at_start(service, &service_facts.options).is_some() {
            causes.add(Cause::reported(state, event));
        }
    }
}

/// Adds the causes for a Service that does not exist in the API.
fn vanished(facts: &Facts, causes: &mut Causes) {
    for reason in [
        EventReason::BalancerDeletionHeld,
        EventReason::DeleteFailed,
        EventReason::Abandoned,
    ] {
        let Some((state, ends)) = State::of_event(reason) else {
            continue;
        };
        if let Some(event) = facts.current(reason, ends) {
            causes.add(Cause::reported(state, event));
        }
    }
}

/// Returns the other controllers that claim the Service or its load balancer.
pub(super) fn claims(service_facts: &ServiceFacts) -> Vec<String> {
    let Some(service) = &service_facts.service else {
        return Vec::new();
    };
    let mut claims = Vec::new();
    if let Balancers::Described(all) = &service_facts.balancers {
        claims.extend(all.iter().filter_map(|balancer| match &balancer.ownership {
            Ownership::Foreign(whose) => Some(whose.clone()),
            Ownership::Own | Ownership::Twin(_) | Ownership::Free => None,
        }));
    }
    if let (Some(class), None) = (
        service
            .spec
            .as_ref()
            .and_then(|spec| spec.load_balancer_class.as_deref()),
        Operation::at_start(service, &service_facts.options),
    ) {
        claims.push(format!("the controller of class {class:?}"));
    }
    let others = finalizers(service).filter(|finalizer| finalizer != FINALIZER_LOAD_BALANCER);
    claims.extend(others.map(|finalizer| format!("finalizer {finalizer}")));
    claims
}

/// Returns the addresses in the status of a Service.
pub(super) fn ingress(service: &Service) -> &[LoadBalancerIngress] {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default()
}

/// Returns the condition that explains why a load balancer is pending or has failed.
pub(super) fn condition(service: &Service) -> Option<&Condition> {
    let conditions = service
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition.type_ == CONDITION_LOAD_BALANCER_READY)
}

pub(super) fn finalizers(service: &Service) -> impl Iterator<Item = String> {
    service.metadata.finalizers.iter().flatten().cloned()
}
