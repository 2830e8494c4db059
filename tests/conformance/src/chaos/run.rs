//! A chaos run from a seed.

use std::fmt;
use std::time::Duration;

use super::script::{Script, Turn};
use crate::fault_injector::Passed;
use crate::harness::Harness;
use crate::profile::MakeProfile;
use crate::virtual_time::VirtualTime;

/// Time-out for everything to settle, in virtual time: longer than the longest back-off (1000 s) and a deferred
/// deletion.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// Time after which interrupted work, such as writing a condition, is repeated: a time-out and the longest back-off of
/// a Service.
const AFTERMATH: Duration = Duration::from_secs(60 + 300 + 30);
/// Time for which everything must stay settled and idle at the end.
const QUIET: Duration = Duration::from_secs(6 * 60);
/// A process that could not start is started again after this, as a Pod is.
const BEFORE_RESTART: Duration = Duration::from_secs(5);
/// Time in which a stop must end before the process is killed.
const GRACE: Duration = Duration::from_secs(30);

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations of users, kubelets and machines; restarts and kills of the program.
    pub operations: usize,
    /// Number of injected faults.
    pub troubles: usize,
    /// Requests that they hit.
    pub hits: usize,
    /// Lives of the program.
    pub lives: usize,
    /// Requests of the program.
    pub requests: usize,
    /// Duration of the run in virtual time.
    pub virtual_time: Duration,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.troubles += other.troubles;
        self.hits += other.hits;
        self.lives += other.lives;
        self.requests += other.requests;
        self.virtual_time += other.virtual_time;
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Run {
    /// Counts of the run.
    pub tally: Tally,
    /// Every operation and fault, with its time.
    pub script: Vec<String>,
    /// Events of the run in order, with all requests and their responses.
    pub journal: Vec<String>,
    /// Failure of the run, if any.
    pub failure: Option<Failure>,
}

/// A run that ended badly.
#[derive(Debug)]
pub struct Failure {
    /// Seed of the run; `CCM_SEED` replays it.
    pub seed: u64,
    /// Problems that were found.
    pub problems: Vec<String>,
    /// Last events of the script.
    script: Vec<String>,
    last: Vec<Passed>,
    warnings: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "CCM_SEED={}:", self.seed)?;
        let lines = |title: &'static str, lines: &[String]| (title, lines.to_vec());
        let last: Vec<String> = self.last.iter().map(ToString::to_string).collect();
        for (title, lines) in [
            lines("problems", &self.problems),
            lines("script", &self.script),
            lines("warnings of the program", &self.warnings),
            lines("last requests", &last),
        ] {
            writeln!(f, "  {title}:")?;
            lines
                .iter()
                .try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}

/// Plays the run of this seed.
#[must_use]
pub fn run(cloud: MakeProfile, seed: u64) -> Run {
    // The program's own jitter.
    fastrand::seed(seed);
    let harness = Harness::boxed(cloud()).routes().seed(seed).build();
    let mut script = Script::new(seed);
    let mut time = VirtualTime::default();
    let mut lives = 0;
    let problems = loop {
        lives += 1;
        let end = time.live(async || live(&harness, &mut script, lives == 1).await);
        harness.injector.revive();
        if let Some(problems) = end {
            break problems;
        }
    };
    let tally = Tally {
        operations: script.operations,
        troubles: script.troubles,
        hits: harness.injector.hits(),
        lives,
        requests: harness.injector.count(),
        virtual_time: time.elapsed(),
    };
    let failure = (!problems.is_empty()).then(|| Failure {
        seed,
        problems,
        script: script.log[script.log.len().saturating_sub(60)..].to_vec(),
        last: harness.injector.last(25),
        warnings: harness.warnings(8),
    });
    Run {
        tally,
        script: script.log,
        journal: harness.injector.journal(),
        failure,
    }
}

/// Runs the program once. Returns the problems at the end of the script.
async fn live(harness: &Harness, script: &mut Script, is_first: bool) -> Option<Vec<String>> {
    if is_first {
        script.begin(harness).await;
    }
    let whole = async {
        let program = match harness.start().await {
            Ok(program) => program,
            Err(_) => {
                tokio::time::sleep(BEFORE_RESTART).await;
                script.end_confusion(harness);
                return None;
            }
        };
        match script.go_on(harness).await {
            Turn::Killed => None,
            Turn::Stopped => {
                // Whether it ended by itself or was killed in the end is all the same.
                _ = tokio::time::timeout(GRACE, program.stop()).await;
                None
            }
            Turn::Over => Some([std::mem::take(&mut script.lost), end(harness).await].concat()),
        }
    };
    tokio::select! {
        biased;
        () = harness.injector.died() => None,
        end = whole => end,
    }
}

/// Waits until all is well, and then some time in which nothing may change.
async fn end(harness: &Harness) -> Vec<String> {
    if let Err(unsettled) = harness.settle_within(PATIENCE).await {
        return [unsettled, harness.violations()].concat();
    }
    tokio::time::sleep(AFTERMATH).await;
    let mutations = harness.injector.mutations();
    tokio::time::sleep(QUIET).await;
    let mut problems = [crate::settled::unsettled(harness), harness.violations()].concat();
    let more = harness.injector.mutations() - mutations;
    if more > 0 {
        problems.push(format!(
            "{more} mutating requests although everything is settled (INV-3)"
        ));
    }
    problems
}
