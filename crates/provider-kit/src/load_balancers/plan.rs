//! From what a cloud has to what is wanted, in an order that is safe at every step.

use cloud_provider::{Plan, PlanAction, PlanStep};

use super::attributes::Difference;
use super::{Attributes, Part, Targets, Tree};

/// One change. Each can be repeated: made again, it finds its work done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes our owner tags on what exists already.
    Tag,
    /// Takes our owner tags off: somebody else uses it too, or it was [not made](super::Actual::adopted) for its Service.
    Untag,
    /// Makes a part. The load balancer itself is made with our owner tags.
    Create {
        /// Which one.
        part: Part,
        /// With these settings.
        attributes: Attributes,
    },
    /// Changes a part in place.
    Update {
        /// Which one.
        part: Part,
        /// All its settings afterwards.
        attributes: Attributes,
        /// Those that change.
        changes: Vec<Difference>,
    },
    /// Adds targets to a pool.
    AddTargets {
        /// Which pool.
        pool: String,
        /// Those that are not there yet.
        targets: Targets,
    },
    /// Takes targets out of a pool.
    RemoveTargets {
        /// Which pool.
        pool: String,
        /// Those that are there.
        targets: Targets,
    },
    /// Removes a part; a pool goes with its targets.
    Delete {
        /// Which one.
        part: Part,
    },
}

/// The operations that lead from `actual` to `wanted`; none if nothing is to do.
///
/// 0. A pool that nobody wants and no listener leads to is left of a change that was broken off: it is removed before others
///    are made, or each end of a process would leave one more.
/// 1. In the order of [`Part`]: what is missing is made, what differs is changed; a pool gets its new targets before it loses
///    its old ones, and both before any listener is touched. So a listener never leads to a pool that is not there, or not
///    filled yet, and a pool that had targets and shall have some is never empty.
/// 2. In the reverse order: what nobody wants any more is removed. What carries traffic goes when its replacement stands.
///
/// Of more targets than a pool [may have](Tree::limit) those that it has already stay, and others come in their order as long
/// as there is room: nothing moves because some Node came or went. Where there is no room for new ones beside old ones, old
/// ones go first, but for one.
///
/// A part whose [fixed](Attributes::fixed) settings differ is removed right before it is made anew (a listener's port cannot
/// be had twice); the load balancer itself and pools are left as they were made.
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

/// How many targets a pool may have: what either says, and the greater if they differ. What is wanted may not know what kind
/// of load balancer is there, and what is there does not know what kind it will be.
pub(super) fn limit(pool: &str, wanted: &Tree, actual: &Tree) -> usize {
    wanted.limits.get(pool).max(actual.limits.get(pool)).copied().unwrap_or(usize::MAX)
}

/// The wanted targets that find room.
pub(super) fn with_room(wanted: &Targets, present: &Targets, limit: usize) -> Targets {
    if wanted.len() <= limit {
        return wanted.clone();
    }
    let stay: Vec<&str> = wanted.iter().filter(|target| present.contains(target)).take(limit).collect();
    let room = limit - stay.len();
    let come = wanted.iter().filter(|target| !present.contains(target)).take(room);
    stay.iter().copied().chain(come).collect()
}

/// The wanted targets that find no room, for each pool that has a limit.
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
    // The last of the old ones goes when the first of the new ones are there.
    let stays = usize::from(remove.len() == actual.len() && limit > 1 && !add.is_empty());
    let room = limit - (actual.len() - remove.len() + stays);
    let (last, first): (Targets, Targets) = (remove.iter().take(stays).collect(), remove.iter().skip(stays).collect());
    change(Targets::default(), first);
    change(add.iter().take(room).collect(), last);
    change(add.iter().skip(room).collect(), Targets::default());
}

/// The same operations for a load balancer that is at a limit of the cloud, and cannot have more before it has less: surplus
/// listeners go first, with their pools, and a pool loses its old targets, but for one, before it gets new ones.
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

/// The operations after which nothing of it is left. `shared`: somebody else has parts in it, so the load balancer itself,
/// and what it stands on, stays and only loses our owner tags.
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

/// The same for people. `name`: the load balancer's.
#[must_use]
pub fn steps(operations: &[Operation], name: &str) -> Plan {
    Plan { steps: operations.iter().map(|operation| operation.step(name)).collect() }
}

impl Operation {
    /// The part that is made, changed or removed; `None` for owner tags and targets.
    #[must_use]
    pub fn part(&self) -> Option<&Part> {
        match self {
            Self::Create { part, .. } | Self::Update { part, .. } | Self::Delete { part } => Some(part),
            _ => None,
        }
    }

    /// The pool whose targets change.
    #[must_use]
    pub fn targets_of(&self) -> Option<&str> {
        match self {
            Self::AddTargets { pool, .. } | Self::RemoveTargets { pool, .. } => Some(pool),
            _ => None,
        }
    }

    /// The settings of a part that change.
    #[must_use]
    pub fn changes(&self) -> &[Difference] {
        match self {
            Self::Update { changes, .. } => changes,
            _ => &[],
        }
    }

    /// Whether it changes such a part in place.
    pub fn updates(&self, is_it: impl Fn(&Part) -> bool) -> bool {
        matches!(self, Self::Update { part, .. } if is_it(part))
    }

    /// Whether it removes such a part.
    pub fn deletes(&self, is_it: impl Fn(&Part) -> bool) -> bool {
        matches!(self, Self::Delete { part } if is_it(part))
    }

    fn made(&self) -> Option<&Part> {
        match self {
            Self::Create { part, .. } => Some(part),
            _ => None,
        }
    }

    /// How much it is.
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
