//! Detection of routes that another writer changes repeatedly (P-33). Pure: the time is passed in.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Number of changes by another writer within [`WINDOW`] from which a route is contested.
const CHANGES: usize = 3;
/// Time in which [`CHANGES`] are counted.
const WINDOW: Duration = Duration::from_secs(600);
/// First time for which a contested route is left alone; doubles with each repetition.
const REST: Duration = Duration::from_secs(300);
/// Maximum time for which a contested route is left alone.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// Remembers the times at which another writer changed or removed routes of this cluster.
///
/// ```
/// use controllers::route::flapping::Flapping;
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// let (start, minute) = (Instant::now(), Duration::from_secs(60));
/// let mut flapping = Flapping::default();
/// assert_eq!(flapping.observe(start, "route"), None);
/// assert_eq!(flapping.observe(start + minute, "route"), None);
/// assert_eq!(flapping.observe(start + 2 * minute, "route"), Some(5 * minute), "leave it alone for so long");
/// ```
#[derive(Clone, Debug)]
pub struct Flapping<K> {
    routes: HashMap<K, History>,
}

#[derive(Clone, Debug, Default)]
struct History {
    changes: Vec<Instant>,
    rests: u32,
    rests_until: Option<Instant>,
}

impl<K> Default for Flapping<K> {
    fn default() -> Self {
        Self {
            routes: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash> Flapping<K> {
    /// Records that another writer changed this route. Returns the time to leave the route alone if it is contested:
    /// after three changes within ten minutes, and from then on after each change that follows a rest, until two hours
    /// pass without a change.
    pub fn observe(&mut self, now: Instant, key: K) -> Option<Duration> {
        let history = self.routes.entry(key).or_default();
        history
            .changes
            .retain(|at| now.saturating_duration_since(*at) < WINDOW);
        history.changes.push(now);
        let is_known = history.rests_until.is_some_and(|until| now < until);
        if is_known || (history.changes.len() < CHANGES && history.rests == 0) {
            return None;
        }
        let rest = REST
            .saturating_mul(2_u32.saturating_pow(history.rests))
            .min(LONGEST_REST);
        history.rests = history.rests.saturating_add(1);
        history.rests_until = Some(now + rest);
        Some(rest)
    }

    /// Forgets routes that were not changed for long.
    pub fn forget_old(&mut self, now: Instant) {
        self.routes.retain(|_, history| {
            let keep = if history.rests > 0 {
                2 * LONGEST_REST
            } else {
                WINDOW
            };
            history
                .changes
                .last()
                .is_some_and(|last| now.saturating_duration_since(*last) < keep)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    #[test]
    fn rests_grow_and_are_forgotten_in_peace() {
        let mut now = Instant::now();
        let mut flapping = Flapping::default();
        let mut observe = |flapping: &mut Flapping<u8>, after: Duration| {
            now += after;
            flapping.forget_old(now);
            flapping.observe(now, 1)
        };
        assert_eq!(
            [
                observe(&mut flapping, minutes(0)),
                observe(&mut flapping, minutes(1))
            ],
            [None, None]
        );
        for rest in [5, 10, 20, 40, 60, 60] {
            assert_eq!(observe(&mut flapping, minutes(1)), Some(minutes(rest)));
            assert_eq!(
                observe(&mut flapping, minutes(rest - 1)),
                None,
                "it rests, and that was said"
            );
        }
        assert_eq!(
            observe(&mut flapping, minutes(121)),
            None,
            "two hours of peace"
        );
    }

    #[test]
    fn changes_far_apart_and_of_different_routes_are_no_war() {
        let start = Instant::now();
        let mut flapping = Flapping::default();
        for n in 0..20 {
            assert_eq!(flapping.observe(start + minutes(5 * n), 1_000), None, "{n}");
            assert_eq!(flapping.observe(start, n), None);
        }
    }
}
