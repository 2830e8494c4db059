//! What a life of this program left behind on a Service that is another controller's by now (INV-2).
//!
//! A Service stops to want a load balancer, and gets the class of another controller before ours is gone. If the process
//! dies in between, no rule makes the next one look at it (SVC-15), and our load balancer stays until the Service goes.
//! Its finalizer alone says little: all controllers of load balancers share that one. So a Service with it and with a
//! foreign class is looked up in the cloud when it is first seen, once in a life of the process. What is found carries our
//! marks, but so does what a second process with other classes made (P-29). That one tells its address on the Service, so
//! what is found is removed only if, after a while, the Service still does not show it.
//!
//! Neither the finalizer nor the status is touched: the other controller may rely on them by now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{LoadBalancerIngress, LoadBalancerStatus, Result, Service};
use runtime::place::Place;
use serde_json::json;
use tokio::time::Instant;

use crate::service::controller::ServiceController;
use crate::service::events::News;
use crate::service::observers::Waits;
use crate::service::wants::may_hold_leftovers;

/// Pause after a question that was not answered, or a removal that failed.
const AGAIN: Duration = Duration::from_secs(60);

/// What is to be done about what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// There is nothing, or it is in use.
    Leave,
    /// It is looked at again after so long.
    Wait(Duration),
    /// It is removed.
    Remove,
}

impl Verdict {
    /// `waited`: since it was first found in this life.
    fn of(found: Option<&LoadBalancerStatus>, service: &Service, waited: Duration, delay: Duration) -> Self {
        match found {
            None => Self::Leave,
            Some(found) if is_shown(found, service) => Self::Leave,
            Some(_) if waited < delay => Self::Wait(delay - waited),
            Some(_) => Self::Remove,
        }
    }
}

/// Whether the Service shows an address of the load balancer, which is then looked after by somebody. It is taken to if what
/// it shows cannot be compared: a load balancer in use is worth more than one that stays until its Service goes.
fn is_shown(found: &LoadBalancerStatus, service: &Service) -> bool {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let shown = status.and_then(|status| status.ingress.as_deref()).unwrap_or_default();
    let found = found.ingress.as_deref().unwrap_or_default();
    let pairs = || found.iter().flat_map(|found| shown.iter().map(move |shown| (found, shown)));
    let compared = || pairs().filter_map(|(found, shown)| compare(found, shown));
    !shown.is_empty() && (compared().next().is_none() || compared().any(|same| same))
}

/// Whether both are the same address; nothing if one is an address and the other a name.
fn compare(found: &LoadBalancerIngress, shown: &LoadBalancerIngress) -> Option<bool> {
    let of = |a: &Option<String>, b: &Option<String>| Some(a.as_ref()? == b.as_ref()?);
    match (of(&found.ip, &shown.ip), of(&found.hostname, &shown.hostname)) {
        (None, None) => None,
        (ip, hostname) => Some(ip == Some(true) || hostname == Some(true)),
    }
}

/// Services that are to be looked at again.
#[derive(Default)]
pub(super) struct Leftovers(Mutex<BTreeMap<String, Pending>>);

struct Pending {
    uid: Option<String>,
    found: Instant,
    pause: Duration,
}

impl Leftovers {
    /// When to look at this Service again, if at all.
    pub(super) fn pause(&self, key: &str) -> Option<Duration> {
        self.entries().get(key).map(|pending| pending.pause)
    }

    pub(super) fn forget(&self, key: &str) {
        self.entries().remove(key);
    }

    /// How long it has been there; nothing if it is seen for the first time.
    fn waited(&self, key: &str, service: &Service) -> Duration {
        let entries = self.entries();
        let same = entries.get(key).filter(|pending| pending.uid == service.metadata.uid);
        same.map(|pending| pending.found.elapsed()).unwrap_or_default()
    }

    fn look_again(&self, key: &str, service: &Service, waited: Duration, pause: Duration) {
        let (uid, found) = (service.metadata.uid.clone(), Instant::now() - waited);
        self.entries().insert(key.to_owned(), Pending { uid, found, pause });
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServiceController {
    /// Whether this Service is only looked at for what may be left on it: it is another controller's, and nothing is
    /// remembered of it.
    pub(super) fn is_for_leftovers(&self, key: &str, service: &Service) -> bool {
        may_hold_leftovers(service, &self.options) && self.ledger.service(key).is_none()
    }

    /// Looks for what is left of ours, and removes it. It says nothing on the Service of what goes wrong, which is no
    /// business of its owner's; it is tried again.
    pub(super) async fn remove_leftovers(&self, key: &str, service: &Arc<Service>, place: &Place) {
        let (waited, delay) = (self.leftovers.waited(key, service), self.options.leftovers_delay.unwrap_or_default());
        let verdict = match self.cloud.find(service).await {
            Ok(found) => Verdict::of(found.as_ref(), service, waited, delay),
            Err(error) => {
                tracing::debug!(service = key, %error, "cannot look for a load balancer of ours on a service of another class");
                Verdict::Wait(AGAIN)
            }
        };
        match verdict {
            Verdict::Leave => self.leftovers.forget(key),
            Verdict::Wait(pause) => self.leftovers.look_again(key, service, waited, pause),
            Verdict::Remove => match self.remove_leftover(key, service, place).await {
                Ok(()) => self.leftovers.forget(key),
                Err(error) => {
                    tracing::warn!(service = key, %error, "a load balancer of ours is left on a service of another class and cannot be removed");
                    self.leftovers.look_again(key, service, waited, AGAIN);
                }
            },
        }
    }

    async fn remove_leftover(&self, key: &str, service: &Service, place: &Place) -> Result<()> {
        tracing::info!(
            service = key,
            "removing the load balancer that is left from before the service had a class of another controller"
        );
        self.say(service, &News::Deleting);
        self.cloud.delete(service, &Waits(place)).await?;
        self.say(service, &News::Deleted);
        let mut patch = json!({});
        self.remove_condition(key, service, &mut patch);
        if let Err(error) = self.write(key, service, &patch).await {
            // It only says something that is not true any more.
            let error = runtime::api_error::api_error(&error);
            tracing::debug!(service = key, %error, "our condition stays on a service of another class");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingress(addresses: &[&str]) -> LoadBalancerStatus {
        let one = |text: &&str| match text.parse::<std::net::IpAddr>() {
            Ok(_) => LoadBalancerIngress { ip: Some((*text).to_owned()), ..Default::default() },
            Err(_) => LoadBalancerIngress { hostname: Some((*text).to_owned()), ..Default::default() },
        };
        LoadBalancerStatus { ingress: Some(addresses.iter().map(one).collect()) }
    }

    #[test]
    fn only_what_the_service_does_not_show_for_long_is_removed() {
        const DELAY: u64 = 300;
        type Row<'a> = (Option<&'a [&'a str]>, &'a [&'a str], u64, Verdict);
        let table: [Row<'_>; 11] = [
            (None, &[], 0, Verdict::Leave),
            (None, &["192.0.2.1"], 999, Verdict::Leave),
            (Some(&["192.0.2.1"]), &[], 0, Verdict::Wait(Duration::from_secs(300))),
            (Some(&["192.0.2.1"]), &[], 299, Verdict::Wait(Duration::from_secs(1))),
            (Some(&["192.0.2.1"]), &[], 300, Verdict::Remove),
            (Some(&["192.0.2.1"]), &["192.0.2.2"], 300, Verdict::Remove),
            (Some(&["192.0.2.1", "lb.example"]), &["lb.example"], 300, Verdict::Leave),
            (Some(&["192.0.2.1"]), &["192.0.2.1"], 300, Verdict::Leave),
            (Some(&["192.0.2.1"]), &["lb.example"], 300, Verdict::Leave),
            (Some(&[]), &["192.0.2.1"], 300, Verdict::Leave),
            (Some(&[]), &[], 300, Verdict::Remove),
        ];
        for (found, shown, waited, expected) in table {
            let found = found.map(ingress);
            let status = serde_json::json!({"status": {"loadBalancer": serde_json::to_value(ingress(shown)).unwrap()}});
            let service: Service = serde_json::from_value(status).unwrap();
            let (waited, delay) = (Duration::from_secs(waited), Duration::from_secs(DELAY));
            assert_eq!(
                Verdict::of(found.as_ref(), &service, waited, delay),
                expected,
                "{found:?} {shown:?} {waited:?}"
            );
        }
    }
}
