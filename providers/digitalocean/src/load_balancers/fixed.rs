//! Settings that the API cannot change: the decision to replace a load balancer, to refuse a change, or to warn of it.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, Replacement, ResourceGraph,
};

use super::spec::Spec;
use crate::annotations as key;

/// Settings for which a load balancer is replaced if the user allows it, and their annotations.
const REPLACED_FOR: [(&str, &str); 2] =
    [("type", key::TYPE.key()), ("network", key::NETWORK.key())];

/// Settings of the creation that are kept, with a warning if the user states another value.
const KEPT: [(&str, &str); 3] = [
    ("network_stack", key::NETWORK_STACK.key()),
    ("subnet_uuid", key::SUBNET.key()),
    ("ip", key::IP.key()),
];

/// Returns the text of a setting, if it is stated.
fn text<'a>(settings: Option<&'a Attributes>, name: &str) -> Option<&'a str> {
    settings?.text(name).filter(|text| !text.is_empty())
}

/// A setting of the load balancer itself that differs from the Service.
struct FixedDifference<'a> {
    annotation: &'static str,
    has: &'a str,
    wanted: &'a str,
    is_stated: bool,
}

fn differences<'a>(
    desired: &'a ResourceGraph,
    observed: &'a ObservedLoadBalancer,
    spec: &Spec,
) -> Vec<FixedDifference<'a>> {
    let wanted = desired.balancer_attributes();
    let has = observed
        .graph
        .as_ref()
        .and_then(|graph| graph.balancer_attributes());
    let difference = |(name, annotation): (&'static str, &'static str)| {
        let is_stated = if name == "type" {
            spec.states_type
        } else {
            spec.states_network
        };
        let wanted = text(wanted, name)?;
        let has = text(has, name)?;
        (wanted != has).then_some(FixedDifference {
            annotation,
            has,
            wanted,
            is_stated,
        })
    };
    REPLACED_FOR.into_iter().filter_map(difference).collect()
}

/// Decides if the load balancer is replaced. A changed default replaces none.
///
/// # Errors
/// *Invalid*, naming the annotations, if the user has not allowed it.
pub(super) fn replacement(
    desired: &ResourceGraph,
    observed: &ObservedLoadBalancer,
    spec: &Spec,
) -> Result<Replacement> {
    let differences = differences(desired, observed, spec);
    if differences.is_empty() || differences.iter().any(|difference| !difference.is_stated) {
        return Ok(Replacement::None);
    }
    if !spec.allows_recreation {
        return Err(refusal(observed, &differences));
    }
    let changes: Vec<_> = differences
        .iter()
        .map(|difference| {
            format!(
                "{}: {} → {}",
                difference.annotation, difference.has, difference.wanted
            )
        })
        .collect();
    let changes = changes.join(", ");
    let has = observed
        .graph
        .as_ref()
        .and_then(ResourceGraph::balancer_attributes);
    let ip = text(desired.balancer_attributes(), "ip");
    match (
        ip.is_some() && ip == text(has, "ip"),
        spec.allows_interruption,
    ) {
        (false, _) => Ok(Replacement::NewFirst(changes)),
        (true, true) => Ok(Replacement::OldFirst(changes)),
        (true, false) => Err(Error::invalid(format!(
            "{} cannot be replaced while it has the address of the new one ({changes}): set annotation {}: \"true\" to have it \
             deleted first, which interrupts the Service, or remove annotation {}",
            observed.place(),
            key::ALLOW_INTERRUPTION.key(),
            key::IP.key()
        ))),
    }
}

/// Refuses a type or network that the load balancer does not have, unless it is one that is being replaced.
///
/// # Errors
/// *Invalid*, with the annotation to set.
pub(super) fn check(
    desired: &ResourceGraph,
    observed: &ObservedLoadBalancer,
    spec: &Spec,
    identity: &Identity<'_>,
) -> Result<()> {
    let differences = differences(desired, observed, spec);
    if let Some(object) = differences.iter().find(|difference| !difference.is_stated) {
        let FixedDifference {
            annotation,
            has,
            wanted,
            ..
        } = object;
        return Err(Error::invalid(format!(
            "{} is {has}, and the default is {wanted}: set annotation {annotation}: {has} to keep it, or {annotation}: {wanted} \
             and {}: \"true\" to have it replaced, with another address",
            observed.place(),
            key::ALLOW_RECREATE.key()
        )));
    }
    match (differences.is_empty(), identity.is_adoption(observed)) {
        (true, _) => Ok(()),
        (false, true) => Err(refusal_of_adopted(observed, &differences)),
        (false, false) if spec.allows_recreation => Ok(()),
        (false, false) => Err(refusal(observed, &differences)),
    }
}

fn refusal_of_adopted(
    observed: &ObservedLoadBalancer,
    differences: &[FixedDifference<'_>],
) -> Error {
    let keep: Vec<_> = differences
        .iter()
        .map(|difference| format!("{}: {}", difference.annotation, difference.has))
        .collect();
    Error::invalid(format!(
        "{} was not created for this Service, so it is not replaced: set {} to keep it, or remove annotation {} to have a new \
         one created",
        observed.place(),
        keep.join(" and "),
        key::ID.key()
    ))
}

fn refusal(observed: &ObservedLoadBalancer, differences: &[FixedDifference<'_>]) -> Error {
    let name = |difference: &FixedDifference<'_>| {
        format!(
            "annotation {} is {}, but it is {}",
            difference.annotation, difference.wanted, difference.has
        )
    };
    let keep =
        |difference: &FixedDifference<'_>| format!("{}: {}", difference.annotation, difference.has);
    let names: Vec<_> = differences.iter().map(name).collect();
    let kept: Vec<_> = differences.iter().map(keep).collect();
    Error::invalid(format!(
        "{} cannot be changed in place: {}. Set {} to keep it, or {}: \"true\" to have it replaced by a new one, with another \
         address",
        observed.place(),
        names.join(", "),
        kept.join(" and "),
        key::ALLOW_RECREATE.key()
    ))
}

/// Returns a warning for each stated setting of the creation that the load balancer does not have.
pub(super) fn ignored(observed: &ObservedLoadBalancer, spec: &Spec) -> Vec<String> {
    let stack = spec.load_balancer.network_stack.map(|network_stack| {
        serde_json::json!(network_stack)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    });
    let stated = [
        stack,
        spec.load_balancer.subnet_uuid.clone(),
        spec.load_balancer.ip.clone(),
    ];
    let has = observed
        .graph
        .as_ref()
        .and_then(|graph| graph.balancer_attributes());
    let warning = |((name, annotation), wanted): ((&str, &str), Option<String>)| {
        let wanted = wanted?;
        let has = text(has, name)?;
        let setting = if name == "ip" {
            format!("annotation {annotation} or spec.loadBalancerIP")
        } else {
            format!("annotation {annotation}")
        };
        (wanted != has).then(|| {
            format!(
                "{setting}: {wanted} has no effect: {} keeps {has}. Set {has}, or delete and create the Service",
                observed.place()
            )
        })
    };
    KEPT.into_iter().zip(stated).filter_map(warning).collect()
}
