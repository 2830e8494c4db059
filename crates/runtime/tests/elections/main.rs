//! Several processes, one Lease, and everything that can go wrong between them: never two of them may write at a time.
//!
//! Rules: APP-63, APP-64, INV-4, D-160.

#![allow(clippy::unwrap_used, reason = "a test says enough by failing")]

mod network;
mod plan;
mod server;
mod simulation;

use plan::{Fault, Plan};
use proptest::prelude::*;
use simulation::Simulation;

/// Maximum time in seconds from the end of the last fault until an elector leads. A slow clock waits for a dead
/// holder's Lease, after a request that hung.
const RECOVERY: f64 = 60.0;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn two_candidates_never_both_lead_and_one_leads_again(plan in plan::plans()) {
        let mut simulation = Simulation::new(&plan);
        simulation.run_until(plan.end());
        simulation.calm_down();
        simulation.run_until(plan.end() + RECOVERY);
        prop_assert!(simulation.leader().is_some(), "nobody leads:\n{}", simulation.log());
        prop_assert!(simulation.breaches.is_empty(), "{}\n{}", simulation.breaches.join("\n"), simulation.log());
    }
}

fn calm(faults: Vec<(f64, Fault)>) -> Plan {
    Plan {
        seed: 7,
        rates: vec![1.0, 1.0, 1.0],
        watching: vec![true, true, true],
        put_creates: false,
        loss: 0.0,
        slowness: 0.0,
        faults,
    }
}

/// Runs the plan, and returns the seconds from `since` until another elector than before leads.
fn hand_over(plan: &Plan, since: f64) -> f64 {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(since - 0.001);
    let before = simulation.leader();
    assert!(before.is_some(), "nobody led before:\n{}", simulation.log());
    let mut time = since;
    while simulation.leader() == before || simulation.leader().is_none() {
        assert!(time < since + 60.0, "no hand-over:\n{}", simulation.log());
        time += 0.01;
        simulation.run_until(time);
    }
    assert!(simulation.breaches.is_empty(), "{:?}", simulation.breaches);
    time - since
}

#[test]
fn hand_overs_take_as_long_as_they_must() {
    for at in [30.0, 30.7, 31.4] {
        let stopped = calm(vec![(at, Fault::StopLeader)]);
        let watching = hand_over(&stopped, at);
        assert!(watching < 1.0, "after a release, watching: {watching}");
        let polling = hand_over(
            &Plan {
                watching: vec![false; 3],
                ..stopped
            },
            at,
        );
        assert!(polling < 5.0, "after a release, polling: {polling}");

        let killed = calm(vec![(at, Fault::KillLeader)]);
        let watching = hand_over(&killed, at);
        assert!(
            (12.5..15.5).contains(&watching),
            "after a kill, watching: {watching}"
        );
        let polling = hand_over(
            &Plan {
                watching: vec![false; 3],
                ..killed
            },
            at,
        );
        assert!(
            (12.5..19.5).contains(&polling),
            "after a kill, polling: {polling}"
        );
    }
}

#[test]
fn a_deleted_lease_is_made_anew_by_its_holder() {
    for watching in [true, false] {
        let plan = Plan {
            watching: vec![watching; 3],
            ..calm(vec![(30.0, Fault::Delete)])
        };
        let mut simulation = Simulation::new(&plan);
        simulation.run_until(29.9);
        let before = simulation.leader();
        simulation.run_until(60.0);
        assert_eq!(
            (simulation.leader(), simulation.breaches.len()),
            (before, 0),
            "{}",
            simulation.log()
        );
        assert!(simulation.holder().is_some());
    }
}
