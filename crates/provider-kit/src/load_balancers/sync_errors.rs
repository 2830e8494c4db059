//! The errors of a sync of one Service.

use std::time::Duration;

use cloud_provider::Error;

use super::model::{ObservedLoadBalancer, Shared, State};

/// The time after which the health of a new load balancer's targets is read again.
const HEALTH_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the error for a load balancer that failed when it was created, like the one before it; both are deleted, so
/// there is nothing to repair.
pub(super) fn failed_twice(failed: &ObservedLoadBalancer) -> Error {
    let State::Failed(text) = &failed.state else {
        return Error::other(failed.place());
    };
    Error::other(format!(
        "{} failed when it was created: {text}. It is deleted, like the one that was created before it; the next attempt \
         creates another one",
        failed.place()
    ))
}

/// Returns the error for a load balancer that was to be replaced twice in one sync.
pub(super) fn replaced_twice() -> Error {
    Error::other(
        "the load balancer was replaced, and the new one must be replaced again; the next attempt reads it again",
    )
}

/// Returns the error for a Service whose new load balancer has no healthy target yet.
pub(super) fn unhealthy(kept: &ObservedLoadBalancer, surplus: &[Shared]) -> Error {
    let old = surplus.first().map(|old| old.place()).unwrap_or_default();
    let text = format!(
        "no target of {} is healthy yet; the Service stays reachable by {old} until one is",
        kept.place()
    );
    Error::retry_in(text, HEALTH_INTERVAL)
}

/// Returns the error for a Service that was changed during a move, so that it does not leave its load balancer any more.
pub(super) fn withdrawn(old: &ObservedLoadBalancer) -> Error {
    Error::other(format!(
        "{} stays, because the Service was changed while that load balancer was being replaced, and no longer permits or \
         requires the replacement; the next attempt follows the Service as it is now",
        old.place()
    ))
}

pub(super) fn unexpected() -> Error {
    Error::other("a sync got an answer that its action does not have")
}
