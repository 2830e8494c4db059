//! Schedule of lists of the cloud's routes in adaptive mode (D-5, P-1). Pure: the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

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
pub enum Step {
    /// List and reconcile now.
    Pass,
    /// Check again at this time, or earlier if a Node changes.
    Rest(Instant),
}

/// Inputs of the decision whether a pass is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
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
/// use controllers::route::pace::{Pace, Step, Wishes};
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// let (start, second) = (Instant::now(), Duration::from_secs(1));
/// let mut pace = Pace::new(10 * second);
/// let same = Wishes { inputs: 7, ..Wishes::default() };
/// assert_eq!(pace.step(start, same), Step::Pass);
/// pace.passed(start, 7, 0.5);
/// assert_eq!(pace.step(start + 299 * second, same), Step::Rest(start + 309 * second), "nothing changed");
/// assert_eq!(pace.step(start + 11 * second, Wishes { inputs: 8, ..same }), Step::Pass, "a Node changed");
/// assert_eq!(pace.step(start + 330 * second, same), Step::Pass, "five minutes and a bit");
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
    pub fn step(&self, now: Instant, wishes: Wishes) -> Step {
        let due = self.due(now, wishes).max(wishes.not_before.unwrap_or(now));
        if due <= now { Step::Pass } else { Step::Rest(due.min(now + self.period.max(SHORTEST_TICK))) }
    }

    fn due(&self, now: Instant, wishes: Wishes) -> Instant {
        let Some(last) = self.last else { return now };
        let soonest = last.began + GAP.min(self.period);
        match wishes.again {
            _ if wishes.inputs != last.inputs => soonest,
            Some(again) => again.max(soonest).min(last.idle_until),
            None => last.idle_until,
        }
    }

    /// Records a pass that began at `now` with these inputs. `jitter` is a random number from 0 to 1.
    pub fn passed(&mut self, now: Instant, inputs: u64, jitter: f64) {
        self.last = Some(Last { began: now, inputs, idle_until: now + IDLE.mul_f64(1.0 + JITTER * jitter) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_as_rare_as_they_may_be() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // Period, now, inputs, again; the last pass was at 0 over inputs 1, without jitter.
        let table = [
            ("idle", 10, 5, 1, None, Step::Rest(at(15))),
            ("idle, nearly", 10, 295, 1, None, Step::Rest(at(300))),
            ("idle long enough", 10, 300, 1, None, Step::Pass),
            ("changed at once", 10, 3, 2, None, Step::Rest(at(10))),
            ("changed", 10, 10, 2, None, Step::Pass),
            ("a short period is the gap", 2, 2, 2, None, Step::Pass),
            ("a long period is not", 60, 10, 2, None, Step::Pass),
            ("a long period bounds the rest", 60, 12, 1, None, Step::Rest(at(72))),
            ("a failure is due later", 10, 12, 1, Some(17), Step::Rest(at(17))),
            ("a failure is due", 10, 17, 1, Some(17), Step::Pass),
            ("a failure is due too soon", 10, 4, 1, Some(2), Step::Rest(at(10))),
            ("a failure is due in an hour", 10, 299, 1, Some(3600), Step::Rest(at(300))),
            ("no period at all", 0, 3, 1, None, Step::Rest(at(4))),
        ];
        for (what, period, now, inputs, again, expected) in table {
            let mut pace = Pace::new(Duration::from_secs(period));
            assert_eq!(pace.step(start, Wishes::default()), Step::Pass, "the first pass comes at once");
            pace.passed(start, 1, 0.0);
            let wishes = Wishes { inputs, again: again.map(at), not_before: None };
            assert_eq!(pace.step(at(now), wishes), expected, "{what}");
            let throttled = Wishes { not_before: Some(at(now + 1)), ..wishes };
            assert_ne!(pace.step(at(now), throttled), Step::Pass, "{what}, throttled");
        }
    }
}
