//! The request that creates a load balancer.

use cloud_provider::{Error, Result, SyncCallbacks};
use jiff::Timestamp;
use provider_kit::inventory::Found;
use provider_kit::load_balancers::{
    Applied, Change, Identity, ObservedLoadBalancer, Operation, ResourceGraph, ResourceKey,
    Targets, plan,
};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::apply::{check_certificates, labels};
use super::desired::{TO_BE_MADE, check_reachable};
use super::spec::ServiceSpec;
use super::targets::{self, Dedicated};
use super::wire::{
    CERTIFICATE, CERTIFICATES, LoadBalancer, POOL, has_addresses, ip_target, machine,
    network_resource, server_target, to_add, to_service,
};
use super::{ALL, HcloudLoadBalancers};
use crate::actions::Action;
use crate::annotations as key;
use crate::id::MachineId;

#[derive(Deserialize)]
struct Created {
    load_balancer: LoadBalancer,
    action: Option<Action>,
}

/// Checks what only a new load balancer needs: a location, a network if it is private, and certificates of `https`.
pub(super) fn check(identity: &Identity<'_>, desired: &ResourceGraph) -> Result<()> {
    let setting = |name| {
        desired
            .balancer_attributes()
            .and_then(|settings| settings.text(name))
    };
    if setting("location").or(setting("network_zone")).is_none() {
        return Err(Error::invalid(format!(
            "load balancer {:?} has no location: set annotation {} or {}, or HCLOUD_LOAD_BALANCERS_LOCATION or \
             HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
            identity.name,
            key::LOCATION.key(),
            key::NETWORK_ZONE.key()
        )));
    }
    check_reachable(desired, None)?;
    check_certificates(desired.listeners())
}

/// Creates a load balancer with everything that the API takes in one request; the rest is planned from the answer.
pub(super) async fn create(
    balancers: &HcloudLoadBalancers,
    change: Change<'_>,
    spec: &ServiceSpec,
    now: Timestamp,
) -> Result<Applied> {
    let identity = change.identity;
    let mut graph = change
        .outcome_of_all()
        .and_then(|outcome| outcome.graph)
        .unwrap_or_default();
    // Managed certificates are found by their load balancer, so they are created after the load balancer, and the
    // listeners that use them after the certificates.
    graph.resources.retain(|resource, settings| {
        !resource.is_of_kind(CERTIFICATE) && settings.text(CERTIFICATES) != Some(TO_BE_MADE)
    });
    let settings = graph.balancer_attributes().cloned().unwrap_or_default();
    let setting = |key| json!(settings.get(key));
    balancers.can_become(settings.text("type"), now).await?;
    // An address or a subnet can only be chosen when the load balancer is attached; private targets come after that.
    let network = graph.resources.get(&network_resource(""));
    let network = network.filter(|_| spec.private_ipv4.is_none() && spec.private_subnet.is_none());
    let targets = graph.targets_of(POOL);
    let targets: Targets = targets
        .iter()
        .filter(|target| network.is_some() || machine(target) == *target)
        .collect();
    let body = [
        ("name", json!(identity.name)),
        ("load_balancer_type", setting("type")),
        ("location", setting("location")),
        ("network_zone", setting("network_zone")),
        (
            "algorithm",
            settings
                .text("algorithm")
                .map_or(Value::Null, |algorithm| json!({"type": algorithm})),
        ),
        ("public_interface", setting("public")),
        (
            "network",
            json!(network.and_then(|settings| settings.get("network"))),
        ),
        (
            "labels",
            json!(labels(identity, &ObservedLoadBalancer::default())),
        ),
        (
            "services",
            graph
                .listeners()
                .map(|(port, settings)| to_service(port, settings))
                .collect(),
        ),
    ];
    let stated = body.into_iter().filter(|(_, value)| !value.is_null());
    let body: Map<_, _> = stated.map(|(key, value)| (key.to_owned(), value)).collect();
    let made = post(balancers, body, targets, change.callbacks).await;
    // *Not found* refers to an object that the Service names, so it is a mistake of the user.
    let made = made.map_err(|err| {
        if err.is_not_found() {
            Error::invalid(err.to_string())
        } else {
            err
        }
    })?;
    balancers
        .api
        .actions
        .finish(made.action, change.callbacks)
        .await?;
    let shown = balancers.actual(made.load_balancer);
    // While the action ran, the answer could not show everything.
    let rest = shown
        .graph
        .as_ref()
        .map(|shown| plan(&graph, shown))
        .unwrap_or_default();
    let is_shown = rest.iter().all(|operation| {
        matches!(
            operation,
            Operation::Update {
                resource: ResourceKey::Balancer,
                ..
            }
        )
    }) && shown.graph.as_ref().is_some_and(has_addresses);
    let shown = if is_shown {
        shown
    } else {
        balancers.read_again(&shown.id).await?
    };
    Ok(Applied::PlanAgain(Box::new(shown)))
}

/// Sends the request that creates the load balancer, and sends it again only if a target is the reason for the refusal.
async fn post(
    balancers: &HcloudLoadBalancers,
    mut body: Map<String, Value>,
    targets: Targets,
    callbacks: &dyn SyncCallbacks,
) -> Result<Created> {
    let mut call = |targets: &Targets| {
        body.insert("targets".to_owned(), targets.iter().map(to_add).collect());
        // If the request was applied, its name is taken, so sending it again is refused and safe.
        Call::post(ALL, &[]).json(&body).repeatable()
    };
    let refused = match balancers.api.actions.send(call(&targets), callbacks).await {
        Err(err) if err.is_not_found() || targets::is_refused_for(&err) => err,
        made => return made?.json(),
    };
    let known = known_targets(balancers, &targets).await;
    if known.is_empty() && !targets.is_empty() {
        let text = "the project of HCLOUD_TOKEN shows none of the Service's targets; use a token of the project that has them";
        return Err(Error::invalid(format!("{refused}; {text}")));
    }
    let Some(rest) = targets::without_refused(&refused, &targets, &known) else {
        return Err(refused);
    };
    balancers
        .api
        .actions
        .send(call(&rest), callbacks)
        .await?
        .json()
}

/// Returns those of `targets` that the cloud or Robot shows now.
async fn known_targets(balancers: &HcloudLoadBalancers, targets: &Targets) -> Targets {
    let nodes: Vec<_> = balancers
        .nodes()
        .into_iter()
        .filter(|node| targets::is_among(node, targets))
        .collect();
    let found = balancers
        .servers
        .find_all(&nodes, true, Priority::Ordinary)
        .await;
    let mut known = Vec::new();
    for (node, found) in nodes.iter().zip(found) {
        if let (Ok(MachineId::Cloud(id)), Ok(Found::Present(_))) =
            (MachineId::read(&node.provider_id), found)
        {
            known.push(server_target(id, false));
        }
    }
    if let Ok(Dedicated::Known(addresses)) = balancers.dedicated(&nodes).await {
        known.extend(addresses.values().map(|ip| ip_target(ip)));
    }
    known.iter().collect()
}
