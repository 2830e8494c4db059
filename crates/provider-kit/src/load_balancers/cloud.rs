//! The trait by which a provider describes its cloud's load balancers.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_provider::{
    AdoptableTag, Cluster, LoadBalancerRequest, LoadBalancerStatus, Result, Service, TargetHealth,
    TargetIdentity, async_trait,
};

use super::model::{ObservedLoadBalancer, ResourceGraph, ResourceKey};
use super::ownership::Identity;
use super::tags::tag_text;
use super::targets::{TargetSets, Targets};
use super::{Applied, Change, Naming};
use crate::annotations::Parsed;
use crate::operation::Polling;
use crate::paging::ListResult;

/// A cloud's load balancers: the desired state of a Service, and how load balancers are read and changed. Five methods
/// are required; [`LoadBalancerEngine::of`](super::LoadBalancerEngine::of) implements everything else on top of them.
///
/// Calls for one Service never overlap; any call may be dropped at any await point. Every object that
/// [`apply`](Self::apply) creates must carry the owner tags from the moment it exists, or be reachable from an object
/// that does.
#[async_trait]
pub trait LoadBalancerCloud: Send + Sync + 'static {
    /// The Service, parsed into the settings that this cloud supports.
    type Spec: Send + Sync + 'static;

    /// Returns whether the cloud refuses a second load balancer of the same name. There is no default: a cloud that
    /// accepts a second one would get two for one Service if it were treated like a cloud that refuses it.
    fn name_uniqueness(&self) -> NameUniqueness;

    /// Parses a Service. The method is called once for each sync and is pure: the same Service gives the same result.
    fn spec(&self, service: &Service) -> Parsed<Self::Spec>;

    /// Builds the desired state from the spec and from lookups in the cloud. Reads no load balancer, and changes
    /// nothing. The spec has no mistakes in the settings that [`DesiredStateInput::scope`] covers.
    ///
    /// # Errors
    /// *Invalid*, naming the annotation or field, its value and the accepted values, for a mistake that the user must
    /// correct.
    async fn desired(&self, input: &DesiredStateInput<'_, Self::Spec>) -> Result<ResourceGraph>;

    /// Reads load balancers.
    ///
    /// # Errors
    /// Every answer of the cloud except "there is no load balancer with this ID".
    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>>;

    /// Carries out the first of the change's operations, or as many as one request can do. The method is not called
    /// while the cloud is changing the load balancer.
    ///
    /// *Conflict* if the load balancer already exists or has changed: the engine reads it and plans again. *Protected*
    /// if a user must lift a protection first. After any error the state is unknown, and the engine reads the load
    /// balancer before the next change.
    async fn apply(&self, change: Change<'_>, spec: &Self::Spec) -> Result<Applied>;

    /// Returns the names and owner tags by which a Service's load balancer is known.
    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        Naming::of(service)
    }

    /// Fits the desired state to the observed state, for example to a load balancer that several Services share, where
    /// only the first one decides about some settings.
    ///
    /// # Errors
    /// *Invalid*, for a mistake that the user must correct.
    fn fit(
        &self,
        desired: ResourceGraph,
        _observed: &ObservedLoadBalancer,
        _identity: &Identity<'_>,
        _spec: &Self::Spec,
    ) -> Result<ResourceGraph> {
        Ok(desired)
    }

    /// Decides if a load balancer is adopted that has the Service's name, but neither owner tags nor the legacy owner
    /// tag of this Service: for clouds whose users create load balancers by other means. A load balancer of an existing
    /// Service is refused without a call; an adopted one is not deleted before it carries owner tags.
    fn adopts(&self, _observed: &ObservedLoadBalancer, _identity: &Identity<'_>) -> Adoption {
        Adoption::Refuse
    }

    /// Returns the tags by which an administrator of the cloud permits an [adoption](Options::adoptable_tag), each of the
    /// form `KEY` or `KEY=VALUE`: the labels, unless the provider keeps tags elsewhere.
    fn adoption_tags(&self, observed: &ObservedLoadBalancer) -> Vec<String> {
        observed
            .labels
            .iter()
            .map(|(key, value)| tag_text(key, value))
            .collect()
    }

    /// Returns the parts of the Service that show its load balancer: status and annotations.
    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        _service: &Service,
        _spec: &Self::Spec,
    ) -> Published {
        Published {
            status: observed.status(),
            annotations: Vec::new(),
        }
    }

    /// Returns the key of the lock that serializes changes, for example of a load balancer that several Services share.
    /// Changes with the same key run one after the other.
    fn lock(&self, _observed: &ObservedLoadBalancer) -> Option<String> {
        None
    }

    /// Returns namespace and name of the Service, if the owner tags name them in addition to its UID. Objects that were
    /// created for a Service and are found by such a name are deleted with the orphan of a Service that no longer
    /// exists.
    fn owner_name(&self, _observed: &ObservedLoadBalancer) -> Option<(String, String)> {
        None
    }

    /// Checks that a load balancer may be created for the Service, for example that its annotation does not name one that
    /// does not exist, or that a setting is stated that only a new load balancer needs. Called before a creation is
    /// planned or carried out, so that a plan does not promise what every sync refuses.
    ///
    /// # Errors
    /// *Invalid*, with what the user must correct; or the cloud's answer.
    async fn check_creation(
        &self,
        _identity: &Identity<'_>,
        _spec: &Self::Spec,
        _desired: &ResourceGraph,
    ) -> Result<()> {
        Ok(())
    }

    /// Decides if a load balancer must be replaced, because a setting differs that the cloud does not change in place.
    /// Called for the load balancer that an `ensure` would change. A cloud that refuses a second load balancer of the
    /// same name returns no [`Replacement::NewFirst`].
    ///
    /// # Errors
    /// *Invalid*, naming the settings and the annotation that allows a replacement, if the user has not allowed it.
    fn replacement(
        &self,
        _desired: &ResourceGraph,
        _observed: &ObservedLoadBalancer,
        _service: &Service,
        _spec: &Self::Spec,
    ) -> Result<Replacement> {
        Ok(Replacement::None)
    }

    /// Decides how to recover from a [failed](super::State::Failed) load balancer that belongs to the Service alone.
    fn recovery(&self, _observed: &ObservedLoadBalancer, _service: &Service) -> Recovery {
        Recovery::Never
    }

    /// Returns the keys of Node annotations that decide about targets. They count for Services whose targets [follow
    /// labels](Parsed::targets_follow_labels).
    fn target_annotations(&self) -> &[String] {
        &[]
    }

    /// Reads the health of a load balancer's targets, for `explain`. `None` if the cloud does not report it; targets
    /// without an entry have not been checked yet.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn target_health(
        &self,
        _observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        Ok(None)
    }

    /// Reports a notice to the user, for example by an event.
    fn report(&self, _notice: Notice<'_>) {}
}

/// The behavior of a cloud towards a second load balancer of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameUniqueness {
    /// The cloud refuses it with a *conflict*, so a name proves that there is only one.
    Unique,
    /// The cloud accepts it, so load balancers are searched before one is created.
    NotUnique,
}

/// The part of the desired state that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole desired state.
    Everything,
    /// Only pools with their targets: nothing but targets is changed. A mistake in another setting keeps no Node from
    /// becoming a target, and no lookup is needed for it.
    Targets,
}

/// The input from which the desired state is built.
pub struct DesiredStateInput<'a, S> {
    /// The Service and the Nodes that may be targets.
    pub request: &'a LoadBalancerRequest<'a>,
    /// The spec parsed from the Service.
    pub spec: &'a S,
    /// The requested part of the desired state.
    pub scope: Scope,
}

/// The load balancers to read.
#[derive(Clone, Copy)]
pub enum Query<'a> {
    /// Every load balancer of the account. The list may lag behind. Call [`ObservedLoadBalancer::sharing`] with these
    /// sets as soon as a page is read: a thousand load balancers mostly have the same thousand targets.
    All(&'a TargetSets),
    /// Every load balancer that carries this Service's owner tags, its legacy owner tag or its name, whoever owns it,
    /// from a source that does not lag behind. Used before a deletion and wherever the answer must be certain. The
    /// engine refuses a partial list.
    Owner(&'a Identity<'a>),
    /// The load balancers with these IDs; IDs that do not exist are left out.
    Ids(&'a [String], Detail),
}

/// The level of detail that is read for each load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The whole load balancer.
    Whole,
    /// ID and state. Polled while the cloud is changing the load balancer, so worth a single request if the API allows
    /// it.
    State,
}

/// The decision to adopt a load balancer by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The load balancer is adopted.
    Adopt,
    /// The load balancer is refused.
    Refuse,
    /// The load balancer is refused, but would be adopted after the given action, which ends the sentence "Rename or
    /// delete it, or …": `or give it the label x`.
    RefuseUnless(String),
    /// The load balancer is refused. The text says what makes it the Service's in a cloud whose load balancers get no tags
    /// later, and ends the sentence "Rename or delete it, or …": `or write this into its description: x`.
    RefuseWithAdvice(String),
}

/// The replacement of a load balancer that cannot be changed to the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The load balancer stays, and is changed in place.
    None,
    /// A new load balancer is created first. The old one stays in use until the new one works and the Service shows its
    /// address. With the settings that differ.
    NewFirst(String),
    /// The old load balancer is deleted before the new one is created, for example because both need the same address:
    /// an interruption, which the user must have allowed. With the settings that differ.
    OldFirst(String),
}

impl Replacement {
    /// Returns `true` if another load balancer takes the place of this one.
    #[must_use]
    pub fn is_due(&self) -> bool {
        *self != Self::None
    }
}

/// The recovery of a load balancer that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The load balancer stays, and the Service gets an error.
    Never,
    /// The load balancer stays, and the error ends with a hint for the user: a sentence without a full stop.
    ByHand(String),
    /// The load balancer is deleted and created again. Only safe if it never worked, because its address is lost.
    Replace,
}

/// The parts of a Service that show its load balancer.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The load balancer status of the Service.
    pub status: LoadBalancerStatus,
    /// Annotations that describe the load balancer: key, and value or `None`. Written where they differ.
    pub annotations: Vec<(&'static str, Option<String>)>,
}

/// A notice to report to the user.
#[derive(Clone, Copy)]
pub enum Notice<'a> {
    /// A Service has moved to another load balancer, and the old one is about to be deleted.
    Moved {
        /// The Service that has the load balancer.
        service: &'a Service,
        /// The old load balancer.
        from: &'a ObservedLoadBalancer,
        /// The new load balancer.
        to: &'a ObservedLoadBalancer,
    },
    /// Targets were left out because their pool is at its [limit](ResourceGraph::limit). Reported once per run of the
    /// process, and again after they were targets in between.
    TargetsLeftOut {
        /// The Service and the Nodes that may be targets.
        request: &'a LoadBalancerRequest<'a>,
        /// The name of the pool.
        pool: &'a str,
        /// The targets without room.
        targets: &'a Targets,
    },
}

/// Properties of a cloud that hold for all of its load balancers.
#[derive(Clone)]
pub struct Options {
    /// The polling intervals and timeout for work that the cloud does in the background. All load balancers that are
    /// waited for are read together, so the interval may be short.
    pub polling: Polling,
    /// If set, targets are addresses of Nodes instead of machines, and are planned again when addresses change.
    pub targets_follow_addresses: bool,
    /// The property of a Node that identifies its target.
    pub target_identity: TargetIdentity,
    /// If set, an annotation in [`Published`] names the load balancer's ID, and the Service needs no other annotation
    /// for it.
    pub annotates_id: bool,
    /// Returns `true` for resources that belong to the Service rather than to one of its load balancers, such as a
    /// security group: they stay if the Service keeps another load balancer.
    pub outlives: fn(&ResourceKey) -> bool,
    /// Tag that a load balancer must have before a Service adopts it: that of the [`Setup`](cloud_provider::Setup). `None`
    /// if none is needed.
    pub adoptable_tag: Option<AdoptableTag>,
    /// Settings of the load balancer itself that decide about its price, such as type and size; `orphans` shows them.
    pub price: &'static [&'static str],
}

impl Default for Options {
    fn default() -> Self {
        let polling = Polling {
            max_interval: Duration::from_secs(1),
            ..Polling::default()
        };
        Self {
            polling,
            targets_follow_addresses: false,
            target_identity: TargetIdentity::ProviderId,
            annotates_id: false,
            outlives: |_| false,
            adoptable_tag: None,
            price: &[],
        }
    }
}
