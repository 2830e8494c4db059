//! What the controllers may be told to do differently.

use std::time::Duration;

use ipnet::IpNet;

/// Settings of all controllers.
///
/// There are two sets (D-1): [`Options::reference`] behaves exactly as the controllers that this project replaces;
/// [`Options::default`] is the product: a deletion guard (D-2), explanations (D-3) and work in parallel (D-10). The case
/// suites run with the first, everything else with the second.
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
    /// cloud-node-controller.
    pub node: NodeOptions,
    /// cloud-node-lifecycle-controller.
    pub lifecycle: LifecycleOptions,
    /// service-lb-controller.
    pub service: ServiceOptions,
    /// node-route-controller.
    pub route: RouteOptions,
    /// `--explain`: say on the object why it waits (D-3).
    pub explain: bool,
}

/// Settings of the node controller (NODE-3).
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOptions {
    /// `--concurrent-node-syncs`: workers of the queue, and Nodes written at the same time.
    pub concurrent_node_syncs: i32,
    /// `--concurrent-node-status-updates`: Nodes written at the same time by an address pass; 0: as the one above.
    pub concurrent_node_status_updates: i32,
    /// `--node-status-update-frequency`: pause between address passes.
    pub status_update_frequency: Duration,
    /// `--adopt-nodes`: Nodes without a provider id are initialised though they carry no start-up taint (P-8).
    pub adopt: bool,
    /// `--refresh-node-labels`: address passes bring labels up to date, too (P-9).
    pub refresh_labels: bool,
}

/// Settings of the lifecycle controller.
#[derive(Clone, Debug, PartialEq)]
pub struct LifecycleOptions {
    /// `--node-monitor-period`: pause between passes (LIFE-3).
    pub monitor_period: Duration,
    /// `--node-deletion`.
    pub deletion: NodeDeletion,
    /// `--node-deletion-guard`; `None`: a Node is deleted on the first "gone", as the reference does.
    pub guard: Option<GuardOptions>,
}

/// `--node-deletion` (D-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeDeletion {
    /// Nodes whose instance is gone are deleted.
    On,
    /// It is said which Nodes would be deleted.
    DryRun,
    /// No Node is deleted.
    Off,
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
    /// `--node-deletion-guard-share`: more than this share of the Nodes gone together is a landslide. From 0 to 1.
    pub share: f64,
    /// `--node-deletion-guard-delay`: how long a landslide must last before it is believed, and how long a Node that
    /// never had a provider id must be gone.
    pub delay: Duration,
}

impl GuardOptions {
    /// Fewer Nodes, or Services, than this cannot make a landslide.
    pub const SMALLEST_LANDSLIDE: usize = 4;
}

impl Default for GuardOptions {
    fn default() -> Self {
        Self { share: 0.5, delay: Duration::from_secs(300) }
    }
}

/// Settings of the service controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceOptions {
    /// `--concurrent-service-syncs`: Services that are synced at the same time, and as many whose targets are (SVC-3).
    pub concurrent_syncs: i32,
    /// `--load-balancer-classes`: values of `spec.loadBalancerClass` that are ours (P-29). None: the reference's rule.
    pub classes: Vec<String>,
    /// `--default-load-balancer`: Services without a class are ours.
    pub is_default: bool,
    /// Say that a load balancer is ensured only where the provider's plan is not empty (D-4).
    pub quiet: bool,
    /// `--load-balancer-drift-check-period`, jittered; zero: never (P-23).
    pub drift_check_period: Duration,
    /// `--load-balancer-drift`.
    pub drift: Drift,
    /// How long a load balancer of ours must have been left on a Service of another controller's class before it is
    /// removed (D-149); `None`: such Services are not looked at, as in the reference.
    pub leftovers_delay: Option<Duration>,
    /// Guard over Services that vanish from the API without being deleted (INV-9, D-220); `None`: their load balancers are
    /// deleted at once, as the reference does.
    pub vanished: Option<GuardOptions>,
    /// `--exclude-nodes-without-network`: Nodes that join with the condition `NetworkUnavailable` are no targets yet (P-26).
    pub exclude_without_network: bool,
}

/// `--load-balancer-drift` (P-23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It is said what was found.
    Report,
    /// It is said, and put right.
    Repair,
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
    /// `--cluster-cidr`, parsed (ROUTE-3, ROUTE-4).
    pub cluster_cidrs: Vec<IpNet>,
    /// `--route-reconciliation-period`.
    pub reconciliation_period: Duration,
    /// What makes it reconcile.
    pub mode: RouteMode,
    /// Calls to the cloud in flight at most, and conditions written at the same time (ROUTE-31).
    pub concurrency: usize,
}

/// What makes the route controller reconcile (D-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteMode {
    /// The clock: the gate is off (ROUTE-10).
    Periodic,
    /// Node events: the gate is on (ROUTE-11).
    Watch,
    /// Node events, with the period as an upper bound, and few lists while nothing changes: the gate is not set (D-5).
    Adaptive,
}

impl Options {
    /// The reference, exactly.
    #[must_use]
    pub fn reference() -> Self {
        Self {
            node: NodeOptions { concurrent_node_syncs: 1, ..NodeOptions::default() },
            lifecycle: LifecycleOptions { guard: None, ..LifecycleOptions::default() },
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
        }
    }
}

impl Default for LifecycleOptions {
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
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
    /// The defaults of a mode: those of the reference call the cloud as often at a time as it does (ROUTE-31), the
    /// product's less often.
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
    /// Everything that is wrong with these settings (SVC-3).
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        if self.concurrent_syncs <= 0 {
            return vec!["concurrent-service-syncs must be a positive number".to_owned()];
        }
        Vec::new()
    }
}

impl NodeOptions {
    /// Nodes written at the same time by an address pass. A negative setting is refused by [`validate`](Self::validate);
    /// until then it counts as not set.
    #[must_use]
    pub fn status_workers(&self) -> i32 {
        match self.concurrent_node_status_updates {
            ..=0 => self.concurrent_node_syncs,
            n => n,
        }
    }

    /// Everything that is wrong with these settings (NODE-6).
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
    /// Everything that is wrong with these settings.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        match self.guard {
            Some(guard) if !(0.0..=1.0).contains(&guard.share) => {
                vec![format!("node-deletion-guard-share is {}, it must be between 0 and 1", guard.share)]
            }
            _ => Vec::new(),
        }
    }
}

impl Options {
    /// Everything that is wrong with the settings, all at once.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        [self.node.validate(), self.lifecycle.validate(), self.service.validate()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_is_no_share_is_refused() {
        for share in [-0.1, 1.1, f64::NAN] {
            let guard = Some(GuardOptions { share, ..GuardOptions::default() });
            assert_eq!(LifecycleOptions { guard, ..LifecycleOptions::default() }.validate().len(), 1, "{share}");
        }
        assert!(Options::default().validate().is_empty());
        assert!(Options::reference().validate().is_empty());
    }
}
