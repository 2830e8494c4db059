//! The trait by which a provider describes its cloud's load balancers.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_provider::{Cluster, LoadBalancerRequest, LoadBalancerStatus, Result, Service, TargetHealth, async_trait};

use super::model::{Actual, Part, Tree};
use super::ownership::Identity;
use super::targets::{TargetSets, Targets};
use super::{Applied, Change, Naming};
use crate::annotations::Parsed;
use crate::operation::Polling;
use crate::paging::Reading;

/// A cloud's load balancers: what a Service desires there, and how they are read and changed. Five methods are required.
/// [`Balancers::of`](super::Balancers::of) makes everything else of it.
///
/// Calls for one Service never overlap; any call may be dropped at any await. Everything that [`apply`](Self::apply) creates
/// must carry the owner labels from the moment on that it exists, or be found from something that does.
#[async_trait]
pub trait LoadBalancerCloud: Send + Sync + 'static {
    /// The Service, parsed into what this cloud can do.
    type Spec: Send + Sync + 'static;

    /// Says whether the cloud refuses a second load balancer of the same name. There is no default: a cloud that accepts a second
    /// one gets two for one Service if it is treated like one that does not.
    fn names(&self) -> Names;

    /// Parses a Service. Called once for each sync, and pure: the same Service gives the same answer.
    fn spec(&self, service: &Service) -> Parsed<Self::Spec>;

    /// Builds the desired state from the spec and from what must be looked up for it. Reads no load balancer, and changes
    /// nothing. The spec has no mistakes in what [`Desire::scope`] covers.
    ///
    /// # Errors
    /// *Invalid*, naming the annotation or field, its value and what is accepted, for what the user must change.
    async fn desired(&self, desire: &Desire<'_, Self::Spec>) -> Result<Tree>;

    /// Reads load balancers.
    ///
    /// # Errors
    /// Every answer of the cloud but "there is none of this ID".
    async fn read(&self, query: Query<'_>) -> Result<Reading<Actual>>;

    /// Carries out the first of the change's operations, or as many as one request can do. Not called while the cloud is at
    /// work on the load balancer.
    ///
    /// # Errors
    /// *Conflict* if it exists already, or has changed: it is read again, and planned again. *Protected* if a person must lift
    /// something first. After any error nobody knows what was done, and it is read again before the next change.
    async fn apply(&self, change: Change<'_>, spec: &Self::Spec) -> Result<Applied>;

    /// Names and owner tags by which a Service's load balancer is known.
    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        Naming::of(service)
    }

    /// Fits the desired state to what is there already, such as to a load balancer that several Services share, where only
    /// the first decides about some settings.
    ///
    /// # Errors
    /// *Invalid*, for what the user must change.
    fn fit(&self, desired: Tree, _observed: &Actual, _identity: &Identity<'_>, _spec: &Self::Spec) -> Result<Tree> {
        Ok(desired)
    }

    /// Says whether a load balancer is adopted that has the Service's name, but neither owner labels nor the legacy owner tag
    /// of this Service: for clouds whose users create load balancers by other means. One that belongs to a Service that lives is
    /// refused before this is asked; one that is adopted is not deleted before it carries owner labels.
    fn adopts(&self, _observed: &Actual, _identity: &Identity<'_>) -> Adoption {
        Adoption::Refused
    }

    /// What the Service shows of its load balancer: status and annotations.
    fn published(&self, observed: &Actual, _service: &Service, _spec: &Self::Spec) -> Published {
        Published { status: observed.status(), annotations: Vec::new() }
    }

    /// Names what must not be changed for two Services at the same time, such as a load balancer that they share. Changes with
    /// the same name go one after the other.
    fn lock(&self, _observed: &Actual) -> Option<String> {
        None
    }

    /// Returns namespace and name of the Service in the owner tags, where these tell more than its UID. What was created for a
    /// Service and is found by such a name is deleted with the orphan of a Service that no longer exists.
    fn owner_name(&self, _observed: &Actual) -> Option<(String, String)> {
        None
    }

    /// Says what becomes of a load balancer of the Service's own that [failed](super::State::Failed) and has no parts of
    /// others.
    fn recovery(&self, _observed: &Actual, _service: &Service) -> Recovery {
        Recovery::Never
    }

    /// Returns the keys of Node annotations that decide about targets. They count for Services whose targets
    /// [follow labels](Parsed::targets_follow_labels).
    fn target_annotations(&self) -> &[String] {
        &[]
    }

    /// Reads the health of a load balancer's targets, for `explain`. `None`: the cloud does not tell; targets without an entry are
    /// not checked yet.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn target_health(&self, _observed: &Actual) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        Ok(None)
    }

    /// Takes note of something that the user should hear of, such as by an event.
    fn report(&self, _notice: Notice<'_>) {}
}

/// What a cloud does with a second load balancer of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// It refuses it with a *conflict*. A name is proof enough that there is only one.
    Unique,
    /// It accepts it. A load balancer is looked for before one is created.
    NotUnique,
}

/// How much of the desired state is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    Everything,
    /// Pools with their targets are enough: nothing but targets is changed. A mistake in another setting keeps no Node from
    /// being a target, and nothing need be looked up for it.
    Targets,
}

/// What the desired state is built from.
pub struct Desire<'a, S> {
    /// The Service and the Nodes that may be targets.
    pub request: &'a LoadBalancerRequest<'a>,
    /// The Service, parsed.
    pub spec: &'a S,
    /// How much is asked for.
    pub scope: Scope,
}

/// Which load balancers are read.
#[derive(Clone, Copy)]
pub enum Query<'a> {
    /// All. The list may lag behind. Let each [share](Actual::sharing) its targets through these sets as soon as its page is
    /// read: a thousand load balancers have mostly the same thousand targets.
    All(&'a TargetSets),
    /// Everything that carries this Service's owner labels, its legacy owner tag or its name, whoever it belongs to; from what
    /// does not lag behind. Asked where it must be certain what is there, such as before a deletion. A list that is not
    /// complete is refused by the engine.
    Owner(&'a Identity<'a>),
    /// Those of these IDs; those that are not there are left out.
    Ids(&'a [String], Detail),
}

/// How much is told of each load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All of it.
    Whole,
    /// ID and state are enough. Asked again and again while the cloud is at work, so worth one request where that can be had.
    State,
}

/// Whether a load balancer is adopted by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It is.
    Adopted,
    /// It is not.
    Refused,
    /// It is not, but it would be after this, which ends the sentence "Rename or delete it, or …": `or give it the label x`.
    RefusedUnless(String),
}

/// What becomes of a load balancer that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It stays, with an error.
    Never,
    /// It stays, with an error that ends with what a person may do: a sentence without a full stop.
    ByHand(String),
    /// It is deleted and created again. Only right if it never worked, because it takes its address along.
    Replace,
}

/// What a Service shows of its load balancer.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The Service's status.
    pub status: LoadBalancerStatus,
    /// Annotations that tell of the load balancer: key, and value or nothing. Written where they differ.
    pub annotations: Vec<(&'static str, Option<String>)>,
}

/// Something that the user should hear of.
#[derive(Clone, Copy)]
pub enum Notice<'a> {
    /// A Service has moved to another load balancer, and the one that it had is about to be removed.
    Moved {
        /// The Service.
        service: &'a Service,
        /// What it had.
        from: &'a Actual,
        /// What it has now.
        to: &'a Actual,
    },
    /// Targets found no room in a pool with a [limit](Tree::limit). Told once in the life of the process, as long as they find
    /// none.
    TargetsLeftOut {
        /// The Service and the Nodes that may be targets.
        request: &'a LoadBalancerRequest<'a>,
        /// The pool.
        pool: &'a str,
        /// The targets without room.
        targets: &'a Targets,
    },
}

/// Properties of a cloud that hold for all of its load balancers.
#[derive(Clone, Copy)]
pub struct Options {
    /// How patiently work in the background is awaited. All that wait are read together, so it may be often.
    pub polling: Polling,
    /// Whether targets are addresses of Nodes and not machines: they are planned again when addresses change.
    pub targets_follow_addresses: bool,
    /// If set, an annotation in [`Published`] names the load balancer's ID, and the Service needs no other one for it.
    pub annotates_id: bool,
    /// Parts that belong to the Service and not to one load balancer: they stay where one of two is removed.
    pub outlives: fn(&Part) -> bool,
    /// Settings of the load balancer itself that decide about its price, such as type and size; `orphans` shows them.
    pub price: &'static [&'static str],
}

impl Default for Options {
    fn default() -> Self {
        let polling = Polling { longest: Duration::from_secs(1), ..Polling::default() };
        Self { polling, targets_follow_addresses: false, annotates_id: false, outlives: |_| false, price: &[] }
    }
}
