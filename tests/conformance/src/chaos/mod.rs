//! Chaos: users, kubelets and machines do as they please while both APIs fail, slow down, lose answers, drop watches and
//! throttle, and the program is restarted and killed; all of it in an order that a seed decides, under virtual time.
//!
//! After the trouble everything must converge: nothing leaked, nothing doubled, no live Node deleted, no calls for one
//! Service overlapped; and then the program must be silent.
//!
//! `CCM_SEED=n` replays one run (up to the order of tasks that are ready at the same moment) and prints its journal,
//! `CCM_SEEDS=n` runs that many.

mod operation;
mod run;
mod script;
mod trouble;

use std::fmt;

use parking_lot::Mutex;

use crate::crash::in_parallel;
use crate::profile::MakeProfile;
pub use run::{Failure, Run, Tally, run};

/// Seeds of the chaos runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<u64>);

impl Seeds {
    /// Returns the seed in `CCM_SEED`, or as many seeds as `CCM_SEEDS` says, or `count` by default.
    ///
    /// # Panics
    /// If one of them is no number.
    #[must_use]
    pub fn from_environment(count: u64) -> Self {
        let number = |name: &str| {
            std::env::var(name)
                .ok()
                .map(|text| text.parse::<u64>().expect("a number in CCM_SEED(S)"))
        };
        match number("CCM_SEED") {
            Some(seed) => Self(vec![seed]),
            None => Self((1..=number("CCM_SEEDS").unwrap_or(count)).collect()),
        }
    }

    /// Returns the number of seeds.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Runs the chaos proof with this number of seeds, or with those of `CCM_SEED` and `CCM_SEEDS`.
///
/// # Panics
/// If a run ends badly, or too little happened.
pub fn proof(cloud: MakeProfile, seeds: u64) -> Tally {
    let seeds = Seeds::from_environment(seeds);
    let total = survive(cloud, &seeds);
    assert!(
        total.operations >= 40 * seeds.count() && total.troubles >= 30 * seeds.count(),
        "{total}"
    );
    total
}

/// Plays the runs and prints what was done in all of them.
///
/// # Panics
/// If a run ends badly; the text names its seed.
pub fn survive(cloud: MakeProfile, seeds: &Seeds) -> Tally {
    let start = std::time::Instant::now();
    let total = Mutex::new(Tally::default());
    let failures = Mutex::new(Vec::<Failure>::new());
    in_parallel(seeds.0.len(), |index| {
        let run = run(cloud, seeds.0[index]);
        if seeds.count() == 1 {
            println!("{}", run.journal.join("\n"));
        }
        match run.failure {
            None => total.lock().add(&run.tally),
            Some(failure) => failures.lock().push(failure),
        }
    });
    let total = total.into_inner();
    let mut failures = failures.into_inner();
    println!(
        "{} runs in {:.1} s: {total}",
        seeds.0.len(),
        start.elapsed().as_secs_f64()
    );
    failures.sort_by_key(|failure| failure.seed);
    let line =
        |failure: &Failure| format!("seed {}: {}", failure.seed, failure.problems.join("; "));
    let all: Vec<String> = failures.iter().map(line).collect();
    let first: Vec<String> = failures.iter().take(3).map(ToString::to_string).collect();
    assert!(
        failures.is_empty(),
        "{} runs ended badly:\n{}\n\n{}",
        all.len(),
        all.join("\n"),
        first.join("\n")
    );
    total
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operations,
            troubles,
            hits,
            lives,
            requests,
            virtual_time,
        } = self;
        let hours = virtual_time.as_secs() / 3600;
        write!(
            f,
            "{operations} operations, {troubles} faults that hit {hits} requests of {requests}, {lives} lives, {hours} virtual hours"
        )
    }
}
