//! The project whose load balancers are managed: its services, and the state that all changes share.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, SyncCallbacks};
use provider_kit::events::{EventDeduplicator, EventWriter};
use provider_kit::load_balancers::State;
use provider_kit::operation::{Polling, until_done};
use provider_kit::transport::Call;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::networks::NetworkCatalog;
use super::octavia::{BALANCERS, Kind, id, state};
use super::security_group::Groups;
use crate::config::Balancers;
use crate::ports::Ports;
use crate::services::Services;

/// Maximum number of members in all concurrent requests and responses together, to limit memory: a thousand members
/// take more than 0.5 MiB. A single load balancer with more members is sent alone.
pub(super) const MEMBERS_AT_ONCE: u32 = 10_000;

/// Longest wait for a load balancer, in seconds.
const MAX_WAIT: f64 = 86_400.0;

pub(super) struct Project {
    pub(super) services: Services,
    pub(super) config: Arc<Balancers>,
    pub(super) networks: NetworkCatalog,
    pub(super) ports: Ports,
    pub(super) groups: Groups,
    pub(super) deduplicator: EventDeduplicator,
    pub(super) polling: Polling,
    members_under_way: Semaphore,
}

impl Project {
    pub(super) fn new(
        services: Services,
        config: Arc<Balancers>,
        ports: Ports,
        events: EventWriter,
    ) -> Self {
        Self {
            networks: NetworkCatalog::new(services.clone()),
            groups: Groups::new(ports.clone()),
            deduplicator: EventDeduplicator::new(events),
            polling: polling(config.wait_steps),
            members_under_way: Semaphore::new(MEMBERS_AT_ONCE as usize),
            services,
            config,
            ports,
        }
    }

    /// Waits until a request with this number of members, and its answer, fit into the limit [`MEMBERS_AT_ONCE`].
    pub(super) async fn room_for(&self, members: usize) -> Option<SemaphorePermit<'_>> {
        let permits =
            u32::try_from(members).map_or(MEMBERS_AT_ONCE, |members| members.min(MEMBERS_AT_ONCE));
        self.members_under_way.acquire_many(permits).await.ok()
    }

    /// Waits within a change until Octavia takes another request for it.
    pub(super) async fn settled(&self, id: &str, callbacks: &dyn SyncCallbacks) -> Result<()> {
        callbacks.release_permit();
        let place = format!("load balancer {id}");
        let settled = until_done(&place, self.polling, || async {
            match self.balancer(id).await?.as_ref().and_then(state) {
                None => Err(Error::conflict(format!(
                    "load balancer {id} was deleted while it was being changed"
                ))),
                Some(State::Failed(text)) => {
                    Err(Error::other(format!("load balancer {id}: {text}")))
                }
                Some(state) => Ok((state == State::Ready).then_some(())),
            }
        });
        let settled = settled.await;
        callbacks.reacquire_permit().await;
        settled
    }

    /// Reads all of a list.
    pub(super) async fn all_of<T: DeserializeOwned, K: Hash>(
        &self,
        kind: &Kind,
        call: Call,
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        self.services
            .all(&self.services.balancer, call, kind.names, key)
            .await
    }

    pub(super) async fn objects(&self, kind: &Kind, call: Call) -> Result<Vec<Value>> {
        self.all_of(kind, call, id).await
    }

    /// Reads a load balancer without its listeners and pools.
    pub(super) async fn balancer(&self, id: &str) -> Result<Option<Value>> {
        let found: Option<Value> = self.services.balancer.find(BALANCERS.get(id)).await?;
        Ok(found.filter(|object| state(object).is_some()))
    }

    /// Reads the load balancers with this value in a field.
    pub(super) async fn found_by(&self, key: &str, value: String) -> Result<Vec<Value>> {
        let call = self
            .services
            .in_project(BALANCERS.list("").query(key, value))
            .await?;
        let mut found = self.objects(&BALANCERS, call).await?;
        found.retain(|object| state(object).is_some());
        Ok(found)
    }
}

/// Returns polling with the same total duration as `steps` polls of the Go cloud-controller-manager, whose pauses start
/// at one second and grow by a fifth each; at most [`MAX_WAIT`], because a hundred steps would take years.
pub(super) fn polling(steps: u32) -> Polling {
    let pauses = steps - u32::from(steps > 1);
    let limit = (0..pauses)
        .map(|step| 1.2_f64.powi(step.cast_signed()))
        .sum::<f64>()
        .min(MAX_WAIT)
        .floor();
    let first = Duration::from_millis(500);
    let max_interval = Duration::from_secs(20);
    Polling {
        first,
        growth: 1.2,
        max_interval,
        timeout: Duration::from_secs_f64(limit),
        ..Polling::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_balancer_is_waited_for_as_long_as_so_many_polls_took_and_never_longer_than_a_day() {
        let limits = [0, 1, 23, 50, 300, 10_000].map(|steps| polling(steps).timeout.as_secs());
        assert_eq!(limits, [0, 1, 271, 37_913, 86_400, 86_400]);
    }
}
