//! Settings that the API cannot change: refused where they decide who reaches the NodeBalancer, else kept with a warning.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{ObservedLoadBalancer, ResourceGraph};

use super::object::FRONTEND;
use super::spec::NodeBalancerSpec;
use crate::annotations as key;

/// Refuses another network than the one in which the NodeBalancer is reached: one that shall be internal must not stay
/// public without a word.
///
/// # Errors
/// *Invalid*, with what to do.
pub(super) fn check(desired: &ResourceGraph, observed: &ObservedLoadBalancer) -> Result<()> {
    let wanted = desired
        .balancer_attributes()
        .and_then(|settings| settings.text(FRONTEND));
    let has = observed
        .graph
        .as_ref()
        .and_then(ResourceGraph::balancer_attributes)
        .and_then(|settings| settings.text(FRONTEND));
    match (wanted, has) {
        (Some(wanted), Some(has)) if wanted != has => Err(Error::invalid(format!(
            "{} is reached from {has}, and the Service wants {wanted}: the API cannot change it. Delete and create the Service, or \
             restore annotation {}",
            observed.place(),
            key::FRONTEND_SUBNET_ID.key()
        ))),
        _ => Ok(()),
    }
}

/// Returns the reason and text of a warning for each stated setting that the NodeBalancer does not have.
pub(super) fn ignored(
    desired: &ResourceGraph,
    observed: &ObservedLoadBalancer,
    spec: &NodeBalancerSpec,
) -> Vec<(&'static str, String)> {
    let wanted = desired.balancer_attributes();
    let has = observed
        .graph
        .as_ref()
        .and_then(|graph| graph.balancer_attributes());
    let differs = |name: &str| {
        let wanted = wanted?.text(name)?;
        let has = has?.text(name)?;
        (wanted != has).then_some((wanted, has))
    };
    let mut warnings = Vec::new();
    if let Some((wanted, has)) = differs("ipv4") {
        let text = format!(
            "NodeBalancer {} keeps address {has}: reserved address {wanted} is ignored",
            observed.id
        );
        warnings.push(("NodeBalancerIPChangeIgnored", text));
    }
    if let Some((wanted, has)) = differs("type").filter(|_| spec.states_kind) {
        let annotation = key::TYPE.key();
        let text = format!(
            "annotation {annotation}: {wanted} has no effect: NodeBalancer {} keeps {has}. Set {has}, or delete and create the \
             Service",
            observed.id
        );
        warnings.push(("SettingIgnored", text));
    }
    warnings
}
