//! Hold on mass deletions: if a new list lacks many objects at once, they stay cached until a second list lacks them
//! too (INV-9, D-221).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Conditions under which objects that a list lacks are not treated as deleted.
///
/// An API server whose storage was lost or restored returns lists that lack objects which were never deleted. Objects
/// that a watch reports as deleted one by one are removed at once; objects that only a new list lacks are held if they
/// are more than `share` of at least `smallest` objects, or if the list is empty. After `delay` they are listed again,
/// and removed if they are still missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoldOptions {
    /// Share of the objects, from 0 to 1, that may go missing together without being held.
    pub share: f64,
    /// Minimum number of cached objects for `share` to apply.
    pub smallest: usize,
    /// Time for which objects are held.
    pub delay: Duration,
}

/// Receives the beginning and the end of a hold.
pub trait HoldObserver<T>: Send + Sync {
    /// Called when a list of `present` objects lacks these objects, which are held from now on.
    fn held(&self, objects: &[Arc<T>], present: usize);
    /// Called when the hold ends: the deletion of `gone` is confirmed. If it is empty, all objects are listed again.
    fn ended(&self, gone: &[Arc<T>]);
}

/// The objects that are held, by key.
#[derive(Debug, Default)]
pub(super) struct Hold {
    options: Option<HoldOptions>,
    since: BTreeMap<Box<str>, Instant>,
    /// Times at which lists lacked objects that were not held; they count for `delay`.
    removed: Vec<Instant>,
}

/// The decision about each key that a list lacks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HoldDecision {
    /// Held from now on.
    pub(super) held: Vec<Box<str>>,
    /// Objects that were held and are confirmed as deleted.
    pub(super) confirmed: Vec<Box<str>>,
    /// Removed at once, without being held.
    pub(super) gone: Vec<Box<str>>,
}

impl From<Vec<Box<str>>> for HoldDecision {
    fn from(gone: Vec<Box<str>>) -> Self {
        Self {
            gone,
            ..Self::default()
        }
    }
}

impl Hold {
    pub(super) fn begin(&mut self, options: HoldOptions) {
        self.options = Some(options);
    }

    /// Stops holding an object that is listed again, or that was reported as deleted.
    pub(super) fn release(&mut self, key: &str) {
        self.since.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.since.len()
    }

    /// Returns the time at which the first of the held objects must be read again.
    pub(super) fn ends(&self) -> Option<Instant> {
        let first = self.since.values().min()?;
        first.checked_add(self.options?.delay)
    }

    /// Judges a complete list that lacks the objects `missing` and has `present` others.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        missing: Vec<Box<str>>,
        present: usize,
    ) -> HoldDecision {
        let Some(options) = self.options else {
            return missing.into();
        };
        self.removed
            .retain(|at| now.duration_since(*at) < options.delay);
        let gone = missing.len() + self.removed.len();
        let of = missing.len() + self.removed.len() + present;
        #[allow(clippy::cast_precision_loss)] // Objects are counted in thousands.
        let is_mass = of >= options.smallest && gone as f64 > options.share * of as f64;
        let is_held = !missing.is_empty() && (is_mass || present == 0);
        let before = std::mem::take(&mut self.since);
        let mut decision = HoldDecision::default();
        for key in missing {
            let since = before.get(&key).copied();
            match since {
                Some(since) if now.duration_since(since) >= options.delay => {
                    decision.confirmed.push(key);
                }
                Some(since) if is_held => _ = self.since.insert(key, since),
                None if is_held && !options.delay.is_zero() => {
                    self.since.insert(key.clone(), now);
                    decision.held.push(key);
                }
                _ => {
                    self.removed.push(now);
                    decision.gone.push(key);
                }
            }
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(300);

    fn hold() -> Hold {
        let options = HoldOptions {
            share: 0.5,
            smallest: 4,
            delay: DELAY,
        };
        Hold {
            options: Some(options),
            ..Hold::default()
        }
    }

    fn keys(count: usize) -> Vec<Box<str>> {
        (0..count).map(|n| format!("n{n}").into()).collect()
    }

    #[test]
    fn more_than_half_of_four_objects_and_every_empty_list_are_held() {
        let table = [
            // missing, present, held
            (1, 0, true),
            (3, 0, true),
            (2, 1, false),
            (1, 3, false),
            (2, 2, false),
            (3, 1, true),
            (5, 5, false),
            (6, 4, true),
            (0, 0, false),
        ];
        for (missing, present, is_held) in table {
            let decision = hold().judge(Instant::now(), keys(missing), present);
            let expected = if is_held { (missing, 0) } else { (0, missing) };
            assert_eq!(
                (decision.held.len(), decision.gone.len()),
                expected,
                "{missing} missing, {present} present"
            );
        }
    }

    #[test]
    fn held_objects_are_gone_when_a_list_confirms_it_after_the_delay() {
        let mut hold = hold();
        let start = Instant::now();
        assert_eq!(hold.judge(start, keys(6), 1).held.len(), 6);
        assert_eq!(hold.ends(), Some(start + DELAY));
        assert_eq!(
            hold.judge(start + DELAY / 2, keys(6), 1),
            HoldDecision::default(),
            "they are held already"
        );
        assert_eq!(hold.judge(start + DELAY, keys(6), 1).confirmed.len(), 6);
        assert_eq!((hold.len(), hold.ends()), (0, None));
    }

    #[test]
    fn a_mass_disappearance_in_small_portions_is_held_too() {
        let mut hold = hold();
        let start = Instant::now();
        assert_eq!(hold.judge(start, keys(4), 6).gone.len(), 4);
        assert_eq!(
            hold.judge(start, keys(3), 3).held.len(),
            3,
            "7 of 10 are missing by now"
        );
        assert_eq!(
            hold.judge(start + DELAY / 2, keys(3), 3),
            HoldDecision::default()
        );
    }

    #[test]
    fn objects_that_stay_away_when_most_are_back_are_gone() {
        let mut hold = hold();
        let start = Instant::now();
        hold.judge(start, keys(10), 0);
        assert_eq!(hold.judge(start, keys(2), 8).gone.len(), 2);
        assert_eq!(hold.len(), 0);
    }

    #[test]
    fn hold_without_options_or_delay_holds_no_key() {
        assert_eq!(
            Hold::default().judge(Instant::now(), keys(9), 0).gone.len(),
            9
        );
        let options = HoldOptions {
            share: 0.5,
            smallest: 4,
            delay: Duration::ZERO,
        };
        let mut hold = Hold {
            options: Some(options),
            ..Hold::default()
        };
        assert_eq!(hold.judge(Instant::now(), keys(9), 0).gone.len(), 9);
    }
}
