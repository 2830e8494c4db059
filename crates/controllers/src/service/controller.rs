//! The service controller: construction, work on one key, writes and events.

use std::sync::Arc;

use cloud_provider::{Cluster, Error, Service};
use kube::core::Status;
use kube::core::response::reason;
use kube::{Api, Client};
use runtime::api_error::is_not_found;
use runtime::cache::Cache;
use runtime::claim::Claim;
use runtime::cluster::ClusterIdentity;
use runtime::events::EventRecorder;
use runtime::queue::{Failure, QueueMetrics};
use runtime::writes::strategic_patch;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::{ConstructionError, ControllerContext};
use crate::options::{Options, ServiceOptions, workers};
use crate::service::cloud::Cloud;
use crate::service::condition::{self, Condition, ShownCondition};
use crate::service::events::ServiceEvent;
use crate::service::ledger::Ledger;
use crate::service::leftovers::Leftovers;
use crate::service::metrics::ServiceMetrics;
use crate::service::own_writes::OwnWrites;
use crate::service::patch::SUBRESOURCE;
use crate::service::refused::Refused;
use crate::service::retry::Retry;
use crate::service::running;
use crate::service::targets::{Given, Members, Targets};
use crate::service::vanished::Vanished;
use crate::service::wants::Operation;

/// The service-lb-controller, which manages the load balancers of Services.
pub struct ServiceController {
    pub(super) context: ControllerContext,
    pub(super) services: Cache<Service>,
    pub(super) options: ServiceOptions,
    explain: bool,
    events: EventRecorder,
    pub(super) metrics: Arc<dyn ServiceMetrics>,
    pub(super) cloud: Cloud,
    pub(super) ledger: Ledger,
    pub(super) leftovers: Leftovers,
    pub(super) vanished: Vanished,
    /// Identity of the cluster, and the client that reads whether the API server still belongs to this cluster.
    pub(super) identity: (ClusterIdentity, Client),
    pub(super) targets: Targets,
    pub(super) writes: OwnWrites,
    pub(super) refused: Refused,
    /// Notified when the cloud accepts the credential again.
    pub(super) credential_accepted: Arc<Notify>,
}

impl ServiceController {
    /// Creates the controller for the Services of `cluster`.
    ///
    /// # Errors
    /// If the provider does not support load balancers (SVC-2).
    pub fn new(
        context: ControllerContext,
        services: Cache<Service>,
        cluster: Cluster,
        options: &Options,
        events: EventRecorder,
        metrics: Arc<dyn ServiceMetrics>,
    ) -> Result<Self, ConstructionError> {
        context.require_load_balancers()?;
        Ok(Self {
            services,
            identity: (
                ClusterIdentity::of(cluster.id.clone()),
                context.client.clone(),
            ),
            vanished: Vanished::new(options.service.vanished),
            options: options.service.clone(),
            explain: options.explain,
            events,
            cloud: Cloud::new(
                Arc::clone(&context.provider),
                cluster,
                Arc::clone(&metrics),
                context.pulse.clone(),
            ),
            metrics,
            ledger: Ledger::default(),
            leftovers: Leftovers::default(),
            targets: Targets::new(
                context.nodes.clone(),
                options.service.exclude_without_network,
            ),
            writes: OwnWrites::default(),
            refused: Refused::default(),
            credential_accepted: Arc::default(),
            context,
        })
    }

    /// Sets the client that reads the identity of the API server's cluster before a load balancer is deleted whose
    /// Service is only in the ledger. Without this call, the controller's own client is used.
    #[must_use]
    pub fn of_cluster(mut self, identity: ClusterIdentity, client: Client) -> Self {
        self.identity = (identity, client);
        self
    }

    /// Sets the notification after which Services are retried whose credential the cloud refused.
    #[must_use]
    pub fn retried_on(mut self, credential_accepted: Arc<Notify>) -> Self {
        self.credential_accepted = credential_accepted;
        self
    }

    /// Returns a function that counts the Services that vanished without being deleted and whose load balancers are
    /// kept.
    pub fn count_vanished(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let vanished = self.vanished.clone();
        move || vanished.len()
    }

    /// Runs until `shutdown`: waits for both caches, then processes the queues (SVC-5). No call to the cloud is in
    /// progress when this function returns; calls that do not end within seconds of the shutdown are cancelled
    /// (SVC-73).
    pub async fn run(
        self: Arc<Self>,
        service_queue: Arc<dyn QueueMetrics>,
        node_queue: Arc<dyn QueueMetrics>,
        shutdown: CancellationToken,
    ) {
        running::run(self, service_queue, node_queue, shutdown).await;
    }

    /// Processes a key of the queue `service`: syncs the Service, writes a failure to its condition, and retries the
    /// key as the result requires (SVC-31, D-3).
    pub async fn work(&self, claim: Claim<String>) {
        let cached = self.services.get(claim.key());
        self.work_cached(claim, cached).await;
    }

    /// Processes a key with the Service from the cache.
    pub(super) async fn work_cached(&self, claim: Claim<String>, cached: Option<Arc<Service>>) {
        let key = claim.key().clone();
        let start = Instant::now();
        let result = self.sync_cached(&key, cached, &claim.permit()).await;
        self.metrics.reconciled(start.elapsed(), result.is_ok());
        self.refused.note(&key, &result);
        let retry = Retry::of(&result);
        if let Err(error) = &result {
            self.explain(&key, error, retry).await;
        }
        let cause = || {
            result
                .as_ref()
                .err()
                .map(ToString::to_string)
                .unwrap_or_default()
        };
        let failure = match retry {
            Retry::Never => {
                claim.succeed();
                None
            }
            Retry::After(delay) => claim.retry_after_by(delay, &cause()),
            Retry::BackOff => claim.fail_by(&cause()),
        };
        if let (Some(Failure { attempt, retry_in }), Err(error)) = (failure, &result) {
            tracing::warn!(service = key, %error, attempt, ?retry_in, "service sync failed");
        }
    }

    /// Adds a Service to the ledger as if it had been synced, with the targets of its load balancer, if any.
    pub fn remember(&self, service: Arc<Service>, targets: Option<&Members>) {
        let key = runtime::cache::Cached::key(&*service).into_owned();
        self.ledger.store(&key, service);
        if let Some(targets) = targets {
            self.ledger.remember_targets(&key, Given::of(targets));
        }
    }

    /// Returns the Service of this key as last synced, if this controller still manages its load balancer (SVC-37,
    /// SVC-40).
    #[must_use]
    pub fn remembered(&self, key: &str) -> Option<Arc<Service>> {
        self.ledger.service(key)
    }

    /// Returns the last targets of this Service's load balancer (SVC-64).
    #[must_use]
    pub fn remembered_targets(&self, key: &str) -> Option<Members> {
        self.ledger.targets(key).map(|given| given.members)
    }

    /// Returns the number of Services that are synced at the same time, and of those whose targets are updated at the
    /// same time (SVC-3).
    pub(super) fn workers(&self) -> usize {
        workers(self.options.concurrent_syncs)
    }

    pub(super) fn record_event(&self, service: &Service, event: &ServiceEvent) {
        event.record(&self.events, service);
    }

    /// Patches `services/NAME/status`; the Service itself is never written (SVC-99). An empty patch is not sent.
    ///
    /// The patch addresses the Service by name. If another Service has the name by now, this is an error, because no
    /// load balancer may be created for a Service whose finalizer is on another (INV-2). The write is recorded, so that
    /// the next sync reads the other Service.
    pub(super) async fn write(
        &self,
        key: &str,
        service: &Service,
        patch: &Value,
    ) -> Result<(), kube::Error> {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        tracing::debug!(service = key, %patch, "writing");
        let written = strategic_patch(&self.api(service), name, Some(SUBRESOURCE), patch).await;
        if let Some(written) = written.inspect_err(|error| {
            if is_not_found(error) {
                self.vanished.note_unwritten(key);
            }
        })? {
            self.writes.note(key, &written, &self.services);
            if written.metadata.uid != service.metadata.uid {
                return Err(recreated(name));
            }
        }
        Ok(())
    }

    pub(super) fn api(&self, service: &Service) -> Api<Service> {
        Api::namespaced(
            self.context.client.clone(),
            service.metadata.namespace.as_deref().unwrap_or_default(),
        )
    }

    /// Returns `true` if events and conditions explain more than those of the Go program (D-3).
    pub(super) fn explains(&self) -> bool {
        self.explain
    }

    /// Writes the cause of a failed sync to the Service's condition, unless the condition has that cause already (D-3).
    /// A message that alone differs is written at most once a minute, because it often has a request ID.
    async fn explain(&self, key: &str, error: &Error, retry: Retry) {
        let Some(service) = self
            .services
            .get(key)
            .filter(|_| self.explain && !self.cloud.is_stopping())
        else {
            return;
        };
        let operation = Operation::of(&service, &self.options);
        let now = self.context.clock.now();
        let condition = Condition::failed(error, operation, retry);
        let shown = self
            .ledger
            .reported(key, &service)
            .or_else(|| condition::shown(&service));
        if shown.is_some_and(|shown| !condition.is_due(&shown, Instant::now())) {
            return;
        }
        let mut patch = json!({});
        condition.put(&mut patch, &service, now);
        match self.write(key, &service, &patch).await {
            Ok(()) => self.ledger.remember_condition(
                key,
                &service,
                Some(condition.written(Instant::now())),
            ),
            Err(error) if is_not_found(&error) => {}
            Err(error) => {
                let error = runtime::api_error::api_error(&error);
                tracing::warn!(service = key, %error, "cannot write the condition that explains the failed sync");
            }
        }
    }

    /// Adds the condition of a load balancer in sync to a patch, unless the Service never had a failure (D-3). Returns
    /// the reason that was added.
    pub(super) fn put_ready(
        &self,
        key: &str,
        service: &Service,
        patch: &mut Value,
    ) -> Option<ShownCondition> {
        let ready = Condition::ready();
        let shows_other = self
            .shown_reason(key, service)
            .is_some_and(|shown| *shown != *ready.reason);
        (self.explain && shows_other).then(|| {
            ready.put(patch, service, self.context.clock.now());
            ready.written(Instant::now())
        })
    }

    /// Adds the removal of the condition to a patch, if the Service has the condition.
    pub(super) fn remove_condition(&self, key: &str, service: &Service, patch: &mut Value) {
        if self.explain && self.shown_reason(key, service).is_some() {
            Condition::remove(patch);
        }
    }

    /// Returns the reason of the condition. This controller's own write takes precedence over the cache, which may lag
    /// behind.
    fn shown_reason(&self, key: &str, service: &Service) -> Option<Box<str>> {
        self.ledger
            .reported(key, service)
            .or_else(|| condition::shown(service))
            .map(|shown| shown.reason)
    }
}

fn recreated(name: &str) -> kube::Error {
    let message =
        format!("service {name:?} was deleted and created again; the new Service is synced next");
    kube::Error::Api(
        Status::failure(&message, reason::CONFLICT)
            .with_code(409)
            .boxed(),
    )
}
