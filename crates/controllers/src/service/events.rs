//! Events on a Service: those of SVC-90, and further ones.

use cloud_provider::{LoadBalancerWarning, Service};
use runtime::events::{EventRecorder, EventType, ObjectRef};

use crate::event_reason::EventReason;

/// An event on a Service. [`message`](Self::message) returns its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServiceEvent {
    Ensuring,
    Ensured,
    Deleting,
    Deleted,
    TargetsUpdated,
    /// No Node is a target; with the reason if there are Nodes.
    NoTargets(Option<String>),
    SyncFailed(String),
    UpdateFailed {
        hosts: String,
        count: usize,
        error: String,
    },
    DeleteFailed(String),
    /// The Service is deleted, and the load balancer of this name stays (P-20).
    Abandoned(String),
    /// The Service vanished without being deleted, and its load balancer is kept.
    DeletionHeld(String),
    /// The load balancer differs from the Service's spec (P-23).
    Drift {
        steps: String,
        is_repaired: bool,
    },
    /// A warning of the provider kit about the Service's load balancers.
    Warned(LoadBalancerWarning),
}

impl ServiceEvent {
    fn reason(&self) -> EventReason {
        match self {
            Self::Ensuring => EventReason::Ensuring,
            Self::Ensured => EventReason::Ensured,
            Self::Deleting => EventReason::Deleting,
            Self::Deleted => EventReason::Deleted,
            Self::TargetsUpdated => EventReason::TargetsUpdated,
            Self::NoTargets(_) => EventReason::NoTargets,
            Self::SyncFailed(_) => EventReason::SyncFailed,
            Self::UpdateFailed { .. } => EventReason::UpdateFailed,
            Self::DeleteFailed(_) => EventReason::DeleteFailed,
            Self::Abandoned(_) => EventReason::Abandoned,
            Self::DeletionHeld(_) => EventReason::BalancerDeletionHeld,
            Self::Drift { .. } => EventReason::Drift,
            Self::Warned(LoadBalancerWarning::Replacing { .. }) => EventReason::Replacing,
            Self::Warned(LoadBalancerWarning::Twin { .. }) => EventReason::Twin,
        }
    }

    fn event_type(&self) -> EventType {
        match self {
            Self::Ensuring
            | Self::Ensured
            | Self::Deleting
            | Self::Deleted
            | Self::TargetsUpdated => EventType::Normal,
            Self::NoTargets(_)
            | Self::SyncFailed(_)
            | Self::UpdateFailed { .. }
            | Self::DeleteFailed(_)
            | Self::Abandoned(_)
            | Self::DeletionHeld(_)
            | Self::Drift { .. }
            | Self::Warned(_) => EventType::Warning,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Ensuring => "Ensuring load balancer".to_owned(),
            Self::Ensured => "Ensured load balancer".to_owned(),
            Self::Deleting => "Deleting load balancer".to_owned(),
            Self::Deleted => "Deleted load balancer".to_owned(),
            Self::TargetsUpdated => "Updated load balancer with new hosts".to_owned(),
            Self::NoTargets(None) => "There are no available nodes for LoadBalancer".to_owned(),
            Self::NoTargets(Some(why)) => {
                format!("There are no available nodes for LoadBalancer: {why}")
            }
            Self::SyncFailed(error) => format!("Error syncing load balancer: {error}"),
            Self::UpdateFailed {
                hosts,
                count,
                error,
            } => format!(
                "Error updating load balancer with new hosts {hosts} [node names limited, total number of nodes: {count}], error: {error}"
            ),
            Self::Warned(warning) => warning.text().to_owned(),
            Self::DeleteFailed(error) => format!("Error deleting load balancer: {error}"),
            Self::Abandoned(name) => format!(
                "Load balancer {name:?} stays in the cloud, as ccm-rs/abandon-load-balancer requests; delete it in \
                 the cloud when it is no longer needed"
            ),
            Self::DeletionHeld(why) => {
                format!(
                    "Service vanished from the Kubernetes API without being deleted; its load balancer is kept: {why}"
                )
            }
            Self::Drift {
                steps,
                is_repaired: true,
            } => {
                format!("Load balancer differs from this Service's spec and is repaired: {steps}")
            }
            Self::Drift {
                steps,
                is_repaired: false,
            } => format!(
                "Load balancer differs from this Service's spec: {steps}. It is not changed until the Service \
                 changes; --load-balancer-drift=repair repairs drift automatically"
            ),
        }
    }

    /// Records the event on the Service.
    pub(super) fn record(&self, events: &EventRecorder, service: &Service) {
        events.event(
            &ObjectRef::of(service),
            self.event_type(),
            self.reason().as_str(),
            self.message(),
        );
    }
}
