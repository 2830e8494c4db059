//! The conditions under which a Service leaves a load balancer, checked right before traffic moves and right before the
//! load balancer is deleted.
//!
//! A move to another load balancer takes minutes. A user who takes the permission or the setting back meanwhile keeps
//! the old load balancer, and traffic moves to no load balancer without a healthy target.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{LoadBalancerRequest, Result, Service, TargetHealth};

use super::cloud::Scope;
use super::model::ObservedLoadBalancer;
use super::run::Run;

impl Run<'_> {
    /// Returns `true` if the Service, as the cache shows it now, still leaves the load balancer. If `is_replaced`, its
    /// settings must still require a replacement, and permit it.
    pub(super) async fn still_leaves(
        &self,
        from: &ObservedLoadBalancer,
        is_replaced: bool,
    ) -> bool {
        let Some(now) = self.service_of_now() else {
            return true;
        };
        let request = LoadBalancerRequest {
            service: &now,
            ..*self.request
        };
        let Ok(identity) = self.balancers.identity(&request) else {
            return false;
        };
        let moves_elsewhere = identity.kind != self.identity.kind
            || identity.requested_id != self.identity.requested_id;
        if moves_elsewhere || identity.is_leaving() {
            return false;
        }
        if !is_replaced {
            return true;
        }
        let cloud = self.balancers.cloud();
        let replacement = match cloud.desired(&request, &identity, Scope::Everything).await {
            Ok(desired) => cloud.replacement(&desired, from, &identity),
            Err(error) => Err(error),
        };
        replacement.is_ok_and(|replacement| replacement.is_due())
    }

    /// Returns `true` if traffic may move to the new load balancer: one of its targets is healthy, the cloud shows no
    /// health, or none of the old one's targets is healthy either.
    ///
    /// # Errors
    /// The cloud's answer about the new load balancer.
    pub(super) async fn serves_as_well(
        &self,
        kept: &ObservedLoadBalancer,
        from: &ObservedLoadBalancer,
    ) -> Result<bool> {
        let cloud = self.balancers.cloud();
        if has_healthy_target(cloud.target_health(kept).await?.as_ref()) != Some(false) {
            return Ok(true);
        }
        let old = cloud.target_health(from).await.unwrap_or_else(|error| {
            tracing::info!(%error, id = from.id, "the health of the old load balancer's targets is unknown");
            None
        });
        Ok(has_healthy_target(old.as_ref()) == Some(false))
    }

    /// Returns the Service from the cache, if it differs from the one that is being synced. A cache without the Service
    /// proves nothing.
    fn service_of_now(&self) -> Option<Arc<Service>> {
        let services = self.balancers.caches()?.services();
        let now = services
            .into_iter()
            .find(|service| service.metadata.uid.as_deref() == Some(self.identity.uid()))?;
        let before = self.identity.service;
        let is_same = now.spec == before.spec
            && now.metadata.annotations == before.metadata.annotations
            && now.metadata.deletion_timestamp == before.metadata.deletion_timestamp;
        (!is_same).then_some(now)
    }
}

/// Returns whether a target is healthy; `None` if the cloud shows the health of none.
fn has_healthy_target(health: Option<&BTreeMap<String, TargetHealth>>) -> Option<bool> {
    let health = health.filter(|health| !health.is_empty())?;
    Some(health.values().any(|target| target.is_healthy))
}
