//! Harness of a service controller.

use std::sync::Arc;

use anyhow::Result;
use cloud_provider::scripted::ScriptedProvider;
use cloud_provider::{CloudProvider, Cluster, Node, Service};
use controllers::service::ServiceMetrics;
use controllers::{ControllerContext, Options, ServiceController};
use parking_lot::Mutex;
use runtime::cache::Cache;
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, RecordedEvent};
use runtime::pulse::Pulse;

use super::api::Api;
use super::comparison::Comparison;
use super::schema::Event;

/// API, caches, cloud and events around Services.
pub(crate) struct ServiceWorld {
    pub(crate) api: Api,
    pub(crate) cloud: Arc<ScriptedProvider>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) services: Cache<Service>,
    pub(crate) counters: Arc<Counters>,
    recorder: EventRecorder,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
}

/// Metrics of the controller that cases compare.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<(u64, u64)>);

impl Counters {
    /// Returns `loadbalancer_sync_total` and `nodesync_error_total`.
    pub(crate) fn get(&self) -> (u64, u64) {
        *self.0.lock()
    }
}

impl ServiceMetrics for Counters {
    fn targets_sync_started(&self) {
        self.0.lock().0 += 1;
    }
    fn node_sync_failed(&self) {
        self.0.lock().1 += 1;
    }
    fn targets_synced(&self, _took: std::time::Duration) {}
    fn node_synced(&self, _took: std::time::Duration) {}
    fn ensured(&self, _took: std::time::Duration, _well: bool) {}
    fn deleted(&self, _took: std::time::Duration, _well: bool) {}
    fn drift_found(&self) {}
}

impl ServiceWorld {
    /// Creates a harness with this cloud and these Nodes. Without Nodes to list, the cache was never filled.
    pub(crate) fn new(cloud: Arc<ScriptedProvider>, nodes: Option<Vec<Node>>) -> Self {
        let (recorder, events) = EventRecorder::to_memory("cases", Arc::new(SystemClock));
        Self {
            api: Api::default(),
            cloud,
            nodes: nodes.map_or_else(Cache::new, Cache::with),
            services: Cache::with([]),
            counters: Arc::default(),
            recorder,
            events,
        }
    }

    /// Creates the service controller with the settings of the Go cloud-controller-manager.
    ///
    /// # Errors
    /// If the controller cannot be created.
    pub(crate) fn controller(&self) -> Result<ServiceController> {
        let context = ControllerContext {
            client: self.api.client(),
            nodes: self.nodes.clone(),
            provider: Arc::clone(&self.cloud) as Arc<dyn CloudProvider>,
            clock: Arc::new(SystemClock),
            pulse: Pulse::default(),
        };
        let cluster = Cluster {
            name: "kubernetes".to_owned(),
            id: None,
        };
        let recorder = self.recorder.clone();
        let metrics = Arc::clone(&self.counters) as Arc<dyn ServiceMetrics>;
        let services = self.services.clone();
        Ok(ServiceController::new(
            context,
            services,
            cluster,
            &Options::reference(),
            recorder,
            metrics,
        )?)
    }

    /// Takes the events so far: the key of each one's Service, and its content.
    pub(crate) fn take_events(&self) -> Vec<(String, Event)> {
        let events = std::mem::take(&mut *self.events.lock());
        let about = |event: &RecordedEvent| {
            format!("{}/{}", event.regarding.namespace, event.regarding.name)
        };
        let said = |event: &RecordedEvent| Event {
            type_: Some(event.type_.to_string()),
            reason: Some(event.reason.clone()),
            message: Some(event.message.clone()),
        };
        events
            .iter()
            .map(|event| (about(event), said(event)))
            .collect()
    }

    /// Adds differences that no case permits: unscripted calls, and requests other than patches of a Service's status.
    pub(crate) fn forbid_surprises(&self, comparison: &mut Comparison) {
        comparison.forbid(self.cloud.violations());
        let requests = self.api.requests().into_iter().map(|request| request.what);
        let unknown = requests.filter(|what| what != "patch services/status");
        comparison.forbid(unknown.map(|what| format!("the API was asked to {what:?}")));
    }
}
