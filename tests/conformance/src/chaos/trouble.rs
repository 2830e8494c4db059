//! Random faults of the cloud and the API server.

use std::time::Duration;

use tokio::time::Instant;

use crate::fault_injector::{Disturbance, Side, Trouble};
use crate::harness::Harness;

/// Injects a random fault for a while, and describes it.
pub(super) fn strike(harness: &Harness, dice: &mut fastrand::Rng) -> String {
    let side = if dice.bool() {
        Side::Kubernetes
    } else {
        Side::Cloud
    };
    let lasts = Duration::from_secs(dice.u64(1..=40));
    let (trouble, only_mutations, percent) = match dice.u8(0..12) {
        0 => {
            harness.api.faults().drop_watches();
            return "all watches are dropped".to_owned();
        }
        1 => {
            harness.api.compact();
            harness.api.faults().drop_watches();
            return "history is forgotten and all watches are dropped".to_owned();
        }
        2 => (Trouble::Status(500, None), dice.bool(), dice.u8(20..=100)),
        3 => (Trouble::Status(503, None), dice.bool(), dice.u8(20..=100)),
        4 => (
            Trouble::Status(429, Some(dice.u32(1..=8))),
            dice.bool(),
            dice.u8(20..=100),
        ),
        5 => (Trouble::Status(409, None), true, dice.u8(20..=80)),
        6 => (
            Trouble::Slow(Duration::from_millis(dice.u64(100..=15_000))),
            dice.bool(),
            dice.u8(20..=100),
        ),
        7 | 8 => (Trouble::AnswerLost, dice.bool(), dice.u8(20..=80)),
        9 => (Trouble::Refused, dice.bool(), dice.u8(20..=100)),
        10 => (Trouble::Hang, dice.bool(), dice.u8(10..=50)),
        // Credentials are refused, by the cloud.
        _ => {
            let disturbance = Disturbance {
                side: Side::Cloud,
                only_mutations: false,
                percent: 100,
                trouble: Trouble::Status(401, None),
                until: Instant::now() + lasts,
            };
            harness.injector.disturb(disturbance);
            return format!("the cloud refuses the credential for {lasts:?}");
        }
    };
    harness.injector.disturb(Disturbance {
        side,
        only_mutations,
        percent,
        trouble,
        until: Instant::now() + lasts,
    });
    let which = if only_mutations {
        "changes"
    } else {
        "requests"
    };
    format!("{side:?}: {percent} % of the {which} meet {trouble:?} for {lasts:?}")
}
