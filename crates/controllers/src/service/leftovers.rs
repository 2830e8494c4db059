//! Load balancers that an earlier run left behind on a Service that now belongs to another controller (INV-2).
//!
//! A Service that no longer wants a load balancer may get the class of another controller before its load balancer is
//! deleted. If the process ends in between, no rule makes the next run handle the Service (SVC-15), and the load
//! balancer stays until the Service is deleted. The finalizer proves little, because all controllers of load balancers
//! share it. A Service with the finalizer and a foreign class is therefore looked up in the cloud when it is first
//! seen, once in each run. A load balancer that is found has this controller's owner tags, but so does one that a
//! second process with other classes created (P-29). That process writes its address to the Service's status, so a load
//! balancer is deleted only if the Service still does not show it after a delay.
//!
//! Neither the finalizer nor the status is changed, because the other controller may rely on them by now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{LoadBalancerIngress, LoadBalancerStatus, Result, Service};
use parking_lot::{Mutex, MutexGuard};
use runtime::worker_permit::WorkerPermit;
use serde_json::json;
use tokio::time::Instant;

use crate::service::controller::ServiceController;
use crate::service::events::ServiceEvent;
use crate::service::observers::PermitObserver;
use crate::service::wants::may_hold_leftovers;

/// Pause after a failed look-up or deletion.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// The action on a load balancer that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftoverAction {
    /// No action, because there is no load balancer or it is in use.
    Leave,
    /// The Service is checked again after this time.
    Wait(Duration),
    /// The load balancer is deleted.
    Remove,
}

impl LeftoverAction {
    /// Returns the action. `waited` is the time since this run first found the load balancer.
    fn of(
        found: Option<&LoadBalancerStatus>,
        service: &Service,
        waited: Duration,
        delay: Duration,
    ) -> Self {
        match found {
            None => Self::Leave,
            Some(found) if is_shown(found, service) => Self::Leave,
            Some(_) if waited < delay => Self::Wait(delay - waited),
            Some(_) => Self::Remove,
        }
    }
}

/// Returns `true` if the Service shows an address of the load balancer, which another process then manages. Addresses
/// that cannot be compared count as shown, because a load balancer in use matters more than one that stays until its
/// Service is deleted.
fn is_shown(found: &LoadBalancerStatus, service: &Service) -> bool {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let shown = status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default();
    let found = found.ingress.as_deref().unwrap_or_default();
    let pairs = || {
        found
            .iter()
            .flat_map(|found| shown.iter().map(move |shown| (found, shown)))
    };
    let compared = || pairs().filter_map(|(found, shown)| compare(found, shown));
    !shown.is_empty() && (compared().next().is_none() || compared().any(|same| same))
}

/// Returns `true` if both entries are the same address; `None` if one is an IP address and the other a host name.
fn compare(found: &LoadBalancerIngress, shown: &LoadBalancerIngress) -> Option<bool> {
    let of = |a: &Option<String>, b: &Option<String>| Some(a.as_ref()? == b.as_ref()?);
    match (
        of(&found.ip, &shown.ip),
        of(&found.hostname, &shown.hostname),
    ) {
        (None, None) => None,
        (ip, hostname) => Some(ip == Some(true) || hostname == Some(true)),
    }
}

/// The Services that are to be checked again.
#[derive(Default)]
pub(super) struct Leftovers(Mutex<BTreeMap<String, Pending>>);

struct Pending {
    uid: Option<String>,
    found: Instant,
    pause: Duration,
}

impl Leftovers {
    /// Returns the time until the next check of this Service, if there is one.
    pub(super) fn pause(&self, key: &str) -> Option<Duration> {
        self.entries().get(key).map(|pending| pending.pause)
    }

    pub(super) fn forget(&self, key: &str) {
        self.entries().remove(key);
    }

    /// Returns the time since the load balancer was first found; zero if it was not found before.
    fn waited(&self, key: &str, service: &Service) -> Duration {
        let entries = self.entries();
        let same = entries
            .get(key)
            .filter(|pending| pending.uid == service.metadata.uid);
        same.map(|pending| pending.found.elapsed())
            .unwrap_or_default()
    }

    fn check_later(&self, key: &str, service: &Service, waited: Duration, pause: Duration) {
        let uid = service.metadata.uid.clone();
        let found = Instant::now() - waited;
        self.entries()
            .insert(key.to_owned(), Pending { uid, found, pause });
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Pending>> {
        self.0.lock()
    }
}

impl ServiceController {
    /// Returns `true` if this Service is handled only because of what may be left on it: the Service belongs to another
    /// controller, and is not in the ledger.
    pub(super) fn is_for_leftovers(&self, key: &str, service: &Service) -> bool {
        may_hold_leftovers(service, &self.options) && self.ledger.service(key).is_none()
    }

    /// Looks for a load balancer with this controller's owner tags and deletes it. Failures are retried and not
    /// reported on the Service, because they do not concern its owner.
    pub(super) async fn remove_leftovers(
        &self,
        key: &str,
        service: &Arc<Service>,
        permit: &WorkerPermit,
    ) {
        let waited = self.leftovers.waited(key, service);
        let delay = self.options.leftovers_delay.unwrap_or_default();
        let action = match self.cloud.find(service).await {
            Ok(found) => LeftoverAction::of(found.as_ref(), service, waited, delay),
            Err(error) => {
                tracing::debug!(service = key, %error, "cannot look up this controller's load balancer of a service \
                                                        of another class");
                LeftoverAction::Wait(RETRY_PAUSE)
            }
        };
        match action {
            LeftoverAction::Leave => self.leftovers.forget(key),
            LeftoverAction::Wait(pause) => self.leftovers.check_later(key, service, waited, pause),
            LeftoverAction::Remove => match self.remove_leftover(key, service, permit).await {
                Ok(()) => self.leftovers.forget(key),
                Err(error) => {
                    tracing::warn!(service = key, %error, "cannot delete this controller's load balancer of a service \
                                                           of another class");
                    self.leftovers
                        .check_later(key, service, waited, RETRY_PAUSE);
                }
            },
        }
    }

    async fn remove_leftover(
        &self,
        key: &str,
        service: &Service,
        permit: &WorkerPermit,
    ) -> Result<()> {
        tracing::info!(
            service = key,
            "deleting the load balancer from before the service had the class of another controller"
        );
        self.record_event(service, &ServiceEvent::Deleting);
        self.cloud.delete(service, &PermitObserver(permit)).await?;
        self.record_event(service, &ServiceEvent::Deleted);
        let mut patch = json!({});
        self.remove_condition(key, service, &mut patch);
        if let Err(error) = self.write(key, service, &patch).await {
            // The condition is only outdated.
            let error = runtime::api_error::api_error(&error);
            tracing::debug!(service = key, %error, "cannot remove this controller's condition from a service of \
                                                    another class");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingress(addresses: &[&str]) -> LoadBalancerStatus {
        let one = |text: &&str| match text.parse::<std::net::IpAddr>() {
            Ok(_) => LoadBalancerIngress {
                ip: Some((*text).to_owned()),
                ..Default::default()
            },
            Err(_) => LoadBalancerIngress {
                hostname: Some((*text).to_owned()),
                ..Default::default()
            },
        };
        LoadBalancerStatus {
            ingress: Some(addresses.iter().map(one).collect()),
        }
    }

    #[test]
    fn leftover_that_the_service_does_not_show_for_long_is_removed() {
        const DELAY: u64 = 300;
        type Row<'a> = (Option<&'a [&'a str]>, &'a [&'a str], u64, LeftoverAction);
        let table: [Row<'_>; 11] = [
            (None, &[], 0, LeftoverAction::Leave),
            (None, &["192.0.2.1"], 999, LeftoverAction::Leave),
            (
                Some(&["192.0.2.1"]),
                &[],
                0,
                LeftoverAction::Wait(Duration::from_secs(300)),
            ),
            (
                Some(&["192.0.2.1"]),
                &[],
                299,
                LeftoverAction::Wait(Duration::from_secs(1)),
            ),
            (Some(&["192.0.2.1"]), &[], 300, LeftoverAction::Remove),
            (
                Some(&["192.0.2.1"]),
                &["192.0.2.2"],
                300,
                LeftoverAction::Remove,
            ),
            (
                Some(&["192.0.2.1", "lb.example"]),
                &["lb.example"],
                300,
                LeftoverAction::Leave,
            ),
            (
                Some(&["192.0.2.1"]),
                &["192.0.2.1"],
                300,
                LeftoverAction::Leave,
            ),
            (
                Some(&["192.0.2.1"]),
                &["lb.example"],
                300,
                LeftoverAction::Leave,
            ),
            (Some(&[]), &["192.0.2.1"], 300, LeftoverAction::Leave),
            (Some(&[]), &[], 300, LeftoverAction::Remove),
        ];
        for (found, shown, waited, expected) in table {
            let found = found.map(ingress);
            let status = serde_json::json!({"status": {"loadBalancer": serde_json::to_value(ingress(shown)).unwrap()}});
            let service: Service = serde_json::from_value(status).unwrap();
            let waited = Duration::from_secs(waited);
            let delay = Duration::from_secs(DELAY);
            assert_eq!(
                LeftoverAction::of(found.as_ref(), &service, waited, delay),
                expected,
                "{found:?} {shown:?} {waited:?}"
            );
        }
    }
}
