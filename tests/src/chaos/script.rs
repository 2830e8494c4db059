//! The order of things, as the dice fall. It outlives the lives of the program.

use std::time::Duration;

use tokio::time::Instant;

use super::{operation, trouble};
use crate::cloud_under_test::BalancerFacts;
use crate::gate::Moment;
use crate::stage::Stage;

/// Operations in each run, at least.
const OPERATIONS: usize = 40;
/// Faults in each run, at least.
const TROUBLES: usize = 30;

/// What happens to the program at some point of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is killed.
    Killed,
    /// It is stopped as an operator does.
    Stopped,
    /// The script is over.
    Over,
}

/// The script.
pub(super) struct Script {
    dice: fastrand::Rng,
    begun: Option<Instant>,
    /// Until then the credential is for another project.
    confused_until: Option<Instant>,
    /// Until then the API server shows no Services. If everything was settled, the load balancers are to stay as they are.
    forgotten_until: Option<(Instant, Option<Vec<BalancerFacts>>)>,
    /// Load balancers that were lost meanwhile, in words.
    pub(super) lost: Vec<String>,
    pub(super) operations: usize,
    pub(super) troubles: usize,
    /// What happened, with the seconds since the beginning.
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

    fn note(&mut self, stage: &Stage, what: &str) {
        stage.gate.note(what);
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.log.push(format!("{:>8.1} s  {what}", begun.elapsed().as_secs_f64()));
    }

    /// The cluster that it begins with.
    pub(super) async fn begin(&mut self, stage: &Stage) {
        self.note(stage, "three Nodes are there");
        for number in 1..=3 {
            let name = format!("worker-{number}");
            stage.cloud.add_machine(&name);
            operation::register(stage, &name).await;
        }
    }

    /// Makes the credential right again when it is time. A program that does not start with the wrong one waits for it.
    pub(super) fn end_confusion(&mut self, stage: &Stage) {
        if self.confused_until.take_if(|until| *until <= Instant::now()).is_some() {
            stage.cloud.confuse(false);
            self.note(stage, "the cloud's credential is for the right project again");
        }
    }

    /// The API server forgets its Services for a while.
    fn forget_services(&mut self, stage: &Stage) {
        let lasts = Duration::from_secs(self.dice.u64(1..=200));
        let is_settled = self.confused_until.is_none() && crate::settled::unsettled(stage).is_empty();
        let balancers = is_settled.then(|| stage.cloud.load_balancers());
        stage.api.forget("services");
        self.forgotten_until = Some((Instant::now() + lasts, balancers));
        self.note(stage, &format!("the API server forgets all Services for {lasts:?}"));
    }

    /// Shows them again when it is time.
    fn end_forgetting(&mut self, stage: &Stage, at_once: bool) {
        let is_time = |it: &mut (Instant, _)| at_once || it.0 <= Instant::now();
        let Some((_, before)) = self.forgotten_until.take_if(is_time) else { return };
        let now = stage.cloud.load_balancers();
        // With another project's credential nothing of ours is seen.
        let before = before.filter(|_| self.confused_until.is_none());
        for balancer in before.into_iter().flatten().filter(|it| it.service_uid.is_some()) {
            if !now.iter().any(|it| it.service_uid == balancer.service_uid && it.address == balancer.address) {
                self.lost.push(format!("lost while its Service was forgotten: {balancer:?} (INV-9)"));
            }
        }
        stage.api.remember("services");
        self.note(stage, "the API server shows the Services again");
    }

    /// Goes on up to the next turn of the program. What is dropped at an await is taken up by the next call.
    pub(super) async fn go_on(&mut self, stage: &Stage) -> Turn {
        while self.operations < OPERATIONS || self.troubles < TROUBLES {
            tokio::time::sleep(self.pause()).await;
            self.end_confusion(stage);
            self.end_forgetting(stage, false);
            match self.dice.u8(0..100) {
                0..=1 => return self.turn(stage, Turn::Killed, "the program is killed"),
                2..=3 => return self.turn(stage, Turn::Stopped, "the program is restarted"),
                4..=7 => {
                    let moment = if self.dice.bool() { Moment::Before } else { Moment::After };
                    let number = self.dice.usize(1..=15);
                    stage.gate.kill_at(number, moment);
                    self.note(stage, &format!("the program will be killed {moment:?} the {number}th request"));
                    self.operations += 1;
                }
                8..=9 => {
                    let lasts = Duration::from_secs(self.dice.u64(1..=60));
                    stage.cloud.confuse(true);
                    self.confused_until = Some(Instant::now() + lasts);
                    self.note(stage, "the cloud's credential is for another, empty project");
                    self.troubles += 1;
                }
                10 if self.forgotten_until.is_none() => {
                    self.forget_services(stage);
                    self.troubles += 1;
                }
                10..=45 => {
                    let what = trouble::strike(stage, &mut self.dice);
                    self.note(stage, &what);
                    self.troubles += 1;
                }
                // Names of forgotten Services are not to be taken.
                _ if self.forgotten_until.is_some() => self.operations += 1,
                _ => {
                    if let Some(what) = operation::operate(stage, &mut self.dice, self.operations).await {
                        self.note(stage, &what);
                        self.operations += 1;
                    }
                }
            }
        }
        self.note(stage, "all trouble is over");
        stage.gate.calm();
        stage.cloud.confuse(false);
        self.end_forgetting(stage, true);
        operation::heal(stage).await;
        Turn::Over
    }

    fn turn(&mut self, stage: &Stage, turn: Turn, what: &str) -> Turn {
        self.note(stage, what);
        self.operations += 1;
        turn
    }

    /// Often nothing, so that things meet; sometimes long enough that they settle.
    fn pause(&mut self) -> Duration {
        let milliseconds = match self.dice.u8(0..10) {
            0..=4 => self.dice.u64(0..=1500),
            5..=8 => self.dice.u64(1500..=8000),
            _ => self.dice.u64(8000..=30_000),
        };
        Duration::from_millis(milliseconds)
    }
}
