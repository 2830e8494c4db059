//! The I/O of the lifecycle controller: passes, reads, deletions, taints and events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cloud_provider::{ConditionStatus, Error, InstanceState, LookupRequest, Node, Result};
use kube::Api;
use parking_lot::{Mutex, MutexGuard};
use runtime::api_error::api_error;
use runtime::events::{EventRecorder, EventType, ObjectRef};
use runtime::loops::{parallel_for, sliding};
use runtime::node::NodeObject;
use runtime::writes::delete_with_uid;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::{ConstructionError, ControllerContext};
use crate::event_reason::EventReason;
use crate::failure_log::{DueLine, FailureLog};
use crate::lifecycle::cloud_calls::cloud_calls;
use crate::lifecycle::guard::{Guard, NodeHoldReason, WitnessRead, population};
use crate::lifecycle::metrics::LifecycleMetrics;
use crate::lifecycle::reported_causes::ReportedCauses;
use crate::lifecycle::verdict::{
    InstanceVerdict, Triage, is_ours_to_judge, judge, shutdown_taint, triage,
};
use crate::lifecycle::witnesses;
use crate::look_up::look_up;
use crate::options::{LifecycleOptions, NodeDeletion, Options, workers};
use crate::shared_ids::{ReportedIds, SharedId, shared_ids};
use crate::taints::{add_or_update_taints, remove_taints};

/// The cloud-node-lifecycle-controller, which deletes and taints Nodes.
pub struct NodeLifecycleController {
    context: ControllerContext,
    api: Api<NodeObject>,
    options: LifecycleOptions,
    events: EventRecorder,
    metrics: Arc<dyn LifecycleMetrics>,
    memory: Mutex<Memory>,
    failures: FailureLog,
}

/// State that a pass leaves for the next.
struct Memory {
    guard: Option<Guard>,
    reported: ReportedCauses,
    reported_ids: ReportedIds,
    /// Version of each Node, by UID, at which the API confirmed the shutdown taint. A pass sends no further request
    /// until the Node changes.
    tainted: HashMap<Box<str>, Box<str>>,
    passes: usize,
}

impl NodeLifecycleController {
    /// Creates the controller.
    ///
    /// # Errors
    /// If the provider does not support instances (LIFE-2).
    pub fn new(
        context: ControllerContext,
        options: &Options,
        events: EventRecorder,
        metrics: Arc<dyn LifecycleMetrics>,
    ) -> Result<Self, ConstructionError> {
        context.require_instances()?;
        let guard = options.lifecycle.guard.map(Guard::new);
        Ok(Self {
            api: Api::all(context.client.clone()),
            options: options.lifecycle.clone(),
            events,
            metrics,
            memory: Mutex::new(Memory {
                guard,
                reported: ReportedCauses::default(),
                reported_ids: ReportedIds::default(),
                tainted: HashMap::new(),
                passes: 0,
            }),
            failures: FailureLog::default(),
            context,
        })
    }

    /// Runs passes until `shutdown`, the first at once (LIFE-4).
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        sliding(self.options.monitor_period, shutdown.clone(), || {
            let this = Arc::clone(&self);
            let shutdown = shutdown.clone();
            async move {
                let _busy = this.context.pulse.begin("pass");
                this.pass(&shutdown).await;
            }
        })
        .await;
    }

    /// Runs a pass over all Nodes. A failure with one Node never stops the others (LIFE-10).
    pub async fn pass(&self, shutdown: &CancellationToken) {
        let started = Instant::now();
        let succeeded = self.judge_nodes(shutdown).await;
        self.metrics.monitored(started.elapsed());
        if let Some(succeeded) = succeeded {
            self.metrics.pass(started.elapsed(), succeeded);
        }
    }

    /// Removes, sets and deletes what the Nodes and the cloud's answers demand. Returns `true` if the cloud answered for every
    /// Node and every write succeeded, and `None` if the pass was ended early.
    async fn judge_nodes(&self, shutdown: &CancellationToken) -> Option<bool> {
        let writers = workers(self.options.concurrent_syncs);
        let nodes = self.context.nodes.list();
        self.report_shared_ids(&nodes);
        let mut untaint = Vec::new();
        let mut to_look_up = Vec::new();
        let mut skipped = 0;
        for node in &nodes {
            match triage(node) {
                Triage::Leave => {}
                Triage::Untaint => untaint.push(Arc::clone(node)),
                Triage::LookUp
                    if !is_ours_to_judge(&self.options, &*self.context.provider, node) =>
                {
                    skipped += 1;
                }
                Triage::LookUp => to_look_up.push(Arc::clone(node)),
            }
        }
        self.metrics.skipped(skipped);
        let failures = AtomicUsize::new(0);
        let count =
            |written: bool| _ = failures.fetch_add(usize::from(!written), Ordering::Relaxed);
        parallel_for(untaint, writers, shutdown, |node| async move {
            count(self.untaint(&node).await);
        })
        .await;
        let answers = self
            .look_up_nodes(&to_look_up, LookupRequest::EXISTENCE.and_shutdown().fresh())
            .await;
        let mut gone = Vec::new();
        let mut taint = Vec::new();
        let mut seen = Vec::new();
        let mut unanswered = Vec::new();
        for (node, answer) in to_look_up.into_iter().zip(answers) {
            if matches!(answer, Ok(InstanceState::Present { .. })) {
                seen.push(Arc::clone(&node));
            }
            match judge(&answer) {
                InstanceVerdict::Gone(evidence) => gone.push((node, evidence)),
                InstanceVerdict::Taint => taint.push(node),
                InstanceVerdict::Leave => {
                    if let Err(error) = answer {
                        unanswered.push((node, error));
                    }
                }
            }
        }
        self.forget(&nodes, &gone, &unanswered);
        self.note_unanswered(&unanswered);
        self.metrics.unanswered(unanswered.len());
        parallel_for(taint, writers, shutdown, |node| async move {
            count(self.taint(&node).await);
        })
        .await;
        let suspects: Vec<Arc<Node>> = gone
            .into_iter()
            .map(|(node, evidence)| {
                tracing::debug!(
                    node = &*node.name,
                    evidence = evidence.reason(),
                    "the cloud does not have this node's instance"
                );
                node
            })
            .collect();
        if self.options.guard.is_some() && !self.context.nodes.is_synced()
            || shutdown.is_cancelled()
        {
            // The share of Nodes without an instance is meaningless as long as not all Nodes are known.
            return None;
        }
        let confirmed = self.confirm_deletions(&nodes, &seen, suspects).await;
        parallel_for(confirmed, writers, shutdown, |node| async move {
            count(self.delete(&node).await);
        })
        .await;
        Some(unanswered.is_empty() && failures.into_inner() == 0)
    }

    /// Returns the cloud's answers about Nodes, read now (LIFE-23).
    async fn look_up_nodes(
        &self,
        nodes: &[Arc<Node>],
        want: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let unsupported = "instances interface not supported in the cloud provider";
        let answers = look_up(&*self.context.provider, nodes, want, unsupported).await;
        for (operation, result) in answers.iter().flat_map(|answer| cloud_calls(want, answer)) {
            self.metrics.looked_up(operation, result);
        }
        answers
    }

    /// Returns those of `suspects`, the Nodes without an instance, that may be deleted now (D-2).
    async fn confirm_deletions(
        &self,
        nodes: &[Arc<Node>],
        seen: &[Arc<Node>],
        suspects: Vec<Arc<Node>>,
    ) -> Vec<Arc<Node>> {
        let passes = {
            let mut memory = self.memory();
            memory.passes = memory.passes.wrapping_add(1);
            memory.passes
        };
        let mut candidates = Vec::new();
        for (node, held) in self.open(nodes, suspects) {
            match held {
                Some(held) => self.hold(&node, &held),
                None => candidates.push(node),
            }
        }
        if candidates.is_empty() || self.options.guard.is_none() {
            return candidates;
        }
        let witnesses =
            witnesses::choose(&*self.context.provider, nodes, seen, &candidates, passes);
        // Witnesses are read before and after the suspects. If the credential becomes valid in between, a witness that
        // answers late would otherwise confirm absences that another project reported. Suspects that are read after a
        // witness was found are read with the credential that found it.
        let before = self
            .look_up_nodes(&witnesses, LookupRequest::EXISTENCE.fresh())
            .await;
        let all: Vec<Arc<Node>> = candidates.iter().chain(&witnesses).cloned().collect();
        let mut answers = self
            .look_up_nodes(&all, LookupRequest::EXISTENCE.fresh())
            .await;
        let witness_read = WitnessRead::of(&answers.split_off(candidates.len()), &answers)
            .discard_unless_found_before(&before);
        let mut confirmed = Vec::new();
        for (node, answer) in candidates.into_iter().zip(answers) {
            let decision = self.memory().guard.as_mut().map_or(Ok(()), |guard| {
                guard.close(Instant::now(), &node, &answer, witness_read)
            });
            match decision {
                Ok(()) => confirmed.push(node),
                Err(held) => self.hold(&node, &held),
            }
        }
        confirmed
    }

    /// Returns the reason to hold each suspect, before anything is read again.
    fn open(
        &self,
        nodes: &[Arc<Node>],
        suspects: Vec<Arc<Node>>,
    ) -> Vec<(Arc<Node>, Option<NodeHoldReason>)> {
        let mut memory = self.memory();
        let held: Vec<Option<NodeHoldReason>> = match (&mut memory.guard, self.options.deletion) {
            (_, NodeDeletion::Off) => suspects.iter().map(|_| Some(NodeHoldReason::Off)).collect(),
            (None, _) => suspects.iter().map(|_| None).collect(),
            (Some(guard), _) => {
                let gone: Vec<&Node> = suspects.iter().map(|node| &**node).collect();
                let ours = population(&*self.context.provider, nodes, &gone);
                guard
                    .open(Instant::now(), &gone, ours)
                    .into_iter()
                    .map(Result::err)
                    .collect()
            }
        };
        drop(memory);
        suspects.into_iter().zip(held).collect()
    }

    /// Deletes a Node (LIFE-31 … LIFE-33). Returns `true` if nothing failed.
    async fn delete(&self, node: &Node) -> bool {
        if self.options.deletion == NodeDeletion::DryRun {
            self.hold(node, &NodeHoldReason::DryRun);
            return true;
        }
        let name = &*node.name;
        let reference = ObjectRef::node(name, &node.uid);
        self.events.event(
            &reference,
            EventType::Normal,
            EventReason::DeletingNode.as_str(),
            format!("Deleting node {name} because it does not exist in the cloud provider"),
        );
        let result = delete_with_uid(&self.api, name, &node.uid).await;
        let succeeded = result.is_ok();
        match result {
            Ok(()) => {
                self.metrics.deleted();
                tracing::info!(node = name, "node deleted, its instance does not exist");
            }
            Err(error) => {
                self.log_failure("delete", node, &error, "deleting the node failed");
                let message = format!("Failed deleting node {name}: {}", api_error(&error));
                self.events.event(
                    &reference,
                    EventType::Warning,
                    EventReason::DeletingNodeFailed.as_str(),
                    message,
                );
            }
        }
        succeeded
    }

    /// Adds the shutdown taint (LIFE-43). Returns `true` if nothing failed.
    async fn taint(&self, node: &Node) -> bool {
        if self.memory().tainted.get(&node.uid) == Some(&node.resource_version) {
            return true;
        }
        let result = add_or_update_taints(&self.api, node.into(), &[shutdown_taint()]).await;
        let succeeded = result.is_ok();
        match result {
            Ok(()) => {
                if node.taints.contains(&shutdown_taint()) {
                    self.memory()
                        .tainted
                        .insert(node.uid.clone(), node.resource_version.clone());
                } else {
                    self.metrics.tainted("set");
                    tracing::info!(
                        node = &*node.name,
                        "shutdown taint set, the cloud reports the instance as shut down"
                    );
                    let message = format!(
                        "The cloud reports the instance of node {} as shut down",
                        node.name
                    );
                    self.note(node, EventReason::ShutdownTaintSet, message);
                }
            }
            Err(error) => {
                self.log_failure("taint", node, &error, "setting the shutdown taint failed");
            }
        }
        succeeded
    }

    /// Removes the shutdown taint (LIFE-30). Returns `true` if nothing failed.
    async fn untaint(&self, node: &Node) -> bool {
        let result = remove_taints(&self.api, node.into(), Some(node), &[shutdown_taint()]).await;
        match &result {
            Ok(()) => {
                self.metrics.tainted("removed");
                tracing::info!(
                    node = &*node.name,
                    "shutdown taint removed, the node is ready"
                );
                self.note(
                    node,
                    EventReason::ShutdownTaintRemoved,
                    format!("Node {} is ready again", node.name),
                );
            }
            Err(error) => {
                self.log_failure("untaint", node, error, "removing the shutdown taint failed");
            }
        }
        result.is_ok()
    }

    /// Logs a failure of the Kubernetes API, which the next pass may meet again.
    fn log_failure(&self, action: &'static str, node: &Node, error: &kube::Error, what: &str) {
        if let Some(DueLine { failures, lasts }) =
            self.failures.failed(action, &node.uid, Instant::now())
        {
            tracing::error!(node = &*node.name, error = %api_error(error), failures, ?lasts, "{what}");
        }
    }

    /// Records a normal event on a Node, unless the options are those of the Go cloud-controller-manager, which has no
    /// such events.
    fn note(&self, node: &Node, reason: EventReason, message: String) {
        if self.options.guard.is_some() {
            self.events.event(
                &ObjectRef::node(&node.name, &node.uid),
                EventType::Normal,
                reason.as_str(),
                message,
            );
        }
    }

    /// Reports once per Node and cause why the Node is kept.
    fn hold(&self, node: &Node, held: &NodeHoldReason) {
        if !self.memory().reported.record_if_new(node, held.cause()) {
            return;
        }
        self.metrics.held(held.cause());
        let name = &*node.name;
        tracing::warn!(node = name, cause = held.cause(), why = %held, "node deletion held");
        let message = match held {
            NodeHoldReason::Unknown(_) => {
                format!(
                    "Keeping node {name}, because it is unknown whether its instance exists: {held}"
                )
            }
            _ => format!("Keeping node {name}, whose instance the cloud does not show: {held}"),
        };
        if !self.events.event(
            &ObjectRef::node(name, &node.uid),
            EventType::Warning,
            EventReason::DeletionHeld.as_str(),
            message,
        ) {
            self.memory().reported.forget_report(node, held.cause());
        }
    }

    /// Reports, once, each Node with the provider ID of an older Node, which decides about its addresses and its deletion.
    fn report_shared_ids(&self, nodes: &[Arc<Node>]) {
        if self.options.guard.is_none() {
            return;
        }
        let staying = nodes.iter().filter(|node| !node.terminating);
        let shared = self.memory().reported_ids.record(shared_ids(staying));
        for SharedId { node, older } in shared {
            let name = &*node.name;
            let id = &*node.provider_id;
            tracing::warn!(
                node = name,
                older = &*older,
                provider_id = id,
                "two nodes have one provider ID"
            );
            let message = format!(
                "Node {name} has the provider ID {id} of the older Node {older}, but a machine can be only one Node: delete \
                 the one that does not run on this machine"
            );
            let reference = ObjectRef::node(name, &node.uid);
            let reason = EventReason::SharedProviderId.as_str();
            if !self
                .events
                .event(&reference, EventType::Warning, reason, message)
            {
                self.memory().reported_ids.forget(&node);
            }
        }
    }

    /// Logs one line for all unanswered look-ups, at once and then once a minute, and with the guard records an event if they continue (LIFE-15).
    fn note_unanswered(&self, unanswered: &[(Arc<Node>, Error)]) {
        match unanswered.first() {
            Some((node, error)) => {
                if let Some(DueLine { failures, lasts }) =
                    self.failures.failed("look-up", "", Instant::now())
                {
                    tracing::error!(
                        node = &*node.name, %error, nodes = unanswered.len(), failures, ?lasts,
                        "cannot look up instances; their nodes are not changed"
                    );
                }
            }
            None => {
                if let Some(DueLine { failures, lasts }) =
                    self.failures.succeeded("look-up", "", Instant::now())
                {
                    tracing::info!(failures, ?lasts, "no look-up of an instance fails any more");
                }
            }
        }
        if self.options.guard.is_none() {
            return;
        }
        for (node, error) in unanswered {
            let lasts = self.memory().reported.count_unanswered(node, error);
            if lasts {
                self.hold(node, &NodeHoldReason::Unknown(error.to_string()));
            }
        }
    }

    /// Forgets the state of Nodes that it no longer concerns.
    fn forget(
        &self,
        nodes: &[Arc<Node>],
        gone: &[(Arc<Node>, cloud_provider::Gone)],
        unanswered: &[(Arc<Node>, Error)],
    ) {
        let mut memory = self.memory();
        let gone: HashSet<&str> = gone.iter().map(|(node, _)| &*node.uid).collect();
        let unanswered: HashSet<&str> = unanswered.iter().map(|(node, _)| &*node.uid).collect();
        let released = memory.reported.retain(&gone, &unanswered);
        if !memory.tainted.is_empty() {
            let alive: HashSet<&str> = nodes.iter().map(|node| &*node.uid).collect();
            memory.tainted.retain(|uid, _| alive.contains(&**uid));
        }
        drop(memory);
        for node in nodes
            .iter()
            .filter(|node| !node.terminating && released.contains(&node.uid))
        {
            tracing::info!(
                node = &*node.name,
                "node deletion no longer held, the node is kept"
            );
            let why = match node.ready {
                ConditionStatus::True => "it is ready",
                _ => "the cloud has its instance",
            };
            self.note(
                node,
                EventReason::DeletionAverted,
                format!("Node {} is not deleted: {why}", node.name),
            );
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}
