//! Requests by verb and resource, or by route, as they stand at some time.

use std::collections::BTreeMap;

use ccm_tests::api_requests::is_write;

/// Number of requests by name, such as `PATCH nodes/status` or `GET /v1/machines`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters(BTreeMap<String, u64>);

impl Counters {
    pub(crate) fn add(&mut self, name: String, count: u64) {
        *self.0.entry(name).or_default() += count;
    }

    /// Returns the requests since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let grown = self.0.iter().map(|(name, count)| {
            (
                name.clone(),
                count.saturating_sub(before.0.get(name).copied().unwrap_or_default()),
            )
        });
        Self(grown.filter(|(_, count)| *count > 0).collect())
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the number of requests that ask for a change, of resources (or routes) that `of` selects.
    pub(crate) fn writes(&self, of: impl Fn(&str) -> bool) -> u64 {
        self.sum(|verb, resource| is_write(verb, resource) && of(resource))
    }

    /// Returns the number of requests that only read, of resources (or routes) that `of` selects.
    pub(crate) fn reads(&self, of: impl Fn(&str) -> bool) -> u64 {
        self.sum(|verb, resource| !is_write(verb, resource) && of(resource))
    }

    fn sum(&self, picks: impl Fn(&str, &str) -> bool) -> u64 {
        let picked = self.0.iter().filter(|(name, _)| {
            name.split_once(' ')
                .is_some_and(|(verb, rest)| picks(verb, rest))
        });
        picked.map(|(_, count)| count).sum()
    }

    pub(crate) fn into_inner(self) -> BTreeMap<String, u64> {
        self.0
    }
}

impl FromIterator<(String, u64)> for Counters {
    fn from_iter<I: IntoIterator<Item = (String, u64)>>(counts: I) -> Self {
        let mut counters = Self::default();
        counts
            .into_iter()
            .for_each(|(name, count)| counters.add(name, count));
        counters
    }
}
