//! How long nobody led, as measured.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};

/// What was measured so far.
#[derive(Default)]
pub(crate) struct Gaps(Mutex<Vec<Gap>>);

struct Gap {
    what: &'static str,
    measured: Duration,
    required: (Duration, Duration),
}

impl Gaps {
    /// Takes a measurement down, and holds it to what is required.
    pub(crate) fn note(&self, what: &'static str, measured: Duration, required: (Duration, Duration)) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Gap { what, measured, required });
        let (least, most) = required;
        ensure!((least..=most).contains(&measured), "{what}: {measured:?}, required are {least:?} to {most:?}");
        Ok(())
    }

    /// The table; nothing if nothing was measured.
    pub(crate) fn print(&self) {
        let gaps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if gaps.is_empty() {
            return;
        }
        println!("\n{:<66} {:>9}  required", "nobody led, from the event to the next lease", "measured");
        for Gap { what, measured, required: (least, most) } in gaps.iter() {
            println!(
                "{what:<66} {:>7.2} s  {:.0} to {:.0} s",
                measured.as_secs_f64(),
                least.as_secs_f64(),
                most.as_secs_f64()
            );
        }
    }
}
