//! Load balancers for Services of type `LoadBalancer`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
pub use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};

use crate::{Cluster, Error, LoadBalancerDescription, Node, OwnedResource, RemovalOutcome, Result};

/// The input of every call about one load balancer.
///
/// Service and Nodes are shared with the cache and read-only (PROV-22).
///
/// ```
/// use cloud_provider::{Cluster, LoadBalancerRequest, Service};
///
/// let cluster = Cluster { name: "kubernetes".into(), id: None };
/// let request = LoadBalancerRequest { cluster: &cluster, service: &Service::default(), nodes: &[], callbacks: &() };
/// assert!(request.nodes.is_empty());
/// ```
#[derive(Clone, Copy)]
pub struct LoadBalancerRequest<'a> {
    /// The cluster that the Service belongs to.
    pub cluster: &'a Cluster,
    /// The Service as the controller has it; it may be older than the object in the API (PROV-33).
    pub service: &'a Service,
    /// The Nodes that traffic goes to, possibly none. Empty for `get` and `delete`.
    pub nodes: &'a [Arc<Node>],
    /// Callbacks of the sync: they receive the plan, the annotations to write, and the start and end of each wait.
    pub callbacks: &'a dyn SyncCallbacks,
}

/// The callbacks of a sync of one Service. The controller implements them: it writes events, annotations and addresses
/// for the provider, and lends out the worker permit while the provider waits.
///
/// ```
/// use cloud_provider::{Plan, SyncCallbacks};
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Remember(Mutex<Vec<String>>);
///
/// impl SyncCallbacks for Remember {
///     fn on_plan(&self, plan: &Plan) {
///         self.0.lock().unwrap().extend(plan.steps.iter().map(ToString::to_string));
///     }
/// }
/// ```
#[async_trait]
pub trait SyncCallbacks: Send + Sync {
    /// Reports the plan. Called once at most, before the first request that changes anything. Controllers write events
    /// from it (D-4).
    fn on_plan(&self, plan: &Plan);

    /// Requests this annotation on the Service; `None` removes it. The controller writes all requested annotations in
    /// one request after [`ensure`](LoadBalancers::ensure) has returned, even if it failed, and only if they differ
    /// from those of the Service.
    fn annotate(&self, _key: &'static str, _value: Option<String>) {}

    /// Reports the ID of the Service's load balancer, for a provider without an annotation of its own for the ID. The
    /// controller writes it to the annotation `ccm-rs/load-balancer-id`, together with other changes of the Service: no
    /// request is sent for this annotation alone.
    fn set_load_balancer_id(&self, _id: &str) {}

    /// Reports a warning about the Service's load balancers. Controllers write an event from it.
    fn warn(&self, _warning: &LoadBalancerWarning) {}

    /// Writes these addresses to the Service's status now, and the annotations that were requested so far. Called
    /// before the load balancer behind the old addresses is deleted.
    ///
    /// # Errors
    /// An error if the addresses could not be written. Then nothing may be deleted.
    async fn publish(&self, _status: &LoadBalancerStatus) -> Result<()> {
        Ok(())
    }

    /// Releases the worker permit while the provider only waits for the cloud, so that a slow load balancer does not
    /// hold up other Services (INV-6).
    fn release_permit(&self) {}

    /// Reacquires the worker permit after the wait.
    async fn reacquire_permit(&self) {}
}

/// Callbacks that ignore all calls.
impl SyncCallbacks for () {
    fn on_plan(&self, _plan: &Plan) {}
}

/// A warning about the load balancers of a Service, for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadBalancerWarning {
    /// The load balancer is going to be replaced by a new one, with another address or after an interruption.
    Replacing {
        /// The load balancer, the settings that differ, and the order.
        text: String,
    },
    /// A second load balancer carries the Service's owner tags. It stays.
    Twin {
        /// The two load balancers, and what to do.
        text: String,
    },
}

impl LoadBalancerWarning {
    /// Returns the text for people.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Replacing { text } | Self::Twin { text } => text,
        }
    }
}

/// The steps that lead from the observed to the desired state of a Service, in order. Empty if the states agree.
///
/// ```
/// use cloud_provider::{Plan, PlanAction, PlanStep};
///
/// assert!(Plan::default().is_empty());
/// let step = PlanStep { action: PlanAction::Create, what: "listener 443/TCP".into(), detail: String::new() };
/// assert_eq!(Plan { steps: vec![step], ..Plan::default() }.steps.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Steps, in an order that is safe.
    pub steps: Vec<PlanStep>,
    /// Sentences about what stays as it is and needs a person's attention.
    pub notes: Vec<String>,
}

impl Plan {
    /// Returns `true` if the plan has no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// A step of a [`Plan`], for people and for JSON.
///
/// ```
/// use cloud_provider::{PlanAction, PlanStep};
///
/// let step = PlanStep { action: PlanAction::Update, what: "target worker-1".into(), detail: "10.0.0.4 → 10.0.0.9".into() };
/// assert_eq!(step.to_string(), "update target worker-1: 10.0.0.4 → 10.0.0.9");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// Action of the step.
    pub action: PlanAction,
    /// Object of the action: `load balancer "a7f3"`, `listener 443/TCP`.
    pub what: String,
    /// Old and new value, where they are of use: `10.0.0.4 → 10.0.0.9`.
    pub detail: String,
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.what)?;
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.detail)
        }
    }
}

/// The action of a [`PlanStep`].
///
/// ```
/// assert_eq!(cloud_provider::PlanAction::Delete.to_string(), "delete");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAction {
    /// A new object is created.
    Create,
    /// An object is changed in place.
    Update,
    /// An object is deleted.
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

/// The goal of a plan.
///
/// ```
/// assert_ne!(cloud_provider::Goal::Ensured, cloud_provider::Goal::Deleted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The load balancer has the desired state of the Service.
    Ensured,
    /// The load balancer is deleted, with everything that belongs to it.
    Deleted,
}

/// The mistakes in a Service that are found without calling the cloud, for an admission webhook and for `check`.
///
/// ```
/// use cloud_provider::ServiceReview;
///
/// let review = ServiceReview { errors: vec!["port 53: protocol \"UDP\" is not one of TCP".into()], warnings: vec![] };
/// assert!(!review.is_clean() && ServiceReview::default().is_clean());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceReview {
    /// Mistakes for which [`ensure`](LoadBalancers::ensure) refuses the Service: each names the annotation or field,
    /// its value and the accepted values.
    pub errors: Vec<String>,
    /// Settings that work, but probably not as the user intends, such as unknown annotations.
    pub warnings: Vec<String>,
}

impl ServiceReview {
    /// Returns `true` if there is nothing to correct.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.warnings.is_empty()
    }
}

/// The property of a Node that identifies the target of a load balancer. Nodes without the property are no targets, and
/// the controllers report them.
///
/// ```
/// assert_eq!(cloud_provider::TargetIdentity::default(), cloud_provider::TargetIdentity::ProviderId);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetIdentity {
    /// The provider ID: Nodes without one, and Nodes of another cloud, are no targets.
    #[default]
    ProviderId,
    /// The provider ID, or the name of a Node without one: Nodes of another cloud are no targets.
    ProviderIdOrName,
    /// The addresses of Nodes with a provider ID, of whatever cloud.
    AddressesAndProviderId,
    /// The addresses, whatever the provider ID.
    Addresses,
    /// Nodes are no targets at all.
    None,
}

/// Load balancers of a cloud.
///
/// Calls for different Services run in parallel; calls for one Service never overlap (PROV-36, D-9). Every call is
/// idempotent and may be dropped at any await point: an object that was created must be found again by its owner tags
/// (INV-2).
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
    /// Returns the load balancer of this Service, or `None` *without an error* if no part of it exists (PROV-30, D-16).
    ///
    /// # Errors
    /// The cloud's answer, if it is unknown whether the load balancer exists; an error stops a deletion.
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>>;

    /// Returns the name that this provider gives the load balancer of this Service; by default
    /// [`default_load_balancer_name`] (PROV-31).
    fn name(&self, _cluster: &Cluster, service: &Service) -> String {
        default_load_balancer_name(service)
    }

    /// Creates or updates the load balancer (PROV-32). The returned ingress list replaces the Service's whole
    /// `status.loadBalancer.ingress`; success without a status is an error of the provider (SVC-51).
    ///
    /// # Errors
    /// *Implemented elsewhere* if another controller manages the load balancer (PROV-35); a *retry-after* error
    /// requests a fixed delay (PROV-37); *invalid* becomes an event on the Service.
    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>>;

    /// Sets the targets of an existing load balancer to the Nodes of the request, and changes nothing else. Idempotent
    /// (PROV-33).
    ///
    /// # Errors
    /// The cloud's answer; the call is repeated later.
    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()>;

    /// Deletes the load balancer and everything that was created for it. Succeeds if it no longer exists or never
    /// existed (PROV-34).
    ///
    /// # Errors
    /// *Protected* if a user must remove a protection first; else the cloud's answer. Never *implemented elsewhere*.
    /// The Service keeps its finalizer until the call succeeds.
    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()>;

    /// Returns `true` if the targets of this Service depend on labels or provider IDs of Nodes, such as by a selector
    /// in an annotation: then [`update_targets`](Self::update_targets) is called when those change, too.
    fn targets_follow_labels(&self, _service: &Service) -> bool {
        false
    }

    /// Returns `true` if targets are addresses from the status of Nodes instead of machines: then
    /// [`update_targets`](Self::update_targets) is also called when these addresses change, for example when a new Node
    /// gets its addresses, which happens after it got its provider ID.
    fn targets_follow_addresses(&self) -> bool {
        false
    }

    /// Returns the property of a Node that identifies its target. By default, a Node is a target only with a provider
    /// ID of this cloud (P-8, P-15).
    fn target_identity(&self) -> TargetIdentity {
        TargetIdentity::ProviderId
    }

    /// Returns the keys of Node annotations that decide about targets, such as an annotation that makes a Node a
    /// backend: for Services whose targets [follow labels](Self::targets_follow_labels),
    /// [`update_targets`](Self::update_targets) is called when one of these changes, too.
    fn target_annotations(&self) -> &[String] {
        &[]
    }

    /// Returns the orphans as of the last list, one text for people for each: load balancers whose owner tags name a
    /// deleted Service of this cluster (P-19). `service_exists` returns `true` if a Service with the given UID exists.
    /// Called for each scrape of the metrics, so it must send no request. `None` before the first list.
    fn orphans(
        &self,
        _cluster: &Cluster,
        _service_exists: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        None
    }

    /// Finds mistakes in a Service without calling the cloud. Must work without a credential: the admission webhook
    /// calls it for each write of a Service, and `check` for manifests in pipelines. The Service may lack its status,
    /// and its node ports may be placeholders.
    fn review(&self, _service: &Service) -> ServiceReview {
        ServiceReview::default()
    }

    /// Reads all load balancers whose owner tags name this cluster, by its ID or by its name, whether their Services
    /// exist or not. A partial list is an error.
    ///
    /// # Errors
    /// *Not implemented* by default.
    async fn owned(&self, _cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        Err(Error::not_implemented())
    }

    /// Reads one of the cluster's load balancers by its ID, with all details. `services` are all Services of the
    /// cluster; one that may adopt the load balancer is returned as its
    /// [`adopting_service`](OwnedResource::adopting_service). `None` if the load balancer no longer exists, or carries
    /// no owner tags of this cluster.
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

    /// Deletes a load balancer whose Service no longer exists, with everything that was created for it. The load
    /// balancer is read first, and left alone if its owner tags are not those of `resource` any more, or if one of
    /// `services`, which are all Services of the cluster, may adopt it.
    ///
    /// # Errors
    /// *Protected* if a user must lift a protection first; *invalid* if the load balancer has changed; *not
    /// implemented* by default.
    async fn delete_owned(
        &self,
        _cluster: &Cluster,
        _resource: &OwnedResource,
        _services: &[Arc<Service>],
    ) -> Result<RemovalOutcome> {
        Err(Error::not_implemented())
    }

    /// Returns `true` if this provider reports plans to the callbacks, and implements [`plan`](Self::plan).
    fn has_plans(&self) -> bool {
        false
    }

    /// Returns the steps that [`ensure`](Self::ensure) or [`delete`](Self::delete) would carry out, without changing
    /// anything (P-31).
    ///
    /// # Errors
    /// *Not implemented* by default.
    async fn plan(&self, _request: LoadBalancerRequest<'_>, _goal: Goal) -> Result<Plan> {
        Err(Error::not_implemented())
    }

    /// Describes the load balancers of a Service for `explain`: the Service's own, and others under its name.
    /// Read-only. Targets are named after the Nodes of the request.
    ///
    /// # Errors
    /// *Not implemented* by default.
    async fn describe(
        &self,
        _request: LoadBalancerRequest<'_>,
    ) -> Result<Vec<LoadBalancerDescription>> {
        Err(Error::not_implemented())
    }
}

/// Returns the default name of a load balancer: `a` and the Service's UID without hyphens, 32 bytes at most (HELP-70).
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
    std::iter::once('a')
        .chain(uid.chars().filter(|c| *c != '-'))
        .take(32)
        .collect()
}

/// Returns `true` if a name has the form of a [default name](default_load_balancer_name), of whatever Service.
///
/// ```
/// use cloud_provider::is_default_load_balancer_name;
///
/// assert!(is_default_load_balancer_name("a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1"));
/// assert!(!is_default_load_balancer_name("a-web") && !is_default_load_balancer_name("web"));
/// ```
#[must_use]
pub fn is_default_load_balancer_name(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix('a')
        .is_some_and(|digits| digits.len() == 31 && digits.bytes().all(is_digit))
}
