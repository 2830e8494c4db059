//! Schedule of lists of the cloud's routes in adaptive mode (D-5, P-1). Pure: the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::metrics::SyncTrigger;

/// Minimum time between lists while the inputs of a pass do not change.
const IDLE: Duration = Duration::from_secs(300);
/// Maximum share of [`IDLE`] that is added as jitter, so that clusters do not list at the same time.
const JITTER: f64 = 0.2;
/// Minimum time between passes after Node events, unless the period is shorter.
const GAP: Duration = Duration::from_secs(10);
/// Minimum time between checks of the schedule, whatever the period.
const SHORTEST_TICK: Duration = Duration::from_secs(1);

/// The next step of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleStep {
    /// List and reconcile now.
    Pass,
    /// Check again at this time, or earlier if a Node changes.
    Wait(Instant),
}

/// Inputs of the decision whether a pass is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScheduleInputs {
    /// Digest of a pass's inputs except the routes.
    pub inputs: u64,
    /// Time at which a failed route, or a route that another writer changed, is due again.
    pub again: Option<Instant>,
    /// Time until which the cloud throttles.
    pub not_before: Option<Instant>,
}

/// The schedule, which remembers the last pass.
///
/// ```
/// use controllers::route::pace::{Pace, ScheduleStep, ScheduleInputs};
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// let (start, second) = (Instant::now(), Duration::from_secs(1));
/// let mut pace = Pace::new(10 * second);
/// let same = ScheduleInputs { inputs: 7, ..ScheduleInputs::default() };
/// assert_eq!(pace.step(start, same), ScheduleStep::Pass);
/// pace.passed(start, 7, 0.5);
/// assert_eq!(pace.step(start + 299 * second, same), ScheduleStep::Wait(start + 309 * second), "nothing changed");
/// assert_eq!(pace.step(start + 11 * second, ScheduleInputs { inputs: 8, ..same }), ScheduleStep::Pass, "a Node changed");
/// assert_eq!(pace.step(start + 330 * second, same), ScheduleStep::Pass, "five minutes and a bit");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    period: Duration,
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    began: Instant,
    inputs: u64,
    idle_until: Instant,
}

impl Pace {
    /// Creates a schedule. `period` is `--route-reconciliation-period`, the longest time until a change is noticed.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self { period, last: None }
    }

    /// Returns the step to take at `now`.
    #[must_use]
    pub fn step(&self, now: Instant, schedule_inputs: ScheduleInputs) -> ScheduleStep {
        let due = self
            .due(now, schedule_inputs)
            .max(schedule_inputs.not_before.unwrap_or(now));
        if due <= now {
            ScheduleStep::Pass
        } else {
            ScheduleStep::Wait(due.min(now + self.period.max(SHORTEST_TICK)))
        }
    }

    /// Returns the trigger of a pass over these inputs. The first pass is due by itself.
    #[must_use]
    pub fn trigger(&self, inputs: u64) -> SyncTrigger {
        match self.last {
            Some(last) if last.inputs != inputs => SyncTrigger::NodeChange,
            _ => SyncTrigger::Periodic,
        }
    }

    fn due(&self, now: Instant, schedule_inputs: ScheduleInputs) -> Instant {
        let Some(last) = self.last else { return now };
        let soonest = last.began + GAP.min(self.period);
        match schedule_inputs.again {
            _ if schedule_inputs.inputs != last.inputs => soonest,
            Some(again) => again.max(soonest).min(last.idle_until),
            None => last.idle_until,
        }
    }

    /// Records a pass that began at `now` with these inputs. `jitter` is a random number from 0 to 1.
    pub fn passed(&mut self, now: Instant, inputs: u64, jitter: f64) {
        self.last = Some(Last {
            began: now,
            inputs,
            idle_until: now + IDLE.mul_f64(1.0 + JITTER * jitter),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_over_changed_inputs_is_triggered_by_a_node() {
        let mut pace = Pace::new(Duration::from_secs(10));
        assert_eq!(pace.trigger(1), SyncTrigger::Periodic, "the first pass");
        pace.passed(Instant::now(), 1, 0.0);
        assert_eq!(
            (pace.trigger(1), pace.trigger(2)),
            (SyncTrigger::Periodic, SyncTrigger::NodeChange)
        );
    }

    #[test]
    fn passes_are_as_rare_as_they_may_be() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // Period, now, inputs, again; the last pass was at 0 over inputs 1, without jitter.
        let table = [
            ("idle", 10, 5, 1, None, ScheduleStep::Wait(at(15))),
            (
                "idle, nearly",
                10,
                295,
                1,
                None,
                ScheduleStep::Wait(at(300)),
            ),
            ("idle long enough", 10, 300, 1, None, ScheduleStep::Pass),
            (
                "changed at once",
                10,
                3,
                2,
                None,
                ScheduleStep::Wait(at(10)),
            ),
            ("changed", 10, 10, 2, None, ScheduleStep::Pass),
            (
                "a short period is the gap",
                2,
                2,
                2,
                None,
                ScheduleStep::Pass,
            ),
            ("a long period is not", 60, 10, 2, None, ScheduleStep::Pass),
            (
                "a long period bounds the rest",
                60,
                12,
                1,
                None,
                ScheduleStep::Wait(at(72)),
            ),
            (
                "a failure is due later",
                10,
                12,
                1,
                Some(17),
                ScheduleStep::Wait(at(17)),
            ),
            ("a failure is due", 10, 17, 1, Some(17), ScheduleStep::Pass),
            (
                "a failure is due too soon",
                10,
                4,
                1,
                Some(2),
                ScheduleStep::Wait(at(10)),
            ),
            (
                "a failure is due in an hour",
                10,
                299,
                1,
                Some(3600),
                ScheduleStep::Wait(at(300)),
            ),
            ("no period at all", 0, 3, 1, None, ScheduleStep::Wait(at(4))),
        ];
        for (what, period, now, inputs, again, expected) in table {
            let mut pace = Pace::new(Duration::from_secs(period));
            assert_eq!(
                pace.step(start, ScheduleInputs::default()),
                ScheduleStep::Pass,
                "the first pass comes at once"
            );
            pace.passed(start, 1, 0.0);
            let schedule_inputs = ScheduleInputs {
                inputs,
                again: again.map(at),
                not_before: None,
            };
            assert_eq!(pace.step(at(now), schedule_inputs), expected, "{what}");
            let throttled = ScheduleInputs {
                not_before: Some(at(now + 1)),
                ..schedule_inputs
            };
            assert_ne!(
                pace.step(at(now), throttled),
                ScheduleStep::Pass,
                "{what}, throttled"
            );
        }
    }
}
