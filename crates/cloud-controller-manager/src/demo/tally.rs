//! Numbers of requests by kind of request.

use std::collections::BTreeMap;
use std::fmt;

/// The number of requests by kind of request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Adds `count` requests of the kind `what`.
    pub(super) fn add(&mut self, what: &str, count: u64) {
        *self.0.entry(what.to_owned()).or_default() += count;
    }

    /// Returns the number of all requests.
    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the requests that were added since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let of = |what: &String| before.0.get(what).copied().unwrap_or(0);
        let more = self
            .0
            .iter()
            .map(|(what, count)| (what.clone(), count.saturating_sub(of(what))));
        Self(more.filter(|(_, count)| *count > 0).collect())
    }
}

/// Formats the numbers as `3 (2 × POST /a, 1 × PUT /b)`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.total())?;
        let each: Vec<String> = self
            .0
            .iter()
            .map(|(what, count)| format!("{count} × {what}"))
            .collect();
        if each.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", each.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_counts_only_new_requests() {
        let mut before = Tally::default();
        let mut now = Tally::default();
        before.add("PUT /b", 4);
        now.add("PUT /b", 5);
        now.add("POST /a", 2);
        assert_eq!(
            now.since(&before).to_string(),
            "3 (2 × POST /a, 1 × PUT /b)"
        );
        assert_eq!(now.since(&now).to_string(), "0");
    }
}
