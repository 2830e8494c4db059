//! The sync of one Service from the queue `service` (SVC-33 … SVC-57, SVC-80 … SVC-86).

use std::sync::Arc;

use cloud_provider::{Error, LoadBalancerIngress, Result, Service};
use kube::api::ListParams;
use runtime::api_error::{api_error, is_forbidden, is_not_found};
use runtime::worker_permit::WorkerPermit;
use serde_json::{Value, json};

use crate::service::controller::ServiceController;
use crate::service::events::ServiceEvent;
use crate::service::observers::{EnsureEvents, PermitObserver, Published};
use crate::service::patch::{self, Annotations};
use crate::service::wants::{Operation, is_abandoned, is_foreign, wants_load_balancer};

impl ServiceController {
    /// Syncs the load balancer and the Service of this key, once.
    ///
    /// Calls for one key must not overlap.
    ///
    /// # Errors
    /// Any error. The Service must be retried as the error asks (SVC-31).
    pub async fn sync(&self, key: &str) -> Result<()> {
        self.sync_cached(key, self.services.get(key), &WorkerPermit::unlimited())
            .await
    }

    /// Syncs the cached Service, releasing the worker permit while it waits for the cloud.
    pub(super) async fn sync_cached(
        &self,
        key: &str,
        cached: Option<Arc<Service>>,
        permit: &WorkerPermit,
    ) -> Result<()> {
        if key.matches('/').count() > 1 {
            return Err(Error::other(format!("unexpected key format: {key:?}")));
        }
        match self.current(key, cached).await? {
            None => {
                self.leftovers.forget(key);
                self.settle_vanished(key, permit).await;
                // Services that vanished without being deleted are handled separately.
                match self.vanished.of(key).is_empty() {
                    true => self.delete_remembered(key, permit).await,
                    false => Ok(()),
                }
            }
            Some(service) => {
                self.settle_vanished(key, permit).await;
                self.process(key, &service, permit).await
            }
        }
    }

    /// Returns the Service from the cache; from the API if the cache does not have this controller's last write yet.
    async fn current(
        &self,
        key: &str,
        cached: Option<Arc<Service>>,
    ) -> Result<Option<Arc<Service>>> {
        match cached {
            Some(cached) if self.writes.are_missing_in(key, &cached) => {
                let found = self.read(key, &cached).await?.map(Arc::new);
                if found.is_none() {
                    // The API server may show it again as it was, which the cache, which never lost it, does not report.
                    self.vanished.note_unwritten(key);
                }
                Ok(found)
            }
            cached => Ok(cached),
        }
    }

    /// Returns the cached Service, after confirming that a Service that the cache lacks was deleted. A list from an API
    /// server that lags behind, as after a lost watch, may lack a Service that was created seconds ago, or hold an
    /// earlier one of the same name; without the confirmation the load balancer of a living Service would be deleted.
    ///
    /// # Errors
    /// If the Service exists, or if the API does not answer. The sync must be retried, because the cache will show the
    /// Service.
    pub(super) async fn confirm_deletion(&self, key: &str) -> Result<Option<Arc<Service>>> {
        let cached = self.services.get(key);
        let Some(known) = self.ledger.service(key) else {
            return Ok(cached);
        };
        if cached.is_none() && self.vanished.has(key, &known) {
            // The Service is read twice when it is due.
            return Ok(None);
        }
        let uid = &known.metadata.uid;
        if cached
            .as_ref()
            .is_some_and(|cached| cached.metadata.uid == *uid)
        {
            return Ok(cached);
        }
        match self.read(key, &known).await? {
            Some(fresh) if fresh.metadata.uid == *uid => Err(Error::other(format!(
                "service {key} exists, but the cache does not have it yet; the sync is retried"
            ))),
            _ => Ok(cached),
        }
    }

    /// Reads the Service that now has this Service's name. Lists instead of getting where only that is permitted,
    /// because the Go program's Role may allow to list Services, but not to get one.
    pub(super) async fn read(&self, key: &str, service: &Service) -> Result<Option<Service>> {
        let api = self.api(service);
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let fresh = match api.get_opt(name).await {
            Err(error) if is_forbidden(&error) => {
                let named = ListParams::default().fields(&format!("metadata.name={name}"));
                api.list(&named)
                    .await
                    .map(|list| list.items.into_iter().next())
            }
            fresh => fresh,
        };
        fresh.map_err(|error| {
            Error::other(format!(
                "failed to read service {key}: {}",
                api_error(&error)
            ))
        })
    }

    async fn process(
        &self,
        key: &str,
        service: &Arc<Service>,
        permit: &WorkerPermit,
    ) -> Result<()> {
        // If a Service was deleted and created again, the old load balancer is deleted first (SVC-36). If the old
        // Service cannot have been deleted, its load balancer stays until that is confirmed, and the new Service gets
        // its own.
        if let Some(known) = self
            .ledger
            .service(key)
            .filter(|known| known.metadata.uid != service.metadata.uid)
        {
            match self.vanished.has(key, &known) {
                true => self.vanished.note_replaced(key, &known),
                false => self.delete_remembered(key, permit).await?,
            }
        }
        if self.is_for_leftovers(key, service) {
            self.remove_leftovers(key, service, permit).await;
            return Ok(());
        }
        self.leftovers.forget(key);
        self.ledger.store(key, Arc::clone(service));
        let operation = match Operation::of(service, &self.options) {
            // Somebody removed the finalizer while the Service was being deleted and another finalizer held it
            // (SVC-54). The load balancer is deleted all the same, because only this controller still knows it.
            Operation::Nothing if !self.ledger.may_have_balancer(key) => Operation::Nothing,
            Operation::Nothing if is_abandoned(service) => Operation::Abandon,
            Operation::Nothing => Operation::TearDown,
            operation => operation,
        };
        let result = match operation {
            Operation::Ensure => self.ensure(key, service, permit).await,
            Operation::TearDown => self.tear_down(key, service, permit).await,
            Operation::Abandon => self.abandon(key, service).await,
            Operation::Nothing => Ok(()),
        };
        match &result {
            Ok(()) if operation == Operation::Ensure => {}
            Ok(()) => self.ledger.forget(key),
            // Work that the shutdown interrupted is not reported on the Service.
            Err(_) if self.cloud.is_stopping() => {}
            Err(error) => {
                self.ledger.remember_failed(key, true);
                self.record_event(service, &ServiceEvent::SyncFailed(error.to_string()));
            }
        }
        result
    }

    /// Creates or updates the load balancer, and writes its addresses (SVC-50 to SVC-55).
    async fn ensure(&self, key: &str, service: &Service, permit: &WorkerPermit) -> Result<()> {
        let ensure_events = EnsureEvents::new(self, key, service, permit);
        if let Some(patch) = patch::add_finalizer(service) {
            let failed = |error| refused("failed to add load balancer cleanup finalizer", &error);
            self.write(key, service, &patch).await.map_err(failed)?;
        }
        let targets = self
            .targets
            .current()
            .map_err(|error| error.context(FAILED_TO_ENSURE))?;
        if let Some(event) = self.without_targets(&targets) {
            self.record_event(service, &event);
        }
        self.ledger
            .remember_targets(key, targets.given(self.cloud.follows(service)));
        let outcome = self
            .cloud
            .ensure(service, &targets.nodes, &ensure_events)
            .await;
        let published = ensure_events.published();
        // A failure does not justify a write of the ID.
        let annotations = match outcome.is_ok() || published.is_some() {
            true => ensure_events.annotations_with_id(),
            false => ensure_events.annotations(),
        };
        self.ledger.remember_annotations(key, &annotations);
        let written = published
            .as_ref()
            .map(|published| published.written_to(service));
        let current = written.as_ref().unwrap_or(service);
        match outcome {
            Ok(Some(status)) => {
                ensure_events.finish(self.ledger.remember_failed(key, false));
                self.ledger.remember_drift(key, None);
                let wanted = Published {
                    ingress: status.ingress.unwrap_or_default(),
                    annotations,
                };
                if published.as_ref() == Some(&wanted) {
                    return Ok(());
                }
                self.write_status(key, current, &wanted.ingress, &wanted.annotations)
                    .await
            }
            Ok(None) => Err(Error::other(
                "service status returned by EnsureLoadBalancer is nil",
            )),
            Err(error) if error.is_implemented_elsewhere() => {
                self.clear_condition(key, service).await
            }
            Err(error) => {
                if published.is_none_or(|published| published.annotations != annotations) {
                    self.annotate(key, current, &annotations).await;
                }
                Err(error.context(FAILED_TO_ENSURE))
            }
        }
    }

    /// Writes the annotations that the provider asked for before it failed. The failure is reported in any case.
    async fn annotate(&self, key: &str, service: &Service, annotations: &Annotations) {
        let mut patch = json!({});
        self.put_annotations(key, service, annotations, &mut patch);
        if let Err(error) = self.write_if_there(key, service, &patch).await
            && !self.cloud.is_stopping()
        {
            tracing::warn!(service = key, %error, "the annotations of a service are not written");
        }
    }

    /// Deletes the load balancer and removes the finalizer (SVC-42 to SVC-48). A load balancer that no longer exists
    /// counts as deleted (P-20).
    async fn tear_down(&self, key: &str, service: &Service, permit: &WorkerPermit) -> Result<()> {
        let exists = self.cloud.exists(service).await;
        let exists = exists
            .map_err(|e| e.context("failed to check if load balancer exists before cleanup"))?;
        if exists {
            self.record_event(service, &ServiceEvent::Deleting);
            match self.cloud.delete(service, &PermitObserver(permit)).await {
                Err(error) if !error.is_implemented_elsewhere() => {
                    return Err(error.context("failed to delete load balancer"));
                }
                _ => {}
            }
        } else if is_foreign(service, &self.options) {
            tracing::debug!(
                service = key,
                "cleanup is left to the controller of the service's class"
            );
            return Ok(());
        }
        let mut patch = patch::remove_finalizer(service).unwrap_or_else(|| json!({}));
        self.put_annotations(key, service, &patch::no_id(), &mut patch);
        self.remove_finalizer(key, service, patch).await?;
        self.record_event(service, &ServiceEvent::Deleted);
        self.write_status(key, service, &[], &Annotations::default())
            .await
    }

    /// Removes the finalizer without a call to the cloud (P-20).
    async fn abandon(&self, key: &str, service: &Service) -> Result<()> {
        let patch = patch::remove_finalizer(service).unwrap_or_else(|| json!({}));
        self.remove_finalizer(key, service, patch).await?;
        self.record_event(service, &ServiceEvent::Abandoned(self.cloud.name(service)));
        Ok(())
    }

    /// Removes the condition with the patch that removes the finalizer (SVC-46), because the Service may continue to
    /// exist, with another type or another finalizer.
    async fn remove_finalizer(&self, key: &str, service: &Service, mut patch: Value) -> Result<()> {
        self.remove_condition(key, service, &mut patch);
        match self.write(key, service, &patch).await {
            Err(error) if !is_not_found(&error) => Err(refused(
                "failed to remove load balancer cleanup finalizer",
                &error,
            )),
            _ => {
                self.ledger.remember_condition(key, service, None);
                Ok(())
            }
        }
    }

    /// Writes the status as computed from the Service that was read (SVC-55).
    pub(super) async fn write_status(
        &self,
        key: &str,
        service: &Service,
        ingress: &[LoadBalancerIngress],
        annotations: &Annotations,
    ) -> Result<()> {
        let mut patch = patch::set_ingress(service, ingress).unwrap_or_else(|| json!({}));
        self.put_annotations(key, service, annotations, &mut patch);
        let is_ensured = Operation::of(service, &self.options) == Operation::Ensure;
        let ready = if is_ensured {
            self.put_ready(key, service, &mut patch)
        } else {
            None
        };
        self.write_if_there(key, service, &patch).await?;
        if ready.is_some() {
            self.ledger.remember_condition(key, service, ready);
        }
        Ok(())
    }

    /// Adds annotations to a patch. Annotations that another writer changed since the Service was read are skipped;
    /// that change triggers another sync.
    fn put_annotations(
        &self,
        key: &str,
        service: &Service,
        annotations: &Annotations,
        patch: &mut Value,
    ) {
        let mut annotations = annotations.clone();
        if let Some(latest) = self
            .services
            .get(key)
            .filter(|latest| !self.writes.are_missing_in(key, latest))
        {
            let of = |service: &Service, key: &str| {
                service.metadata.annotations.as_ref()?.get(key).cloned()
            };
            annotations.retain(|key, ours| {
                let before = of(service, key);
                let now = of(&latest, key);
                now == before || now == *ours
            });
        }
        patch::annotate(patch, service, &annotations);
    }

    /// Removes the condition because another controller manages the load balancer.
    async fn clear_condition(&self, key: &str, service: &Service) -> Result<()> {
        let mut patch = json!({});
        self.remove_condition(key, service, &mut patch);
        self.write_if_there(key, service, &patch).await?;
        self.ledger.remember_condition(key, service, None);
        Ok(())
    }

    /// Writes a patch, unless the Service no longer exists.
    async fn write_if_there(&self, key: &str, service: &Service, patch: &Value) -> Result<()> {
        match self.write(key, service, patch).await {
            Err(error) if !is_not_found(&error) => {
                Err(refused("failed to update load balancer status", &error))
            }
            _ => Ok(()),
        }
    }

    /// Deletes the load balancer of a Service that is only in the ledger, because it no longer exists or another
    /// Service has its name (SVC-80 to SVC-86).
    async fn delete_remembered(&self, key: &str, permit: &WorkerPermit) -> Result<()> {
        let Some(service) = self.ledger.service(key) else {
            return Ok(());
        };
        if !wants_load_balancer(&service, &self.options) {
            // SVC-81
        } else if is_abandoned(&service) {
            // The deletion may have been too quick to be seen, because a Service without finalizers is deleted at once.
            self.record_event(
                &service,
                &ServiceEvent::Abandoned(self.cloud.name(&service)),
            );
        } else {
            self.require_same_cluster().await?;
            self.delete_for(&service, permit).await?;
        }
        self.ledger.forget(key);
        Ok(())
    }
}

const FAILED_TO_ENSURE: &str = "failed to ensure load balancer";

/// Returns an error of the Kubernetes API with its context.
fn refused(what: &str, error: &kube::Error) -> Error {
    Error::other(format!("{what}: {}", api_error(error)))
}
