//! What a plan says: objects, the steps ahead of each, and what was found on the way.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use cloud_provider::{Cluster, PlanAction, PlanStep};

/// Everything that would change, and what could not be found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The provider's name.
    pub provider: String,
    /// The cluster.
    pub cluster: Cluster,
    /// How many objects of each kind were looked at.
    pub looked_at: BTreeMap<Kind, usize>,
    /// Objects that there is something to say of, by kind, namespace and name.
    pub objects: BTreeMap<Key, ObjectPlan>,
    /// What holds for all.
    pub notes: Vec<String>,
    /// What could not be found out and concerns no single object.
    pub errors: Vec<String>,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Node.
    Node,
    /// A route of the cloud, named by its destination.
    Route,
    /// A Service.
    Service,
    /// A PersistentVolume.
    PersistentVolume,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Node => "Node",
            Self::Route => "Route",
            Self::Service => "Service",
            Self::PersistentVolume => "PersistentVolume",
        })
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

/// What lies ahead of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectPlan {
    /// What would be changed, in order.
    pub steps: Vec<Step>,
    /// What would not be changed, and why; what else is worth knowing.
    pub notes: Vec<String>,
    /// What could not be found out.
    pub errors: Vec<String>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where.
    pub side: Side,
    /// What.
    pub step: PlanStep,
}

/// Who is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The Kubernetes API.
    Kubernetes,
    /// The cloud.
    Cloud,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kubernetes => "kubernetes",
            Self::Cloud => "cloud",
        })
    }
}

impl ObjectPlan {
    /// Adds a change of the object in Kubernetes.
    pub(super) fn kubernetes(&mut self, action: PlanAction, what: impl Into<String>, detail: impl Into<String>) {
        let step = PlanStep { action, what: what.into(), detail: detail.into() };
        self.steps.push(Step { side: Side::Kubernetes, step });
    }

    /// Adds a change in the cloud.
    pub(super) fn cloud(&mut self, step: PlanStep) {
        self.steps.push(Step { side: Side::Cloud, step });
    }

    fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.notes.is_empty() && self.errors.is_empty()
    }
}

/// Numbers of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Things made.
    pub create: usize,
    /// Things changed.
    pub update: usize,
    /// Things removed.
    pub delete: usize,
    /// Objects with at least one step.
    pub objects: usize,
    /// Errors, of objects and others.
    pub errors: usize,
}

impl Totals {
    /// All steps.
    #[must_use]
    pub fn steps(self) -> usize {
        self.create + self.update + self.delete
    }
}

/// What a plan comes to: the exit code of `plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is to be done.
    Nothing,
    /// Something could not be found out; the plan is incomplete.
    Incomplete,
    /// Something is to be done.
    Changes,
}

impl Outcome {
    /// 0, 1 or 2.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Incomplete => 1,
            Self::Changes => 2,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        outcome.code().into()
    }
}

impl Report {
    pub(super) fn new(provider: &str, cluster: &Cluster) -> Self {
        Self {
            provider: provider.to_owned(),
            cluster: cluster.clone(),
            looked_at: BTreeMap::new(),
            objects: BTreeMap::new(),
            notes: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// The plan of one object, to be added to.
    pub(super) fn object(&mut self, kind: Kind, namespace: &str, name: &str) -> &mut ObjectPlan {
        let key = Key { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        self.objects.entry(key).or_default()
    }

    /// Adds the plan of one object, if it says anything.
    pub(super) fn add(&mut self, kind: Kind, namespace: &str, name: &str, plan: ObjectPlan) {
        if !plan.is_empty() {
            let there = self.object(kind, namespace, name);
            there.steps.extend(plan.steps);
            there.notes.extend(plan.notes);
            there.errors.extend(plan.errors);
        }
    }

    /// The numbers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { errors: self.errors.len(), ..Totals::default() };
        for object in self.objects.values() {
            totals.objects += usize::from(!object.steps.is_empty());
            totals.errors += object.errors.len();
            for step in &object.steps {
                match step.step.action {
                    PlanAction::Create => totals.create += 1,
                    PlanAction::Update => totals.update += 1,
                    PlanAction::Delete => totals.delete += 1,
                }
            }
        }
        totals
    }

    /// What it comes to. An error outweighs changes: whoever relies on the plan must know that it is not whole.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.totals() {
            Totals { errors: 1.., .. } => Outcome::Incomplete,
            totals if totals.steps() > 0 => Outcome::Changes,
            _ => Outcome::Nothing,
        }
    }
}
