//! A list of all machines, indexed by ID and name.

use std::ops::Range;

use cloud_provider::Error;
use tokio::time::Instant;

use super::Machine;
use crate::paging::ListResult;

/// The result of a list, with an index of two numbers per machine.
pub struct Snapshot<M> {
    reading: ListResult<M>,
    by_id: Box<[u32]>,
    by_name: Box<[u32]>,
    began: Instant,
}

impl<M: Machine> Snapshot<M> {
    pub(super) fn new(reading: ListResult<M>, began: Instant) -> Self {
        let by_id = in_order(&reading.items().iter().map(Machine::id).collect::<Vec<_>>());
        let by_name = in_order(
            &reading
                .items()
                .iter()
                .map(Machine::name)
                .collect::<Vec<_>>(),
        );
        Self {
            reading,
            by_id,
            by_name,
            began,
        }
    }

    /// Returns all machines, in the order of the list.
    #[must_use]
    pub fn machines(&self) -> &[M] {
        self.reading.items()
    }

    /// Returns the machine with this ID.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&M> {
        self.place_of_id(id).map(|at| self.at(at))
    }

    /// Returns all machines of this name.
    pub fn by_name(&self, name: &str) -> impl ExactSizeIterator<Item = &M> {
        self.places_of_name(name).iter().map(|at| self.at(*at))
    }

    pub(super) fn place_of_id(&self, id: &str) -> Option<u32> {
        let found = self
            .by_id
            .binary_search_by_key(&id, |at| self.at(*at).id())
            .ok()?;
        Some(self.by_id[found])
    }

    pub(super) fn places_of_name(&self, name: &str) -> &[u32] {
        let start = self
            .by_name
            .partition_point(|at| self.at(*at).name() < name);
        let end = self
            .by_name
            .partition_point(|at| self.at(*at).name() <= name);
        &self.by_name[Range { start, end }]
    }

    /// Returns up to three names that are similar to `name`, the most similar first (P-6).
    #[must_use]
    pub fn closest_names(&self, name: &str) -> Vec<&str> {
        closest(&mut self.machines().iter().map(Machine::name), name)
    }

    /// Returns the time at which the list was requested; the snapshot is at most this old.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns the error that makes the list partial: a machine that a partial list lacks may exist.
    #[must_use]
    pub fn partial_reason(&self) -> Option<&Error> {
        match &self.reading {
            ListResult::Complete { .. } => None,
            ListResult::Partial { reason, .. } => Some(reason),
        }
    }

    pub(super) fn reading(&self) -> &ListResult<M> {
        &self.reading
    }

    pub(super) fn at(&self, at: u32) -> &M {
        &self.reading.items()[at as usize]
    }
}

/// Returns the positions of these texts, in their order. Not a method, so that its code exists once in the program.
fn in_order(texts: &[&str]) -> Box<[u32]> {
    let mut order: Box<[u32]> = (0..u32::try_from(texts.len()).unwrap_or(u32::MAX)).collect();
    order.sort_unstable_by_key(|at| texts[*at as usize]);
    order
}

/// Returns up to three of these names that are similar to `name`, the most similar first.
fn closest<'a>(names: &mut dyn Iterator<Item = &'a str>, name: &str) -> Vec<&'a str> {
    const ALIKE: f64 = 0.85;
    let alike = names.map(|other| (strsim::jaro_winkler(other, name), other));
    let mut alike: Vec<(f64, &str)> = alike.filter(|(likeness, _)| *likeness > ALIKE).collect();
    alike.sort_unstable_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
    alike.dedup_by_key(|(_, name)| *name);
    alike.into_iter().take(3).map(|(_, name)| name).collect()
}
