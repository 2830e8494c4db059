//! Options of the controllers.

use std::time::Duration;

use ipnet::IpNet;

/// Settings of all controllers.
///
/// There are two sets (D-1). With [`Options::reference`], the controllers behave exactly like those of the Go program;
/// the case suites in tests/cases use this set. [`Options::default`], which everything else uses, adds a deletion guard
/// (D-2), explanations (D-3) and more concurrency (D-10).
///
/// ```
/// use controllers::Options;
///
/// let product = Options::default();
/// assert!(product.lifecycle.guard.is_some() && product.explain);
/// assert!(Options::reference().lifecycle.guard.is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Settings of the cloud-node-controller.
    pub node: NodeOptions,
    /// Settings of the cloud-node-lifecycle-controller.
    pub lifecycle: LifecycleOptions,
    /// Settings of the service-lb-controller.
    pub service: ServiceOptions,
    /// Settings of the node-route-controller.
    pub route: RouteOptions,
    /// Value of `--explain`: events and conditions explain why an object waits (D-3).
    pub explain: bool,
}

/// Settings of the node controller (NODE-3).
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOptions {
    /// Value of `--concurrent-node-syncs`: number of workers of the queue, and of concurrent writes.
    pub concurrent_node_syncs: i32,
    /// Value of `--concurrent-node-status-updates`: number of concurrent writes of an address pass; 0 means the value
    /// of `concurrent_node_syncs`.
    pub concurrent_node_status_updates: i32,
    /// Value of `--node-status-update-frequency`: interval of address passes.
    pub status_update_frequency: Duration,
    /// Value of `--adopt-nodes`: initialize Nodes without a provider ID even if they lack the uninitialized taint
    /// (P-8).
    pub adopt: bool,
    /// Value of `--refresh-node-labels`: address passes update labels as well (P-9).
    pub refresh_labels: bool,
    /// Maximum time until a Node that cannot be initialized is tried again (NODE-10); `None` for the back-off of the Go
    /// program, 1,000 s.
    pub retry_cap: Option<Duration>,
    /// If set, Nodes of another provider are neither looked up nor changed (P-15). The Go program looks up all Nodes.
    pub leaves_foreign: bool,
}

/// Settings of the lifecycle controller.
#[derive(Clone, Debug, PartialEq)]
pub struct LifecycleOptions {
    /// Value of `--node-monitor-period`: interval of passes (LIFE-3).
    pub monitor_period: Duration,
    /// Value of `--concurrent-node-lifecycle-syncs`: number of Nodes that a pass writes at the same time (LIFE-10).
    pub concurrent_syncs: i32,
    /// Mode of node deletion (`--node-deletion`).
    pub deletion: NodeDeletion,
    /// Settings of the deletion guard (`--node-deletion-guard`); `None` deletes a Node as soon as its instance is
    /// reported as not existing, like the Go program.
    pub guard: Option<GuardOptions>,
}

/// The value of `--node-deletion` (D-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeDeletion {
    /// Nodes whose instance does not exist are deleted.
    On,
    /// Nodes that would be deleted are only reported.
    DryRun,
    /// No Node is deleted.
    Off,
}

impl std::fmt::Display for NodeDeletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::DryRun => "dry-run",
            Self::Off => "off",
        })
    }
}

impl std::str::FromStr for NodeDeletion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "dry-run" => Ok(Self::DryRun),
            "off" => Ok(Self::Off),
            other => Err(format!("{other:?} is not one of on, dry-run, off")),
        }
    }
}

/// Settings of the deletion guard (D-2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardOptions {
    /// Value of `--node-deletion-guard-share`: share of Nodes without an instance above which a mass deletion is
    /// suspected, from 0 to 1.
    pub share: f64,
    /// Value of `--node-deletion-guard-delay`: time for which a suspected mass deletion is held, and for which an
    /// instance must be absent before a Node that waits for its provider ID is deleted.
    pub delay: Duration,
}

impl GuardOptions {
    /// Minimum number of Nodes or Services that must be missing together to count as a mass deletion (landslide).
    pub const SMALLEST_LANDSLIDE: usize = 4;
}

impl Default for GuardOptions {
    fn default() -> Self {
        Self {
            share: 0.5,
            delay: Duration::from_secs(300),
        }
    }
}

/// Settings of the service controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceOptions {
    /// Value of `--concurrent-service-syncs`: number of Services that are synced at the same time, and of those whose
    /// targets are updated at the same time (SVC-3).
    pub concurrent_syncs: i32,
    /// Value of `--load-balancer-classes`: values of `spec.loadBalancerClass` that this controller handles (P-29);
    /// empty for the rule of the Go program.
    pub classes: Vec<String>,
    /// Value of `--default-load-balancer`: Services without a class are handled.
    pub is_default: bool,
    /// If set, events about a load balancer are recorded only if the provider's plan is not empty (D-4).
    pub quiet: bool,
    /// Value of `--load-balancer-drift-check-period`, to be jittered; zero disables drift checks (P-23).
    pub drift_check_period: Duration,
    /// Reaction to drift (`--load-balancer-drift`).
    pub drift: Drift,
    /// Time after which a load balancer of this controller is deleted from a Service that has the class of another
    /// controller (D-149); `None` never deletes it, like the Go program.
    pub leftovers_delay: Option<Duration>,
    /// Guard for Services that vanish from the API without being deleted (INV-9, D-220); `None` deletes their load
    /// balancers at once, like the Go program.
    pub vanished: Option<GuardOptions>,
    /// Value of `--exclude-nodes-without-network`: new Nodes with the condition `NetworkUnavailable` are no targets yet
    /// (P-26).
    pub exclude_without_network: bool,
}

/// The value of `--load-balancer-drift` (P-23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Drift is reported with an event.
    Report,
    /// Drift is reported with an event and repaired.
    Repair,
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Report => "report",
            Self::Repair => "repair",
        })
    }
}

impl std::str::FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "report" => Ok(Self::Report),
            "repair" => Ok(Self::Repair),
            other => Err(format!("{other:?} is not one of report, repair")),
        }
    }
}

/// Settings of the route controller.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteOptions {
    /// Value of `--cluster-cidr`, parsed (ROUTE-3, ROUTE-4).
    pub cluster_cidrs: Vec<IpNet>,
    /// Value of the flag `--route-reconciliation-period`.
    pub reconciliation_period: Duration,
    /// Trigger of the controller's reconciliations.
    pub mode: RouteMode,
    /// Maximum number of concurrent calls to the cloud, and of concurrent writes of conditions (ROUTE-31).
    pub concurrency: usize,
}

/// The trigger of the route controller's reconciliations (D-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteMode {
    /// A fixed interval: the feature gate is off (ROUTE-10).
    Periodic,
    /// Node events: the feature gate is on (ROUTE-11).
    Watch,
    /// Node events, with the period as an upper bound and few lists while nothing changes: the feature gate is not set
    /// (D-5).
    Adaptive,
}

impl Options {
    /// Returns the options with which the controllers behave exactly like those of the Go program.
    #[must_use]
    pub fn reference() -> Self {
        Self {
            node: NodeOptions {
                concurrent_node_syncs: 1,
                retry_cap: None,
                leaves_foreign: false,
                ..NodeOptions::default()
            },
            lifecycle: LifecycleOptions {
                concurrent_syncs: 1,
                guard: None,
                ..LifecycleOptions::default()
            },
            service: ServiceOptions {
                concurrent_syncs: 1,
                quiet: false,
                leftovers_delay: None,
                vanished: None,
                ..ServiceOptions::default()
            },
            route: RouteOptions::in_mode(RouteMode::Periodic),
            explain: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node: NodeOptions::default(),
            lifecycle: LifecycleOptions::default(),
            service: ServiceOptions::default(),
            route: RouteOptions::default(),
            explain: true,
        }
    }
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            concurrent_node_syncs: 16,
            concurrent_node_status_updates: 0,
            status_update_frequency: Duration::from_secs(300),
            adopt: false,
            refresh_labels: false,
            retry_cap: Some(Duration::from_secs(60)),
            leaves_foreign: true,
        }
    }
}

impl Default for LifecycleOptions {
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
            concurrent_syncs: 16,
            deletion: NodeDeletion::On,
            guard: Some(GuardOptions::default()),
        }
    }
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            concurrent_syncs: 16,
            classes: Vec::new(),
            is_default: true,
            quiet: true,
            drift_check_period: Duration::ZERO,
            drift: Drift::Report,
            leftovers_delay: Some(Duration::from_secs(300)),
            vanished: Some(GuardOptions::default()),
            exclude_without_network: false,
        }
    }
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self::in_mode(RouteMode::Adaptive)
    }
}

impl RouteOptions {
    /// Returns the defaults of a mode. Those of the Go program's modes call the cloud with the same concurrency as the
    /// Go program (ROUTE-31), the adaptive mode with less.
    #[must_use]
    pub fn in_mode(mode: RouteMode) -> Self {
        Self {
            cluster_cidrs: Vec::new(),
            reconciliation_period: Duration::from_secs(10),
            mode,
            concurrency: if mode == RouteMode::Adaptive { 16 } else { 200 },
        }
    }
}

impl ServiceOptions {
    /// Returns all validation errors of these settings (SVC-3).
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        if self.concurrent_syncs <= 0 {
            return vec!["concurrent-service-syncs must be a positive number".to_owned()];
        }
        Vec::new()
    }
}

impl NodeOptions {
    /// Returns the number of concurrent writes of an address pass. A negative setting, which
    /// [`validate`](Self::validate) refuses, counts as unset.
    #[must_use]
    pub fn status_workers(&self) -> i32 {
        match self.concurrent_node_status_updates {
            ..=0 => self.concurrent_node_syncs,
            n => n,
        }
    }

    /// Returns all validation errors of these settings (NODE-6).
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.concurrent_node_syncs <= 0 {
            errors.push("concurrent-node-syncs must be a positive number".to_owned());
        }
        if self.concurrent_node_status_updates < 0 {
            errors.push("concurrent-node-status-updates cannot be a negative number".to_owned());
        }
        errors
    }
}

impl LifecycleOptions {
    /// Returns all validation errors of these settings.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.concurrent_syncs < 1 {
            errors.push(format!(
                "concurrent-node-lifecycle-syncs must be at least 1, but got {}",
                self.concurrent_syncs
            ));
        }
        if let Some(guard) = self
            .guard
            .filter(|guard| !(0.0..=1.0).contains(&guard.share))
        {
            errors.push(format!(
                "node-deletion-guard-share is {}, it must be between 0 and 1",
                guard.share
            ));
        }
        errors
    }
}

impl Options {
    /// Returns all validation errors of all settings.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        [
            self.node.validate(),
            self.lifecycle.validate(),
            self.service.validate(),
        ]
        .concat()
    }
}

/// Returns the number of workers. Settings are validated before, but an invalid number must not stop a controller.
pub(crate) fn workers(setting: i32) -> usize {
    usize::try_from(setting).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_is_no_share_is_refused() {
        for share in [-0.1, 1.1, f64::NAN] {
            let guard = Some(GuardOptions {
                share,
                ..GuardOptions::default()
            });
            assert_eq!(
                LifecycleOptions {
                    guard,
                    ..LifecycleOptions::default()
                }
                .validate()
                .len(),
                1,
                "{share}"
            );
        }
        assert!(Options::default().validate().is_empty());
        assert!(Options::reference().validate().is_empty());
    }
}
