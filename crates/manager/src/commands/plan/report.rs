//! The report of a plan: objects, the planned steps of each, notes and errors.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use cloud_provider::{Cluster, PlanAction, PlanStep};

/// The planned changes of all objects, and the errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Name of the provider.
    pub provider: String,
    /// Name and ID of the cluster.
    pub cluster: Cluster,
    /// Number of objects examined, by kind.
    pub looked_at: BTreeMap<Kind, usize>,
    /// Objects with steps, notes or errors, by kind, namespace and name.
    pub objects: BTreeMap<Key, ObjectPlan>,
    /// Notes that concern all objects.
    pub notes: Vec<String>,
    /// Errors that concern no single object.
    pub errors: Vec<String>,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Node of the cluster.
    Node,
    /// A route of the cloud, named by its destination.
    Route,
    /// A Service of the cluster.
    Service,
    /// A PersistentVolume of the cluster.
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

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace of the object; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

/// The plan of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectPlan {
    /// Planned changes, in order.
    pub steps: Vec<Step>,
    /// Notes, for example the reason why something is not changed.
    pub notes: Vec<String>,
    /// Errors that leave the object's plan incomplete.
    pub errors: Vec<String>,
}

/// A planned change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Side that is changed.
    pub side: Side,
    /// Action and subject of the change.
    pub step: PlanStep,
}

/// The side that a step changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A change through the Kubernetes API.
    Kubernetes,
    /// A change in the cloud.
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
    /// Adds a change of the Kubernetes object.
    pub(super) fn kubernetes(
        &mut self,
        action: PlanAction,
        what: impl Into<String>,
        detail: impl Into<String>,
    ) {
        let step = PlanStep {
            action,
            what: what.into(),
            detail: detail.into(),
        };
        self.steps.push(Step {
            side: Side::Kubernetes,
            step,
        });
    }

    /// Adds a change in the cloud.
    pub(super) fn cloud(&mut self, step: PlanStep) {
        self.steps.push(Step {
            side: Side::Cloud,
            step,
        });
    }

    fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.notes.is_empty() && self.errors.is_empty()
    }
}

/// The totals of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of objects and fields to create.
    pub create: usize,
    /// Number of objects and fields to update.
    pub update: usize,
    /// Number of objects and fields to delete.
    pub delete: usize,
    /// Number of objects with at least one step.
    pub objects: usize,
    /// Number of errors, of objects and others.
    pub errors: usize,
}

impl Totals {
    /// Returns the number of all steps.
    #[must_use]
    pub fn steps(self) -> usize {
        self.create + self.update + self.delete
    }
}

/// The outcome of a plan, which determines the exit code of `plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plan has no steps.
    Nothing,
    /// The plan is incomplete because of errors.
    Incomplete,
    /// The plan has steps.
    Changes,
}

impl Outcome {
    /// Returns the exit code: 0, 1 or 2.
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

    /// Returns the plan of one object, for adding steps.
    pub(super) fn object(&mut self, kind: Kind, namespace: &str, name: &str) -> &mut ObjectPlan {
        let key = Key {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.objects.entry(key).or_default()
    }

    /// Adds the plan of one object unless the plan is empty.
    pub(super) fn add(&mut self, kind: Kind, namespace: &str, name: &str, plan: ObjectPlan) {
        if !plan.is_empty() {
            let object_plan = self.object(kind, namespace, name);
            object_plan.steps.extend(plan.steps);
            object_plan.notes.extend(plan.notes);
            object_plan.errors.extend(plan.errors);
        }
    }

    /// Returns the totals of steps, objects and errors.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            errors: self.errors.len(),
            ..Totals::default()
        };
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

    /// Returns the outcome. Errors outweigh steps, because an incomplete plan must not be taken for a complete one.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.totals() {
            Totals { errors: 1.., .. } => Outcome::Incomplete,
            totals if totals.steps() > 0 => Outcome::Changes,
            _ => Outcome::Nothing,
        }
    }
}
