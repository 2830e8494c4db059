//! The I/O of the node controller: queue, workers, writes and events.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, InstanceMetadata, Node, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Api;
use parking_lot::Mutex;
use runtime::api_error::{api_error, is_conflict};
use runtime::cache::{CacheEvent, Resync};
use runtime::claim::Claim;
use runtime::events::{EventRecorder, EventType, ObjectRef};
use runtime::loops::sliding;
use runtime::node::NodeObject;
use runtime::queue::{Failure, Queue, QueueMetrics};
use runtime::retry::ConflictRetry;
use runtime::workers::run_batch_workers;
use runtime::writes::{strategic_patch, strategic_patch_metadata};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::{ConstructionError, ControllerContext};
use crate::event_limiter::EventLimiter;
use crate::event_reason::EventReason;
use crate::failure_log::FailureLog;
use crate::node::limiter::limiter;
use crate::node::metrics::NodeMetrics;
use crate::node::plan::Initialization;
use crate::node::unidentified::Unidentified;
use crate::node::young::Young;
use crate::node::{addresses, labels, metadata};
use crate::node_identity::{self, NodeIdentity};
use crate::options::{NodeOptions, Options, workers};
use crate::read::read_node;

/// Maximum number of Nodes in one look-up. A burst of Nodes costs pages of the cloud's list instead of a request for
/// each Node; larger batches would only keep more answers in memory until they are written.
pub(super) const BATCH: usize = 100;

/// Name of the queue in work queue metrics (NODE-10).
const QUEUE: &str = "Nodes";

/// The cloud-node-controller, which initializes Nodes and updates their addresses.
pub struct NodeController {
    pub(super) context: ControllerContext,
    pub(super) api: Api<NodeObject>,
    pub(super) options: NodeOptions,
    events: EventRecorder,
    metrics: Arc<dyn NodeMetrics>,
    event_limiter: Option<EventLimiter>,
    unidentified: Unidentified,
    pub(super) failures: FailureLog,
    pub(super) young: Young,
    /// Permits for concurrent writes of Nodes, over all workers and their batches.
    writes: Semaphore,
}

impl NodeController {
    /// Creates the controller.
    ///
    /// # Errors
    /// If the provider does not support instances (NODE-2).
    pub fn new(
        context: ControllerContext,
        options: &Options,
        events: EventRecorder,
        metrics: Arc<dyn NodeMetrics>,
    ) -> Result<Self, ConstructionError> {
        context.require_instances()?;
        Ok(Self {
            api: Api::all(context.client.clone()),
            options: options.node.clone(),
            events,
            metrics,
            event_limiter: options.explain.then(EventLimiter::default),
            unidentified: Unidentified::default(),
            failures: FailureLog::default(),
            young: Young::default(),
            writes: Semaphore::new(workers(options.node.concurrent_node_syncs)),
            context,
        })
    }

    /// Runs until `shutdown`: waits for the cache, then syncs the Nodes in the queue and refreshes addresses (NODE-5).
    pub async fn run(
        self: Arc<Self>,
        queue_metrics: Arc<dyn QueueMetrics>,
        resync: Resync,
        shutdown: CancellationToken,
    ) {
        let queue = Queue::new(QUEUE, limiter(self.options.retry_cap), queue_metrics);
        self.clone().feed(queue.clone(), resync);
        tokio::select! {
            () = self.context.nodes.wait_synced() => {}
            () = shutdown.cancelled() => return,
        }
        let passes = sliding(
            self.options.status_update_frequency,
            shutdown.clone(),
            || {
                let this = Arc::clone(&self);
                let shutdown = shutdown.clone();
                async move {
                    let _busy = this.context.pulse.begin("addresses");
                    this.refresh_addresses(&shutdown).await;
                }
            },
        );
        let this = Arc::clone(&self);
        let work = run_batch_workers(
            &queue,
            workers(self.options.concurrent_node_syncs),
            BATCH,
            shutdown.clone(),
            move |claims| {
                let this = Arc::clone(&this);
                async move {
                    let _busy = this.context.pulse.begin(QUEUE);
                    this.sync_claims(claims).await;
                }
            },
        );
        let close = async {
            shutdown.cancelled().await;
            self.writes.close();
        };
        tokio::join!(passes, work, close);
    }

    /// Adds Nodes to the queue when the cache changes (NODE-8).
    fn feed(self: Arc<Self>, queue: Queue<String>, resync: Resync) {
        self.context
            .nodes
            .clone()
            .subscribe(resync, move |event| match event {
                CacheEvent::Added(node) => queue.add(node.name.to_string()),
                CacheEvent::Updated { old, new } => {
                    if old.uid != new.uid {
                        self.forget(old);
                    }
                    queue.add(new.name.to_string());
                }
                CacheEvent::Deleted(node) => self.forget(node),
            });
    }

    fn forget(&self, node: &Node) {
        if let Some(event_limiter) = &self.event_limiter {
            event_limiter.forget(&node.uid);
        }
        self.unidentified.forget(&node.uid);
    }

    async fn sync_claims(&self, claims: Vec<Claim<String>>) {
        let keys: Vec<String> = claims.iter().map(|claim| claim.key().clone()).collect();
        let claims: Mutex<HashMap<String, Claim<String>>> = Mutex::new(
            claims
                .into_iter()
                .map(|claim| (claim.key().clone(), claim))
                .collect(),
        );
        let start = Instant::now();
        self.sync(&keys, |key, result| {
            self.metrics.reconciled(start.elapsed(), result.is_ok());
            let claim = claims.lock().remove(key);
            match (claim, result) {
                (Some(claim), Ok(())) => claim.succeed(),
                (Some(claim), Err(error)) => {
                    if let Some(Failure { attempt, retry_in }) = claim.fail_by(&error.to_string()) {
                        tracing::warn!(node = key, %error, attempt, ?retry_in, "node sync failed");
                    }
                }
                (None, _) => {}
            }
        })
        .await;
    }

    /// Syncs Nodes by their keys (NODE-12 … NODE-14): one look-up for all uninitialized Nodes, then each Node on its
    /// own. `finished` is called with the result of each key as soon as it is known.
    pub async fn sync(&self, keys: &[String], finished: impl Fn(&str, Result<()>)) {
        let mut waiting: Vec<(&str, Arc<Node>)> = Vec::new();
        let mut writes = FuturesUnordered::new();
        for key in keys {
            match self.cached(key) {
                None => finished(key, Ok(())),
                Some(node) if self.is_left_alone(&node) => finished(key, Ok(())),
                Some(node) if node.is_uninitialized() || self.is_to_be_adopted(&node) => {
                    waiting.push((key, node));
                }
                Some(node) => {
                    self.report_identity(&node);
                    match labels::alignment(&node.labels) {
                        aligned if aligned.is_empty() => finished(key, Ok(())),
                        missing => writes.push(async move {
                            (
                                key,
                                self.with_permit(self.write_labels(&node, &missing)).await,
                            )
                        }),
                    }
                }
            }
        }
        let aligning = async {
            while let Some((key, result)) = writes.next().await {
                finished(key, result);
            }
        };
        let initializing = async {
            let nodes: Vec<Arc<Node>> = waiting.iter().map(|(_, node)| Arc::clone(node)).collect();
            let answers = metadata::fetch(&*self.context.provider, &nodes).await;
            // No more syncs than permits for writes, because the state of a sync is far larger than that of a waiting
            // Node.
            let most = workers(self.options.concurrent_node_syncs);
            let mut waiting = waiting.iter().zip(answers);
            let mut writes = FuturesUnordered::new();
            loop {
                while writes.len() < most
                    && let Some(((key, node), answer)) = waiting.next()
                {
                    writes.push(async move { (*key, self.initialize(node, answer).await) });
                }
                let Some((key, result)) = writes.next().await else {
                    break;
                };
                finished(key, result);
            }
        };
        tokio::join!(aligning, initializing);
    }

    /// Returns `true` if this Node was registered without the uninitialized taint and is to be initialized all the same
    /// (P-8).
    fn is_to_be_adopted(&self, node: &Node) -> bool {
        self.options.adopt
            && node.provider_id().is_none()
            && !node.terminating
            && self.context.provider.owns_node(node)
    }

    /// Returns `true` if the Node belongs to another provider, and is neither looked up nor changed (P-15).
    pub(super) fn is_left_alone(&self, node: &Node) -> bool {
        self.options.leaves_foreign && !self.context.provider.owns_node(node)
    }

    /// Records an event on a Node without provider ID and start-up taint, once (P-8, D-3).
    fn report_identity(&self, node: &Node) {
        if self.event_limiter.is_none() || node.terminating {
            return;
        }
        let is_missing = NodeIdentity::of(&*self.context.provider, node) == NodeIdentity::Missing;
        if self.unidentified.record(&node.uid, is_missing) {
            let text = node_identity::missing(node);
            tracing::warn!(node = &*node.name, "{text}");
            self.events.event(
                &reference(node),
                EventType::Warning,
                EventReason::NoProviderId.as_str(),
                text,
            );
        }
    }

    /// Returns the Node of a key from the cache (NODE-12, NODE-13).
    fn cached(&self, key: &str) -> Option<Arc<Node>> {
        let name = match key.split_once('/') {
            None => key,
            Some((_, name)) if !name.contains('/') => name,
            Some(_) => {
                tracing::error!(key, "dropping a key that names no node");
                return None;
            }
        };
        self.context.nodes.get(name)
    }

    /// Runs a write as soon as a permit is free. No write begins after the shutdown; the next process does it.
    async fn with_permit<T>(&self, write: impl Future<Output = Result<T>>) -> Result<T> {
        match self.writes.acquire().await {
            Ok(_permit) => write.await,
            Err(_closed) => Err(Error::other("not written: the process is stopping")),
        }
    }

    async fn initialize(
        &self,
        node: &Arc<Node>,
        answer: Result<Option<InstanceMetadata>>,
    ) -> Result<()> {
        let result = match answer {
            Ok(None) => {
                tracing::info!(
                    node = &*node.name,
                    "the cloud has no metadata for this node yet"
                );
                return Ok(());
            }
            // The kind of the cause is kept, because the event limiter examines the whole chain.
            Err(error) => Err(error.context(format!(
                "failed to get instance metadata for node {}",
                node.name
            ))),
            Ok(Some(metadata)) => match Initialization::plan(node, metadata) {
                Ok(plan) => self.with_permit(self.carry_out(node, &plan)).await,
                Err(error) => Err(error),
            },
        };
        match (&result, &self.event_limiter) {
            (Ok(()), Some(event_limiter)) => event_limiter.forget(&node.uid),
            (Err(error), Some(event_limiter))
                if self.is_there(node)
                    && event_limiter.take_due(&node.uid, error, Instant::now()) =>
            {
                self.events.event(
                    &reference(node),
                    EventType::Warning,
                    EventReason::InitializationFailed.as_str(),
                    error.to_string(),
                );
            }
            _ => {}
        }
        result
    }

    /// Returns `true` unless the Node was meanwhile deleted or replaced by another of the same name.
    fn is_there(&self, node: &Node) -> bool {
        self.context
            .nodes
            .get(&node.name)
            .is_some_and(|now| now.uid == node.uid)
    }

    /// Carries out the plan of an initialization (NODE-24 … NODE-27).
    async fn carry_out(&self, node: &Arc<Node>, plan: &Initialization) -> Result<()> {
        self.young.note(&node.uid, Instant::now());
        let written = match self.write(&node.name, plan).await? {
            Written::Changed(node) => node,
            // Another sync was faster than the cache and recorded the event, so this one writes nothing.
            Written::Nothing { node, is_fresh } => {
                if is_fresh {
                    self.update_addresses(&node, &plan.metadata().node_addresses)
                        .await;
                }
                return Ok(());
            }
        };
        if node.is_uninitialized() {
            self.metrics.taint_removed(self.age(&written));
        }
        if let Some(text) = plan.left_out_labels(&written) {
            tracing::warn!(node = &*written.name, "{text}");
            self.events.event(
                &reference(&written),
                EventType::Warning,
                EventReason::LabelsLeftOut.as_str(),
                text,
            );
        }
        self.update_addresses(&written, &plan.metadata().node_addresses)
            .await;
        self.events.event(
            &reference(&written),
            EventType::Normal,
            EventReason::Synced.as_str(),
            "Node synced successfully",
        );
        if node.is_uninitialized() {
            self.metrics.synced(self.age(&written));
        }
        tracing::info!(
            node = &*written.name,
            provider_id = plan.provider_id(node),
            "node initialised"
        );
        Ok(())
    }

    /// Writes the plan, and retries after conflicts (NODE-24, NODE-25).
    async fn write(&self, name: &str, plan: &Initialization) -> Result<Written> {
        ConflictRetry::NODE_INITIALIZATION
            .run(WriteError::is_conflict, |attempt| async move {
                let node = self.current(name, attempt).await?;
                let Some(patch) = plan.patch(&node).map_err(WriteError::Refused)? else {
                    return Ok(Written::Nothing {
                        node,
                        is_fresh: attempt > 0,
                    });
                };
                tracing::debug!(node = name, attempt, %patch, "initialising");
                match strategic_patch_metadata(&self.api, name, None, &patch).await {
                    Ok(written) => Ok(Written::Changed(written.map_or_else(
                        || Arc::clone(&node),
                        |object| {
                            Arc::new(Node {
                                addresses: node.addresses.clone(),
                                ..object.node
                            })
                        },
                    ))),
                    Err(error) => Err(WriteError::Api(error)),
                }
            })
            .await
            .map_err(WriteError::into_error)
    }

    /// Returns the Node from the cache; after a conflict from the API, because the cache may lag behind (D-100).
    async fn current(&self, name: &str, attempt: u32) -> Result<Arc<Node>, WriteError> {
        let cached = self.context.nodes.get(name).ok_or_else(|| {
            WriteError::Refused(Error::not_found(format!(
                "node {name:?} not found: it was deleted meanwhile"
            )))
        })?;
        if attempt == 0 {
            return Ok(cached);
        }
        read_node(&self.api, name, attempt)
            .await
            .map(Arc::new)
            .map_err(WriteError::Api)
    }

    /// Updates the addresses (NODE-26, NODE-60 … NODE-67). The next pass repairs a failure.
    pub(super) async fn update_addresses(
        &self,
        node: &Node,
        from_cloud: &[cloud_provider::NodeAddress],
    ) {
        let next = match addresses::refresh(node, from_cloud) {
            Ok(Some(next)) => next,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(node = &*node.name, %error, "the cloud's addresses do not fit the node's annotation");
                return;
            }
        };
        let patch = addresses::status_patch(&node.addresses, &next);
        if let Err(error) =
            strategic_patch_metadata(&self.api, &node.name, Some("status"), &patch).await
        {
            tracing::error!(node = &*node.name, error = %api_error(&error), "updating addresses failed");
        }
    }

    /// Reads the Node again and writes the labels that differ (NODE-53, HELP-20 … HELP-22).
    pub(super) async fn write_labels(
        &self,
        stale: &Node,
        wanted: &BTreeMap<String, String>,
    ) -> Result<()> {
        let name = &*stale.name;
        let result = ConflictRetry::LABELS
            .run(is_conflict, |attempt| async move {
                let node = read_node(&self.api, name, attempt).await?;
                if node.uid != stale.uid {
                    return Ok(None);
                }
                let missing: BTreeMap<_, _> = wanted
                    .iter()
                    .filter(|(key, value)| node.labels.get(key) != Some(value))
                    .collect();
                strategic_patch(
                    &self.api,
                    name,
                    None,
                    &json!({"metadata": {"labels": missing}}),
                )
                .await
            })
            .await;
        result.map(drop).map_err(|error| {
            tracing::error!(node = name, error = %api_error(&error), "aligning labels failed");
            // The wording of the Go program, which log alerts look for.
            Error::other(format!(
                "failed update labels for node {name}: {}",
                api_error(&error)
            ))
        })
    }

    fn age(&self, node: &Node) -> Duration {
        let created = node.created.unwrap_or_else(|| self.context.clock.now());
        Duration::try_from(self.context.clock.now().duration_since(created)).unwrap_or_default()
    }
}

fn reference(node: &Node) -> ObjectRef {
    ObjectRef {
        resource_version: node.resource_version.to_string(),
        ..ObjectRef::node(&node.name, &node.uid)
    }
}

/// The result of writing a plan.
enum Written {
    /// The plan was carried out. Holds the Node with the metadata as written, and the addresses that it had: the patch
    /// was for this version of the Node. The other fields have their defaults.
    Changed(Arc<Node>),
    /// The Node needed no change, including the uninitialized taint. `is_fresh` is `true` if the API and not the cache
    /// returned the Node.
    Nothing { node: Arc<Node>, is_fresh: bool },
}

/// The reason why the write of a plan failed.
enum WriteError {
    Api(kube::Error),
    Refused(Error),
}

impl WriteError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(error) if is_conflict(error))
    }

    fn into_error(self) -> Error {
        match self {
            Self::Api(error) => Error::other(api_error(&error).to_string()),
            Self::Refused(error) => error,
        }
    }
}
