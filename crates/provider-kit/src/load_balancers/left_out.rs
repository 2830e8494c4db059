//! Targets that found no room in a pool, and the reports of them (D-4).

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Targets;

/// The targets without room in each Service's pools.
#[derive(Default)]
pub(super) struct LeftOut(Mutex<HashMap<String, HashMap<String, Memory>>>);

#[derive(Default)]
struct Memory {
    /// Targets without room in the last sync.
    seen: Targets,
    /// Targets without room that were reported.
    told: Targets,
}

impl LeftOut {
    /// Stores the targets that are left out now, and returns the ones to report. `changes` is set if the sync changes
    /// the load balancer.
    pub(super) fn news(&self, uid: &str, pool: &str, left: Targets, changes: bool) -> Targets {
        let mut services = self.0.lock();
        let pools = services.entry(uid.to_owned()).or_default();
        let is_first = !pools.contains_key(pool);
        let memory = pools.entry(pool.to_owned()).or_default();
        let news = match (changes, is_first) {
            (true, _) => left.without(&memory.told),
            (false, true) => Targets::default(),
            (false, false) => left.without(&memory.seen),
        };
        let told = memory.told.with(&news);
        *memory = Memory {
            told: told.without(&told.without(&left)),
            seen: left,
        };
        news
    }

    /// Forgets a Service that has no load balancer any more.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_without_room_is_reported_once_and_after_a_start_with_a_change() {
        let left_out = LeftOut::default();
        let steps: [(&str, bool, &str); 9] = [
            ("cd", false, ""),
            ("cd", false, ""),
            ("cde", false, "e"),
            ("cde", true, "cd"),
            ("cde", true, ""),
            ("ce", false, ""),
            ("cdf", false, "df"),
            ("", false, ""),
            ("c", true, "c"),
        ];
        let targets = |text: &str| -> Targets { text.chars().map(String::from).collect() };
        for (n, (left, changes, news)) in steps.into_iter().enumerate() {
            assert_eq!(
                left_out.news("s", "main", targets(left), changes),
                targets(news),
                "step {n}"
            );
        }
        left_out.forget("s");
        assert_eq!(
            left_out.news("s", "main", targets("cd"), true),
            targets("cd")
        );
    }
}
