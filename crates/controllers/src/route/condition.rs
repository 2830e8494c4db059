//! The Node condition `NetworkUnavailable` (ROUTE-40 … ROUTE-46).

use cloud_provider::names::CONDITION_NETWORK_UNAVAILABLE;
use cloud_provider::{ConditionStatus, NetworkCondition, Node};
use jiff::Timestamp;
use kube::Api;
use runtime::api_error::is_conflict;
use runtime::node::NodeObject;
use runtime::retry::ConflictRetry;
use runtime::writes::strategic_patch_metadata;
use serde_json::{Value, json};

/// The state of a Node's routes, as the condition reports it.
///
/// ```
/// use controllers::route::condition::RouteCondition;
///
/// assert_eq!((RouteCondition::Created.reason(), RouteCondition::NotCreated.reason()), ("RouteCreated", "NoRouteCreated"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteCondition {
    /// Every Pod CIDR of the Node has a route (ROUTE-42).
    Created,
    /// Some Pod CIDR of the Node has no route (ROUTE-43).
    NotCreated,
}

impl RouteCondition {
    /// Returns the status of the condition, which is about the network being *un*available.
    #[must_use]
    pub fn status(self) -> ConditionStatus {
        match self {
            Self::Created => ConditionStatus::False,
            Self::NotCreated => ConditionStatus::True,
        }
    }

    /// Returns the reason of the condition.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Created => "RouteCreated",
            Self::NotCreated => "NoRouteCreated",
        }
    }

    /// Returns the message of the condition.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Created => "RouteController created a route",
            Self::NotCreated => "RouteController failed to create a route",
        }
    }

    /// Returns `true` if the Node's condition has this status and reason. The reason of a network plug-in does not
    /// count (ROUTE-44).
    #[must_use]
    pub fn is_shown_by(self, node: &Node) -> bool {
        let shown = NetworkCondition {
            status: self.status(),
            reason: self.reason().into(),
        };
        node.network_unavailable.as_ref() == Some(&shown)
    }

    /// Returns the patch of `nodes/NAME/status` (ROUTE-45).
    #[must_use]
    pub fn patch(self, now: Timestamp) -> Value {
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = if self == Self::Created {
            "False"
        } else {
            "True"
        };
        json!({"status": {"conditions": [{
            "type": CONDITION_NETWORK_UNAVAILABLE,
            "status": status,
            "reason": self.reason(),
            "message": self.message(),
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }]}})
    }
}

/// Writes the condition, with up to 5 attempts after conflicts (ROUTE-45). Sends nothing if the condition is up to
/// date.
///
/// # Errors
/// The API server's answer to the last attempt.
pub async fn write(
    api: &Api<NodeObject>,
    node: &Node,
    condition: RouteCondition,
    now: Timestamp,
) -> Result<(), kube::Error> {
    if condition.is_shown_by(node) {
        return Ok(());
    }
    let patch = &condition.patch(now);
    ConflictRetry::ROUTES
        .run(is_conflict, |_| async move {
            strategic_patch_metadata(api, &node.name, Some("status"), patch).await
        })
        .await
        .map(drop)
}
