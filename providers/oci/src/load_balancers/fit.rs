//! The fit of a desired state to an existing load balancer: what the Service does not decide stays.

use cloud_provider::{Error, Result};
use provider_kit::events::PendingEvents;
use provider_kit::load_balancers::{Identity, ObservedLoadBalancer, ResourceGraph};
use serde_json::json;

use super::objects::RULES;
use super::security::Retained;
use super::spec::LoadBalancerSpec;
use super::{LoadBalancers, adopted, certificates, security};

impl LoadBalancers {
    /// Keeps what the Service does not decide: rule sets without its annotation and those of a user, rules of security
    /// lists that other Services need, certificates of others, and the names of listeners.
    pub(super) fn fitted(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &LoadBalancerSpec,
    ) -> Result<ResourceGraph> {
        let Some(seen) = &observed.graph else {
            return Ok(desired);
        };
        let settings = |graph: &ResourceGraph, key: &str| {
            graph
                .balancer_attributes()
                .and_then(|settings| settings.get(key).cloned())
        };
        let has_fixed_shape =
            settings(seen, "shapeName").is_some_and(|settings| settings != "flexible");
        if let (true, false, Some(own_shape)) = (
            has_fixed_shape,
            spec.is_shape_named,
            desired.balancer_attributes().cloned(),
        ) {
            desired = desired.balancer(own_shape.matching(|key| !key.starts_with("shape")));
        }
        if let (true, Some((wanted, None))) = (
            settings(seen, "shapeName") == Some(json!("flexible")),
            &spec.shape,
        ) {
            return Err(Error::invalid(format!(
                "the load balancer has a flexible shape, which cannot become the fixed shape {wanted}; remove the annotation"
            )));
        }
        let ips: Vec<_> = observed
            .ingress
            .iter()
            .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
            .collect();
        if let Some(wanted) = spec
            .reserved_ip
            .filter(|wanted| !ips.is_empty() && !ips.contains(wanted))
        {
            return Err(Error::invalid(format!(
                "loadBalancerIP {wanted} is not an address of the load balancer, and an existing one keeps its address; \
                 set it to {}, or create the Service again",
                ips[0]
            )));
        }
        let mut events = PendingEvents::default();
        for key in ["isPrivate", "subnetIds", "subnetId"] {
            let wanted = settings(&desired, key);
            let existing_value = settings(seen, key);
            if wanted.is_some() && existing_value.is_some() && wanted != existing_value {
                let text = "the load balancer keeps its subnets, and stays internal or public; create the Service again";
                events.warn(
                    "ImmutableSetting",
                    format!("{key} cannot be changed: {text} to change it"),
                );
            }
        }
        self.report(identity.service, "immutable", &events);
        let is_of_user = adopted::is_of_user(observed, identity);
        let mut desired = certificates::fitted(desired, seen, spec, is_of_user);
        if is_of_user {
            desired = adopted::fitted(desired, seen, spec, identity.uid());
        }
        if settings(seen, RULES).is_none()
            && let Some(settings) = desired.balancer_attributes().cloned()
        {
            // The tag is written with the owner tags: no request for it alone.
            desired = desired.balancer(settings.matching(|key| key != RULES));
        }
        for (resource, settings) in seen.resources.iter() {
            let is_theirs = is_of_user && !adopted::is_rule_set_of(resource, identity.uid());
            let is_kept =
                resource.is_of_kind("rule set") && (spec.rule_sets.is_none() || is_theirs);
            if is_kept && !desired.resources.contains_key(resource) {
                desired.resources.insert(resource.clone(), settings.clone());
            }
        }
        if let Some(wanted) = desired.resources.get(&security::resource()) {
            let mut rules = security::rules(Some(wanted));
            let retained =
                Retained::by_others(&self.services(), identity.service, false, &self.config);
            let existing_rules = security::rules(seen.resources.get(&security::resource()));
            // A sync of targets adds rules for Nodes that joined; without all subnets of Nodes, no rule is surplus.
            let is_partial = self.partial_rules.lock().contains(identity.uid())
                || desired.balancer_attributes().is_none();
            rules.extend(
                existing_rules
                    .into_iter()
                    .filter(|rule| is_partial || retained.needs(rule)),
            );
            desired
                .resources
                .insert(security::resource(), security::settings(&rules));
        }
        Ok(desired)
    }
}
