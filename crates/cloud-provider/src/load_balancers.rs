//! Load balancers for Services of type `LoadBalancer`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
pub use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};

use crate::{Cluster, Error, LoadBalancerDescription, Node, OwnedResource, Removal, Result};

/// What every call about one load balancer is given.
///
/// Service and Nodes are shared with the cache and read-only (PROV-22).
///
/// ```
/// use cloud_provider::{Cluster, LoadBalancerRequest, Service};
///
/// let cluster = Cluster { name: "kubernetes".into(), id: None };
/// let request = LoadBalancerRequest { cluster: &cluster, service: &Service::default(), nodes: &[], observer: &() };
/// assert!(request.nodes.is_empty());
/// ```
#[derive(Clone, Copy)]
pub struct LoadBalancerRequest<'a> {
    /// The cluster that the Service belongs to.
    pub cluster: &'a Cluster,
    /// The Service as the controller knows it; it can be older than the object in the API (PROV-33).
    pub service: &'a Service,
    /// The Nodes that traffic goes to, possibly none. Empty for `get` and `delete`.
    pub nodes: &'a [Arc<Node>],
    /// Told what will change, before it is changed.
    pub observer: &'a dyn SyncObserver,
}

/// Who asked for a change, and hears how it goes: the controller that syncs one Service.
///
/// ```
/// use cloud_provider::{Plan, SyncObserver};
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Remember(Mutex<Vec<String>>);
///
/// impl SyncObserver for Remember {
///     fn planned(&self, plan: &Plan) {
///         self.0.lock().unwrap().extend(plan.steps.iter().map(ToString::to_string));
///     }
/// }
/// ```
#[async_trait]
pub trait SyncObserver: Send + Sync {
    /// Called once at most, before the first request that changes anything. Controllers write events from it (D-4).
    fn planned(&self, plan: &Plan);

    /// Asks for this annotation on the Service; `None`: that it goes. It is written after the call, whether that succeeds or
    /// not, with all others in one request, and only if it is not so already.
    fn annotate(&self, _key: &'static str, _value: Option<String>) {}

    /// Reports the ID of the Service's load balancer, if no annotation of the provider's own names it. The controller shows it in
    /// `ccm-rs/load-balancer-id`, and sends no request for it alone.
    fn identified(&self, _id: &str) {}

    /// Shows these addresses on the Service now, with the annotations that were asked for: what the addresses lead to that it
    /// shows yet is about to be taken away.
    ///
    /// # Errors
    /// They could not be written. Then nothing may be taken away.
    async fn publish(&self, _status: &LoadBalancerStatus) -> Result<()> {
        Ok(())
    }

    /// From here on the provider only waits for what the cloud does in the background: somebody else may work meanwhile, so
    /// that slow load balancers hold up no others (INV-6).
    fn waits(&self) {}

    /// The wait is over; returns when it is this sync's turn again.
    async fn goes_on(&self) {}
}

/// An observer that does not listen.
impl SyncObserver for () {
    fn planned(&self, _plan: &Plan) {}
}

/// Steps that lead from what a cloud has to what a Service wants, in order. Empty: nothing to do.
///
/// ```
/// use cloud_provider::{Plan, PlanAction, PlanStep};
///
/// assert!(Plan::default().is_empty());
/// let step = PlanStep { action: PlanAction::Create, what: "listener 443/TCP".into(), detail: String::new() };
/// assert_eq!(Plan { steps: vec![step] }.steps.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in the order in which they are safe.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// One step of a [`Plan`], for people and for JSON.
///
/// ```
/// use cloud_provider::{PlanAction, PlanStep};
///
/// let step = PlanStep { action: PlanAction::Update, what: "target worker-1".into(), detail: "10.0.0.4 → 10.0.0.9".into() };
/// assert_eq!(step.to_string(), "update target worker-1: 10.0.0.4 → 10.0.0.9");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// What is done.
    pub action: PlanAction,
    /// To what: `load balancer "a7f3"`, `listener 443/TCP`.
    pub what: String,
    /// From which value to which, where that says more: `10.0.0.4 → 10.0.0.9`.
    pub detail: String,
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.what)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

/// What a [`PlanStep`] does.
///
/// ```
/// assert_eq!(cloud_provider::PlanAction::Delete.to_string(), "delete");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAction {
    /// Something new is made.
    Create,
    /// Something is changed in place.
    Update,
    /// Something is removed.
    Delete,
}

impl fmt::Display for PlanAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        })
    }
}

/// What a plan leads to.
///
/// ```
/// assert_ne!(cloud_provider::Goal::Ensured, cloud_provider::Goal::Deleted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The load balancer is what the Service wants.
    Ensured,
    /// Nothing of it is left.
    Deleted,
}

/// Mistakes in a Service that are found without asking the cloud, for those who write the Service: an admission webhook and
/// `check`.
///
/// ```
/// use cloud_provider::ServiceReview;
///
/// let review = ServiceReview { errors: vec!["port 53: protocol \"UDP\" is not one of TCP".into()], warnings: vec![] };
/// assert!(!review.is_clean() && ServiceReview::default().is_clean());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceReview {
    /// Mistakes for which [`ensure`](LoadBalancers::ensure) refuses the Service: each names the annotation or field, its value
    /// and what is accepted.
    pub errors: Vec<String>,
    /// Settings that work, but hardly as the user means them, such as unknown annotations.
    pub warnings: Vec<String>,
}

impl ServiceReview {
    /// Returns `true` if there is nothing to correct.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.warnings.is_empty()
    }
}

/// Load balancers of a cloud.
///
/// Calls for different Services run in parallel; calls for one Service never overlap (PROV-36, D-9). Every call is
/// idempotent and may be dropped at any await: whatever was created must be found again by its mark (INV-2).
///
/// ```
/// use cloud_provider::{async_trait, LoadBalancerIngress, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Result};
///
/// struct Acme;
///
/// #[async_trait]
/// impl LoadBalancers for Acme {
///     async fn get(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> { Ok(None) }
///     async fn ensure(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
///         let ingress = LoadBalancerIngress { ip: Some("203.0.113.9".into()), ..Default::default() };
///         Ok(Some(LoadBalancerStatus { ingress: Some(vec![ingress]) }))
///     }
///     async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> { Ok(()) }
///     async fn delete(&self, _: LoadBalancerRequest<'_>) -> Result<()> { Ok(()) }
/// }
/// ```
#[async_trait]
pub trait LoadBalancers: Send + Sync {
    /// The load balancer of this Service, or `None` *without an error* if no part of it exists (PROV-30, D-16). An error
    /// means "could not find out" and stops a tear-down.
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>>;

    /// The name that this provider gives the load balancer (PROV-31).
    fn name(&self, _cluster: &Cluster, service: &Service) -> String {
        default_load_balancer_name(service)
    }

    /// Creates or updates it (PROV-32). The returned ingress list replaces the Service's whole
    /// `status.loadBalancer.ingress`; success without a status is an error of the provider (SVC-51).
    ///
    /// # Errors
    /// *Implemented elsewhere* if another controller runs it (PROV-35); a *retry-after* error asks for a fixed delay
    /// (PROV-37); *invalid* becomes an event on the Service.
    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>>;

    /// Changes only where traffic goes to (PROV-33).
    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()>;

    /// Removes it and all that was made for it. Success if it is gone or never existed (PROV-34). Never answers
    /// *implemented elsewhere*.
    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()>;

    /// Whether the targets of this Service depend on labels or provider ids of Nodes, such as by a selector in an annotation:
    /// then [`update_targets`](Self::update_targets) is called when those change, too.
    fn targets_follow_labels(&self, _service: &Service) -> bool {
        false
    }

    /// Whether traffic goes to addresses of Nodes, as their status tells them, and not to machines: then
    /// [`update_targets`](Self::update_targets) is called when those change, too; a Node that joins has them after its provider
    /// id.
    fn targets_follow_addresses(&self) -> bool {
        false
    }

    /// Returns the keys of Node annotations that decide about targets, such as one that makes a Node a backend: for Services whose
    /// targets [follow labels](Self::targets_follow_labels), [`update_targets`](Self::update_targets) is called when one of these
    /// changes, too.
    fn target_annotations(&self) -> &[String] {
        &[]
    }

    /// Load balancers that were marked for a Service of this cluster that is gone, as the cloud showed them when it was last
    /// asked for all: a text that names each for people (P-19). `lives`: whether there is a Service of this UID. Nothing is sent:
    /// this is asked for whenever somebody reads the metrics. `None`: nobody knows.
    fn orphans(&self, _cluster: &Cluster, _lives: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        None
    }

    /// Finds mistakes in a Service without asking the cloud. Sends nothing, and needs no credential: called for each write of a
    /// Service, and for files in pipelines. The Service has no status, and its node ports may stand for others.
    fn review(&self, _service: &Service) -> ServiceReview {
        ServiceReview::default()
    }

    /// Reads all load balancers with owner tags of this cluster, whether their Services exist or not: those that name its ID, and
    /// those that name it by its name. From a complete list, or not at all.
    ///
    /// # Errors
    /// *Not implemented* by default.
    async fn owned(&self, _cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        Err(Error::not_implemented())
    }

    /// Reads one of them by its ID, with everything that is known of it. `services`: all Services of the cluster, among which an
    /// [heir](OwnedResource::heir) is looked for. `None` if it no longer exists, or carries no owner tags of this cluster.
    ///
    /// # Errors
    /// *Not implemented* by default.
    async fn read_owned(
        &self,
        _cluster: &Cluster,
        _id: &str,
        _services: &[Arc<Service>],
    ) -> Result<Option<OwnedResource>> {
        Err(Error::not_implemented())
    }

    /// Deletes a load balancer whose Service no longer exists, with all that was created for it. The load balancer is read first,
    /// and left alone if its owner tags are not those of `resource` any more, or if one of `services`, which are all of the
    /// cluster, may take it over.
    ///
    /// # Errors
    /// *Protected* if a person must lift a protection first; *invalid* if it is not what it was; *not implemented* by default.
    async fn delete_owned(
        &self,
        _cluster: &Cluster,
        _resource: &OwnedResource,
        _services: &[Arc<Service>],
    ) -> Result<Removal> {
        Err(Error::not_implemented())
    }

    /// Whether this provider tells the observer what it will do, and answers [`plan`](Self::plan).
    fn has_plans(&self) -> bool {
        false
    }

    /// What [`ensure`](Self::ensure) or [`delete`](Self::delete) would do, found out without changing anything (P-31).
    ///
    /// # Errors
    /// *Not implemented* by default.
    async fn plan(&self, _request: LoadBalancerRequest<'_>, _goal: Goal) -> Result<Plan> {
        Err(Error::not_implemented())
    }

    /// Returns what the cloud has of this Service's load balancer, for `explain`: the Service's own, and what stands where its own
    /// would be. Sends nothing but reads. The Nodes of the request are those that targets are named after.
    ///
    /// # Errors
    /// *Not implemented* by default.
    async fn describe(&self, _request: LoadBalancerRequest<'_>) -> Result<Vec<LoadBalancerDescription>> {
        Err(Error::not_implemented())
    }
}

/// The historic name of a load balancer: `a` and the Service's UID without hyphens, 32 bytes at most (HELP-70).
///
/// ```
/// use cloud_provider::{default_load_balancer_name, Service};
///
/// let mut service = Service::default();
/// service.metadata.uid = Some("0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".into());
/// assert_eq!(default_load_balancer_name(&service), "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1");
/// ```
#[must_use]
pub fn default_load_balancer_name(service: &Service) -> String {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    std::iter::once('a').chain(uid.chars().filter(|c| *c != '-')).take(32).collect()
}
