//! Harness of a controller that works on one Node.

use std::sync::Arc;

use anyhow::{Result, ensure};
use cloud_provider::scripted::ScriptedProvider;
use cloud_provider::{CloudProvider, Node};
use controllers::lifecycle::NoLifecycleMetrics;
use controllers::node::NoNodeMetrics;
use controllers::{ControllerContext, NodeController, NodeLifecycleController, Options};
use parking_lot::Mutex;
use runtime::cache::Cache;
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, RecordedEvent};
use runtime::pulse::Pulse;
use serde_json::Value;

use super::api::Api;
use super::comparison::Comparison;
use super::schema::{self, Event};
use super::script::ProviderScript;

/// API, cache, cloud and events around one Node.
pub(crate) struct World {
    pub(crate) api: Api,
    /// The Node as the cache has it, or would have it.
    pub(crate) node: Arc<Node>,
    pub(crate) cloud: Arc<ScriptedProvider>,
    cache: Cache<Node>,
    script: ProviderScript,
    recorder: EventRecorder,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
}

/// Reads `given.node`.
///
/// # Errors
/// An unknown field, or no name.
pub(crate) fn node(form: &Value) -> Result<Node> {
    schema::node("given.node", form)
}

impl World {
    /// Creates a harness in which the API has this Node, and the cache has it too if it is `cached`.
    ///
    /// # Errors
    /// Errors of [`node`].
    pub(crate) fn new(form: Value, script: ProviderScript, cached: bool) -> Result<Self> {
        node(&form)?;
        let api = Api::default();
        let node = node(&api.seed(form))?;
        let cache = Cache::with(cached.then(|| node.clone()));
        let (recorder, events) = EventRecorder::to_memory("cases", Arc::new(SystemClock));
        Ok(Self {
            api,
            cache,
            node: Arc::new(node),
            cloud: script.provider(),
            script,
            recorder,
            events,
        })
    }

    fn context(&self) -> ControllerContext {
        ControllerContext {
            client: self.api.client(),
            nodes: self.cache.clone(),
            provider: Arc::clone(&self.cloud) as Arc<dyn CloudProvider>,
            clock: Arc::new(SystemClock),
            pulse: Pulse::default(),
        }
    }

    /// Creates the node controller with the settings of the Go cloud-controller-manager.
    ///
    /// # Errors
    /// If the controller cannot be created.
    pub(crate) fn node_controller(&self) -> Result<NodeController> {
        let metrics = Arc::new(NoNodeMetrics);
        let made = NodeController::new(
            self.context(),
            &Options::reference(),
            self.recorder.clone(),
            metrics,
        )?;
        self.script.withdraw(&self.cloud);
        Ok(made)
    }

    /// Lets the node controller sync the Node once; the error's text if it fails.
    ///
    /// # Errors
    /// If the controller cannot be created, or does not report its result exactly once.
    pub(crate) async fn sync(&self) -> Result<Option<String>> {
        let results = Mutex::new(Vec::new());
        let keys = [self.node.name.to_string()];
        self.node_controller()?
            .sync(&keys, |_, result| results.lock().push(result))
            .await;
        let mut results = results.into_inner();
        ensure!(
            results.len() == 1,
            "the sync gave {} results for one key",
            results.len()
        );
        Ok(results
            .pop()
            .and_then(Result::err)
            .map(|error| error.to_string()))
    }

    /// Creates the lifecycle controller with the settings of the Go cloud-controller-manager.
    ///
    /// # Errors
    /// If the controller cannot be created.
    pub(crate) fn lifecycle_controller(&self) -> Result<NodeLifecycleController> {
        let metrics = Arc::new(NoLifecycleMetrics);
        let made = NodeLifecycleController::new(
            self.context(),
            &Options::reference(),
            self.recorder.clone(),
            metrics,
        )?;
        self.script.withdraw(&self.cloud);
        Ok(made)
    }

    /// Returns the Node as the API has it now.
    ///
    /// # Errors
    /// If the API's object is no Node any more.
    pub(crate) fn node_now(&self) -> Result<Option<Node>> {
        Ok(self
            .api
            .node(&self.node.name)
            .map(serde_json::from_value)
            .transpose()?)
    }

    /// Returns the events so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        let events = self.events.lock();
        events
            .iter()
            .map(|event| Event {
                type_: Some(event.type_.to_string()),
                reason: Some(event.reason.clone()),
                message: Some(event.message.clone()),
            })
            .collect()
    }

    /// Requests so far, by verb and resource.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.api
            .requests()
            .into_iter()
            .map(|request| request.what)
            .collect()
    }

    /// Adds differences that no case permits: unscripted calls, unanswered requests, and events about other objects.
    pub(crate) fn forbid_surprises(&self, comparison: &mut Comparison) {
        comparison.forbid(self.cloud.violations());
        let known = [
            "get nodes",
            "patch nodes",
            "patch nodes/status",
            "delete nodes",
        ];
        let unknown = self
            .requests()
            .into_iter()
            .filter(|what| !known.contains(&what.as_str()));
        comparison.forbid(unknown.map(|what| format!("the API was asked to {what:?}")));
        let events = self.events.lock();
        let ours = |event: &&RecordedEvent| {
            let about = &event.regarding;
            about.kind == "Node" && *about.name == *self.node.name && *about.uid == *self.node.uid
        };
        let strange = events.iter().filter(|event| !ours(event));
        comparison.forbid(
            strange
                .map(|event| format!("an event is about {}, not about the Node", event.regarding)),
        );
    }
}
