//! Measured times without a leader.

use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;

/// Attempts at a measurement: load on the machine may delay one, but not all of them.
const ATTEMPTS: u32 = 3;

/// Times that were measured so far.
#[derive(Default)]
pub(crate) struct Gaps(Mutex<Vec<Gap>>);

struct Gap {
    what: &'static str,
    measured: Vec<Duration>,
    most: Duration,
}

impl Gaps {
    /// Measures until it took no longer than is required; after some attempts it is the program that is too slow, not the
    /// machine.
    pub(crate) async fn at_most(
        &self,
        most: Duration,
        what: &'static str,
        mut measure: impl AsyncFnMut() -> Result<Duration>,
    ) -> Result<()> {
        let mut measured = Vec::new();
        for _ in 0..ATTEMPTS {
            measured.push(measure().await?);
            if measured.last().is_some_and(|last| *last <= most) {
                break;
            }
        }
        let is_met = measured.iter().any(|one| *one <= most);
        let text = format!("{what}: {measured:?}, required is {most:?} at most");
        self.0.lock().push(Gap {
            what,
            measured,
            most,
        });
        ensure!(is_met, text);
        Ok(())
    }

    /// Prints the table, unless nothing was measured.
    pub(crate) fn print(&self) {
        let gaps = self.0.lock();
        if gaps.is_empty() {
            return;
        }
        println!(
            "\n{:<60} {:>8}  measured",
            "nobody led, from the event to the next lease", "at most"
        );
        for Gap {
            what,
            measured,
            most,
        } in gaps.iter()
        {
            let measured: Vec<_> = measured
                .iter()
                .map(|one| format!("{:.2} s", one.as_secs_f64()))
                .collect();
            println!(
                "{what:<60} {:>6} s  {}",
                most.as_secs(),
                measured.join(", ")
            );
        }
    }
}
