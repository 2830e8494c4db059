//! The plan that leads from the observed to the desired state, in an order that is safe at every step.

use cloud_provider::{Plan, PlanAction, PlanStep};

use super::attributes::Difference;
use super::{Attributes, Part, Targets, Tree};

/// A change of one load balancer. Each operation can be repeated: the second time, it finds its work done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes our owner tags on an existing load balancer.
    Tag,
    /// Removes our owner tags: the load balancer has other users too, or was [not created](super::Actual::adopted) for
    /// its Service.
    Untag,
    /// Creates a part. The load balancer itself is created with our owner tags.
    Create {
        /// The part to create.
        part: Part,
        /// Settings of the new part.
        attributes: Attributes,
    },
    /// Changes a part in place.
    Update {
        /// The part to change.
        part: Part,
        /// The settings of the part after the change.
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
    /// Deletes a part; a pool is deleted with its targets.
    Delete {
        /// The part to delete.
        part: Part,
    },
}

/// Returns the operations that lead from `actual` to `wanted`; empty if the states agree.
///
/// 0. A surplus pool that no listener leads to is left over from an interrupted change: it is deleted before others are
///    created. Otherwise, each process that is killed in between would leave one more.
/// 1. In the order of [`Part`], missing parts are created and differing parts are changed. A pool gets its new targets
///    before it loses its old ones, and both before any listener is changed. So a listener never leads to a pool that
///    does not exist or has no targets yet, and a pool with targets before and after is never empty in between.
/// 2. In reverse order, surplus parts are deleted. A part that carries traffic is deleted when its replacement works.
///
/// If a pool has more targets than [allowed](Tree::limit), present targets stay, and others are added in order as long
/// as there is room: nothing moves because a Node was added or removed. Where there is no room for new targets beside
/// old ones, old ones are removed first, except for one.
///
/// A part whose [fixed](Attributes::fixed) settings differ is deleted right before it is created again (a listener's
/// port cannot be used twice); the load balancer itself and pools stay as they were created.
#[must_use]
pub fn plan(wanted: &Tree, actual: &Tree) -> Vec<Operation> {
    let surplus = actual.parts.keys().rev().filter(|part| !wanted.parts.contains_key(part));
    let (unused, surplus): (Vec<&Part>, Vec<&Part>) = surplus.partition(|part| actual.is_unused_pool(part));
    let delete = |part: &Part| Operation::Delete { part: part.clone() };
    let mut operations: Vec<Operation> = unused.into_iter().map(delete).collect();
    for (part, attributes) in &wanted.parts {
        build(part, attributes, actual, &mut operations);
        if let Part::Pool(pool) = part
            && let Some(targets) = wanted.targets.get(pool)
        {
            let (limit, present) = (limit(pool, wanted, actual), actual.targets_of(pool));
            change_targets(pool, &with_room(targets, &present, limit), &present, limit, &mut operations);
        }
    }
    operations.extend(surplus.into_iter().map(delete));
    operations
}

fn build(part: &Part, wanted: &Attributes, actual: &Tree, operations: &mut Vec<Operation>) {
    let create = || Operation::Create { part: part.clone(), attributes: wanted.to_make() };
    let Some(actual) = actual.parts.get(part) else {
        operations.push(create());
        return;
    };
    if wanted.differs_in_fixed(actual) && !matches!(part, Part::Balancer | Part::Pool(_)) {
        operations.extend([Operation::Delete { part: part.clone() }, create()]);
        return;
    }
    let changes = wanted.differences(actual);
    if !changes.is_empty() {
        operations.push(Operation::Update { part: part.clone(), attributes: actual.overlaid_with(wanted), changes });
    }
}

/// Returns the maximum number of targets of a pool: the greater one, if the desired and the observed state differ. The
/// desired state may not know the kind of the existing load balancer, and the observed state does not know the kind it
/// will have.
pub(super) fn limit(pool: &str, wanted: &Tree, actual: &Tree) -> usize {
    wanted.limits.get(pool).max(actual.limits.get(pool)).copied().unwrap_or(usize::MAX)
}

/// Returns the desired targets that find room.
pub(super) fn with_room(wanted: &Targets, present: &Targets, limit: usize) -> Targets {
    if wanted.len() <= limit {
        return wanted.clone();
    }
    let stay: Vec<&str> = wanted.iter().filter(|target| present.contains(target)).take(limit).collect();
    let room = limit - stay.len();
    let come = wanted.iter().filter(|target| !present.contains(target)).take(room);
    stay.iter().copied().chain(come).collect()
}

/// Returns the desired targets that find no room, for each pool that has a limit.
pub(super) fn left_out(wanted: &Tree, actual: &Tree) -> Vec<(String, Targets)> {
    let limited = wanted.targets.iter().map(|(pool, targets)| (pool, targets, limit(pool, wanted, actual)));
    let limited = limited.filter(|(.., limit)| *limit < usize::MAX);
    let left = limited.map(|(pool, targets, limit)| {
        (pool.clone(), targets.without(&with_room(targets, &actual.targets_of(pool), limit)))
    });
    left.collect()
}

fn change_targets(pool: &str, wanted: &Targets, actual: &Targets, limit: usize, operations: &mut Vec<Operation>) {
    if wanted == actual {
        return;
    }
    let (add, remove) = (wanted.without(actual), actual.without(wanted));
    let mut change = |add: Targets, remove: Targets| {
        if !add.is_empty() {
            operations.push(Operation::AddTargets { pool: pool.to_owned(), targets: add });
        }
        if !remove.is_empty() {
            operations.push(Operation::RemoveTargets { pool: pool.to_owned(), targets: remove });
        }
    };
    if actual.len() + add.len() <= limit {
        return change(add, remove);
    }
    // The last old target is removed after the first new targets are added.
    let stays = usize::from(remove.len() == actual.len() && limit > 1 && !add.is_empty());
    let room = limit - (actual.len() - remove.len() + stays);
    let (last, first): (Targets, Targets) = (remove.iter().take(stays).collect(), remove.iter().skip(stays).collect());
    change(Targets::default(), first);
    change(add.iter().take(room).collect(), last);
    change(add.iter().skip(room).collect(), Targets::default());
}

/// Reorders the operations for a load balancer that is at a limit of the cloud, and must lose something before it can
/// gain: surplus listeners are deleted first, with their pools, and a pool loses its old targets, except for one,
/// before it gets new ones.
#[must_use]
pub fn removals_first(operations: Vec<Operation>, actual: &Tree) -> Vec<Operation> {
    let (mut first, mut rest): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    let made: Vec<Part> = operations.iter().filter_map(Operation::made).cloned().collect();
    let mut left = actual.targets.clone();
    for operation in operations {
        match operation {
            Operation::Delete { part: part @ (Part::Listener(_) | Part::CreatedAfter(_)) } if !made.contains(&part) => {
                first.push(Operation::Delete { part });
            }
            Operation::Delete { part } if actual.after(&first).is_unused_pool(&part) => {
                first.push(Operation::Delete { part });
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
                        order.push(Operation::RemoveTargets { pool: pool.clone(), targets });
                    }
                }
            }
            other => rest.push(other),
        }
    }
    first.extend(rest);
    first
}

/// Returns the operations that delete a load balancer. If it is `shared`, other owners have parts in it: then the load
/// balancer itself and the parts created before it stay, and only our owner tags are removed.
#[must_use]
pub fn plan_removal(actual: &Tree, shared: bool) -> Vec<Operation> {
    let stays = |part: &Part| shared && matches!(part, Part::Balancer | Part::CreatedBefore(_));
    let parts = actual.parts.keys().rev().filter(|part| !stays(part));
    let mut operations: Vec<_> = parts.map(|part| Operation::Delete { part: part.clone() }).collect();
    if shared {
        operations.push(Operation::Untag);
    }
    operations
}

/// Returns the operations as steps for people; `name` is the load balancer's.
#[must_use]
pub fn steps(operations: &[Operation], name: &str) -> Plan {
    Plan { steps: operations.iter().map(|operation| operation.step(name)).collect() }
}

impl Operation {
    /// Returns the part that is created, changed or deleted; `None` for owner tags and targets.
    #[must_use]
    pub fn part(&self) -> Option<&Part> {
        match self {
            Self::Create { part, .. } | Self::Update { part, .. } | Self::Delete { part } => Some(part),
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

    /// Returns the settings of a part that change.
    #[must_use]
    pub fn changes(&self) -> &[Difference] {
        match self {
            Self::Update { changes, .. } => changes,
            _ => &[],
        }
    }

    /// Returns `true` if the operation changes a part for which `is_it` holds in place.
    pub fn updates(&self, is_it: impl Fn(&Part) -> bool) -> bool {
        matches!(self, Self::Update { part, .. } if is_it(part))
    }

    /// Returns `true` if the operation deletes a part for which `is_it` holds.
    pub fn deletes(&self, is_it: impl Fn(&Part) -> bool) -> bool {
        matches!(self, Self::Delete { part } if is_it(part))
    }

    fn made(&self) -> Option<&Part> {
        match self {
            Self::Create { part, .. } => Some(part),
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
        let what = |part: &Part| match part {
            Part::Balancer => format!("load balancer {name:?}"),
            other => format!("{other} of load balancer {name:?}"),
        };
        let targets = |pool: &str, targets: &Targets| {
            let s = if targets.len() == 1 { "" } else { "s" };
            format!("{} target{s} of pool {pool:?} of load balancer {name:?}", targets.len())
        };
        let step = |action, what, detail| PlanStep { action, what, detail };
        match self {
            Self::Tag => step(PlanAction::Update, what(&Part::Balancer), "our owner tags are added".to_owned()),
            Self::Untag => step(PlanAction::Update, what(&Part::Balancer), "our owner tags are removed".to_owned()),
            Self::Create { part, attributes } => step(PlanAction::Create, what(part), attributes.to_string()),
            Self::Update { part, changes, .. } => {
                let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
                step(PlanAction::Update, what(part), changes.join(", "))
            }
            Self::AddTargets { pool, targets: added } => {
                step(PlanAction::Create, targets(pool, added), added.to_string())
            }
            Self::RemoveTargets { pool, targets: removed } => {
                step(PlanAction::Delete, targets(pool, removed), removed.to_string())
            }
            Self::Delete { part } => step(PlanAction::Delete, what(part), String::new()),
        }
    }
}
