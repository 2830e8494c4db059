//! The plan that leads from the observed to the desired state, in an order that is safe at every step.

use cloud_provider::{Plan, PlanAction, PlanStep};

use super::attributes::Difference;
use super::{Attributes, ResourceGraph, ResourceKey, Targets};

/// A change of one load balancer. Each operation can be repeated: the second time, it finds its work done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes our owner tags on an existing load balancer.
    Tag,
    /// Removes our owner tags: the load balancer has other users too, or was [not
    /// created](super::ObservedLoadBalancer::adopted) for its Service.
    Untag,
    /// Creates a resource. The load balancer itself is created with our owner tags.
    Create {
        /// The resource to create.
        resource: ResourceKey,
        /// Settings of the new resource.
        attributes: Attributes,
    },
    /// Changes a resource in place.
    Update {
        /// The resource to change.
        resource: ResourceKey,
        /// The settings of the resource after the change.
        attributes: Attributes,
        /// The settings that change.
        changes: Vec<Difference>,
    },
    /// Adds targets to a pool.
    AddTargets {
        /// The pool to change.
        pool: String,
        /// The targets that the pool does not have yet.
        targets: Targets,
    },
    /// Removes targets from a pool.
    RemoveTargets {
        /// The pool to change.
        pool: String,
        /// The targets to remove.
        targets: Targets,
    },
    /// Deletes a resource; a pool is deleted with its targets.
    Delete {
        /// The resource to delete.
        resource: ResourceKey,
    },
}

/// Returns the operations that lead from `actual` to `wanted`; empty if the states agree.
///
/// 0. A surplus pool that no listener leads to is left over from an interrupted change: it is deleted before others are
///    created. Otherwise, each process that is killed in between would leave one more.
/// 1. In the order of [`ResourceKey`], missing resources are created and differing resources are changed. A pool gets
///    its new targets before it loses its old ones, and both before any listener is changed. So a listener never leads
///    to a pool that does not exist or has no targets yet, and a pool with targets before and after is never empty in
///    between.
/// 2. In reverse order, surplus resources are deleted. A resource that carries traffic is deleted when its replacement
///    works.
///
/// If a pool has more targets than [allowed](ResourceGraph::limit), present targets stay, and others are added in order
/// as long as there is room: nothing moves because a Node was added or removed. Where there is no room for new targets
/// beside old ones, old ones are removed first, except for one.
///
/// A resource whose [fixed](Attributes::fixed) settings differ is deleted right before it is created again (a
/// listener's port cannot be used twice); the load balancer itself and pools stay as they were created.
#[must_use]
pub fn plan(wanted: &ResourceGraph, actual: &ResourceGraph) -> Vec<Operation> {
    let surplus = actual
        .resources
        .keys()
        .rev()
        .filter(|resource| !wanted.resources.contains_key(resource));
    let (unused, surplus): (Vec<&ResourceKey>, Vec<&ResourceKey>) =
        surplus.partition(|resource| actual.is_unused_pool(resource));
    let delete = |resource: &ResourceKey| Operation::Delete {
        resource: resource.clone(),
    };
    let mut operations: Vec<Operation> = unused.into_iter().map(delete).collect();
    for (resource, attributes) in &wanted.resources {
        build(resource, attributes, actual, &mut operations);
        if let ResourceKey::Pool(pool) = resource
            && let Some(targets) = wanted.targets.get(pool)
        {
            let limit = limit(pool, wanted, actual);
            let present = actual.targets_of(pool);
            change_targets(
                pool,
                &with_room(targets, &present, limit),
                &present,
                limit,
                &mut operations,
            );
        }
    }
    operations.extend(surplus.into_iter().map(delete));
    operations
}

fn build(
    resource: &ResourceKey,
    wanted: &Attributes,
    actual: &ResourceGraph,
    operations: &mut Vec<Operation>,
) {
    let create = || Operation::Create {
        resource: resource.clone(),
        attributes: wanted.for_creation(),
    };
    let Some(actual) = actual.resources.get(resource) else {
        operations.push(create());
        return;
    };
    if wanted.differs_in_fixed(actual)
        && !matches!(resource, ResourceKey::Balancer | ResourceKey::Pool(_))
    {
        operations.extend([
            Operation::Delete {
                resource: resource.clone(),
            },
            create(),
        ]);
        return;
    }
    let changes = wanted.differences(actual);
    if !changes.is_empty() {
        operations.push(Operation::Update {
            resource: resource.clone(),
            attributes: actual.overlaid_with(wanted),
            changes,
        });
    }
}

/// Returns the maximum number of targets of a pool: the greater one, if the desired and the observed state differ. The
/// desired state may not know the kind of the existing load balancer, and the observed state does not know the kind it
/// will have.
pub(super) fn limit(pool: &str, wanted: &ResourceGraph, actual: &ResourceGraph) -> usize {
    wanted
        .limits
        .get(pool)
        .max(actual.limits.get(pool))
        .copied()
        .unwrap_or(usize::MAX)
}

/// Returns the desired targets that find room.
pub(super) fn with_room(wanted: &Targets, present: &Targets, limit: usize) -> Targets {
    if wanted.len() <= limit {
        return wanted.clone();
    }
    let stay: Vec<&str> = wanted
        .iter()
        .filter(|target| present.contains(target))
        .take(limit)
        .collect();
    let room = limit - stay.len();
    let come = wanted
        .iter()
        .filter(|target| !present.contains(target))
        .take(room);
    stay.iter().copied().chain(come).collect()
}

/// Returns the desired targets that find no room, for each pool that has a limit.
pub(super) fn left_out(wanted: &ResourceGraph, actual: &ResourceGraph) -> Vec<(String, Targets)> {
    let limited = wanted
        .targets
        .iter()
        .map(|(pool, targets)| (pool, targets, limit(pool, wanted, actual)));
    let limited = limited.filter(|(.., limit)| *limit < usize::MAX);
    let left = limited.map(|(pool, targets, limit)| {
        (
            pool.clone(),
            targets.without(&with_room(targets, &actual.targets_of(pool), limit)),
        )
    });
    left.collect()
}

fn change_targets(
    pool: &str,
    wanted: &Targets,
    actual: &Targets,
    limit: usize,
    operations: &mut Vec<Operation>,
) {
    if wanted == actual {
        return;
    }
    let add = wanted.without(actual);
    let remove = actual.without(wanted);
    let mut change = |add: Targets, remove: Targets| {
        if !add.is_empty() {
            operations.push(Operation::AddTargets {
                pool: pool.to_owned(),
                targets: add,
            });
        }
        if !remove.is_empty() {
            operations.push(Operation::RemoveTargets {
                pool: pool.to_owned(),
                targets: remove,
            });
        }
    };
    if actual.len() + add.len() <= limit {
        return change(add, remove);
    }
    // The last old target is removed after the first new targets are added.
    let stays = usize::from(remove.len() == actual.len() && limit > 1 && !add.is_empty());
    let room = limit - (actual.len() - remove.len() + stays);
    let (last, first): (Targets, Targets) = (
        remove.iter().take(stays).collect(),
        remove.iter().skip(stays).collect(),
    );
    change(Targets::default(), first);
    change(add.iter().take(room).collect(), last);
    change(add.iter().skip(room).collect(), Targets::default());
}

/// Reorders the operations for a load balancer that is at a limit of the cloud, and must lose something before it can
/// gain: surplus listeners are deleted first, with their pools, and a pool loses its old targets, except for one,
/// before it gets new ones.
#[must_use]
pub fn removals_first(operations: Vec<Operation>, actual: &ResourceGraph) -> Vec<Operation> {
    let (mut first, mut rest): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    let made: Vec<ResourceKey> = operations
        .iter()
        .filter_map(Operation::made)
        .cloned()
        .collect();
    let mut left = actual.targets.clone();
    for operation in operations {
        match operation {
            Operation::Delete {
                resource: resource @ (ResourceKey::Listener(_) | ResourceKey::CreatedAfter(_)),
            } if !made.contains(&resource) => {
                first.push(Operation::Delete { resource });
            }
            Operation::Delete { resource } if actual.after(&first).is_unused_pool(&resource) => {
                first.push(Operation::Delete { resource });
            }
            Operation::RemoveTargets { pool, targets } => {
                let present = left.get(&pool).cloned().unwrap_or_default();
                let kept: Targets = match present.without(&targets).is_empty() {
                    true => targets.iter().take(1).collect(),
                    false => Targets::default(),
                };
                left.insert(pool.clone(), present.without(&targets).with(&kept));
                for (targets, order) in [(targets.without(&kept), &mut first), (kept, &mut rest)] {
                    if !targets.is_empty() {
                        order.push(Operation::RemoveTargets {
                            pool: pool.clone(),
                            targets,
                        });
                    }
                }
            }
            other => rest.push(other),
        }
    }
    first.extend(rest);
    first
}

/// Returns the operations that delete a load balancer. If it is `shared`, other owners have resources in it: then the
/// load balancer itself and the resources created before it stay, and only our owner tags are removed.
#[must_use]
pub fn plan_removal(actual: &ResourceGraph, shared: bool) -> Vec<Operation> {
    let stays = |resource: &ResourceKey| {
        shared
            && matches!(
                resource,
                ResourceKey::Balancer | ResourceKey::CreatedBefore(_)
            )
    };
    let resources = actual
        .resources
        .keys()
        .rev()
        .filter(|resource| !stays(resource));
    let mut operations: Vec<_> = resources
        .map(|resource| Operation::Delete {
            resource: resource.clone(),
        })
        .collect();
    if shared {
        operations.push(Operation::Untag);
    }
    operations
}

/// Returns the operations as steps for people; `name` is the load balancer's.
#[must_use]
pub fn steps(operations: &[Operation], name: &str) -> Plan {
    Plan {
        steps: operations
            .iter()
            .map(|operation| operation.step(name))
            .collect(),
        ..Plan::default()
    }
}

impl Operation {
    /// Returns the resource that is created, changed or deleted; `None` for owner tags and targets.
    #[must_use]
    pub fn resource(&self) -> Option<&ResourceKey> {
        match self {
            Self::Create { resource, .. }
            | Self::Update { resource, .. }
            | Self::Delete { resource } => Some(resource),
            _ => None,
        }
    }

    /// Returns the pool whose targets change.
    #[must_use]
    pub fn targets_of(&self) -> Option<&str> {
        match self {
            Self::AddTargets { pool, .. } | Self::RemoveTargets { pool, .. } => Some(pool),
            _ => None,
        }
    }

    /// Returns the settings of a resource that change.
    #[must_use]
    pub fn changes(&self) -> &[Difference] {
        match self {
            Self::Update { changes, .. } => changes,
            _ => &[],
        }
    }

    /// Returns `true` if the operation changes a resource for which `is_wanted` holds in place.
    pub fn updates(&self, is_wanted: impl Fn(&ResourceKey) -> bool) -> bool {
        matches!(self, Self::Update { resource, .. } if is_wanted(resource))
    }

    /// Returns `true` if the operation deletes a resource for which `is_wanted` holds.
    pub fn deletes(&self, is_wanted: impl Fn(&ResourceKey) -> bool) -> bool {
        matches!(self, Self::Delete { resource } if is_wanted(resource))
    }

    fn made(&self) -> Option<&ResourceKey> {
        match self {
            Self::Create { resource, .. } => Some(resource),
            _ => None,
        }
    }

    /// Returns the number of changes in the operation.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Update { changes, .. } => changes.len(),
            Self::AddTargets { targets, .. } | Self::RemoveTargets { targets, .. } => targets.len(),
            _ => 1,
        }
    }

    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Delete { .. } | Self::RemoveTargets { .. })
    }

    fn step(&self, name: &str) -> PlanStep {
        let what = |resource: &ResourceKey| match resource {
            ResourceKey::Balancer => format!("load balancer {name:?}"),
            other => format!("{other} of load balancer {name:?}"),
        };
        let targets = |pool: &str, targets: &Targets| {
            let s = if targets.len() == 1 { "" } else { "s" };
            format!(
                "{} target{s} of pool {pool:?} of load balancer {name:?}",
                targets.len()
            )
        };
        let step = |action, what, detail| PlanStep {
            action,
            what,
            detail,
        };
        match self {
            Self::Tag => step(
                PlanAction::Update,
                what(&ResourceKey::Balancer),
                "our owner tags are added".to_owned(),
            ),
            Self::Untag => step(
                PlanAction::Update,
                what(&ResourceKey::Balancer),
                "our owner tags are removed".to_owned(),
            ),
            Self::Create {
                resource,
                attributes,
            } => step(PlanAction::Create, what(resource), attributes.to_string()),
            Self::Update {
                resource, changes, ..
            } => {
                let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
                step(PlanAction::Update, what(resource), changes.join(", "))
            }
            Self::AddTargets {
                pool,
                targets: added,
            } => step(PlanAction::Create, targets(pool, added), added.to_string()),
            Self::RemoveTargets {
                pool,
                targets: removed,
            } => step(
                PlanAction::Delete,
                targets(pool, removed),
                removed.to_string(),
            ),
            Self::Delete { resource } => step(PlanAction::Delete, what(resource), String::new()),
        }
    }
}
