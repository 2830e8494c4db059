//! Durations of the steps of all scenarios.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Durations so far, in the order in which the steps ended.
#[derive(Default)]
pub(crate) struct Steps(Mutex<Vec<Step>>);

struct Step {
    subject: String,
    what: String,
    time: Duration,
}

impl Steps {
    /// Begins to measure the steps of a scenario.
    pub(crate) fn of(&self, subject: &str) -> Clock<'_> {
        Clock {
            steps: self,
            subject: subject.to_owned(),
            since: Instant::now(),
        }
    }

    /// Prints the table, unless nothing was measured.
    pub(crate) fn print(&self) {
        let steps = self.0.lock();
        if steps.is_empty() {
            return;
        }
        println!("\n{:<12} {:>8}  step", "scenario", "time");
        for Step {
            subject,
            what,
            time,
        } in steps.iter()
        {
            println!("{subject:<12} {:>6.1} s  {what}", time.as_secs_f64());
        }
    }
}

/// Clock of one scenario.
pub(crate) struct Clock<'a> {
    steps: &'a Steps,
    subject: String,
    since: Instant,
}

impl Clock<'_> {
    /// Ends a step, and begins the next one.
    pub(crate) fn step(&mut self, what: &str) {
        self.note(what, self.since.elapsed());
        self.since = Instant::now();
    }

    /// Adds a duration that was measured inside of a step.
    pub(crate) fn note(&self, what: &str, time: Duration) {
        self.steps.0.lock().push(Step {
            subject: self.subject.clone(),
            what: what.to_owned(),
            time,
        });
    }
}
