//! Plans from any state to any other state, interrupted anywhere.

use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;

use super::super::plan::{left_out, limit, with_room};
use super::super::{
    Attributes, Auxiliary, Operation, POOL, Part, Port, Targets, Tree, plan, plan_removal, removals_first,
};

const POOLS: [&str; 3] = ["p", "q", "r"];

fn port(number: usize) -> Part {
    let (number, protocol) = [(80, "TCP"), (80, "UDP"), (443, "TCP"), (53, "UDP")][number];
    Part::Listener(Port { number, protocol: protocol.into() })
}

fn auxiliary(number: usize) -> Auxiliary {
    Auxiliary { rank: u8::try_from(number / 2).unwrap(), kind: "thing".into(), name: number.to_string() }
}

fn targets() -> impl Strategy<Value = Targets> {
    btree_set("[a-d]", 0..4).prop_map(|set| set.into_iter().collect())
}

/// Settings of a part: complete, or partial with one fixed setting.
fn settings(wanted: bool) -> impl Strategy<Value = Attributes> {
    (0..3_u8, proptest::option::of(0..3_u8), 0..2_u8).prop_map(move |(tier, size, zone)| {
        let attributes = Attributes::default().set("tier", tier).set("zone", zone);
        let attributes = if size.is_some() || !wanted { attributes.set("size", size) } else { attributes };
        if wanted { attributes.fixed(&["zone"]) } else { attributes.to_make() }
    })
}

/// A load balancer whose listeners lead to its own pools; a desired one may leave the targets of a pool open.
pub(super) fn tree(wanted: bool) -> impl Strategy<Value = Tree> {
    let limit = proptest::option::of(1..5_usize);
    let pools = btree_map(0..POOLS.len(), (settings(wanted), targets(), any::<bool>(), limit), 1..=POOLS.len());
    let listeners = btree_map(0..4_usize, (settings(wanted), any::<prop::sample::Index>()), 0..4);
    let asides = (btree_map(0..4_usize, settings(wanted), 0..3), btree_map(0..4_usize, settings(wanted), 0..3));
    (settings(wanted), pools, listeners, asides).prop_map(move |(balancer, pools, listeners, (supports, fronts))| {
        let mut tree = Tree::default().balancer(balancer);
        for (pool, (settings, targets, are_known, limit)) in &pools {
            tree = tree.pool(POOLS[*pool], settings.clone(), (*are_known || !wanted).then(|| targets.clone()));
            tree = limit.map_or(tree.clone(), |limit| tree.limit(POOLS[*pool], limit));
        }
        for (number, (settings, pool)) in listeners {
            let pool = POOLS[*pool.get(&pools.keys().copied().collect::<Vec<_>>())];
            tree = tree.part(port(number), settings.set(POOL, pool));
        }
        for (number, settings) in supports {
            tree = tree.part(Part::CreatedBefore(auxiliary(number)), settings);
        }
        fronts.into_iter().fold(tree, |tree, (number, it)| tree.part(Part::CreatedAfter(auxiliary(number)), it))
    })
}

/// An observed state: complete, empty, with auxiliary resources only, or half deleted.
pub(super) fn any_actual() -> impl Strategy<Value = Tree> {
    (tree(false), 0..12_usize).prop_map(|(tree, kept)| match kept {
        0 => Tree::default(),
        1..8 => {
            let removal = plan_removal(&tree, false);
            tree.after(&removal[..removal.len().saturating_sub(kept - 1)])
        }
        _ => tree,
    })
}

/// Fails if a cloud would refuse the operation.
pub(super) fn check_possible(tree: &Tree, operation: &Operation) {
    let is_there = |part: &Part| tree.parts.contains_key(part);
    let pool = |pool: &String| is_there(&Part::Pool(pool.clone()));
    match operation {
        Operation::Tag | Operation::Untag => {}
        Operation::Create { part, .. } => assert!(!is_there(part), "created twice: {part}"),
        Operation::Update { part, .. } | Operation::Delete { part } => assert!(is_there(part), "not there: {part}"),
        Operation::AddTargets { pool: name, targets } => {
            assert!(
                pool(name) && !targets.is_empty() && tree.targets_of(name).without(targets) == tree.targets_of(name)
            );
        }
        Operation::RemoveTargets { pool: name, targets } => {
            assert!(pool(name) && !targets.is_empty() && targets.without(&tree.targets_of(name)).is_empty());
        }
    }
}

fn is_inside(part: &Part) -> bool {
    matches!(part, Part::Pool(_) | Part::Listener(_))
}

/// Checks the invariants that hold at every moment if they held at the beginning.
fn check_state(tree: &Tree) {
    let has_balancer = tree.balancer_attributes().is_some();
    assert!(has_balancer || !tree.parts.keys().any(is_inside), "parts without a load balancer: {tree:?}");
    for (port, attributes) in tree.listeners() {
        let pool = attributes.text(POOL).unwrap();
        assert!(
            tree.pool_attributes(pool).is_some(),
            "listener {port} leads to {pool:?}, which is not there: {tree:?}"
        );
    }
}

fn check_step(wanted: &Tree, before: &Tree, operation: &Operation) {
    check_possible(before, operation);
    let after = before.after(std::slice::from_ref(operation));
    check_state(&after);
    if let Operation::Create { part: Part::Listener(port), attributes } = operation {
        let pool = attributes.text(POOL).unwrap();
        let present = after.targets_of(pool);
        let missing = with_room(&wanted.targets_of(pool), &present, limit(pool, wanted, &after)).without(&present);
        assert!(missing.is_empty(), "listener {port} is there before its targets {missing:?}");
    }
    for (pool, targets) in &wanted.targets {
        let (was_empty, limit) = (before.targets_of(pool).is_empty(), limit(pool, wanted, before));
        let may_be_empty = was_empty || targets.is_empty() || limit <= 1;
        assert!(may_be_empty || !after.targets_of(pool).is_empty(), "pool {pool:?} was emptied");
    }
    if let Operation::AddTargets { pool, .. } = operation {
        assert!(after.targets_of(pool).len() <= limit(pool, wanted, before), "pool {pool:?} has no room for so many");
    }
}

/// Carries out all operations, and returns the resulting state.
fn run(wanted: &Tree, actual: &Tree, operations: &[Operation]) -> Tree {
    operations.iter().fold(actual.clone(), |tree, operation| {
        check_step(wanted, &tree, operation);
        tree.after(std::slice::from_ref(operation))
    })
}

fn check_reached(wanted: &Tree, actual: &Tree, reached: &Tree) {
    assert!(wanted.parts.keys().eq(reached.parts.keys()), "{wanted:?} is not {reached:?}");
    for (part, attributes) in &wanted.parts {
        assert!(attributes.differences(&reached.parts[part]).is_empty(), "{part}");
    }
    for (pool, targets) in &wanted.targets {
        let limit = limit(pool, wanted, actual);
        assert_eq!(reached.targets_of(pool), with_room(targets, &actual.targets_of(pool), limit));
        assert!(reached.targets_of(pool).len() <= limit);
    }
    assert_eq!(plan(wanted, reached), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_plan_leads_from_anything_to_what_is_wanted_safely(wanted in tree(true), actual in any_actual()) {
        let operations = plan(&wanted, &actual);
        check_reached(&wanted, &actual, &run(&wanted, &actual, &operations));
    }

    #[test]
    fn a_plan_that_is_broken_off_anywhere_is_finished_by_the_next(wanted in tree(true), actual in any_actual()) {
        let operations = plan(&wanted, &actual);
        for done in 0..=operations.len() {
            let half = actual.after(&operations[..done]);
            let rest = plan(&wanted, &half);
            prop_assert!(rest.len() <= operations.len(), "no more is left to do than before");
            check_reached(&wanted, &actual, &run(&wanted, &half, &rest));
        }
    }

    #[test]
    fn plan_at_a_limit_removes_first_and_is_safe(wanted in tree(true), actual in any_actual()) {
        let operations = removals_first(plan(&wanted, &actual), &actual);
        check_reached(&wanted, &actual, &run(&wanted, &actual, &operations));
    }

    #[test]
    fn a_removal_leaves_nothing_and_can_be_broken_off(actual in tree(false)) {
        let operations = plan_removal(&actual, false);
        for done in 0..=operations.len() {
            let half = actual.after(&operations[..done]);
            check_state(&half);
            let nothing = run(&Tree::default(), &half, &plan_removal(&half, false));
            prop_assert!(nothing.parts.is_empty() && nothing.targets.is_empty());
        }
    }

    #[test]
    fn kept_listeners_carry_traffic_all_the_time(wanted in tree(true), actual in tree(false)) {
        let mut state = actual.clone();
        let replaced = |part: &Part| wanted.parts[part].differs_in_fixed(&actual.parts[part]);
        let kept: Vec<_> = actual.listeners().map(|(port, _)| Part::Listener(port.clone()))
            .filter(|part| wanted.parts.contains_key(part) && !replaced(part)).collect();
        for operation in plan(&wanted, &actual) {
            state = state.after(&[operation]);
            for part in &kept {
                prop_assert!(state.parts.contains_key(part), "{} went away", part);
            }
        }
    }

    #[test]
    fn target_update_changes_only_targets(wanted in tree(true), actual in tree(false)) {
        let operations = plan(&actual.with_targets_of(&wanted), &actual);
        for operation in &operations {
            match operation {
                Operation::AddTargets { .. } | Operation::RemoveTargets { .. } => {}
                // Settings that an empty pool cannot show.
                Operation::Update { part: Part::Pool(pool), changes, .. } => {
                    prop_assert!(actual.targets_of(pool).is_empty() && !wanted.targets_of(pool).is_empty());
                    prop_assert!(changes.iter().all(|change| change.from.is_null()));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        let reached = run(&actual.with_targets_of(&wanted), &actual, &operations);
        for (pool, targets) in &wanted.targets {
            let found_room = with_room(targets, &actual.targets_of(pool), limit(pool, &wanted, &actual));
            prop_assert!(reached.pool_attributes(pool).is_none() || reached.targets_of(pool) == found_room);
        }
    }

    #[test]
    fn present_targets_keep_their_room_when_others_change(
        (first, others, limit) in (targets(), proptest::collection::vec(targets(), 0..6), 1..4_usize)
    ) {
        let mut present = with_room(&first, &Targets::default(), limit);
        for wanted in others {
            let next = with_room(&wanted, &present, limit);
            for target in present.iter() {
                prop_assert!(next.contains(target) || !wanted.contains(target), "{} lost its place", target);
            }
            prop_assert_eq!(next.len(), wanted.len().min(limit));
            prop_assert!(next.without(&wanted).is_empty());
            prop_assert_eq!(&with_room(&wanted, &next, limit), &next);
            present = next;
        }
    }

    #[test]
    fn left_out_targets_are_the_desired_ones_that_are_missing(wanted in tree(true), actual in any_actual()) {
        let reached = actual.after(&plan(&wanted, &actual));
        for (pool, left) in left_out(&wanted, &actual) {
            prop_assert_eq!(left, wanted.targets_of(&pool).without(&reached.targets_of(&pool)));
        }
    }
}

#[test]
fn a_shared_load_balancer_stays_when_our_parts_go() {
    let actual = Tree::default()
        .part(Part::CreatedBefore(auxiliary(0)), Attributes::default())
        .balancer(Attributes::default())
        .pool("p", Attributes::default(), None)
        .listener(80, "TCP", "p", Attributes::default());
    let operations = plan_removal(&actual, true);
    let deleted: Vec<_> = operations.iter().filter(|it| matches!(it, Operation::Delete { .. })).collect();
    assert_eq!((deleted.len(), operations.last()), (2, Some(&Operation::Untag)));
}

#[test]
fn operation_names_its_part_pool_and_changes() {
    let thing = Part::created_before(0, "thing", "a");
    let tree = |size: u8| {
        let tree = Tree::default().part(Part::created_before(0, "thing", "a"), Attributes::default().set("size", size));
        tree.pool("p", Attributes::default(), Some([size.to_string()].into_iter().collect()))
    };
    let operations = plan(&tree(2), &tree(1));
    assert!(operations[0].updates(|part| *part == thing) && !operations[0].deletes(|_| true), "{operations:?}");
    assert_eq!((operations[0].part(), operations[0].changes().len()), (Some(&thing), 1));
    assert_eq!((operations[1].part(), operations[1].targets_of()), (None, Some("p")));
    assert!(plan(&Tree::default(), &tree(1)).iter().any(|it| it.deletes(|part| *part == thing)));
    assert!(
        thing.is_of_kind("thing")
            && Part::created_after("name", "a").is_of_kind("name")
            && !Part::Balancer.is_of_kind("thing")
    );
}
