//! Observers that receive plans, annotations and waits from providers.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use cloud_provider::names::ANNOTATION_LOAD_BALANCER_ID;
use cloud_provider::{LoadBalancerIngress, LoadBalancerStatus, Plan, Result, Service, SyncCallbacks, async_trait};
use runtime::place::Place;

use crate::service::controller::ServiceController;
use crate::service::events::News;
use crate::service::patch::{self, Annotations};

/// Observer of a sync that releases the worker permit while the provider waits for its cloud (INV-6).
pub(super) struct Waits<'a>(pub(super) &'a Place);

#[async_trait]
impl SyncCallbacks for Waits<'_> {
    fn on_plan(&self, _plan: &Plan) {}

    fn release_permit(&self) {
        self.0.leave();
    }

    async fn reacquire_permit(&self) {
        self.0.come_back().await;
    }
}

/// Observer of a sync that records whether the provider changes anything.
pub(super) struct Changes<'a> {
    any: AtomicBool,
    place: Waits<'a>,
}

impl<'a> Changes<'a> {
    pub(super) fn at(place: &'a Place) -> Self {
        Self { any: AtomicBool::default(), place: Waits(place) }
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
        self.place.release_permit();
    }

    async fn reacquire_permit(&self) {
        self.place.reacquire_permit().await;
    }
}

/// An observer that records events about an ensured load balancer: always or, in quiet mode, only if something changes
/// (D-4).
pub(super) struct Narrator<'a> {
    controller: &'a ServiceController,
    key: &'a str,
    service: &'a Service,
    is_quiet: bool,
    has_begun: AtomicBool,
    annotations: Mutex<Annotations>,
    id: Mutex<Option<String>>,
    published: Mutex<Option<Published>>,
    place: Waits<'a>,
}

/// The addresses and annotations that were written to the Service while the provider was at work.
#[derive(PartialEq)]
pub(super) struct Published {
    pub(super) ingress: Vec<LoadBalancerIngress>,
    pub(super) annotations: Annotations,
}

impl<'a> Narrator<'a> {
    pub(super) fn new(controller: &'a ServiceController, key: &'a str, service: &'a Service, place: &'a Place) -> Self {
        let is_quiet = controller.options.quiet && controller.cloud.has_plans();
        let (annotations, id, published) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (has_begun, place) = (AtomicBool::new(false), Waits(place));
        let narrator = Self { controller, key, service, is_quiet, has_begun, annotations, id, published, place };
        if !is_quiet {
            narrator.begin();
        }
        narrator
    }

    fn begin(&self) {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.controller.say(self.service, &News::Ensuring);
        }
    }

    /// Records the final event. With `has_failed`, the last event reported a failure, so that a success is reported in
    /// any case.
    pub(super) fn finish(&self, has_failed: bool) {
        if has_failed || self.has_begun.load(Ordering::Relaxed) {
            self.controller.say(self.service, &News::Ensured);
        }
    }

    /// Returns the annotations that the provider has requested so far.
    pub(super) fn annotations(&self) -> Annotations {
        self.annotations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the annotations that the provider asked for so far, and the ID of the load balancer if it must be
    /// written.
    pub(super) fn annotations_with_id(&self) -> Annotations {
        let mut annotations = self.annotations();
        let id = self.id.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if id.is_some() && patch::id_is_due(self.service, self.has_begun.load(Ordering::Relaxed)) {
            annotations.insert(ANNOTATION_LOAD_BALANCER_ID, id);
        }
        annotations
    }

    /// Takes the addresses and annotations that were written already, which need no further write.
    pub(super) fn published(&self) -> Option<Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl SyncCallbacks for Narrator<'_> {
    fn on_plan(&self, plan: &Plan) {
        if self.is_quiet && !plan.is_empty() {
            self.begin();
        }
    }

    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.annotations.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }

    fn set_load_balancer_id(&self, id: &str) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
    }

    async fn publish(&self, status: &LoadBalancerStatus) -> Result<()> {
        let (ingress, annotations) = (status.ingress.clone().unwrap_or_default(), self.annotations_with_id());
        self.controller.ledger.remember_annotations(self.key, &annotations);
        self.controller.write_status(self.key, self.service, &ingress, &annotations).await?;
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = Some(Published { ingress, annotations });
        Ok(())
    }

    fn release_permit(&self) {
        self.place.release_permit();
    }

    async fn reacquire_permit(&self) {
        self.place.reacquire_permit().await;
    }
}
