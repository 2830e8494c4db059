//! Gauges computed from the Nodes and Services in the caches (MET-50), as pure functions.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_provider::names::CONDITION_LOAD_BALANCER_READY;
use cloud_provider::{Node, Service};
use controllers::options::ServiceOptions;
use controllers::service::wants::{concerns_us, needs_cleanup};
use jiff::Timestamp;

/// Figures about Nodes that wait for their initialization.
///
/// ```
/// use cloud_provider::{Node, Taint, names::{EFFECT_NO_SCHEDULE, TAINT_UNINITIALIZED}};
/// use metrics::census::Uninitialized;
/// use std::time::Duration;
///
/// let now = "2026-01-01T00:01:00Z".parse()?;
/// let waiting = Node {
///     created: Some("2026-01-01T00:00:00Z".parse()?),
///     taints: [Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE)].into(),
///     ..Node::default()
/// };
/// let figures = Uninitialized::of([&waiting, &Node::default()], now);
/// assert_eq!(figures, Uninitialized { nodes: 1, oldest: Duration::from_secs(60) });
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uninitialized {
    /// Number of uninitialized Nodes.
    pub nodes: usize,
    /// Age of the oldest uninitialized Node; zero if there is none.
    pub oldest: Duration,
}

impl Uninitialized {
    /// Computes the figures for these Nodes.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>, now: Timestamp) -> Self {
        let waiting = nodes
            .into_iter()
            .filter(|node| node.is_uninitialized() && !node.terminating);
        waiting.fold(Self::default(), |sum, node| Self {
            nodes: sum.nodes + 1,
            oldest: sum.oldest.max(since(node.created, now)),
        })
    }
}

/// The state of a Service's load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadBalancerState {
    /// The load balancer is in sync and serves.
    Ready,
    /// The load balancer is not in sync yet, and no sync has failed.
    Pending,
    /// The last sync failed and is retried.
    Failed,
    /// The load balancer is being deleted.
    Deleting,
}

impl LoadBalancerState {
    /// List of the states.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Pending, Self::Failed, Self::Deleting];

    /// Returns the value of the label `state`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::Deleting => "deleting",
        }
    }

    /// Returns the state of a Service's load balancer and the time since when; `None` if this manager does not handle
    /// the Service.
    #[must_use]
    pub fn of(service: &Service, options: &ServiceOptions) -> Option<(Self, Option<Timestamp>)> {
        if !concerns_us(service, options) {
            return None;
        }
        let meta = &service.metadata;
        let status = service.status.as_ref();
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        if needs_cleanup(service) {
            return Some((
                Self::Deleting,
                meta.deletion_timestamp
                    .as_ref()
                    .map(|time| time.0)
                    .or(created),
            ));
        }
        let conditions = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let ours = conditions
            .iter()
            .find(|condition| condition.type_ == CONDITION_LOAD_BALANCER_READY);
        if let Some(condition) = ours.filter(|condition| condition.status == "False") {
            return Some((Self::Failed, Some(condition.last_transition_time.0)));
        }
        let ingress = status
            .and_then(|status| status.load_balancer.as_ref())
            .and_then(|load_balancer| load_balancer.ingress.as_ref());
        let state = if ingress.is_some_and(|all| !all.is_empty()) {
            Self::Ready
        } else {
            Self::Pending
        };
        Some((state, created))
    }
}

/// Figures about the load balancers of all Services that this manager handles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancers {
    /// Number of Services by state; all states are included.
    pub states: BTreeMap<LoadBalancerState, usize>,
    /// Longest time that a Service's load balancer has been out of sync; zero if all are in sync.
    pub oldest_pending: Duration,
}

impl LoadBalancers {
    /// Computes the figures for these Services.
    pub fn of<'a>(
        services: impl IntoIterator<Item = &'a Service>,
        options: &ServiceOptions,
        now: Timestamp,
    ) -> Self {
        let mut figures = Self {
            states: LoadBalancerState::ALL
                .into_iter()
                .map(|state| (state, 0))
                .collect(),
            oldest_pending: Duration::ZERO,
        };
        for (state, from) in services
            .into_iter()
            .filter_map(|service| LoadBalancerState::of(service, options))
        {
            *figures.states.entry(state).or_default() += 1;
            if state != LoadBalancerState::Ready {
                figures.oldest_pending = figures.oldest_pending.max(since(from, now));
            }
        }
        figures
    }
}

/// Returns the time since `from`; zero if `from` is in the future, because clocks differ.
fn since(from: Option<Timestamp>, now: Timestamp) -> Duration {
    from.and_then(|from| Duration::try_from(now.duration_since(from)).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::Taint;
    use cloud_provider::names::{EFFECT_NO_SCHEDULE, FINALIZER_LOAD_BALANCER, TAINT_UNINITIALIZED};
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn node(created: &str, terminating: bool) -> Node {
        let taints = [Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE)].into();
        Node {
            created: Some(created.parse().unwrap()),
            terminating,
            taints,
            ..Node::default()
        }
    }

    #[test]
    fn only_nodes_that_still_wait_are_counted() {
        let initialized = Node {
            taints: [].into(),
            ..node("2025-01-01T00:00:00Z", false)
        };
        let nodes = [
            initialized,
            node("2025-01-01T00:00:00Z", true),
            node("2026-01-01T00:59:00Z", false),
            node("2026-01-01T00:50:00Z", false),
            node("2026-01-01T02:00:00Z", false),
        ];
        let figures = Uninitialized::of(&nodes, now());
        assert_eq!(
            figures,
            Uninitialized {
                nodes: 3,
                oldest: Duration::from_secs(600)
            }
        );
        assert_eq!(
            Uninitialized::of(&nodes[..2], now()),
            Uninitialized::default()
        );
    }

    fn service(patch: &Value) -> Service {
        let mut object = json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"type": "LoadBalancer"},
        });
        for (key, value) in patch.as_object().unwrap() {
            for (field, value) in value.as_object().unwrap() {
                object[key][field] = value.clone();
            }
        }
        serde_json::from_value(object).unwrap()
    }

    fn condition(status: &str) -> Value {
        json!([{"type": CONDITION_LOAD_BALANCER_READY, "status": status, "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:30:00Z"}])
    }

    #[test]
    fn the_state_follows_from_what_the_service_shows() {
        let ingress = json!({"ingress": [{"ip": "192.0.2.1"}]});
        let finalizers = json!([FINALIZER_LOAD_BALANCER]);
        let table = [
            (json!({}), Some((LoadBalancerState::Pending, 3600))),
            (
                json!({"status": {"loadBalancer": {}}}),
                Some((LoadBalancerState::Pending, 3600)),
            ),
            (
                json!({"status": {"loadBalancer": ingress}}),
                Some((LoadBalancerState::Ready, 0)),
            ),
            (
                json!({"status": {"loadBalancer": ingress, "conditions": condition("True")}}),
                Some((LoadBalancerState::Ready, 0)),
            ),
            (
                json!({"status": {"loadBalancer": ingress, "conditions": condition("False")}}),
                Some((LoadBalancerState::Failed, 1800)),
            ),
            (
                json!({"status": {"conditions": condition("False")}}),
                Some((LoadBalancerState::Failed, 1800)),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:50:00Z", "finalizers": finalizers}}),
                Some((LoadBalancerState::Deleting, 600)),
            ),
            (
                json!({"spec": {"type": "ClusterIP"}, "metadata": {"finalizers": finalizers}}),
                Some((LoadBalancerState::Deleting, 3600)),
            ),
            (json!({"spec": {"type": "ClusterIP"}}), None),
            (
                json!({"spec": {"loadBalancerClass": "somebody-else's"}}),
                None,
            ),
        ];
        for (patch, expected) in table {
            let options = ServiceOptions::default();
            let service = service(&patch);
            let figures = LoadBalancers::of([&service], &options, now());
            let found = LoadBalancerState::of(&service, &options)
                .map(|(state, _)| (state, figures.oldest_pending.as_secs()));
            assert_eq!(found, expected, "{patch}");
            assert_eq!(figures.states.len(), 4, "all states are shown");
            assert_eq!(
                figures.states.values().sum::<usize>(),
                usize::from(expected.is_some()),
                "{patch}"
            );
        }
    }
}
