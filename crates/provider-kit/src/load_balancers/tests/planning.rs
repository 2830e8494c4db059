//! Plans from any state to any other state, interrupted anywhere.

use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;

use super::super::plan::{left_out, limit, with_room};
use super::super::{
    Attributes, Auxiliary, Operation, POOL, Port, ResourceGraph, ResourceKey, Targets, plan,
    plan_removal, removals_first,
};

const POOLS: [&str; 3] = ["p", "q", "r"];

fn port(number: usize) -> ResourceKey {
    let (number, protocol) = [(80, "TCP"), (80, "UDP"), (443, "TCP"), (53, "UDP")][number];
    ResourceKey::Listener(Port {
        number,
        protocol: protocol.into(),
    })
}

fn auxiliary(number: usize) -> Auxiliary {
    Auxiliary {
        rank: u8::try_from(number / 2).unwrap(),
        kind: "thing".into(),
        name: number.to_string(),
    }
}

fn targets() -> impl Strategy<Value = Targets> {
    btree_set("[a-d]", 0..4).prop_map(|set| set.into_iter().collect())
}

/// Settings of a resource: complete, or partial with one fixed setting.
fn settings(wanted: bool) -> impl Strategy<Value = Attributes> {
    (0..3_u8, proptest::option::of(0..3_u8), 0..2_u8).prop_map(move |(tier, size, zone)| {
        let attributes = Attributes::default().set("tier", tier).set("zone", zone);
        let attributes = if size.is_some() || !wanted {
            attributes.set("size", size)
        } else {
            attributes
        };
        if wanted {
            attributes.fixed(&["zone"])
        } else {
            attributes.for_creation()
        }
    })
}

/// A load balancer whose listeners lead to its own pools; a desired one may leave the targets of a pool open.
pub(super) fn graph(wanted: bool) -> impl Strategy<Value = ResourceGraph> {
    let limit = proptest::option::of(1..5_usize);
    let pools = btree_map(
        0..POOLS.len(),
        (settings(wanted), targets(), any::<bool>(), limit),
        1..=POOLS.len(),
    );
    let listeners = btree_map(
        0..4_usize,
        (settings(wanted), any::<prop::sample::Index>()),
        0..4,
    );
    let asides = (
        btree_map(0..4_usize, settings(wanted), 0..3),
        btree_map(0..4_usize, settings(wanted), 0..3),
    );
    (settings(wanted), pools, listeners, asides).prop_map(
        move |(balancer, pools, listeners, (supports, fronts))| {
            let mut graph = ResourceGraph::default().balancer(balancer);
            for (pool, (settings, targets, are_known, limit)) in &pools {
                graph = graph.pool(
                    POOLS[*pool],
                    settings.clone(),
                    (*are_known || !wanted).then(|| targets.clone()),
                );
                graph = limit.map_or(graph.clone(), |limit| graph.limit(POOLS[*pool], limit));
            }
            for (number, (settings, pool)) in listeners {
                let pool = POOLS[*pool.get(&pools.keys().copied().collect::<Vec<_>>())];
                graph = graph.resource(port(number), settings.set(POOL, pool));
            }
            for (number, settings) in supports {
                graph = graph.resource(ResourceKey::CreatedBefore(auxiliary(number)), settings);
            }
            fronts.into_iter().fold(graph, |graph, (number, settings)| {
                graph.resource(ResourceKey::CreatedAfter(auxiliary(number)), settings)
            })
        },
    )
}

/// An observed state: complete, empty, with auxiliary resources only, or half deleted.
pub(super) fn any_actual() -> impl Strategy<Value = ResourceGraph> {
    (graph(false), 0..12_usize).prop_map(|(graph, kept)| match kept {
        0 => ResourceGraph::default(),
        1..8 => {
            let removal = plan_removal(&graph, false);
            graph.after(&removal[..removal.len().saturating_sub(kept - 1)])
        }
        _ => graph,
    })
}

/// Fails if a cloud would refuse the operation.
pub(super) fn check_possible(graph: &ResourceGraph, operation: &Operation) {
    let is_there = |resource: &ResourceKey| graph.resources.contains_key(resource);
    let pool = |pool: &String| is_there(&ResourceKey::Pool(pool.clone()));
    match operation {
        Operation::Tag | Operation::Untag => {}
        Operation::Create { resource, .. } => {
            assert!(!is_there(resource), "created twice: {resource}");
        }
        Operation::Update { resource, .. } | Operation::Delete { resource } => {
            assert!(is_there(resource), "not there: {resource}");
        }
        Operation::AddTargets {
            pool: name,
            targets,
        } => {
            assert!(
                pool(name)
                    && !targets.is_empty()
                    && graph.targets_of(name).without(targets) == graph.targets_of(name)
            );
        }
        Operation::RemoveTargets {
            pool: name,
            targets,
        } => {
            assert!(
                pool(name)
                    && !targets.is_empty()
                    && targets.without(&graph.targets_of(name)).is_empty()
            );
        }
    }
}

fn is_inside(resource: &ResourceKey) -> bool {
    matches!(resource, ResourceKey::Pool(_) | ResourceKey::Listener(_))
}

/// Checks the invariants that hold at every moment if they held at the beginning.
fn check_state(graph: &ResourceGraph) {
    let has_balancer = graph.balancer_attributes().is_some();
    assert!(
        has_balancer || !graph.resources.keys().any(is_inside),
        "resources without a load balancer: {graph:?}"
    );
    for (port, attributes) in graph.listeners() {
        let pool = attributes.text(POOL).unwrap();
        assert!(
            graph.pool_attributes(pool).is_some(),
            "listener {port} leads to {pool:?}, which is not there: {graph:?}"
        );
    }
}

fn check_step(wanted: &ResourceGraph, before: &ResourceGraph, operation: &Operation) {
    check_possible(before, operation);
    let after = before.after(std::slice::from_ref(operation));
    check_state(&after);
    if let Operation::Create {
        resource: ResourceKey::Listener(port),
        attributes,
    } = operation
    {
        let pool = attributes.text(POOL).unwrap();
        let present = after.targets_of(pool);
        let missing = with_room(
            &wanted.targets_of(pool),
            &present,
            limit(pool, wanted, &after),
        )
        .without(&present);
        assert!(
            missing.is_empty(),
            "listener {port} is there before its targets {missing:?}"
        );
    }
    for (pool, targets) in &wanted.targets {
        let was_empty = before.targets_of(pool).is_empty();
        let limit = limit(pool, wanted, before);
        let may_be_empty = was_empty || targets.is_empty() || limit <= 1;
        assert!(
            may_be_empty || !after.targets_of(pool).is_empty(),
            "pool {pool:?} was emptied"
        );
    }
    if let Operation::AddTargets { pool, .. } = operation {
        assert!(
            after.targets_of(pool).len() <= limit(pool, wanted, before),
            "pool {pool:?} has no room for so many"
        );
    }
}

/// Carries out all operations, and returns the resulting state.
fn run(wanted: &ResourceGraph, actual: &ResourceGraph, operations: &[Operation]) -> ResourceGraph {
    operations.iter().fold(actual.clone(), |graph, operation| {
        check_step(wanted, &graph, operation);
        graph.after(std::slice::from_ref(operation))
    })
}

fn check_reached(wanted: &ResourceGraph, actual: &ResourceGraph, reached: &ResourceGraph) {
    assert!(
        wanted.resources.keys().eq(reached.resources.keys()),
        "{wanted:?} is not {reached:?}"
    );
    for (resource, attributes) in &wanted.resources {
        assert!(
            attributes
                .differences(&reached.resources[resource])
                .is_empty(),
            "{resource}"
        );
    }
    for (pool, targets) in &wanted.targets {
        let limit = limit(pool, wanted, actual);
        assert_eq!(
            reached.targets_of(pool),
            with_room(targets, &actual.targets_of(pool), limit)
        );
        assert!(reached.targets_of(pool).len() <= limit);
    }
    assert_eq!(plan(wanted, reached), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_plan_leads_from_anything_to_what_is_wanted_safely(wanted in graph(true), actual in any_actual()) {
        let operations = plan(&wanted, &actual);
        check_reached(&wanted, &actual, &run(&wanted, &actual, &operations));
    }

    #[test]
    fn a_plan_that_is_broken_off_anywhere_is_finished_by_the_next(wanted in graph(true), actual in any_actual()) {
        let operations = plan(&wanted, &actual);
        for done in 0..=operations.len() {
            let half = actual.after(&operations[..done]);
            let rest = plan(&wanted, &half);
            prop_assert!(rest.len() <= operations.len(), "no more is left to do than before");
            check_reached(&wanted, &actual, &run(&wanted, &half, &rest));
        }
    }

    #[test]
    fn plan_at_a_limit_removes_first_and_is_safe(wanted in graph(true), actual in any_actual()) {
        let operations = removals_first(plan(&wanted, &actual), &actual);
        check_reached(&wanted, &actual, &run(&wanted, &actual, &operations));
    }

    #[test]
    fn a_removal_leaves_nothing_and_can_be_broken_off(actual in graph(false)) {
        let operations = plan_removal(&actual, false);
        for done in 0..=operations.len() {
            let half = actual.after(&operations[..done]);
            check_state(&half);
            let nothing = run(&ResourceGraph::default(), &half, &plan_removal(&half, false));
            prop_assert!(nothing.resources.is_empty() && nothing.targets.is_empty());
        }
    }

    #[test]
    fn kept_listeners_carry_traffic_all_the_time(wanted in graph(true), actual in graph(false)) {
        let mut state = actual.clone();
        let replaced = |resource: &ResourceKey| wanted.resources[resource].differs_in_fixed(&actual.resources[resource]);
        let kept: Vec<_> = actual.listeners().map(|(port, _)| ResourceKey::Listener(port.clone()))
            .filter(|resource| wanted.resources.contains_key(resource) && !replaced(resource)).collect();
        for operation in plan(&wanted, &actual) {
            state = state.after(&[operation]);
            for resource in &kept {
                prop_assert!(state.resources.contains_key(resource), "{} went away", resource);
            }
        }
    }

    #[test]
    fn target_update_changes_resources_that_follow_the_nodes(actual in graph(false)) {
        // A pool with more targets than it may have loses some, whatever the Nodes are.
        prop_assume!(plan(&actual, &actual).is_empty());
        let there = ResourceKey::created_after("firewall", "there"); let missing = ResourceKey::created_after("firewall", "missing");
        let tags = |text: &str| Attributes::default().set("tags", text);
        let actual = actual.resource(there.clone(), tags("a").set("port", 80));
        let wanted = ResourceGraph::default()
            .resource_of_nodes(there.clone(), tags("a,b"))
            .resource_of_nodes(missing, tags("a,b"));
        let mut operations = plan(&actual.with_targets_of(&wanted), &actual);
        // Targets that a pool may not have leave it.
        operations.retain(|operation| !matches!(operation, Operation::RemoveTargets { .. }));
        prop_assert_eq!(operations.len(), 1, "{:?}", operations);
        let expected = tags("a,b").set("port", 80);
        let is_expected = matches!(&operations[0], Operation::Update { resource, attributes, .. }
            if *resource == there && *attributes == expected);
        prop_assert!(is_expected, "{:?}", operations[0]);
    }

    #[test]
    fn target_update_changes_only_targets(wanted in graph(true), actual in graph(false)) {
        let operations = plan(&actual.with_targets_of(&wanted), &actual);
        for operation in &operations {
            match operation {
                Operation::AddTargets { .. } | Operation::RemoveTargets { .. } => {}
                // Settings that an empty pool cannot show.
                Operation::Update { resource: ResourceKey::Pool(pool), changes, .. } => {
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
    fn left_out_targets_are_the_desired_ones_that_are_missing(wanted in graph(true), actual in any_actual()) {
        let reached = actual.after(&plan(&wanted, &actual));
        for (pool, left) in left_out(&wanted, &actual) {
            prop_assert_eq!(left, wanted.targets_of(&pool).without(&reached.targets_of(&pool)));
        }
    }
}

#[test]
fn a_shared_load_balancer_stays_when_our_parts_go() {
    let actual = ResourceGraph::default()
        .resource(
            ResourceKey::CreatedBefore(auxiliary(0)),
            Attributes::default(),
        )
        .balancer(Attributes::default())
        .pool("p", Attributes::default(), None)
        .listener(80, "TCP", "p", Attributes::default());
    let operations = plan_removal(&actual, true);
    let deleted: Vec<_> = operations
        .iter()
        .filter(|operation| matches!(operation, Operation::Delete { .. }))
        .collect();
    assert_eq!(
        (deleted.len(), operations.last()),
        (2, Some(&Operation::Untag))
    );
}

#[test]
fn operation_names_its_part_pool_and_changes() {
    let thing = ResourceKey::created_before(0, "thing", "a");
    let graph = |size: u8| {
        let graph = ResourceGraph::default().resource(
            ResourceKey::created_before(0, "thing", "a"),
            Attributes::default().set("size", size),
        );
        graph.pool(
            "p",
            Attributes::default(),
            Some([size.to_string()].into_iter().collect()),
        )
    };
    let operations = plan(&graph(2), &graph(1));
    assert!(
        operations[0].updates(|resource| *resource == thing) && !operations[0].deletes(|_| true),
        "{operations:?}"
    );
    assert_eq!(
        (operations[0].resource(), operations[0].changes().len()),
        (Some(&thing), 1)
    );
    assert_eq!(
        (operations[1].resource(), operations[1].targets_of()),
        (None, Some("p"))
    );
    assert!(
        plan(&ResourceGraph::default(), &graph(1))
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == thing))
    );
    assert!(
        thing.is_of_kind("thing")
            && ResourceKey::created_after("name", "a").is_of_kind("name")
            && !ResourceKey::Balancer.is_of_kind("thing")
    );
}
