//! Observers that receive plans, annotations and waits from providers.

use std::sync::atomic::{AtomicBool, Ordering};

use cloud_provider::names::ANNOTATION_LOAD_BALANCER_ID;
use cloud_provider::{
    LoadBalancerIngress, LoadBalancerStatus, LoadBalancerWarning, Plan, Result, Service,
    SyncCallbacks, async_trait,
};
use parking_lot::Mutex;
use runtime::worker_permit::WorkerPermit;

use crate::service::controller::ServiceController;
use crate::service::events::ServiceEvent;
use crate::service::patch::{self, Annotations};

/// Observer of a sync that releases the worker permit while the provider waits for its cloud (INV-6).
pub(super) struct PermitObserver<'a>(pub(super) &'a WorkerPermit);

#[async_trait]
impl SyncCallbacks for PermitObserver<'_> {
    fn on_plan(&self, _plan: &Plan) {}

    fn release_permit(&self) {
        self.0.release();
    }

    async fn reacquire_permit(&self) {
        self.0.reacquire().await;
    }
}

/// Observer of a sync that records whether the provider changes anything.
pub(super) struct Changes<'a> {
    any: AtomicBool,
    permit: PermitObserver<'a>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(permit: &'a WorkerPermit) -> Self {
        Self {
            any: AtomicBool::default(),
            permit: PermitObserver(permit),
        }
    }

    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl SyncCallbacks for Changes<'_> {
    fn on_plan(&self, plan: &Plan) {
        self.any.fetch_or(!plan.is_empty(), Ordering::Relaxed);
    }

    fn release_permit(&self) {
        self.permit.release_permit();
    }

    async fn reacquire_permit(&self) {
        self.permit.reacquire_permit().await;
    }
}

/// An observer that records events about an ensured load balancer: always or, in quiet mode, only if something changes
/// (D-4).
pub(super) struct EnsureEvents<'a> {
    controller: &'a ServiceController,
    key: &'a str,
    service: &'a Service,
    is_quiet: bool,
    has_begun: AtomicBool,
    annotations: Mutex<Annotations>,
    id: Mutex<Option<String>>,
    published: Mutex<Option<Published>>,
    permit: PermitObserver<'a>,
}

/// The addresses and annotations that were written to the Service while the provider was at work.
#[derive(PartialEq)]
pub(super) struct Published {
    pub(super) ingress: Vec<LoadBalancerIngress>,
    pub(super) annotations: Annotations,
}

impl Published {
    /// Returns the Service as it is after this was written to it, so that a later write contains only what differs.
    pub(super) fn written_to(&self, service: &Service) -> Service {
        let mut written = service.clone();
        let annotations = written.metadata.annotations.get_or_insert_default();
        for (key, value) in &self.annotations {
            match value {
                Some(value) => _ = annotations.insert((*key).to_owned(), value.clone()),
                None => _ = annotations.remove(*key),
            }
        }
        let status = written.status.get_or_insert_default();
        status.load_balancer.get_or_insert_default().ingress = Some(self.ingress.clone());
        written
    }
}

impl<'a> EnsureEvents<'a> {
    pub(super) fn new(
        controller: &'a ServiceController,
        key: &'a str,
        service: &'a Service,
        permit: &'a WorkerPermit,
    ) -> Self {
        let is_quiet = controller.options.quiet && controller.cloud.has_plans();
        let annotations = Mutex::default();
        let id = Mutex::default();
        let published = Mutex::default();
        let has_begun = AtomicBool::new(false);
        let permit = PermitObserver(permit);
        let ensure_events = Self {
            controller,
            key,
            service,
            is_quiet,
            has_begun,
            annotations,
            id,
            published,
            permit,
        };
        if !is_quiet {
            ensure_events.begin();
        }
        ensure_events
    }

    fn begin(&self) {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.controller
                .record_event(self.service, &ServiceEvent::Ensuring);
        }
    }

    /// Records the final event. With `has_failed`, the last event reported a failure, so that a success is reported in
    /// any case.
    pub(super) fn finish(&self, has_failed: bool) {
        if has_failed || self.has_begun.load(Ordering::Relaxed) {
            self.controller
                .record_event(self.service, &ServiceEvent::Ensured);
        }
    }

    /// Returns the annotations that the provider has requested so far.
    pub(super) fn annotations(&self) -> Annotations {
        self.annotations.lock().clone()
    }

    /// Returns the annotations that the provider asked for so far, and the ID of the load balancer if it must be
    /// written.
    pub(super) fn annotations_with_id(&self) -> Annotations {
        let mut annotations = self.annotations();
        let id = self.id.lock().clone();
        if id.is_some() && patch::id_is_due(self.service, self.has_begun.load(Ordering::Relaxed)) {
            annotations.insert(ANNOTATION_LOAD_BALANCER_ID, id);
        }
        annotations
    }

    /// Takes the addresses and annotations that were written already, which need no further write.
    pub(super) fn published(&self) -> Option<Published> {
        self.published.lock().take()
    }
}

#[async_trait]
impl SyncCallbacks for EnsureEvents<'_> {
    fn on_plan(&self, plan: &Plan) {
        if self.is_quiet && !plan.is_empty() {
            self.begin();
        }
    }

    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.annotations.lock().insert(key, value);
    }

    fn warn(&self, warning: &LoadBalancerWarning) {
        self.controller
            .record_event(self.service, &ServiceEvent::Warned(warning.clone()));
    }

    fn set_load_balancer_id(&self, id: &str) {
        *self.id.lock() = Some(id.to_owned());
    }

    async fn publish(&self, status: &LoadBalancerStatus) -> Result<()> {
        let ingress = status.ingress.clone().unwrap_or_default();
        let annotations = self.annotations_with_id();
        self.controller
            .ledger
            .remember_annotations(self.key, &annotations);
        self.controller
            .write_status(self.key, self.service, &ingress, &annotations)
            .await?;
        *self.published.lock() = Some(Published {
            ingress,
            annotations,
        });
        Ok(())
    }

    fn release_permit(&self) {
        self.permit.release_permit();
    }

    async fn reacquire_permit(&self) {
        self.permit.reacquire_permit().await;
    }
}
