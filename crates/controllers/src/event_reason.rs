//! Reasons of the events that the manager records on Nodes and Services.

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)+) => {
        /// Reason of an event on a Node or Service.
        ///
        /// ```
        /// use controllers::EventReason;
        ///
        /// assert_eq!(EventReason::parse("NodeDeletionHeld"), Some(EventReason::DeletionHeld));
        /// assert!(EventReason::ALL.iter().all(|reason| EventReason::parse(reason.as_str()) == Some(*reason)));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventReason {
            $($(#[$doc])* $variant,)+
        }

        impl EventReason {
            /// List of all reasons.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the text of the reason in the event.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

reasons! {
    /// A Node cannot be initialized (D-3, NODE-28).
    InitializationFailed = "InitializationFailed",
    /// A Node has neither a provider ID nor the start-up taint (P-8).
    NoProviderId = "NoProviderID",
    /// A Node has the provider ID of an older Node.
    SharedProviderId = "SharedProviderID",
    /// The cloud gives the Node labels that the API does not accept.
    LabelsLeftOut = "LabelsLeftOut",
    /// A Node was initialized.
    Synced = "Synced",
    /// A Node is deleted because its instance does not exist.
    DeletingNode = "DeletingNode",
    /// The API server refused the deletion of a Node.
    DeletingNodeFailed = "DeletingNodeFailed",
    /// The shutdown taint was set.
    ShutdownTaintSet = "ShutdownTaintSet",
    /// The shutdown taint was removed.
    ShutdownTaintRemoved = "ShutdownTaintRemoved",
    /// A Node whose instance seems not to exist is kept.
    DeletionHeld = "NodeDeletionHeld",
    /// The deletion of a Node is no longer held, and the Node stays.
    DeletionAverted = "NodeDeletionAverted",
    /// A Node vanished from the API without being deleted, and is kept as a target.
    NodeVanished = "NodeVanished",
    /// A Node that vanished is treated as deleted.
    VanishedNodeGone = "VanishedNodeGone",
    /// A Node that vanished is no longer held.
    VanishedNodeReturned = "VanishedNodeReturned",
    /// A route of a Node could not be deleted.
    FailedToDeleteRoute = "FailedToDeleteRoute",
    /// A route of a Node could not be created.
    FailedToCreateRoute = "FailedToCreateRoute",
    /// A second writer keeps changing a route.
    RouteFlapping = "RouteFlapping",
    /// A Pod CIDR of a Node lies outside `--cluster-cidr`.
    PodCidrOutside = "PodCIDROutsideClusterCIDR",
    /// A Pod CIDR of a Node gets no route, because it would take traffic from others.
    PodCidrRefused = "PodCIDRRefused",
    /// A load balancer is about to be created or changed.
    Ensuring = "EnsuringLoadBalancer",
    /// A load balancer is in sync with its Service.
    Ensured = "EnsuredLoadBalancer",
    /// A load balancer is about to be deleted.
    Deleting = "DeletingLoadBalancer",
    /// A load balancer was deleted.
    Deleted = "DeletedLoadBalancer",
    /// The targets of a load balancer were updated.
    TargetsUpdated = "UpdatedLoadBalancer",
    /// No Node is eligible as a target.
    NoTargets = "UnAvailableLoadBalancer",
    /// A sync of a Service failed.
    SyncFailed = "SyncLoadBalancerFailed",
    /// The targets of a load balancer could not be changed.
    UpdateFailed = "UpdateLoadBalancerFailed",
    /// The load balancer of a Service that no longer exists could not be deleted.
    DeleteFailed = "DeleteLoadBalancerFailed",
    /// A Service was deleted and its load balancer left in the cloud, as its annotation asks.
    Abandoned = "LoadBalancerAbandoned",
    /// A Service vanished from the API without being deleted, and its load balancer is kept.
    BalancerDeletionHeld = "LoadBalancerDeletionHeld",
    /// A load balancer differs from its Service's spec.
    Drift = "LoadBalancerDrift",
    /// A load balancer is about to be replaced by a new one.
    Replacing = "ReplacingLoadBalancer",
    /// A second load balancer carries the owner tags of a Service, and stays.
    Twin = "LoadBalancerTwin",
}

impl EventReason {
    /// Returns the reason that this text is.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// Every event has a reason of `EventReason`; `explain` would not know a reason that is written as a text.
    #[test]
    fn no_controller_writes_an_event_whose_reason_is_a_text() {
        let mut found = Vec::new();
        for directory in ["src", "../manager/src"] {
            sources(
                &Path::new(env!("CARGO_MANIFEST_DIR")).join(directory),
                &mut found,
            );
        }
        let is_a_text = |source: &str| {
            ["Warning, \"", "Normal, \""]
                .iter()
                .any(|normal| source.contains(&format!("EventType::{normal}")))
        };
        found.retain(|path| is_a_text(&std::fs::read_to_string(path).unwrap()));
        assert_eq!(found, Vec::<PathBuf>::new());
    }
}
