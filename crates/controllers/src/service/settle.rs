//! Handling of Services that vanished from the API without being deleted (INV-9, D-220).

use std::sync::Arc;

use cloud_provider::{Error, Result, Service};
use runtime::cluster::Finding;
use runtime::place::Place;

use crate::service::controller::ServiceController;
use crate::service::events::News;
use crate::service::observers::Waits;
use crate::service::vanished::Step;
use crate::service::wants::{has_finalizer, is_abandoned, is_deleting, wants_load_balancer};

impl ServiceController {
    /// Records a Service as vanished if the API no longer shows it although it had the finalizer and no deletion
    /// timestamp, so that it cannot have been deleted. `is_written` is `true` if the cache lacked this controller's
    /// last write, which may be the finalizer.
    pub(super) fn note_vanished(&self, key: &str, last: &Arc<Service>, is_written: bool, is_replaced: bool) {
        let held = has_finalizer(last) || is_written;
        if self.vanished.is_on()
            && held
            && !is_deleting(last)
            && !is_abandoned(last)
            && wants_load_balancer(last, &self.options)
        {
            self.vanished.note(key, last, is_replaced);
        }
    }

    /// Records that the API shows a Service, which ends its absence.
    pub(super) fn note_there(&self, key: &str, service: &Service) {
        if self.vanished.is_there(key, service) {
            tracing::info!(service = key, "the vanished service exists again; its load balancer was kept");
        }
    }

    /// Handles the Services of this key that vanished, and deletes their load balancers once their deletion is
    /// confirmed. Failures are retried.
    pub(super) async fn settle_vanished(&self, key: &str, place: &Place) {
        for service in self.vanished.of(key) {
            match self.vanished.step(key, &service, self.ledger.len()) {
                Step::Keep => {}
                Step::Read => self.settle_one(key, &service, place).await,
                told @ Step::Tell(_) => self.tell(key, &service, told),
            }
        }
    }

    async fn settle_one(&self, key: &str, service: &Service, place: &Place) {
        match self.read(key, service).await {
            Ok(Some(fresh)) if fresh.metadata.uid == service.metadata.uid => self.vanished.found(key, service),
            Ok(_) => {
                let (may_go, step) = self.vanished.not_found(key, service);
                self.tell(key, service, step);
                if may_go && let Err(error) = self.remove_vanished(key, service, place).await {
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

    async fn remove_vanished(&self, key: &str, service: &Service, place: &Place) -> Result<()> {
        self.require_same_cluster().await?;
        tracing::warn!(
            service = key,
            "the vanished service was not found by a second read either, deleting its load balancer"
        );
        self.delete_for(service, place).await?;
        self.vanished.removed(key, service);
        if self.ledger.service(key).is_some_and(|known| known.metadata.uid == service.metadata.uid) {
            self.ledger.forget(key);
        }
        Ok(())
    }

    /// Deletes the load balancer of a Service that is in the ledger and no longer exists.
    pub(super) async fn delete_for(&self, service: &Service, place: &Place) -> Result<()> {
        self.say(service, &News::Deleting);
        if let Err(error) = self.cloud.delete(service, &Waits(place)).await {
            if !self.cloud.is_stopping() {
                self.say(service, &News::DeleteFailed(error.to_string()));
            }
            return Err(error);
        }
        self.say(service, &News::Deleted);
        Ok(())
    }

    /// Returns an error unless the API server still belongs to this cluster, or the cluster cannot be determined
    /// (D-11).
    pub(super) async fn require_same_cluster(&self) -> Result<()> {
        if !self.vanished.is_on() {
            return Ok(());
        }
        let (identity, client) = &self.identity;
        match identity.check(client, "the API server").await {
            Finding::Same | Finding::Unknown => Ok(()),
            Finding::Other(other) => Err(Error::other(other.to_string())),
            Finding::Unanswered(problem) => Err(Error::other(problem)),
        }
    }

    fn tell(&self, key: &str, service: &Service, step: Step) {
        let Step::Tell(held) = step else { return };
        self.metrics.deletion_held(held.cause());
        tracing::warn!(
            service = key, cause = held.cause(), why = %held,
            "service vanished without being deleted, its load balancer is kept"
        );
        self.say(service, &News::DeletionHeld(held.to_string()));
    }
}
