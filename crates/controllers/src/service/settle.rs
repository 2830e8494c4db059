//! Handling of Services that vanished from the API without being deleted (INV-9, D-220).

use std::sync::Arc;

use cloud_provider::{Error, Result, Service};
use runtime::cluster::Finding;
use runtime::worker_permit::WorkerPermit;

use crate::service::controller::ServiceController;
use crate::service::events::ServiceEvent;
use crate::service::observers::PermitObserver;
use crate::service::vanished::VanishedStep;
use crate::service::wants::{has_finalizer, is_abandoned, is_deleting, wants_load_balancer};

impl ServiceController {
    /// Records a Service as vanished if the API no longer shows it although it had the finalizer and no deletion
    /// timestamp, so that it cannot have been deleted. `is_written` is `true` if the cache lacked this controller's
    /// last write, which may be the finalizer.
    pub(super) fn note_vanished(
        &self,
        key: &str,
        last: &Arc<Service>,
        is_written: bool,
        is_replaced: bool,
    ) {
        let held = has_finalizer(last) || is_written;
        if self.vanished.is_enabled()
            && held
            && !is_deleting(last)
            && !is_abandoned(last)
            && wants_load_balancer(last, &self.options)
        {
            self.vanished.note(key, last, is_replaced);
        }
    }

    /// Records that the API shows a Service, which ends its absence.
    pub(super) fn note_present(&self, key: &str, service: &Service) {
        if self.vanished.note_present(key, service) {
            tracing::info!(
                service = key,
                "the vanished service exists again; its load balancer was kept"
            );
        }
    }

    /// Handles the Services of this key that vanished, and deletes their load balancers once their deletion is
    /// confirmed. Failures are retried.
    pub(super) async fn settle_vanished(&self, key: &str, permit: &WorkerPermit) {
        for service in self.vanished.of(key) {
            match self.vanished.step(key, &service, self.ledger.len()) {
                VanishedStep::Keep => {}
                VanishedStep::Read => self.settle_one(key, &service, permit).await,
                report @ VanishedStep::Report(_) => self.report_hold(key, &service, report),
            }
        }
    }

    async fn settle_one(&self, key: &str, service: &Service, permit: &WorkerPermit) {
        match self.read(key, service).await {
            Ok(Some(fresh)) if fresh.metadata.uid == service.metadata.uid => {
                self.vanished.found(key, service);
            }
            Ok(_) => {
                let (may_delete, step) = self.vanished.not_found(key, service);
                self.report_hold(key, service, step);
                if may_delete && let Err(error) = self.remove_vanished(key, service, permit).await {
                    self.vanished.failed(key, service);
                    tracing::warn!(service = key, %error, "the load balancer of a vanished service is not deleted yet");
                }
            }
            Err(error) => {
                self.vanished.failed(key, service);
                tracing::warn!(service = key, %error, "it is unknown whether a vanished service was deleted; its load balancer stays");
            }
        }
    }

    async fn remove_vanished(
        &self,
        key: &str,
        service: &Service,
        permit: &WorkerPermit,
    ) -> Result<()> {
        self.require_same_cluster().await?;
        tracing::warn!(
            service = key,
            "the vanished service was not found by a second read either, deleting its load balancer"
        );
        self.delete_for(service, permit).await?;
        self.vanished.removed(key, service);
        if self
            .ledger
            .service(key)
            .is_some_and(|known| known.metadata.uid == service.metadata.uid)
        {
            self.ledger.forget(key);
        }
        Ok(())
    }

    /// Deletes the load balancer of a Service that is in the ledger and no longer exists.
    pub(super) async fn delete_for(&self, service: &Service, permit: &WorkerPermit) -> Result<()> {
        self.record_event(service, &ServiceEvent::Deleting);
        if let Err(error) = self.cloud.delete(service, &PermitObserver(permit)).await {
            if !self.cloud.is_stopping() {
                self.record_event(service, &ServiceEvent::DeleteFailed(error.to_string()));
            }
            return Err(error);
        }
        self.record_event(service, &ServiceEvent::Deleted);
        Ok(())
    }

    /// Returns an error unless the API server still belongs to this cluster, or the cluster cannot be determined
    /// (D-11).
    pub(super) async fn require_same_cluster(&self) -> Result<()> {
        if !self.vanished.is_enabled() {
            return Ok(());
        }
        let (identity, client) = &self.identity;
        match identity.check(client, "the API server").await {
            Finding::Same | Finding::Unknown => Ok(()),
            Finding::Other(other) => Err(Error::other(other.to_string())),
            Finding::Unanswered(problem) => Err(Error::other(problem)),
        }
    }

    fn report_hold(&self, key: &str, service: &Service, step: VanishedStep) {
        let VanishedStep::Report(held) = step else {
            return;
        };
        self.metrics.deletion_held(held.cause());
        tracing::warn!(
            service = key, cause = held.cause(), why = %held,
            "service vanished without being deleted, its load balancer is kept"
        );
        self.record_event(service, &ServiceEvent::DeletionHeld(held.to_string()));
    }
}
