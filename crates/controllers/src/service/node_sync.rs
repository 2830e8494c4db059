//! Updates of load balancer targets after changes of Nodes (SVC-63 … SVC-74).

use cloud_provider::{Error, Node, Result, Service};
use parking_lot::Mutex;
use runtime::loops::parallel_for;
use runtime::worker_permit::WorkerPermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::node_identity::NoIdentity;
use crate::service::controller::ServiceController;
use crate::service::events::ServiceEvent;
use crate::service::ledger::gets_targets;
use crate::service::observers::Changes;
use crate::service::targets::{TargetSet, host_names, is_eligible, lacks_network, needs_node_sync};

impl ServiceController {
    /// Processes one item of the node queue: updates the targets of every load balancer whose targets differ. Returns
    /// the sorted keys of the Services that failed, which belong in the queue `service` at once (SVC-63).
    pub async fn node_sync(&self) -> Vec<String> {
        let start = Instant::now();
        let failed = Mutex::new(Vec::new());
        parallel_for(
            self.stale(),
            self.workers(),
            &CancellationToken::new(),
            |key| {
                let failed = &failed;
                async move {
                    if self
                        .refresh_targets(&key, &WorkerPermit::unlimited())
                        .await
                        .is_err()
                    {
                        failed.lock().push(key);
                    }
                }
            },
        )
        .await;
        self.metrics.node_synced(start.elapsed());
        let mut failed = failed.into_inner();
        failed.sort_unstable();
        failed
    }

    /// Returns the Services whose load balancers have other targets than the current ones, in order.
    pub(super) fn stale(&self) -> Vec<String> {
        let now = self.targets.current().ok();
        self.ledger.with_other_targets(
            now.as_ref(),
            |service| self.cloud.follows(service),
            &self.options,
        )
    }

    /// Returns `true` if the change of a Node requires a node sync: the change is one of SVC-65, or the Node's network
    /// has become available, or labels, addresses or annotations changed and the targets of a Service depend on them.
    pub(super) fn concerns_targets(&self, old: &Node, new: &Node) -> bool {
        let labels = old.labels != new.labels;
        let addresses = old.addresses != new.addresses;
        let annotations = old.annotations != new.annotations;
        let concerns = |service: &Service| {
            let follows = self.cloud.follows(service);
            let is_other = |key: &String| old.annotations.get(key) != new.annotations.get(key);
            let labels = labels || annotations && follows.annotations.iter().any(is_other);
            (labels && follows.labels) || (addresses && follows.addresses)
        };
        needs_node_sync(old, new)
            || (self.options.exclude_without_network && lacks_network(old) && !lacks_network(new))
            || ((labels || addresses || annotations)
                && is_eligible(new)
                && self.ledger.has_any(concerns, &self.options))
    }

    /// Returns the event of a Service whose load balancer has no target: there is no Node, or the cloud can tell none of
    /// them (P-8, P-15), which the Go program does not report. Nodes that wait for their initialization explain that
    /// themselves.
    pub(super) fn without_targets(&self, targets: &TargetSet) -> Option<ServiceEvent> {
        if targets.nodes.is_empty() {
            return Some(ServiceEvent::NoTargets(None));
        }
        let nodes = targets.nodes.iter().map(|node| &**node);
        let unknown = NoIdentity::of(&*self.context.provider, nodes)
            .filter(|error| self.explains() && error.lasts())?;
        Some(ServiceEvent::NoTargets(Some(unknown.to_string())))
    }

    /// Updates the targets of this Service's load balancer if they differ (SVC-64).
    ///
    /// Calls for one key must not overlap with each other or with [`sync`](Self::sync).
    ///
    /// # Errors
    /// The Service must be synced.
    pub(super) async fn refresh_targets(&self, key: &str, permit: &WorkerPermit) -> Result<()> {
        let Some(service) = self
            .ledger
            .service(key)
            .filter(|service| gets_targets(service, &self.options))
        else {
            return Ok(());
        };
        let result = match self.targets.current() {
            Ok(targets) => {
                // No stored targets count as no targets.
                let before = self.ledger.targets(key).unwrap_or_default();
                let now = targets.given(self.cloud.follows(&service));
                self.ledger.remember_targets(key, now.clone());
                if before.is(&now) {
                    return Ok(());
                }
                let is_quiet = self.cloud.has_plans()
                    && (self.options.quiet || before.members.same(&now.members));
                self.update_targets(key, &service, &targets, is_quiet, permit)
                    .await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            tracing::warn!(service = key, %error, "moving the targets failed, the service is synced");
            self.metrics.node_sync_failed();
        }
        result
    }

    /// Updates the targets (SVC-70 to SVC-72). With `is_quiet`, events are recorded only if something changes.
    async fn update_targets(
        &self,
        key: &str,
        service: &Service,
        targets: &TargetSet,
        is_quiet: bool,
        permit: &WorkerPermit,
    ) -> Result<()> {
        self.metrics.targets_sync_started();
        let start = Instant::now();
        let result = self
            .update_or_explain(key, service, targets, is_quiet, permit)
            .await;
        self.metrics.targets_synced(start.elapsed());
        result
    }

    async fn update_or_explain(
        &self,
        key: &str,
        service: &Service,
        targets: &TargetSet,
        is_quiet: bool,
        permit: &WorkerPermit,
    ) -> Result<()> {
        let changes = Changes::new(permit);
        let error = match self
            .cloud
            .update_targets(service, &targets.nodes, &changes)
            .await
        {
            Ok(()) => {
                let without = self.without_targets(targets);
                // The load balancer keeps its targets if no Node can be told, so nothing changes.
                let is_unknown = matches!(&without, Some(ServiceEvent::NoTargets(Some(_))));
                if is_unknown || !is_quiet || changes.any() {
                    self.record_event(service, &without.unwrap_or(ServiceEvent::TargetsUpdated));
                }
                return Ok(());
            }
            Err(error) if error.is_implemented_elsewhere() => return Ok(()),
            Err(error) => error,
        };
        match self.cloud.exists(service).await {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(service = key, %error, "failed to check whether the load balancer exists");
            }
        }
        if !self.cloud.is_stopping() {
            self.record_event(service, &update_failed(targets, &error));
        }
        Err(error)
    }
}

fn update_failed(targets: &TargetSet, error: &Error) -> ServiceEvent {
    let names: Vec<&str> = targets.members.names().collect();
    ServiceEvent::UpdateFailed {
        hosts: host_names(&names),
        count: names.len(),
        error: error.to_string(),
    }
}
