//! Random sequence of operations and faults, which continues across restarts of the program.

use std::time::Duration;

use tokio::time::Instant;

use super::{operation, trouble};
use crate::fault_injector::Moment;
use crate::harness::Harness;
use crate::profile::LoadBalancerFacts;

/// Operations in each run, at least.
const OPERATIONS: usize = 40;
/// Faults in each run, at least.
const TROUBLES: usize = 30;

/// Effect of the script on the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The program is killed.
    Killed,
    /// The program is stopped with SIGTERM.
    Stopped,
    /// The script is over.
    Over,
}

/// Sequence of operations and faults.
pub(super) struct Script {
    dice: fastrand::Rng,
    begun: Option<Instant>,
    /// Until then the credential is for another project.
    confused_until: Option<Instant>,
    /// Until then the API server shows no Services. If everything was settled, the load balancers are to stay as they are.
    forgotten_until: Option<(Instant, Option<Vec<LoadBalancerFacts>>)>,
    /// Load balancers that were lost meanwhile, in words.
    pub(super) lost: Vec<String>,
    pub(super) operations: usize,
    pub(super) troubles: usize,
    /// Events of the script, with the seconds since its start.
    pub(super) log: Vec<String>,
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            dice: fastrand::Rng::with_seed(seed),
            begun: None,
            confused_until: None,
            forgotten_until: None,
            lost: Vec::new(),
            operations: 0,
            troubles: 0,
            log: Vec::new(),
        }
    }

    fn note(&mut self, harness: &Harness, what: &str) {
        harness.injector.note(what);
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.log
            .push(format!("{:>8.1} s  {what}", begun.elapsed().as_secs_f64()));
    }

    /// Creates the initial cluster.
    pub(super) async fn begin(&mut self, harness: &Harness) {
        self.note(harness, "three Nodes are there");
        for number in 1..=3 {
            let name = format!("worker-{number}");
            harness.cloud.add_machine(&name);
            operation::register(harness, &name).await;
        }
    }

    /// Makes the credential right again when it is time. A program that does not start with the wrong one waits for it.
    pub(super) fn end_confusion(&mut self, harness: &Harness) {
        if self
            .confused_until
            .take_if(|until| *until <= Instant::now())
            .is_some()
        {
            harness.cloud.confuse(false);
            self.note(
                harness,
                "the cloud's credential is for the right project again",
            );
        }
    }

    /// Hides the Services in the API server for a while.
    fn forget_services(&mut self, harness: &Harness) {
        let lasts = Duration::from_secs(self.dice.u64(1..=200));
        let is_settled =
            self.confused_until.is_none() && crate::settled::unsettled(harness).is_empty();
        let balancers = is_settled.then(|| harness.cloud.load_balancers());
        harness.api.lose_storage("services");
        self.forgotten_until = Some((Instant::now() + lasts, balancers));
        self.note(
            harness,
            &format!("the API server forgets all Services for {lasts:?}"),
        );
    }

    /// Shows them again when it is time.
    fn end_forgetting(&mut self, harness: &Harness, at_once: bool) {
        let is_time = |pair: &mut (Instant, _)| at_once || pair.0 <= Instant::now();
        let Some((_, before)) = self.forgotten_until.take_if(is_time) else {
            return;
        };
        let now = harness.cloud.load_balancers();
        // With another project's credential, the program sees none of its own objects.
        let before = before.filter(|_| self.confused_until.is_none());
        for balancer in before
            .into_iter()
            .flatten()
            .filter(|facts| facts.service_uid.is_some())
        {
            if !now.iter().any(|facts| {
                facts.service_uid == balancer.service_uid && facts.address == balancer.address
            }) {
                self.lost.push(format!(
                    "lost while its Service was forgotten: {balancer:?} (INV-9)"
                ));
            }
        }
        harness.api.restore_storage("services");
        self.note(harness, "the API server shows the Services again");
    }

    /// Continues until the next effect on the program. If the future is dropped at an await, the next call resumes
    /// there.
    pub(super) async fn go_on(&mut self, harness: &Harness) -> Turn {
        while self.operations < OPERATIONS || self.troubles < TROUBLES {
            tokio::time::sleep(self.pause()).await;
            self.end_confusion(harness);
            self.end_forgetting(harness, false);
            match self.dice.u8(0..100) {
                0..=1 => return self.turn(harness, Turn::Killed, "the program is killed"),
                2..=3 => return self.turn(harness, Turn::Stopped, "the program is restarted"),
                4..=7 => {
                    let moment = if self.dice.bool() {
                        Moment::Before
                    } else {
                        Moment::After
                    };
                    let number = self.dice.usize(1..=15);
                    harness.injector.kill_at(number, moment);
                    self.note(
                        harness,
                        &format!("the program will be killed {moment:?} the {number}th request"),
                    );
                    self.operations += 1;
                }
                8..=9 => {
                    let lasts = Duration::from_secs(self.dice.u64(1..=60));
                    harness.cloud.confuse(true);
                    self.confused_until = Some(Instant::now() + lasts);
                    self.note(
                        harness,
                        "the cloud's credential is for another, empty project",
                    );
                    self.troubles += 1;
                }
                10 if self.forgotten_until.is_none() => {
                    self.forget_services(harness);
                    self.troubles += 1;
                }
                10..=45 => {
                    let what = trouble::strike(harness, &mut self.dice);
                    self.note(harness, &what);
                    self.troubles += 1;
                }
                // Names of forgotten Services are not to be taken.
                _ if self.forgotten_until.is_some() => self.operations += 1,
                _ => {
                    if let Some(what) =
                        operation::operate(harness, &mut self.dice, self.operations).await
                    {
                        self.note(harness, &what);
                        self.operations += 1;
                    }
                }
            }
        }
        self.note(harness, "all trouble is over");
        harness.injector.calm();
        harness.cloud.confuse(false);
        self.end_forgetting(harness, true);
        operation::heal(harness).await;
        Turn::Over
    }

    fn turn(&mut self, harness: &Harness, turn: Turn, what: &str) -> Turn {
        self.note(harness, what);
        self.operations += 1;
        turn
    }

    /// Returns a random pause: often none, so that operations overlap; sometimes long enough for everything to settle.
    fn pause(&mut self) -> Duration {
        let milliseconds = match self.dice.u8(0..10) {
            0..=4 => self.dice.u64(0..=1500),
            5..=8 => self.dice.u64(1500..=8000),
            _ => self.dice.u64(8000..=30_000),
        };
        Duration::from_millis(milliseconds)
    }
}
